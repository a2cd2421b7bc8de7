;; Healthy: supervisors that restart children. Three servers of a supervisor crash every 30 ms, each at its
;; own time, and are restarted. Clients call them and get an error now and then. A :dynamic supervisor starts
;; a job every 5 ms, which ends by itself. An init takes 10 ms, while which-children waits. Two pollers never
;; end.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-6
  (:require
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]))

(def ^:private worker
  {:init (fn [n]
           (scope/sleep 10)
           (actor/send-after (+ 30 (* 7 n)) (self) :crash)
           [:ok n])
   :handle-call (fn [_ _client n] [:reply n n])
   :handle-info (fn [_crash n] [:stop :broken n])})

(def ^:private names [:healthy-worker-0 :healthy-worker-1 :healthy-worker-2])

(defn- app [up]
  (sup/start-link {:intensity 1000000
                   :period 1000
                   :children (vec (for [n (range 3)]
                                    {:id n :start [gs/start-link worker n {:name (names n)}]}))}
    {:name :healthy-workers})
  (sup/start-link {:strategy :dynamic} {:name :healthy-jobs})
  (deliver up true)
  (receive :stop nil))

(defn- ask [up running done]
  @up
  (while @running
    (try
      (gs/call (rand-nth names) :get {:timeout :infinity})
      (catch Exception _ (scope/sleep 1))) ; it has just crashed
    (swap! done inc)))

(defn- start-jobs [up running]
  @up
  (while @running
    (sup/start-child :healthy-jobs {:start [actor/spawn-link* scope/sleep 20] :restart :temporary})
    (scope/sleep 5)))

(defn- look [up running]
  @up
  (while @running
    (sup/which-children :healthy-workers)
    (scope/sleep 2)))

(defn start []
  (let [silent (report/add-hook :report (fn [_]))
        running (atom true)
        done (atom 0)
        up (promise)
        pid (actor/spawn app up)
        fibers [(a/go (ask up running done))
                (a/go (ask up running done))
                (a/go (start-jobs up running))
                (a/go (look up running))]]
    {:ready #(< 50 @done)
     :stop #(do
              (reset! running false)
              (run! a/<! fibers)
              (! pid :stop) ; its supervisors end with it
              (while (some actor/whereis [:healthy-workers :healthy-jobs]) (Thread/yield))
              (report/remove-hook :report silent))}))
