;; What hangs: the supervisor :rooms starts a room. The init of the room calls the server :directory. The
;; handle-call of :directory starts a log under :rooms, and waits for it. The supervisor takes no request
;; before the init of the room has returned.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of three: :rooms waits for the init of its child, the child calls
;;          :directory, :directory calls :rooms
;;   names  :rooms, :directory; the room, which is a server without a name
;;   lines  [B] in init, where the room calls :directory; [C] :directory calls the supervisor
;;   should the line [A], where the child was asked for; the words "starts a child" or "init"
;;   victim the go block of [host], which waits for :rooms at [A]
;;   never  the process of [app], which has started the supervisor and waits for :stop
(ns nested-start-child-hop
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.supervisor :as sup]))

(def ^:private log
  {:init (fn [id] [:ok id])
   :handle-cast (fn [_ id] [:noreply id])})

(def ^:private directory
  {:init (fn [_] [:ok #{}])
   :handle-call (fn [[_ id entered] _client rooms]
                  (reset! entered true)
                  (sup/start-child :rooms {:start [gs/start-link log id]}) ; [C]
                  [:reply :listed (conj rooms id)])})

(def ^:private room
  {:init (fn [[id entered]]
           (gs/call :directory [:add id entered] {:timeout :infinity}) ; [B]
           [:ok id])
   :handle-call (fn [_ _client id] [:reply id id])})

(defn- app [up]
  (sup/start-link {:strategy :dynamic} {:name :rooms})
  (deliver up true)
  (receive :stop nil))

(defn- messages [name]
  (some-> (actor/whereis name) inspect/mailbox :messages))

(defn start []
  (let [up (promise)
        entered (atom false)]
    (gs/start directory nil {:name :directory})
    (actor/spawn app up) ; [app]
    (a/go ; [host]
      @up
      (sup/start-child :rooms {:start [gs/start-link room [4 entered]]})) ; [A]
    {:ready #(and @entered (= 1 (messages :rooms)))
     :stop #(doseq [name [:rooms :directory]]
              (some-> (actor/whereis name) (actor/exit :kill)))}))
