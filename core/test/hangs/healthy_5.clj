;; Healthy: waits that time ends. A process gets a message every 20 ms. An interval calls a function, another
;; one does so after the call before. A process waits for a message that never comes, with a limit, again and
;; again. A fiber waits in `alts!` for a channel on which nothing is put, and for a time-out. Keystrokes are
;; debounced, samples throttled. A timer fires in an hour.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-5
  (:require
   [magnetar.actor :as actor :refer [after receive self]]
   [magnetar.async :as a]
   [magnetar.resilience :as r]
   [magnetar.scope :as scope]
   [magnetar.timer :as timer]))

(defn- count-ticks [done]
  (receive
    :tick (do
            (swap! done inc)
            (recur done))))

(defn- tick [done]
  (timer/send-interval 20 (self) :tick)
  (timer/apply-interval 20 swap! done inc)
  (timer/apply-repeatedly 20 scope/sleep 5)
  (count-ticks done))

(defn- poll-mailbox [done]
  (receive
    :never nil
    (after 10 (swap! done inc)
              (recur done))))

(defn- wait-for-alarm [alarm done]
  (loop []
    (let [[_ port] (a/alts! [alarm (a/timeout 15)])]
      (when-not (= port alarm)
        (swap! done inc)
        (recur)))))

(defn- feed [ch pause]
  (loop [n 0]
    (scope/sleep pause)
    (when (a/>! ch n)
      (recur (inc n)))))

(defn- take-all [ch done]
  (loop []
    (when (a/<! ch)
      (swap! done inc)
      (recur))))

(defn start []
  (let [done (atom 0)
        alarm (a/chan)
        keys-typed (a/chan)
        samples (a/chan)
        searches (r/debounce keys-typed 5)
        measured (r/throttle samples {:rate 100})
        pids [(actor/spawn tick done) (actor/spawn poll-mailbox done)]
        in-an-hour (actor/send-after 3600000 (first pids) :tick)]
    (a/go (wait-for-alarm alarm done))
    (a/go (feed keys-typed 12))
    (a/go (feed samples 1))
    (a/go (take-all searches done))
    (a/go (take-all measured done))
    {:ready #(< 50 @done)
     :stop #(do
              (actor/cancel-timer in-an-hour)
              (doseq [pid pids] (actor/exit pid :kill))
              (run! a/close! [alarm keys-typed samples]))}))
