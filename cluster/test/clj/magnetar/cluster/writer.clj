(ns magnetar.cluster.writer
  "A register behind a port, which checks tokens; and a singleton in other JVMs that writes its token there all the time."
  (:require
   [clojure.java.io :as io]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.singleton :as singleton]
   [magnetar.cluster.support :as support]
   [magnetar.supervisor :as sup])
  (:import
   (java.io BufferedReader Writer)
   (java.net InetAddress ServerSocket Socket)))

(set! *warn-on-reflection* true)

;; ---- the register

(defn- entry
  "The register after a write: the greatest token, and the writes, with the node, the singleton, and whether they were taken."
  [{:keys [greatest] :as register} node writer token]
  (-> (update register :greatest max token)
      (update :writes conj {:node node :writer writer :token token :taken (<= (long greatest) (long token))})))

(defn- serve [register ^Socket socket]
  (with-open [socket socket]
    (let [^BufferedReader in (io/reader socket)
          ^Writer out (io/writer socket)]
      (loop []
        (when-some [line (.readLine in)]
          (let [[node writer token] (read-string line)
                after (swap! register entry node writer token)]
            (.write out (str (if (:taken (peek (:writes after))) "taken" "stale") "\n"))
            (.flush out))
          (recur))))))

(defn register
  "A register that listens on a port of the loopback address: the atom with its writes, and its socket."
  []
  (let [register (atom {:greatest 0 :writes []})
        socket (ServerSocket. 0 50 (InetAddress/getLoopbackAddress))]
    (Thread/startVirtualThread
     (fn []
       (try
         (loop []
           (let [client (.accept socket)]
             (Thread/startVirtualThread #(try (serve register client) (catch java.io.IOException _)))
             (recur)))
         (catch java.io.IOException _)))) ; closed
    {:register register :socket socket :port (.getLocalPort socket)}))

;; ---- in the JVM of a node

(defn write
  "Has the singleton write its token to the register once; \"taken\" or \"stale\"."
  [port node writer token]
  (with-open [socket (Socket. (InetAddress/getLoopbackAddress) (int port))]
    (let [^Writer out (io/writer socket)]
      (.write out (str (pr-str [node writer token]) "\n"))
      (.flush out)
      (.readLine ^BufferedReader (io/reader socket)))))

(defn- start-writer [port token]
  (let [writer (str (random-uuid))]
    [:ok (actor/spawn-link (fn []
                             (loop []
                               (write port (actor/node) writer token)
                               (recur))))]))

(defn begin
  "Joins the cluster, and keeps the singleton; the address."
  [name peers port]
  (cluster/start {:name name :cookie support/cookie :peers peers :detect {:after 2000 :every 500}
                  :split-brain {:policy :keep-majority :lease 2000}})
  (actor/spawn (fn []
                 (sup/start-link {:intensity 100
                                  :children [{:id :writer
                                              :start [singleton/start-link {:name :writer :start [start-writer port]}]}]})
                 (receive :never nil)))
  (cluster/address))
