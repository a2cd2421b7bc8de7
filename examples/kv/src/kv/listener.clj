(ns kv.listener
  "The server that owns the port, and the process that accepts clients."
  (:require
   [kv.connection :as connection]
   [kv.socket :as socket]
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.net :as net]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(defn init
  "Listens; the state is the listener."
  [{:keys [port bind tell]}]
  (try
    (let [listener (net/listen port {:host bind :packet :raw :active false :backlog 511})]
      (tell (str "Ready to accept connections on " bind ":" (net/port listener)))
      [:ok listener])
    (catch ExceptionInfo e
      [:error (ex-message e)])))

(defn handle-call
  "Tells the listener."
  [_ _ listener]
  [:reply listener listener])

(defn handle-cast
  "Nothing is cast."
  [_ listener]
  [:noreply listener])

(defn port
  "The port that the server listens on."
  []
  (net/port (gs/call :kv/listener :listener)))

;; ---- the acceptor

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

(defn- accept
  "The next connection; nil after a pause if there can be none now, as when no more files can be opened."
  [listener tell]
  (try
    (net/accept listener)
    (catch ExceptionInfo e
      (tell (ex-message e))
      (scope/sleep 100))))

(defn- accept-all [listener {:keys [tell] :as options}]
  (when-some [conn (accept listener tell)]
    (let [[how pid] (sup/start-child :kv/connections {:id conn :start [connection/start-link conn options] :restart :temporary :shutdown 1000})]
      (if (= :ok how)
        (hand-over conn pid)
        (refuse conn))))
  (recur listener options))

(defn start-acceptor
  "Starts the process that accepts."
  [options]
  (let [listener (gs/call :kv/listener :listener)
        pid (actor/spawn-link accept-all listener options)]
    (actor/register :kv/acceptor pid)
    [:ok pid]))
