(ns magnetar.bench.peers.ours
  "Magnetar as a peer, through its public API."
  (:require
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async]
   [magnetar.bench.peers.computing :as computing]
   [magnetar.bench.peers.savina :as savina]
   [magnetar.bench.peers.serve :as serve]
   [magnetar.bench.peers.template :refer [channel-workloads]]
   [magnetar.fold :as fold]
   [magnetar.gen-server :as gs]
   [magnetar.net :as net]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang ExceptionInfo)
   (java.util.concurrent.atomic AtomicLong)))

;; as for the peer that runs the same source
(set! *unchecked-math* true)

(defmacro ^:private in-process
  "The value of the body, run by a process of its own."
  [& body]
  `(actor/join (spawn (fn [] ~@body))))

(defn- hop [next]
  (receive
    message (do (! next message) (recur next))))

(defn- ring [n rounds]
  (in-process
    (let [hops (doall (take (dec (long n)) (rest (iterate #(spawn hop %) (self)))))
          _ (serve/settle n)
          first-hop (last hops)
          took (serve/nanos
                 (dotimes [_ rounds]
                   (! first-hop :token)
                   (receive :token nil)))]
      (run! #(actor/exit % :kill) hops)
      took)))

(defn- ping-pong [n]
  (in-process
    (let [me (self)
          pong (spawn (fn pong [] (receive _ (do (! me :pong) (recur)))))
          took (serve/nanos
                 (dotimes [_ n]
                   (! pong :ping)
                   (receive :pong nil)))]
      (actor/exit pong :kill)
      took)))

(defn- send-all [to n]
  (dotimes [_ n] (! to :x)))

(defn- mailbox [senders n]
  (in-process
    (let [share (quot (long n) (long senders))
          me (self)]
      (serve/nanos
        (dotimes [_ senders] (spawn send-all me share))
        (dotimes [_ (* share (long senders))] (receive :x nil))))))

(def ^:private counter
  {:init (fn [_] [:ok 0])
   :handle-call (fn [n _ sum] (let [sum (+ (long sum) (long n))] [:reply sum sum]))
   :handle-cast (fn [n sum] [:noreply (+ (long sum) (long n))])})

(defn- server [options]
  (second (gs/start counter nil options)))

(defn- call-all [server n boss]
  (dotimes [_ n] (gs/call server 1))
  (! boss :done))

(defn- server-call [options callers n]
  (in-process
    (let [server (server options)
          me (self)
          took (serve/nanos
                 (dotimes [_ callers] (spawn call-all server (quot (long n) (long callers)) me))
                 (dotimes [_ callers] (receive :done nil)))]
      (gs/stop server)
      took)))

(defn- nothing [])

(defn- count-down [^AtomicLong left to]
  (when (zero? (.decrementAndGet left))
    (! to :done)))

(defn- spawn-all [n]
  (in-process
    (let [left (AtomicLong. n)
          me (self)]
      (serve/nanos
        (dotimes [_ n] (spawn count-down left me))
        (receive :done nil)))))

(defn- idle []
  (receive :stop nil))

(defn- timers [n]
  (in-process
    (let [me (self)
          all (object-array n)]
      (serve/nanos
        (dotimes [i n] (aset all i (actor/start-timer (+ 10000 (rem i 1000)) me :x)))
        (dotimes [i n] (actor/cancel-timer (aget all i)))))))

(defn- spawn-and-join [n]
  (scope/with-scope [s]
    @(scope/fork s #(serve/nanos (dotimes [_ n] @(scope/fork s nothing))))))

(defn- spawn-and-monitor [n]
  (in-process
    (serve/nanos
      (dotimes [_ n]
        (let [[_ ref] (actor/spawn-monitor nothing)]
          (receive [:DOWN ref :process _ :normal] nil))))))

(defn- parallel-map [n]
  (in-process
    (serve/all-increased n (fn [in] (fold/pmap (fn [x] (inc (long x))) in)))))

(defn- echo [conn]
  (when-some [data (net/recv conn)]
    (net/send conn data)
    (recur conn)))

(defn- accept-all [listener]
  (let [conn (net/accept listener)]
    (net/controlling-process conn (spawn (fn [] (try (echo conn) (catch ExceptionInfo _)))))) ; the client ends by a reset
  (recur listener))

(defn- echo-server
  "Starts it, a process for each connection; returns the port."
  []
  (let [port (promise)]
    (spawn (fn []
             (let [listener (net/listen 0 {:host "127.0.0.1" :backlog 1024 :active false})]
               (deliver port (net/port listener))
               (accept-all listener))))
    @port))

(def workloads
  "What it can be asked.

  Example: ((workloads \"spawn\") 1000)"
  (merge (channel-workloads magnetar.async :go)
         savina/workloads
         computing/workloads
         {"ring-actors" ring
          "ping-pong-actors" ping-pong
          "mailbox" mailbox
          "server-call" (partial server-call {})
          "server-call-activated" (partial server-call {:hosting :activated})
          "spawn-actors" spawn-all
          "spawn-join" spawn-and-join
          "spawn-join-actors" spawn-and-monitor
          "pmap" parallel-map
          "memory-actors" (fn [n] (serve/bytes-each n #(spawn idle)))
          "memory-servers" (fn [n] (in-process (serve/bytes-each n #(server {}))))
          "memory-servers-activated" (fn [n] (in-process (serve/bytes-each n #(server {:hosting :activated}))))
          "timers" timers
          "echo" (fn [] (echo-server))}))

(defn -main
  "Serves the workloads.

  Example: (-main)"
  []
  (serve/serve workloads))
