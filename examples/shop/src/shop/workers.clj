(ns shop.workers
  "The workers: a few processes under a supervisor. Each claims a job, does it, and claims the next one."
  (:require
   [magnetar.actor :as actor]
   [magnetar.channel :as channel]
   [magnetar.resilience :as r]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [shop.db :as db]
   [shop.jobs :as jobs]
   [shop.metrics :as metrics]
   [shop.orders :as orders]
   [shop.progress :as progress]))

(set! *warn-on-reflection* true)

(def ^:private call-timeout 5000)

(defn wake
  "Wakes a worker that sleeps. A worker that finds a job wakes the next one."
  [{:keys [wake]}]
  (channel/try-put wake :job))

(defn- sentence
  "What the exception says; its class if it says nothing."
  [^Throwable e]
  (or (ex-message e)
      (str "The service failed with " (.getName (class e)) ".")))

(defn- outcome
  "Calls the service; returns nil, or a sentence that says why it failed."
  [{:keys [outside] :as shop} {:keys [attempts] :as job}]
  (if (< (long jobs/max-attempts) (long attempts))
    "The worker has ended in each attempt."
    (try
      (r/call (r/timeout call-timeout) outside shop job)
      nil
      (catch Exception e
        (if (db/gone? e)
          (throw e)
          (sentence e)))
      (catch AssertionError e
        (sentence e)))))

(defn- work [{:keys [db counters] :as shop} {:keys [order_id step] :as job}]
  (let [problem (outcome shop job)]
    (metrics/add counters "shop_calls_total" {:step step :outcome (if problem "failed" "done")})
    (if problem
      (orders/step-failed db job problem)
      (orders/step-done db job))
    (progress/tell order_id)))

(defn- work-next
  "Does the job that is due; returns for how long the worker may sleep. A stop waits for the end of the job."
  [{:keys [db] :as shop}]
  (scope/shield
    (if-some [job (jobs/claim db)]
      (do (wake shop)
          (work shop job)
          0)
      (jobs/sleep-time db))))

(defn- run [{:keys [wake] :as shop}]
  (let [pause (try
                (work-next shop)
                (catch Exception e
                  (if (db/gone? e) 1000 (throw e))))]
    (channel/take wake {:timeout pause :else nil}) ; a stop ends the worker here
    (when-not (channel/closed? wake)
      (recur shop))))

(defn finish
  "Tells all workers to end after their jobs. A supervisor stops one after the other, and the last ones would go on claiming."
  [{:keys [wake]}]
  (channel/close wake))

(defn start-link
  "Starts the supervisor of the workers. One that has ended after `finish` is not started again."
  [{:keys [workers] :as shop}]
  (sup/start-link {:intensity 10
                   :period 10000
                   :children (for [n (range workers)]
                               {:id n :start [actor/spawn-link* run shop] :restart :transient :shutdown 12000})}))
