(ns magnetar.bench.peers.ours
  "Magnetar as a peer, through its public API."
  (:require
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async]
   [magnetar.bench.peers.serve :as serve]
   [magnetar.bench.peers.template :refer [channel-workloads]]
   [magnetar.gen-server :as gs])
  (:import
   (java.io InputStream OutputStream)
   (java.net InetAddress ServerSocket Socket)
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
          took (serve/nanos
                 (dotimes [_ rounds]
                   (! (last hops) :token)
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

(defn- server []
  (second (gs/start counter nil {:hosting :activated})))

(defn- call-all [server n boss]
  (dotimes [_ n] (gs/call server 1))
  (! boss :done))

(defn- server-call [callers n]
  (in-process
    (let [server (server)
          me (self)
          took (serve/nanos
                 (dotimes [_ callers] (spawn call-all server (quot (long n) (long callers)) me))
                 (dotimes [_ callers] (receive :done nil)))]
      (gs/stop server)
      took)))

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

(defn- echo [^Socket socket]
  (with-open [socket socket]
    (let [^InputStream in (.getInputStream socket)
          ^OutputStream out (.getOutputStream socket)
          buffer (byte-array 1024)]
      (loop []
        (let [n (.read in buffer)]
          (when (pos? n)
            (.write out buffer 0 n)
            (recur)))))))

(defn- accept-all [^ServerSocket server]
  (loop []
    (spawn echo (doto (.accept server) (.setTcpNoDelay true)))
    (recur)))

(defn- echo-server []
  (let [server (ServerSocket. 0 1024 (InetAddress/getLoopbackAddress))]
    (spawn accept-all server)
    (.getLocalPort server)))

(defn -main
  "Serves the workloads.

  Example: (-main)"
  []
  (serve/serve
    (merge (channel-workloads magnetar.async :go)
           {"ring-actors" ring
            "ping-pong-actors" ping-pong
            "mailbox" mailbox
            "server-call" server-call
            "spawn-actors" spawn-all
            "memory-actors" (fn [n] (serve/bytes-each n #(actor/spawn-opt {:bindings :none} idle)))
            "memory-servers" (fn [n] (serve/bytes-each n server))
            "timers" timers
            "echo" echo-server})))
