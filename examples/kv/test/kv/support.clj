(ns kv.support
  "A server in this JVM for a test, and clients of it."
  (:require
   [kv.app :as app]
   [kv.listener :as listener]
   [kv.resp :as resp]
   [magnetar.actor :as actor]
   [magnetar.application :as application]
   [magnetar.net :as net]
   [magnetar.report :as report])
  (:import
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(set! *warn-on-reflection* true)

(defn temporary-folder
  "A new folder."
  []
  (str (Files/createTempDirectory "kv" (make-array FileAttribute 0))))

(defn start
  "Starts the server on a free port; returns :ok or [:error why]."
  [options]
  (application/load (app/application (merge {:port 0 :tell (fn [_])} options)))
  (application/start :kv))

(defn stop
  "Stops the server."
  []
  (application/stop :kv)
  (application/unload :kv))

(defn call-with-server
  "Calls f while a server with the options runs."
  [options f]
  (let [outcome (start options)]
    (try
      (when (not= :ok outcome)
        (throw (ex-info "The server does not start." {:why outcome})))
      (f)
      (finally (stop)))))

(defmacro with-server
  "Runs body while a server with the options runs."
  [options & body]
  `(call-with-server ~options (fn [] ~@body)))

(defn await-restart
  "Waits until the server runs with another store than that one."
  [store]
  (when-not (and (actor/whereis :kv/acceptor) (not= store (actor/whereis :kv/store)))
    (Thread/onSpinWait)
    (recur store)))

(defn reports-of
  "Calls f; returns what is reported meanwhile, which the log does not get."
  [f]
  (let [reports (atom [])
        hook (report/add-hook :report #(swap! reports conj %))]
    (try
      (f)
      @reports
      (finally (report/remove-hook :report hook)))))

(defn client
  "A connection to the server."
  []
  (net/connect "127.0.0.1" (listener/port) {:active false}))

(defn send-words
  "Sends commands, each a text of words, in one piece."
  [conn & lines]
  (net/send conn (resp/bytes-of (apply str (map (comp resp/written resp/words) lines)))))

(defn receive-text
  "Waits for as many bytes as the text has, and returns them; what there is if the stream ends before."
  [conn text]
  (let [n (count text)
        bytes (net/recv conn n {:timeout 20000 :else nil})]
    (if bytes
      (resp/text bytes)
      (some-> (net/recv conn {:timeout 100 :else nil}) resp/text))))

(defn exchange
  "Sends commands; returns their answer, of which the expected text gives the length."
  [conn expected & lines]
  (apply send-words conn lines)
  (receive-text conn expected))
