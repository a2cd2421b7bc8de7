(ns kv.listener
  "The process that owns the port, accepts clients, and starts their processes."
  (:require
   [kv.connection :as connection]
   [kv.socket :as socket]
   [magnetar.actor :as actor]
   [magnetar.net :as net]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(defn- hand-over
  "Gives the connection to its process, unless that has ended already."
  [conn pid]
  (try
    (net/controlling-process conn pid)
    (catch IllegalArgumentException _
      (net/close conn))))

(defn- refuse [conn]
  (actor/spawn (fn []
                 (socket/send-text conn "-ERR max number of clients reached\r\n")
                 (net/close conn))))

(defn- child [conn id options]
  {:id id :start [connection/start-link conn id options] :restart :temporary :shutdown 1000})

(def ^:private ^:const pause-ms "The pause after a connection that could not be accepted." 100)

(defn- accept
  "The next connection. If one cannot be accepted, says so and tries again after a pause: its client may have left,
  or the system may lack memory, and the listener is still open. Throws once the listener is closed."
  [listener {:keys [tell] :as options}]
  (or (try
        (net/accept listener)
        (catch ExceptionInfo e
          (when (= :closed (:reason (ex-data e)))
            (throw e))
          (tell (ex-message e))
          (scope/sleep pause-ms)))
      (recur listener options)))

(defn- accept-all [listener options]
  (loop [id 1]
    (let [conn (accept listener options)
          [how pid] (sup/start-child :kv/connections (child conn id options))]
      (if (= :ok how)
        (hand-over conn pid)
        (refuse conn)))
    (recur (inc id))))

(defn- listen [{:keys [port bind]}]
  (try
    (net/listen port {:host bind :packet :raw :active false :backlog 511})
    (catch ExceptionInfo e
      (proc-lib/init-fail [:error (ex-message e)] :normal))))

(defn- run [{:keys [bind tell] :as options}]
  (let [listener (listen options)]
    (tell (str "Ready to accept connections on " bind ":" (net/port listener)))
    (actor/register :kv/listener (actor/self))
    (proc-lib/init-ack [:ok (actor/self)])
    (accept-all listener options)))

(defn start-link
  "Starts the process."
  [options]
  (proc-lib/start-link #(run options)))
