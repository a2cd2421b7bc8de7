(ns magnetar.faults.program
  "The servers that the tests of faults attack, each as the main program of a JVM of its own.

  The test asks on standard input, a word a line: `counts` prints the numbers of fibers, processes and bytes of the heap, `collect` the same after a
  garbage collection. The end of standard input ends the JVM, so no server outlives its test."
  (:require
   [magnetar.actor :as actor :refer [receive self spawn]]
   [magnetar.application :as application]
   [magnetar.channel :as channel]
   [magnetar.inspect :as inspect]
   [magnetar.net :as net]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io InputStream)
   (java.lang.management ManagementFactory)
   (magnetar TimeoutException)))

(set! *warn-on-reflection* true)

;; ---- what the test asks

(defn- counts []
  {:fibers (count (inspect/fibers))
   :processes (count (inspect/processes))
   :heap (.getUsed (.getHeapMemoryUsage (ManagementFactory/getMemoryMXBean)))})

(defn- answer-questions []
  (doseq [line (line-seq (java.io.BufferedReader. *in*))]
    (when (= "collect" line)
      (dotimes [_ 2] (System/gc)))
    (println "counts" (pr-str (counts)))
    (flush))
  (.halt (Runtime/getRuntime) 3))

(defn- start-answering []
  (let [^Runnable answer (bound-fn* answer-questions)]
    (doto (Thread. answer "questions")
      (.setDaemon true)
      (.start))))

(defn- tell-port [what port]
  (println what port)
  (flush))

;; ---- echo: a line is sent back. A client has 2 seconds for its line, and 2 to read

(defn- send-back [conn]
  (loop []
    (when-some [line (net/recv conn {:timeout 2000})]
      (net/send conn line)
      (recur))))

(defn- serve-client
  "A client that is slow, or breaks the connection or a limit, ends its own process, quietly."
  [conn]
  (try
    (send-back conn)
    (catch TimeoutException _ nil)
    (catch ExceptionInfo e
      (when-not (#{:closed :econnreset :epipe :etimedout :emsgsize} (:reason (ex-data e)))
        (throw e)))
    (finally (net/close conn))))

(defn- leak
  "Serves a client as a program with a defect does: the connection is never closed, and its process never ends."
  [conn]
  (try
    (send-back conn)
    (catch Exception _ nil))
  (receive :never nil))

(defn- accept-all [listener serve]
  (let [conn (net/accept listener)
        client (spawn (fn [] (receive :go (serve conn))))]
    (net/controlling-process conn client)
    (actor/! client :go)
    (recur listener serve)))

(defn- start-echo [serve]
  (let [starter (self)
        options {:host "127.0.0.1" :backlog 511 :packet :line :as :string :active false :max-packet 65536 :send-timeout 2000}
        acceptor (actor/spawn-link (fn []
                                     (let [listener (net/listen 0 options)]
                                       (actor/! starter [:port (net/port listener)])
                                       (accept-all listener serve))))]
    (receive [:port port] (tell-port "port" port))
    [:ok acceptor]))

(defn- run-echo [serve]
  (application/run {:name :echo :start {:children [{:id :echo :start [start-echo serve]}]}}))

;; ---- HTTP, with time-outs that are shorter than the defaults

(def ^:private http-options
  {:port 0 :host "127.0.0.1" :header-timeout 2000 :request-timeout 4000 :idle-timeout 2000 :drain-timeout 4000})

(defn- endless-events [events {scope :magnetar.http/scope}]
  (let [ch (channel/chan)
        text (apply str (repeat 1000 "x"))]
    (scope/fork scope (fn [] (while (channel/put ch text))))
    (events ch)))

(defn- handler [events]
  (fn [{:keys [uri body] :as request}]
    (case uri
      "/hello"    {:status 200 :headers {"Content-Type" "text/plain"} :body "hello"}
      "/work"     (do (scope/sleep 200)
                      {:status 200 :headers {} :body "done"})
      "/echo"     {:status 200 :headers {} :body (.readAllBytes ^InputStream body)}
      "/download" {:status 200 :headers {} :body (repeat 20000 (apply str (repeat 65536 "x")))}
      "/events"   (endless-events events request)
      {:status 404 :headers {} :body "not here"})))

(defn- port-told [word start-link port-of handler options]
  (let [[how pid :as outcome] (start-link handler options)]
    (when (= :ok how)
      (tell-port word (port-of pid)))
    outcome))

(defn- run-http
  "Serves at one port without TLS, and if there is a certificate at another one with it."
  [& [certfile keyfile]]
  (let [[start-link port-of events] (map requiring-resolve '[magnetar.http/start-link magnetar.http/port magnetar.http/events])
        child (fn [id word options]
                {:id id :shutdown 6000 :start [port-told word start-link port-of (handler events) (merge http-options options)]})]
    (application/run {:name :web
                      :start {:children (cond->> [(child :plain "port" nil)]
                                          certfile (cons (child :tls "tls-port" {:tls {:certfile certfile
                                                                                       :keyfile keyfile
                                                                                       :handshake-timeout 2000}})))}})))

(defn -main
  "Runs the server that is named, with its arguments."
  [server & arguments]
  (start-answering)
  (case server
    "echo"  (run-echo serve-client)
    "leaky" (run-echo leak)
    "http"  (apply run-http arguments)
    "kv"    (apply (requiring-resolve 'kv.main/-main) arguments)
    "shop"  (apply (requiring-resolve 'shop.main/-main) arguments)))
