(ns magnetar.erlang.dial-test
  "The first signal to a node connects it, with a scripted EPMD and a scripted other side."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.scripted :as scripted :refer [accept control eventually hang-up let-in listen next-control running send-bytes]]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.net.names :as names]
   [magnetar.net.transport :as transport]
   [magnetar.supervisor :as sup])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io DataInputStream)
   (java.net ServerSocket)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(defn- answer [peer & numbers]
  (send-bytes peer (byte-array (map unchecked-byte numbers))))

(defn- read-request
  "Reads a request to EPMD."
  [{:keys [^DataInputStream in] :as peer}]
  (.skipNBytes in (.readUnsignedShort in))
  peer)

(defn- with-epmd
  "Calls f, as a process, with a scripted EPMD that this node has registered with."
  [f]
  (with-open [epmd (listen)]
    (let [registered (future (doto (read-request (accept epmd)) (answer 121 0 0 1)))]
      (running {:epmd (.getLocalPort epmd)} (atom [])
        (fn []
          @registered
          (actor/with-process {:name :inbox} (f epmd)))))))

(defn- tell-port
  "Answers the next question for a port."
  [epmd ^ServerSocket server]
  (let [port (.getLocalPort server)]
    (answer (read-request (accept epmd)) 119 0 (bit-shift-right port 8) port)))

(defn- know-none
  "Answers the next question with: no such node."
  [epmd]
  (answer (read-request (accept epmd)) 119 1))

(defn- waits-to-connect? [pid]
  (eventually #(= "a connection with b@127.0.0.1" (:waits-for (actor/process-info pid)))))

(deftest the-first-message-connects-and-those-of-each-sender-stay-in-order
  (with-epmd
    (fn [epmd]
      (with-open [server (listen)]
        (let [senders (mapv (fn [s] (actor/spawn #(dotimes [n 10] (! [:shelf other] [s n])))) (range 3))]
          (is (every? waits-to-connect? senders))
          (tell-port epmd server)
          (let [peer (let-in (accept server) other)
                all (repeatedly 30 #(second (next-control peer)))]
            (is (= (zipmap (range 3) (repeat (range 10))) (update-vals (group-by first all) #(map second %))))
            (is (= [other] (erlang/nodes)))
            (hang-up peer)))))))

(deftest a-pid-of-a-node-that-was-lost-connects-again
  (with-epmd
    (fn [epmd]
      (with-open [server (listen)]
        (let [told (future (tell-port epmd server))
              sent (future (! [:shelf other] :first))
              first-one (let-in (accept server) other)
              [[_ _ _ to]] (next-control first-one)
              _ (control first-one [6 (scripted/pid other 4) (keyword "") :inbox] [:here (scripted/pid other 4)])
              [_ far] (receive x x)
              ref (actor/monitor far)]
          (is (= [:shelf :first nil] [to @sent @told]))
          (hang-up first-one)
          (is (= [:DOWN ref :process far :noconnection] (receive x x)))
          (let [sender (actor/spawn #(! far :again))]
            (tell-port epmd server)
            (let [peer (let-in (accept server) other)]
              (is (= :again (second (next-control peer))))
              (is (some? sender))
              (hang-up peer))))))))

(deftest without-a-connection-links-and-monitors-fire-and-messages-are-dropped
  (with-epmd
    (fn [epmd]
      (actor/flag :trap-exit true)
      (let [none (future (dotimes [_ 4] (know-none epmd)))]
        (! [:shelf other] :dropped)
        (let [ref (actor/monitor [:shelf other])]
          (is (= [:DOWN ref :process [:shelf other] :noconnection] (receive x x))))
        (is (= [:nodedown other] (try (gs/call [:shelf other] 1) (catch ExceptionInfo e (:reason (ex-data e))))))
        (is (= :ok (gs/cast [:shelf other] 1)))
        @none
        (is (= :none (receive x x (after 0 :none))))
        (is (= :dropped (! [:shelf "no-host"] :dropped)) "no name of a node")))))

(deftest another-machine-is-not-dialled-without-tls
  (let [lines (atom [])]
    (running {} lines
      #(is (false? (erlang/connect "b@192.0.2.1" {:port 9100}))))
    (is (= ["The node b@192.0.2.1 is not connected. It is on another machine, and this node has neither :tls nor :insecure."] @lines))))

(deftest a-sender-that-waits-for-a-connection-can-be-ended
  (with-epmd
    (fn [epmd]
      (let [sender (actor/spawn #(! [:shelf other] 1))
            question (read-request (accept epmd))
            ref (actor/monitor sender)]
        (is (waits-to-connect? sender))
        (actor/exit sender :enough)
        (is (= [:DOWN ref :process sender :enough] (receive x x)))
        (is (some? question))))))

(defn- next-question
  "Reads the next question to EPMD, and answers that there is no such node; the name that was asked for."
  [epmd]
  (let [{:keys [^DataInputStream in] :as peer} (accept epmd)
        request (.readNBytes in (.readUnsignedShort in))]
    (answer peer 119 1)
    (String. request 1 (dec (alength request)) "UTF-8")))

(defn- asked-next
  "The name that EPMD is asked for next, when this node dials the node of a name in vain."
  [epmd node]
  (let [connected? (future (erlang/connect node))
        name (next-question epmd)]
    (is (false? @connected?))
    name))

(deftest a-timer-connects-nothing
  (with-epmd
    (fn [epmd]
      (actor/send-after 0 [:shelf other] :dropped)
      (actor/send-after 0 (self) :next)
      (is (= :next (receive x x)))
      (is (= "c" (asked-next epmd "c@127.0.0.1")))
      (is (= "d" (asked-next epmd "d@127.0.0.1")) "a dial that had begun before has asked by now"))))

(defn- reason-of [f]
  (try
    (f)
    (catch ExceptionInfo e (:reason (ex-data e)))))

(deftest the-address-of-a-supervisor-or-manager-is-looked-up-once
  (with-epmd
    (fn [epmd]
      (let [shelf [:shelf other]]
        (doseq [f [#(sup/which-children shelf) #(ge/which-handlers shelf) #(ge/add-handler shelf :tally 1) #(ge/swap-handler shelf :tally 1 :sum 2)
                   #(ge/delete-handler shelf :tally 1) #(ge/call shelf 'tally 1) #(ge/sync-notify shelf :sold)]]
          (let [asked (future (next-question epmd))]
            (is (= [:nodedown other] (reason-of f)))
            (is (= "b" @asked))))
        (let [asked (future [(next-question epmd) (next-question epmd)])]
          (is (= :ok (ge/notify shelf :sold)))
          (is (= [:error [:noconnection shelf]] (gs/receive-response (ge/send-request shelf 'tally 1))))
          (is (= ["b" "b"] @asked)))
        (is (= "c" (asked-next epmd "c@127.0.0.1")) "no other question has come before")))))

(deftest the-name-of-a-host-is-looked-up-as-names-of-sockets-are
  (let [hosts (atom [])]
    (running {} (atom [])
      (fn []
        (with-open [server (listen)]
          (with-redefs [names/addresses (fn [_ host _] (swap! hosts conj host) [(.getInetAddress server)])]
            (let [connected? (future (erlang/connect "b@shelf.invalid" {:port (.getLocalPort server)}))
                  peer (let-in (accept server) "b@shelf.invalid")]
              (is (true? @connected?))
              (hang-up peer)))
          (with-redefs [names/addresses (fn [& _] ::transport/timeout)]
            (is (false? (erlang/connect "c@shelf.invalid" {:port 9100})))))))
    (is (= ["shelf.invalid"] @hosts))))
