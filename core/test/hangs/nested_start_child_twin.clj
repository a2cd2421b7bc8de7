;; What hangs: the supervisor :tables starts a table. The init of the table starts a dealer under the same
;; supervisor, and waits for it. The supervisor takes no request before that init has returned.
;; Innocent beside it: the supervisor :games starts games all the time. The init of a game takes 10 ms, and a
;; client waits for each start. Another client asks :games for its children, and waits while a start runs.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of two: :tables waits for the init of its child, the child calls :tables
;;   names  :tables; the table, which is a server without a name
;;   lines  [B] in init, where the table calls the supervisor
;;   should the line [A], where the child was asked for; the words "starts a child" or "init"
;;   victim the go block of [guest], which waits for :tables at [A]
;;   never  :games and its children; the go blocks of [player] and [watcher];
;;          the processes of [app] and [app-2]
(ns nested-start-child-twin
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]))

(def ^:private dealer
  {:init (fn [id] [:ok id])
   :handle-call (fn [_ _client id] [:reply id id])})

(def ^:private table
  {:init (fn [[id entered]]
           (reset! entered true)
           (let [[_ pid] (sup/start-child :tables {:start [gs/start-link dealer id]})] ; [B]
             [:ok {:id id :dealer pid}]))
   :handle-call (fn [_ _client state] [:reply (:id state) state])})

(def ^:private game
  {:init (fn [id]
           (scope/sleep 10)
           [:ok id])
   :handle-call (fn [_ _client id] [:reply id id])})

(defn- app [name up]
  (sup/start-link {:strategy :dynamic} {:name name})
  (deliver up true)
  (receive :stop nil))

(defn- play [running]
  (loop [n 0]
    (when @running
      (let [[_ pid] (sup/start-child :games {:start [gs/start-link game n] :restart :temporary})]
        (sup/terminate-child :games pid)
        (recur (inc n))))))

(defn- watch [running]
  (while @running
    (sup/count-children :games)
    (scope/sleep 1)))

(defn- messages [name]
  (some-> (actor/whereis name) inspect/mailbox :messages))

(defn start []
  (let [up (promise)
        games-up (promise)
        entered (atom false)
        running (atom true)]
    (actor/spawn app :tables up) ; [app]
    (actor/spawn app :games games-up) ; [app-2]
    (a/go ; [guest]
      @up
      (sup/start-child :tables {:start [gs/start-link table [7 entered]]})) ; [A]
    (let [played (a/go ; [player]
                   @games-up
                   (play running))
          watched (a/go ; [watcher]
                    @games-up
                    (watch running))]
      {:ready #(and @entered (= 1 (messages :tables)))
       :stop #(do
                (reset! running false)
                (run! a/<! [played watched])
                (doseq [name [:tables :games]]
                  (some-> (actor/whereis name) (actor/exit :kill))))})))
