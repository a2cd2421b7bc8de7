(ns kv.support
  "A server in this JVM for a test, and clients of it."
  (:require
   [kv.app :as app]
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

(def ^:private said "What the server has said since its start." (atom []))

(defn start
  "Starts the server on a free port; returns :ok or [:error why]."
  [options]
  (reset! said [])
  (application/load (app/application (merge {:port 0 :tell #(swap! said conj %)} options)))
  (application/start :kv))

(defn said-by-server
  "What the server has said since its start."
  []
  @said)

(defn await-saying
  "Waits until the server says the sentence."
  [sentence]
  (while (not-any? #{sentence} @said)
    (Thread/onSpinWait)))

(defn port
  "The port of the server."
  []
  (parse-long (second (last (keep #(re-find #"Ready .*:(\d+)$" %) @said)))))

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

(defn- restarted? [store]
  (let [now (actor/whereis :kv/store)]
    (and now (not= store now) (actor/whereis :kv/listener))))

(defn await-restart
  "Waits until the server runs with another store than that one."
  [store]
  (when-not (restarted? store)
    (Thread/onSpinWait)
    (recur store)))

(defn await-end-or-restart
  "Waits until the server has ended, or runs with another store than that one; returns :ended or :restarted."
  [store]
  (cond
    (not-any? #(= :kv (:name %)) (application/which-applications)) :ended
    (restarted? store) :restarted
    :else (do (Thread/onSpinWait)
              (recur store))))

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
  (net/connect "127.0.0.1" (port) {:active false}))

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
