(ns magnetar.bench.peers
  "`bin/magnetar bench peers`: the same work by Magnetar and by everything it is compared with, in one run, in turn.

  A workload runs in a fresh process for each of its peers; all of them stay alive, and idle, while one works. Warm-ups do not count. In a
  round each peer does the work once, in an order that is turned round from round to round, when the machine is idle; each round gives
  one ratio for each peer. Figures are for one operation, so that a slow peer may do fewer of them."
  (:require
   [clojure.string :as str]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.memory :as memory]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.statistics :as statistics]
   [magnetar.bench.workload.http :as http]))

(set! *warn-on-reflection* true)

(def ^:private core-async
  ["core.async, go" "core.async, io-thread"])

(defn- line
  "A workload: its title, command and numbers, how many operations that are, its peers with targets (nil: for information), and for slow
  peers by how much the last number is divided."
  [title command numbers operations targets & {:as more}]
  (merge {:title title :command command :numbers numbers :operations operations :targets targets} more))

(def workloads
  "What is compared with what; a target is the ratio ours / theirs.

  Example: (map :title workloads)"
  [(line "ring of 1000 by channels" "ring" [1000 1000] 1000000
     {"Go" 1.3 "Kotlin" nil "jox" nil "virtual threads" nil "core.async, go" 0.5 "core.async, io-thread" 0.5}
     :fewer {"core.async, go" 50 "core.async, io-thread" 5 "jox" 5 "virtual threads" 5})
   (line "ring of 1000 by actors" "ring-actors" [1000 1000] 1000000 {"Erlang" 1.0 "Pekko" nil})
   (line "ping-pong by channels" "ping-pong" [200000] 200000
     {"Go" 1.6 "Kotlin" nil "jox" nil "virtual threads" nil "core.async, go" 0.5 "core.async, io-thread" 0.5}
     :fewer {"core.async, go" 10 "core.async, io-thread" 4 "jox" 4 "virtual threads" 4})
   (line "ping-pong by actors" "ping-pong-actors" [200000] 200000 {"Erlang" nil "Pekko" nil})
   (line "fan-in, 4 producers, buffer 1024" "fan-in" [4 1024 2000000] 2000000
     {"Go" 0.5 "Kotlin" nil "jox" 0.2 "virtual threads" nil "core.async, go" 0.5 "core.async, io-thread" 0.5}
     :fewer {"core.async, go" 10 "core.async, io-thread" 4})
   (line "fan-in, 100 producers, buffer 1024" "fan-in" [100 1024 2000000] 2000000
     {"Go" nil "Kotlin" nil "jox" nil "virtual threads" nil "core.async, go" 0.5 "core.async, io-thread" 0.5}
     :fewer {"core.async, go" 40 "core.async, io-thread" 10})
   (line "fan-in, 4 senders, mailbox without bound" "mailbox" [4 2000000] 2000000 {"Erlang" nil "Pekko" nil "Kotlin" nil "jox" nil "virtual threads" nil})
   (line "rendezvous" "fan-in" [1 0 300000] 300000
     {"Go" 1.4 "Kotlin" nil "jox" 0.4 "virtual threads" nil "core.async, go" 0.5 "core.async, io-thread" 0.5}
     :fewer {"core.async, go" 10 "core.async, io-thread" 4 "jox" 2 "virtual threads" 2})
   (line "request and reply by channels, 1 caller" "call" [1 200000] 200000
     {"Go" nil "Kotlin" nil "jox" nil "virtual threads" nil "core.async, go" 0.5 "core.async, io-thread" 0.5}
     :fewer {"core.async, go" 10 "core.async, io-thread" 4 "jox" 2 "virtual threads" 2})
   (line "request and reply by channels, 100 callers" "call" [100 200000] 200000
     {"Go" nil "Kotlin" nil "jox" nil "virtual threads" nil "core.async, go" 0.5 "core.async, io-thread" 0.5}
     :fewer {"core.async, go" 10 "core.async, io-thread" 4})
   (line "gen-server call, 1 caller" "server-call" [1 200000] 200000 {"Erlang" 0.3 "Pekko" nil} :fewer {"Pekko" 10})
   (line "gen-server call, 100 callers" "server-call" [100 200000] 200000 {"Erlang" 0.15 "Pekko" nil} :fewer {"Pekko" 2})
   (line "select of 2, unbuffered" "select" [2 0 200000] 200000
     {"Go" nil "Kotlin" nil "jox" nil "core.async, go" 0.5 "core.async, io-thread" 0.5} :fewer {"core.async, go" 10 "core.async, io-thread" 4})
   (line "select of 10, unbuffered" "select" [10 0 200000] 200000
     {"Go" 0.5 "Kotlin" nil "jox" nil "core.async, go" 0.5 "core.async, io-thread" 0.5} :fewer {"core.async, go" 10 "core.async, io-thread" 4})
   (line "select of 10, buffer 64" "select" [10 64 500000] 500000
     {"Go" 0.5 "Kotlin" nil "jox" nil "core.async, go" 0.5 "core.async, io-thread" 0.5} :fewer {"core.async, go" 20 "core.async, io-thread" 10})
   (line "spawn of fibers" "spawn" [300000] 300000
     {"Go" 1.2 "Kotlin" nil "virtual threads" nil "core.async, go" 0.5 "core.async, io-thread" 0.5} :fewer {"core.async, io-thread" 10})
   (line "spawn of processes" "spawn-actors" [300000] 300000 {"Erlang" 0.3 "Pekko" nil} :fewer {"Pekko" 10})
   (line "timers, made and cancelled" "timers" [300000] 300000 {"Go" nil "Erlang" nil})
   (line "32 that sleep 250 ms, 16 that compute" "mixed" [32 16] 1
     {"Go" nil "Erlang" nil "Kotlin" nil "virtual threads" nil "core.async, go" nil "core.async, io-thread" nil} :rounds 7 :warm-ups 2)
   (line "crawl of 1,000 slow pages" "crawl" [1000] 1
     {"Go" nil "core.async, go" nil "core.async, io-thread" nil} :server true :warm-ups 2)])

