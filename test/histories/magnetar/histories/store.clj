(ns magnetar.histories.store
  "Stands for a database: keeps the values of objects outside of the cluster.

  Each request has a fencing token. One with an older token than the store has seen for the object is refused, unless
  the object has the defect :no-tokens. Connections over loopback have a request on each line, as EDN."
  (:require
   [clojure.edn :as edn]
   [magnetar.actor :as actor]
   [magnetar.histories.objects :as objects]
   [magnetar.net :as net]))

(set! *warn-on-reflection* true)

(defn make
  "A store of these objects, an atom."
  [objects]
  (atom (into {} (map (fn [{:keys [name model defect]}]
                        [name {:token 0 :value (first (objects/objects model)) :fenced (not= :no-tokens defect)}]))
              objects)))

(defn- old? [{:keys [fenced] :as entry} token]
  (and fenced (< (long token) (long (:token entry)))))

(defn- written [entry what token value]
  (cond
    (old? entry token) entry
    (= :open what) (update entry :token max token)
    :else (assoc entry :value value)))

(defn answer
  "Handles [:open name token] or [:write name token value]; returns [:ok value], or :stale if the token is an old one."
  [store [what name token value]]
  (let [[before after] (swap-vals! store update name written what token value)]
    (if (old? (before name) token)
      :stale
      [:ok (get-in after [name :value])])))

;; ---- over loopback

(defn- wait-at-gate
  "Waits if the request is the one that is held up."
  [gates [what name]]
  (when (= :write what)
    (let [[before _] (swap-vals! gates dissoc name)]
      (when-some [{:keys [reached opened]} (before name)]
        (deliver reached true)
        @opened))))

(defn- answer-all [{:keys [store gates]} conn]
  (loop []
    (when-some [line (net/recv conn)]
      (let [request (edn/read-string line)]
        (wait-at-gate gates request)
        (net/send conn (str (pr-str (answer store request)) "\n"))
        (recur)))))

(defn- serve-next
  "Is one connection, and starts the process of the next one."
  [server listener]
  (try
    (let [conn (net/accept listener)]
      (actor/spawn serve-next server listener)
      (answer-all server conn))
    (catch clojure.lang.ExceptionInfo _))) ; the node was killed, or the store is gone

(def ^:private lines {:packet :line :as :string :active false})

(defn serve
  "Starts a server of the store, with its :port. It ends with this process."
  [store]
  (let [listener (net/listen 0 (assoc lines :host "127.0.0.1"))
        server {:store store :gates (atom {}) :port (net/port listener)}]
    (actor/spawn serve-next server listener)
    server))

(defn hold
  "Lets the next write of the object wait in the server, until :opened is delivered. It delivers :reached."
  [{:keys [gates]} name]
  (let [gate {:reached (promise) :opened (promise)}]
    (swap! gates assoc name gate)
    gate))

(defn connect
  "A function that asks the server at this port, over a connection of this process."
  [port]
  (let [conn (net/connect "127.0.0.1" port lines)]
    (fn [request]
      (net/send conn (str (pr-str request) "\n"))
      (edn/read-string (net/recv conn)))))
