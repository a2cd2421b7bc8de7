(ns shop.app
  "The application: its tree, and its options."
  (:require
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.registry :as registry]
   [magnetar.supervisor :as sup]
   [magnetar.telemetry :as telemetry]
   [shop.db :as db]
   [shop.outside :as outside]
   [shop.web :as web]
   [shop.workers :as workers]))

(set! *warn-on-reflection* true)

(def defaults
  "Options that are not given. :outside is the function that does the step of a job, :flaky the share of its calls that fail."
  {:port 8080 :bind "127.0.0.1" :db db/embedded :workers 4 :max-queue 1000 :flaky 0.3 :slow 1000
   :outside outside/call :open db/open :tell println})

(defn- tree
  "The processes. They stop in the reverse order: first the streams, then the port is closed, then the jobs under way end."
  [{:keys [port bind] :as shop}]
  {:strategy :rest-for-one
   :children [{:id :followers :type :supervisor :start [registry/start-link {:keys :duplicate :name :shop/followers}]}
              {:id :workers :type :supervisor :start [workers/start-link shop]}
              {:id :web :shutdown 5000
               :start [http/start-link (web/handler shop) {:port port :host bind :name :shop/web}]}
              {:id :streams :type :supervisor
               :start [sup/start-link {:strategy :dynamic :max-children 500} {:name :shop/streams}]}]})

(defn- start-tree [{:keys [db tell bind] :as shop}]
  (let [[how pid-or-why] (sup/start-link (tree shop))]
    (if (= :ok how)
      (do (tell (str "The shop is open at http://" bind ":" (http/port :shop/web) "/"))
          [:ok pid-or-why shop])
      (do (db/close db)
          [:error pid-or-why]))))

(defn- open-and-start [{:keys [open db] :as options}]
  (try
    (start-tree (assoc options :db (open db) :counters (atom {}) :wake (channel/chan {:size 1})))
    (catch clojure.lang.ExceptionInfo e
      [:error (ex-message e)])))

(defn- start [options]
  (telemetry/start-metrics)
  (let [[how :as outcome] (open-and-start options)]
    (when (= :error how)
      (telemetry/stop-metrics))
    outcome))

(defn- stop [{:keys [db]}]
  (db/close db)
  (telemetry/stop-metrics))

(defn application
  "The application with these options. Before a stop the workers are told to claim no more jobs. The database is closed when all
  processes have ended."
  [options]
  {:name :shop
   :description "A shop with a queue of jobs"
   :start [start (merge defaults options)]
   :prep-stop (fn [shop]
                (workers/finish shop)
                shop)
   :stop stop})
