(ns magnetar.gen-statem.timers
  "The timeouts of a state machine: :timers, from type to Timer, and :zero, the types whose time is over and whose event is due, in order.

  A timer sends [:magnetar/timeout type token]; a message with another token than the timer has now is of one that was stopped."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.runtime])
  (:import
   (magnetar.gen_statem.actions Timeout)))

(set! *warn-on-reflection* true)

(deftype Timer [token ref content])

(defn cancel
  "Stops the timeout of the type, if there is one."
  [now type]
  (if-some [^Timer timer (get (:timers now) type)]
    (let [now (update now :timers dissoc type)]
      (if-some [ref (.-ref timer)]
        (do (actor/cancel-timer ref) now)
        (update now :zero #(filterv (fn [other] (not= type other)) %))))
    now))

(defn- put [now type timer]
  (assoc now :timers (assoc (:timers now) type timer)))

(defn- due-at-once [now type content]
  (-> (put now type (Timer. nil nil content))
      (assoc :zero (conj (or (:zero now) []) type))))

(defn- start-timer [now type time content]
  (let [token (Object.)]
    (put now type (Timer. token (actor/send-after time (actor/self) [:magnetar/timeout type token]) content))))

(defn- change [now type content]
  (if-some [^Timer timer (get (:timers now) type)]
    (put now type (Timer. (.-token timer) (.-ref timer) content))
    (due-at-once now type content)))

(defn- start
  "Does what the timeout says: starts one, which takes the place of another of its type, stops it, or changes its content."
  [now ^Timeout timeout]
  (let [type (.-type timeout)
        time (.-time timeout)]
    (cond
      (= :cancel time) (cancel now type)
      (= :update time) (change now type (.-content timeout))
      :else (let [now (cancel now type)
                  nanos (long (host/nanos time))]
              (cond
                (zero? nanos) (due-at-once now type (.-content timeout))
                (= clock/infinite nanos) now
                :else (start-timer now type time (.-content timeout)))))))

(defn- last-of-each
  "Of several timeouts of one type the last."
  [timeouts]
  (let [types (mapv #(.-type ^Timeout %) timeouts)]
    (keep-indexed (fn [i timeout]
                    (when-not (some #{(types i)} (subvec types (inc (long i)))) timeout))
                  timeouts)))

(defn start-all
  "Carries out the timeouts of one transition. Of each type only the last timeout counts. As in OTP, an :update changes a timeout that ran
  before."
  [now timeouts]
  (reduce start now (if (next timeouts) (last-of-each timeouts) timeouts)))

(defn content
  "What the event of the timeout has to say."
  [now type]
  (.-content ^Timer (get (:timers now) type)))

(defn ended
  "Without the timeout, which has fired."
  [now type]
  (update now :timers dissoc type))

(defn current?
  "Is this the message of a timer that has not been stopped?"
  [now [_ type token]]
  (when-some [^Timer timer (get (:timers now) type)]
    (identical? token (.-token timer))))

(defn cancel-all
  "Stops all, since the machine ends."
  [now]
  (doseq [^Timer timer (vals (:timers now)) :when (.-ref timer)]
    (actor/cancel-timer (.-ref timer))))
