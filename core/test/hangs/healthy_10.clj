;; Healthy: scopes that wait. A scope has forks that sleep for 10 ms, forks that wait for each other in one
;; direction, and a daemon. A race is won by the fastest fork. A call waits for a callback that comes after 5
;; ms. Work is offloaded to platform threads that sleep. A parallel map has 50 elements and 5 fibers. A long
;; scope has a fork that sleeps for an hour, with a deadline.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-10
  (:require
   [magnetar.async :as a]
   [magnetar.fold :as fold]
   [magnetar.scope :as scope :refer [with-scope fork]]))

(defn- fetch [id]
  (scope/sleep 10)
  {:id id})

(defn- beat [beats]
  (loop []
    (scope/sleep 3)
    (swap! beats inc)
    (recur)))

(defn- page [beats]
  (with-scope [s]
    (scope/daemon s beat beats)
    (let [user (fork s fetch :user)
          orders (fork s (fn [] (:id @user)))
          total (fork s (fn [] (scope/join orders)))]
      [@total (:id @(fork s fetch :shop))])))

(defn- fastest []
  (with-scope [s {:joiner scope/race}]
    (doseq [ms [4 40 4000]]
      (fork s (fn [] (scope/sleep ms) ms)))))

(defn- call-back []
  (scope/await-callback
    (fn [resolve _reject]
      (a/go
        (scope/sleep 5)
        (resolve :answer)))))

(defn- offloaded []
  (scope/offload (fn [] (Thread/sleep 5) :read)))

(defn- in-parallel []
  (fold/pmap fetch (range 50) {:parallelism 5}))

(defn- wait-for-hours [opened]
  (with-scope [s {:deadline 3600000}]
    (deliver opened s)
    (fork s scope/sleep 3600000)
    (fork s (fn [] (scope/sleep 3599000)))))

(defn- repeatedly-do [running done f & args]
  (while @running
    (apply f args)
    (swap! done inc)))

(defn start []
  (let [running (atom true)
        done (atom 0)
        beats (atom 0)
        opened (promise)
        fibers (vec (for [[f & args] [[page beats] [page beats] [fastest] [call-back]
                                 [offloaded] [in-parallel]]]
                      (a/go (apply repeatedly-do running done f args))))]
    (a/go
      (try
        (wait-for-hours opened)
        (catch clojure.lang.ExceptionInfo _ :stopped)))
    {:ready #(< 50 @done)
     :stop #(do
              (reset! running false)
              (run! a/<! fibers)
              (scope/cancel @opened :stopped))}))
