;; What hangs: the supervisor :sessions starts a session. The init of the session starts a bridge under the
;; same supervisor, and waits for it. The supervisor takes no request before that init has returned.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of two: :sessions waits for the init of its child, the child calls :sessions
;;   names  :sessions; the session, which is a server without a name
;;   lines  [B] in init, where the session calls the supervisor
;;   should the line [A], where the child was asked for; the words "starts a child" or "init"
;;   victim the go block of [login], which waits for :sessions at [A]
;;   never  the process of [app], which has started the supervisor and waits for :stop
(ns nested-start-child-plain
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.supervisor :as sup]))

(def ^:private bridge
  {:init (fn [id] [:ok id])
   :handle-call (fn [_ _client id] [:reply id id])})

(def ^:private session
  {:init (fn [[id entered]]
           (reset! entered true)
           (let [[_ pid] (sup/start-child :sessions {:start [gs/start-link bridge id]})] ; [B]
             [:ok {:id id :bridge pid}]))
   :handle-call (fn [_ _client state] [:reply (:id state) state])})

(defn- app [up]
  (sup/start-link {:strategy :dynamic} {:name :sessions})
  (deliver up true)
  (receive :stop nil))

(defn- messages [name]
  (some-> (actor/whereis name) inspect/mailbox :messages))

(defn start []
  (let [up (promise)
        entered (atom false)]
    (actor/spawn app up) ; [app]
    (a/go ; [login]
      @up
      (sup/start-child :sessions {:start [gs/start-link session [17 entered]]})) ; [A]
    {:ready #(and @entered (= 1 (messages :sessions)))
     :stop #(some-> (actor/whereis :sessions) (actor/exit :kill))}))