(def ^:private memory-lines
  [(line "bytes of an idle fiber and its channel" "memory" [1000000] 1
     {"Go" nil "Kotlin" nil "jox" nil "virtual threads" nil "core.async, go" nil "core.async, io-thread" 0.5})
   (line "bytes of an idle process" "memory-actors" [1000000] 1 {"Erlang" 0.5 "Pekko" nil})
   (line "bytes of an idle process beside a goroutine with its channel" "memory-actors" [1000000] 1 {"Go" 0.5} :theirs "memory")
   (line "bytes of an idle server" "memory-servers" [1000000] 1 {"Erlang" 0.1})])

;; --- rounds

(defn- say [& words]
  (apply println words)
  (flush))

(def ^:private quiet-share 0.08)

(defn- busy-share
  "What part of the processors was used in 50 ms, now that no peer works; 0 where it cannot be known."
  []
  (let [before (machine/processor-times)]
    (Thread/sleep 50)
    (if before
      (let [[busy _ wall] (map - (machine/processor-times) before)]
        (/ (double busy) (max 1.0 (double wall))))
      0.0)))

(defn- await-quiet
  "Waits until others use next to nothing of the machine, two seconds at most; what they used at last."
  []
  (loop [left 40]
    (let [share (busy-share)]
      (if (or (<= (double share) (double quiet-share)) (zero? left))
        share
        (recur (dec left))))))

(defn- numbers-for [{:keys [numbers fewer]} peer]
  (update (vec numbers) (dec (count numbers)) quot (get fewer peer 1)))

(defn- one
  "What one operation takes a peer."
  [{:keys [command theirs operations fewer] :as workload} {:keys [name] :as peer}]
  (let [command (if (and theirs (not= name "Magnetar")) theirs command)]
    (/ (double (apply programs/ask peer command (numbers-for workload name)))
       (/ (double operations) (double (get fewer name 1))))))

(defn- one-round [workload peers round]
  (let [busy (await-quiet)
        order (cond-> peers (odd? (long round)) reverse)]
    (assoc (into {} (map (fn [peer] [(:name peer) (one workload peer)])) order)
      :busy busy)))

