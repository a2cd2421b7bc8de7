(ns magnetar.bench.peers.workloads
  "What `bin/magnetar bench peers` measures, as data.

  A workload is {:title .. :command .. :numbers [..] :operations n :targets {peer ratio}}: what a peer is asked, how many operations that
  are, and its peers; nil is a comparison for information. Where both modes of core.async are among them, the better one has the
  target :better. More keys:

    :fewer     {peer n}: a slow peer gets the last number divided by n, so that one piece of work takes some tenths of a second
    :theirs    what the others are asked, where ours is a variant of its own
    :suite     a name of several workloads, with which `bench peers` runs them
    :warm-ups  how many pieces of work warm a peer up; if left out it is a time
    :rounds    how many count; seven if left out
    :needs     :slow-pages: the port of a slow server comes first; :echo: the peer serves, and the driver is its client"
  (:import
   (java.util.regex Pattern)))

(set! *warn-on-reflection* true)

(defn line
  "A workload with its peers and what else it has.

  Example: (line \"rendezvous\" \"fan-in\" [1 0 300000] 300000 {\"Go\" 1.4})"
  [title command numbers operations targets & {:as more}]
  (merge {:title title :command command :numbers numbers :operations operations :targets targets :better 0.5} more))

(def ours
  "Magnetar with the options of the launcher, without hand-off, and without any option of kernel/java.options, as names of peers.

  Example: (first ours) => \"Magnetar\""
  ["Magnetar" "Magnetar, closed" "Magnetar, plain"])

(def core-async
  "Its two modes, as names of peers.

  Example: (count core-async) => 2"
  ["core.async, go" "core.async, io-thread"])

(def ^:private with-channels
  (into {"Go" nil "Kotlin" nil "jox" nil "virtual threads" nil} (map #(vector % nil)) core-async))

(def ^:private with-select
  (dissoc with-channels "virtual threads"))

(def ^:private with-fibers
  (dissoc with-channels "jox"))

(defn- slow [go io & {:as more}]
  (merge {"core.async, go" go "core.async, io-thread" io} more))

(def ^:private channels
  [(line "ring of 1000 by channels" "ring" [1000 1000] 1000000 (assoc with-channels "Go" 1.3)
     :fewer (slow 100 5 "jox" 10 "virtual threads" 2))
   (line "ping-pong by channels" "ping-pong" [500000] 500000 (assoc with-channels "Go" 1.6)
     :fewer (slow 20 5 "jox" 5 "virtual threads" 5))
   (line "fan-in, 4 producers, buffer 1024" "fan-in" [4 1024 4000000] 4000000 (assoc with-channels "Go" 0.5 "jox" 0.2)
     :fewer (slow 20 4 "jox" 2 "virtual threads" 2))
   (line "fan-in, 100 producers, buffer 1024" "fan-in" [100 1024 4000000] 4000000 with-channels
     :fewer (slow 100 10 "jox" 2 "virtual threads" 2))
   (line "one to one, buffer 1024" "fan-in" [1 1024 4000000] 4000000 with-channels
     :fewer (slow 20 5))
   (line "rendezvous" "fan-in" [1 0 1000000] 1000000 (assoc with-channels "Go" 1.4 "jox" 0.4)
     :fewer (slow 40 5 "jox" 2 "virtual threads" 2))
   (line "request and reply by channels, 1 caller" "call" [1 500000] 500000 with-channels
     :fewer (slow 40 5 "jox" 4 "virtual threads" 4))
   (line "request and reply by channels, 100 callers" "call" [100 500000] 500000 with-channels
     :fewer (slow 40 5))
   (line "select of 2, unbuffered" "select" [2 0 500000] 500000 with-select :fewer (slow 25 4))
   (line "select of 2, buffer 64" "select" [2 64 1000000] 1000000 with-select :fewer (slow 5 5))
   (line "select of 10, unbuffered" "select" [10 0 500000] 500000 (assoc with-select "Go" 0.5) :fewer (slow 10 4 "jox" 2))
   (line "select of 10, buffer 64" "select" [10 64 1000000] 1000000 (assoc with-select "Go" 0.5) :fewer (slow 20 10 "jox" 2))])

(def ^:private actors
  [(line "ring of 1000 by actors" "ring-actors" [1000 1000] 1000000 {"Erlang" 1.0 "Pekko" nil})
   (line "ping-pong by actors" "ping-pong-actors" [500000] 500000 {"Erlang" nil "Pekko" nil})
   (line "fan-in, 4 senders, mailbox without bound" "mailbox" [4 2000000] 2000000
     {"Erlang" nil "Pekko" nil "Kotlin" nil "jox" nil "virtual threads" nil})
   (line "gen-server call, 1 caller" "server-call" [1 500000] 500000 {"Erlang" 0.3 "Pekko" nil} :fewer {"Pekko" 10})
   (line "gen-server call, 1 caller, ours activated" "server-call-activated" [1 500000] 500000 {"Erlang" nil} :theirs "server-call")
   (line "gen-server call, 100 callers" "server-call" [100 1000000] 1000000 {"Erlang" 0.15 "Pekko" nil})
   (line "gen-server call, 100 callers, ours activated" "server-call-activated" [100 1000000] 1000000 {"Erlang" nil} :theirs "server-call")])

(def ^:private fibers
  [(line "spawn of fibers" "spawn" [500000] 500000 (assoc with-fibers "Go" 1.2) :fewer (slow 5 10))
   (line "spawn and join of fibers, one by one" "spawn-join" [200000] 200000 with-fibers :fewer (slow 10 5))
   (line "spawn of processes" "spawn-actors" [200000] 200000 {"Erlang" 0.3 "Pekko" nil} :fewer {"Pekko" 5})
   (line "spawn and monitor of processes, one by one" "spawn-join-actors" [200000] 200000 {"Erlang" nil})
   (line "pmap of 500,000, a fiber for each" "pmap" [500000] 500000 (assoc with-fibers "Erlang" nil) :fewer (slow 5 10))
   (line "timers, made and cancelled" "timers" [300000] 300000 {"Go" nil "Erlang" nil "Kotlin" nil "Pekko" nil "virtual threads" nil})])

(def ^:private waiting
  "What waits for time and for the network takes as long on all fibers that may block: half of core.async is not to be had."
  (mapv #(assoc % :better nil)
    [(line "32 that sleep 250 ms, 16 that compute" "mixed" [32 16] 1 (assoc with-channels "Erlang" nil) :warm-ups 1)
     (line "18 that sleep 10 ms" "sleep" [18] 1 (into {"Go" nil "Erlang" nil} (map #(vector % nil)) core-async))
     (line "crawl of 1,000 slow pages" "crawl" [1000] 1 (assoc with-channels "Erlang" nil) :needs :slow-pages :warm-ups 2)
     (line "echo of 64 bytes, 10,000 connections" "echo" [10000 20000] 20000
       {"Go" nil "Erlang" nil "Kotlin" nil "Pekko" nil "virtual threads" nil "core.async, io-thread" nil} :needs :echo :warm-ups 1)]))

(def ^:private savina
  "The workloads for which the library was not tuned when they were written: of Savina, skynet, and from practice."
  (let [all {"Erlang" nil "Pekko" nil "Go" nil}]
    (mapv #(assoc % :suite "savina")
      [(line "threadring, 100 processes" "threadring" [100 2000000] 2000000 all)
       (line "big, 120 processes" "big" [120 4000] 480000 all)
       (line "skynet, 1,111,111 processes" "skynet" [1000000] 1111111 all :warm-ups 1 :rounds 3)
       (line "uct, 150,000 processes" "uct" [150000] 150000 all :warm-ups 2 :rounds 5)
       (line "superv, 500 servers" "superv" [500 40] 20000 {"Erlang" nil} :warm-ups 1 :rounds 3)
       (line "superv, reports to a file" "superv-reports" [500 40] 20000 {"Erlang" nil} :warm-ups 1 :rounds 3)
       (line "fib of 25 by channels" "fib" [25] 242785 {"Go" nil})
       (line "pubsub, 1,000 subscribers" "pubsub" [1000 100 1500] 1500 {"Go" nil})])))

(def timed
  "The workloads whose figure is nanoseconds for one operation.

  Example: (map :title timed)"
  (into [] cat [channels actors fibers waiting savina]))

(def memory
  "Those whose figure is bytes. A go block of core.async that waits is a callback, smaller than the smallest virtual thread: the target
  is that beside its io-thread.

  Example: (map :title memory)"
  [(line "bytes of an idle fiber and its channel" "memory" [1000000] 1 (assoc with-channels "core.async, io-thread" 0.5) :better nil)
   (line "bytes of an idle process" "memory-actors" [1000000] 1 {"Erlang" 0.5 "Pekko" nil})
   (line "bytes of an idle process beside a goroutine with its channel" "memory-actors" [1000000] 1 {"Go" 0.5} :theirs "memory")
   (line "bytes of an idle server, ours activated" "memory-servers-activated" [1000000] 1 {"Erlang" 0.1} :theirs "memory-servers")
   (line "bytes of an idle server" "memory-servers" [1000000] 1 {"Erlang" nil})])

(def computing
  "What the suite `computing` asks: tickers that tick every 10 ms for so many milliseconds. It is asked without loops, and with so many for each core.

  Example: (:peers computing)"
  {:command "computing" :peers ["Magnetar" "Magnetar, plain" "Go" "Erlang"] :loops-per-core 2 :tickers 100 :ms 3000})

(def suites
  "The names of several workloads each.

  Example: suites => #{\"savina\"}"
  (set (keep :suite timed)))

(defn- whole?
  "True if the text has the word, with no letter or digit right before or behind it."
  [word text]
  (some? (re-find (re-pattern (str "(?<!\\w)" (Pattern/quote word) "(?!\\w)")) text)))

(defn meant?
  "True if a word of a user means the workload: the name of its suite, its command, or whole words of its title.

  Example: (map :title (filter (partial meant? \"savina\") timed))"
  [word {:keys [suite command title]}]
  (or (= word suite) (= word command) (whole? word title)))

(defn- shared [per n]
  (max 1 (quot (long per) (long n))))

(def over-n
  "Workloads whose number of fibers, processes, timers, channels, pages or connections is N; :numbers makes their numbers. Few are started again
  and again, `times`. N is :up-to something where more do not work or take too long: a million callers wait longer than the five seconds that a
  call may take, Kotlin selects over 10,000 channels for minutes, and client and server have as many open files as there are pages or connections.

  Example: (map :title over-n)"
  (let [million (fn [n] [n 1000000])
        around (fn [n] [n (shared 1000000 n)])
        again (fn [command] (fn [n] [(shared 200000 n) command n]))
        repeated (fn [[times _ n]] (* (long times) (long n)))]
    [{:title "ring by channels, a hop" :command "ring" :peers ["Go" "Kotlin"] :numbers around :operations #(apply * %)}
     {:title "ring by actors, a hop" :command "ring-actors" :peers ["Erlang" "Pekko"] :numbers around :operations #(apply * %)}
     {:title "fan-in of N producers, buffer 1024, a value" :command "fan-in" :peers ["Go" "Kotlin"] :numbers (fn [n] [n 1024 1000000]) :operations last}
     {:title "rendezvous of N producers, a value" :command "fan-in" :peers ["Go" "Kotlin"] :numbers (fn [n] [n 0 1000000]) :operations last}
     {:title "select over N channels, a value" :command "select" :peers ["Go" "Kotlin"] :numbers (fn [n] [n 0 (* (long n) (long (shared 20000 n)))])
      :operations last :up-to 1000}
     {:title "N senders to a mailbox, a message" :command "mailbox" :peers ["Erlang"] :numbers million :operations last}
     {:title "request and reply by channels, N callers" :command "call" :peers ["Go" "Kotlin"] :numbers million :operations last}
     {:title "gen-server call, N callers" :command "server-call" :peers ["Erlang"] :numbers (fn [n] [n 200000]) :operations last
      :up-to 100000}
     {:title "spawn of N fibers" :command "times" :peers ["Go" "Kotlin"] :numbers (again "spawn") :operations repeated}
     {:title "spawn of N processes" :command "times" :peers ["Erlang"] :numbers (again "spawn-actors") :operations repeated}
     {:title "pmap of N" :command "times" :peers ["Go" "Erlang"] :numbers (again "pmap") :operations repeated}
     {:title "N timers, made and cancelled" :command "times" :peers ["Go" "Erlang"] :numbers (again "timers") :operations repeated}
     {:title "crawl of N slow pages, the whole" :command "crawl" :peers ["Go"] :numbers vector :operations (constantly 1) :needs :slow-pages :up-to 1000}
     {:title "echo over N connections, a message" :command "echo" :peers ["Go" "Erlang"] :numbers (fn [n] [n 20000]) :operations last :needs :echo
      :up-to 10000}]))

(def sizes
  "N.

  Example: (last sizes) => 1000000"
  [10 100 1000 10000 100000 1000000])

(def over-cores
  "Titles of the workloads that are measured on one core and on two.

  Example: (count over-cores)"
  #{"ring of 1000 by channels" "ring of 1000 by actors" "ping-pong by channels" "fan-in, 4 producers, buffer 1024" "rendezvous"
    "fan-in, 4 senders, mailbox without bound" "gen-server call, 1 caller" "gen-server call, 100 callers" "select of 10, unbuffered"
    "spawn of fibers" "spawn of processes" "pmap of 500,000, a fiber for each"})
