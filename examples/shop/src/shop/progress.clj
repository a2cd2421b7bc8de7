(ns shop.progress
  "The progress of an order, as server-sent events. A process follows the order: it reads the events from the database, as they are told."
  (:require
   [clojure.data.json :as json]
   [magnetar.actor :as actor :refer [! after receive]]
   [magnetar.channel :as channel]
   [magnetar.registry :as registry]
   [magnetar.supervisor :as sup]
   [shop.db :as db]
   [shop.orders :as orders])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(def poll-ms "After how long without news a follower reads the events again. It ends then if its client has left." 5000)

(defn tell
  "Tells the followers of an order that it has new events."
  [order-id]
  (registry/dispatch :shop/followers order-id (fn [all] (doseq [[pid] all] (! pid :progress)))))

(defn- news
  "The events after that one, and whether they are the last. The state is read first: what follows from it is there then."
  [db order-id last-id]
  (try
    (let [{:keys [state]} (orders/by-id db order-id)]
      {:events (orders/events db order-id last-id) :last? (orders/ended? state)})
    (catch Exception e
      (when-not (db/gone? e)
        (throw e)))))

(defn- sent? [ch {:keys [id] :as event}]
  (channel/put ch {:id (str id) :event "progress" :data (json/write-str (dissoc event :id))}))

(defn- follow
  "Sends events until the order has ended or the client has left."
  [db order-id last-id ch]
  (try
    (registry/register :shop/followers order-id)
    (loop [last-id last-id]
      (let [{:keys [events last?]} (news db order-id last-id)]
        (when (and (every? #(sent? ch %) events)
                   (not last?)
                   (not (channel/closed? ch)))
          (receive :progress nil
                   (after poll-ms nil))
          (recur (:id (peek events) last-id)))))
    (finally (channel/close ch))))

(defn- start-child
  "Starts a child of the streams. While the shop starts or stops, there are no streams but there is a port."
  [child]
  (try
    (sup/start-child :shop/streams child)
    (catch ExceptionInfo e
      (if (#{:noproc :shutdown} (:reason (ex-data e)))
        [:error :not-running]
        (throw e)))))

(defn start-follower
  "Starts to follow the order; returns the channel of its events. Returns nil if there are too many followers, or if the shop stops."
  [{:keys [db]} order-id last-id]
  (let [ch (channel/chan {:size 16})
        [how] (start-child {:start [actor/spawn-link* follow db order-id last-id ch] :restart :temporary})]
    (when (= :ok how)
      ch)))
