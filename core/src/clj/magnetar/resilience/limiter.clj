(ns magnetar.resilience.limiter
  "A rate limiter as a value, {:full-at instant}, and what a call that begins makes of it."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.time Duration)))

(set! *warn-on-reflection* true)

(defn- sleep-nanos [^long nanos]
  (scope/sleep (Duration/ofNanos nanos)))

;; The generic cell rate algorithm: one number, the instant at which the bucket is full again, is the whole state.

(defn- reserve
  "The state after a call has reserved its turn: {:full-at :wait}, or with :refused? if it would wait for too long."
  [{:keys [full-at]} {:keys [^long interval ^long burst ^long timeout ^long grain]} ^long at]
  (let [free-at (if full-at (max (- at grain) (long full-at)) at)
        wait (max 0 (- free-at at (* interval (dec burst))))]
    (if (< timeout wait)
      {:full-at full-at :wait wait :refused? true}
      {:full-at (+ free-at interval) :wait wait})))

(defn- give-back
  "The state without the turn of a call that was cancelled, unless a later call has reserved one."
  [reserved now {:keys [^long interval]}]
  (if (= reserved now)
    (update now :full-at #(- (long %) interval))
    now))

(defn- rate-limited [wait]
  (ex-info (str "The rate limiter refused the call: its turn would come in " (clock/millis wait) " ms.")
           {:magnetar/reason :magnetar/rate-limited :retry-after-ms (clock/millis wait)}))

(defn acquire
  "Waits until a call may begin; throws if that is too long."
  [limiter how]
  (let [{:keys [wait refused?] :as reserved} (swap! limiter reserve how (clock/now))]
    (when refused?
      (throw (rate-limited wait)))
    (try
      (sleep-nanos wait)
      (catch Throwable e
        (swap! limiter #(give-back reserved % how))
        (throw e)))))

(def ^:private timer-grain
  "A timer may be late by so many nanoseconds. Turns that are closer together are caught up with, or the rate could not be kept."
  2000000)

(defn limits
  "The options of a limiter, checked."
  [{:keys [rate per burst timeout] :or {per 1000 timeout :infinity}}]
  (let [interval (max 1 (quot (arguments/period :per per) (arguments/whole :rate rate)))
        burst (arguments/whole :burst (or burst 1))]
    (when (< (quot clock/infinite 4) (* (double interval) burst))
      (arguments/misuse :magnetar/bad-option
                        (str "A :burst of " burst " calls, one each " (clock/millis interval) " ms, is more than a limiter can count: make it smaller.")
                        {:burst burst}))
    {:interval interval
     :burst burst
     :timeout (arguments/nanos :timeout timeout)
     :grain (if (< interval (long timer-grain)) timer-grain 0)}))

(defn look
  "What a limiter shows of itself."
  [{:keys [full-at]} {:keys [^long interval ^long burst]}]
  (let [behind (if full-at (max 0 (- (long full-at) (clock/now))) 0)]
    {:available (max 0 (- burst (quot (+ behind (dec interval)) interval)))
     :wait-ms (clock/millis (max 0 (- behind (* interval (dec burst)))))}))