(defn- rounds-of
  "The rounds that count."
  [{:keys [warm-ups rounds] :or {warm-ups 4 rounds 7} :as workload} names {:keys [quick] :as options}]
  (let [peers (mapv #(programs/start % (assoc options :flags ["-Xms1g" "-Xmx2g"])) names)]
    (try
      (dotimes [i (if quick 1 warm-ups)] (one-round workload peers i))
      (mapv #(one-round workload peers %) (range (if quick 1 rounds)))
      (finally (run! programs/end peers)))))

(defn- memory-rounds
  "Memory is measured once, in a process for nothing else."
  [workload names options]
  [(into {} (for [named names]
              (let [peer (programs/start named (assoc options :flags memory/flags))]
                (try
                  [named (one workload peer)]
                  (finally (programs/end peer))))))])

;; --- rows

(defn- row [{:keys [title operations numbers targets]} unit rounds peer]
  (let [[named target] peer
        ratio (fn [ours] (statistics/spread (map #(/ (double (get % ours)) (double (get % named))) rounds)))
        with-hand-off (ratio "Magnetar")]
    (cond-> {:title title :numbers numbers :operations operations :unit unit :peer named
             :ours (statistics/spread (map #(get % "Magnetar") rounds))
             :theirs (statistics/spread (map #(get % named) rounds))
             :ratio with-hand-off}
      (contains? (first rounds) "Magnetar, closed") (assoc :closed (ratio "Magnetar, closed"))
      target (assoc :target target
               :met? (<= (double (:median with-hand-off)) (double target))
               :floor? (<= (double (:median with-hand-off)) (* 2.0 (double target)))))))

(defn- rows-of [{:keys [title targets] :as workload} unit measure there? options]
  (say title)
  (let [theirs (filter (comp there? key) targets)
        names (concat ["Magnetar"] (when (= "ns" unit) ["Magnetar, closed"]) (map key theirs))
        rounds (measure workload names options)
        rows (mapv #(row workload unit rounds %) theirs)]
    (doseq [{:keys [peer ours theirs ratio target]} rows]
      (say (format "  %-24s ours %10.1f  theirs %10.1f  ratio %.3f%s" peer (:median ours) (:median theirs) (:median ratio)
                   (if target (str "  target " target) ""))))
    {:rows rows :raw [{:title title :rounds rounds}]}))

(defn- with-server
  "The same workload with the port of a slow server as its first number."
  [{:keys [server] :as workload} f]
  (if server
    (let [server (http/start-server 100)]
      (try
        (f (update workload :numbers #(vec (cons (.getPort (.getAddress server)) %))))
        (finally (.stop server 0))))
    (f workload)))

;; --- scaling

(def ^:private scaling
  "Over N: so many processes or fibers share a million hops, or are started."
  [{:title "ring by channels" :command "ring" :peers ["Go" "Kotlin"] :numbers (fn [n] [n (quot 1000000 (long n))])}
   {:title "ring by actors" :command "ring-actors" :peers ["Erlang" "Pekko"] :numbers (fn [n] [n (quot 1000000 (long n))])}
   {:title "spawn of fibers" :command "spawn" :peers ["Go" "Kotlin"] :numbers (fn [n] [n])}
   {:title "spawn of processes" :command "spawn-actors" :peers ["Erlang"] :numbers (fn [n] [n])}])

(def ^:private sizes
  [10 100 1000 10000 100000 1000000])

(def ^:private core-workloads
  #{"ring of 1000 by channels" "ring of 1000 by actors" "fan-in, 4 producers, buffer 1024" "rendezvous" "gen-server call, 100 callers"
    "select of 10, unbuffered" "spawn of fibers" "spawn of processes"})

(defn- over-n [there? options]
  (vec
    (for [{:keys [title command peers numbers]} scaling
          n sizes
          :let [operations (apply * (numbers n))
                workload (line title command (numbers n) operations {} :warm-ups 2 :rounds 3)
                names (cons "Magnetar" (filter there? peers))
                rounds (rounds-of workload names options)]]
      (let [figures (into {} (for [named names] [named (statistics/median (map #(get % named) rounds))]))]
        (say (format "%s, N = %d: %s" title n (str/join ", " (for [[k v] figures] (format "%s %.0f ns" k v)))))
        {:title title :n n :figures figures}))))

(defn- over-cores [there? options]
  (vec
    (for [{:keys [title targets] :as workload} workloads
          :when (core-workloads title)
          cores [1 2]
          :let [names (cons "Magnetar" (filter there? (filter #{"Go" "Erlang"} (keys targets))))
                rounds (rounds-of (assoc workload :warm-ups 3 :rounds 3) names (assoc options :cores cores))]]
      (let [figures (into {} (for [named names] [named (statistics/median (map #(get % named) rounds))]))]
        (say (format "%s, %d cores: %s" title cores (str/join ", " (for [[k v] figures] (format "%s %.0f ns" k v)))))
        {:title title :cores cores :figures figures}))))

;; --- the run

(defn- present
  "The names of the peers that can run here; those that cannot are named, with what to install."
  []
  (set (for [named (keys programs/all)
             :let [complaint (programs/build named)]
             :when (or (nil? complaint) (say complaint))]
         named)))

(defn- chosen? [groups title]
  (or (nil? groups) (some #(str/includes? title %) groups)))

(defn run
  "Runs the workloads, or those whose title holds one of :groups, and returns {:machine .. :time {:rows ..} :memory {:rows ..} ..}.

  Blocks for about half an hour; fails when a peer does. With :groups neither \"scaling\" nor the memory is measured unless named.

  Example: (run {:quick true :groups #{\"rendezvous\"}})"
  [{:keys [groups quick]}]
  (let [before (machine/facts)
        there? (present)
        options {:quick quick}
        results (vec (for [workload workloads :when (chosen? groups (:title workload))]
                       (with-server workload #(rows-of % "ns" rounds-of there? options))))
        memory (vec (for [workload memory-lines :when (chosen? groups (:title workload))]
                      (rows-of workload "bytes" memory-rounds there? options)))]
    (cond-> {:machine (assoc before :load-at-end (:load-at-start (machine/facts))
                        :peers (vec (keep programs/version (sort there?))))
             :settings {:quick quick :busy-before-a-round-at-most (reduce max 0.0 (keep :busy (mapcat :rounds (mapcat :raw results))))}
             :rows (vec (mapcat :rows (concat results memory)))
             :raw (vec (mapcat :raw (concat results memory)))}
      (or (nil? groups) (groups "scaling")) (assoc :over-n (over-n there? options) :over-cores (over-cores there? options)))))
