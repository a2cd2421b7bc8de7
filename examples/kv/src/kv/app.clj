(ns kv.app
  "The application: its tree, and its options."
  (:require
   [kv.db :as db]
   [kv.listener :as listener]
   [kv.log :as log]
   [kv.pubsub :as pubsub]
   [magnetar.gen-server :as gs]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

(def defaults
  "Options of the server that are not given."
  {:port 6379 :bind "127.0.0.1" :appendonly false :appendfsync :everysec :dir "." :maxclients 10000
   :proto-max-bulk-len 536870912 :pubsub-buffer 33554432 :tell println :clock #(System/currentTimeMillis)})

(defn- prepared
  "The options with the parts that outlive a restart of the store: the published data, how the file is opened,
  the file that is open, and a failure after which no store may start."
  [{:keys [appendonly dir] :as options}]
  (merge {:published (atom db/empty-db)
          :opened (atom nil)
          :failure (atom nil)
          :open-file (when appendonly #(log/open-file dir))}
         defaults
         options))

(defn application
  "The application with these options.

  A store that fails is restarted with the data of the log, or without a log with the data published last. The
  clients and the port follow it."
  [options]
  (let [{:keys [maxclients] :as options} (prepared options)]
    {:name :kv
     :description "A server that speaks RESP2"
     :start {:strategy :rest-for-one
             :children [{:id :subscriptions :type :supervisor
                         :start [pubsub/start-registry]}
                        {:id :store :shutdown 30000
                         :start [gs/start-link 'kv.store options {:name :kv/store}]}
                        {:id :connections :type :supervisor
                         :start [sup/start-link {:strategy :dynamic :max-children maxclients}
                                 {:name :kv/connections}]}
                        {:id :listener
                         :start [listener/start-link options]}]}}))
