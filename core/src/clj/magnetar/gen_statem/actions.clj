(ns magnetar.gen-statem.actions
  "What a state callback may ask for beside the next state: replies, postponing, timeouts, events."
  {:no-doc true}
  (:require
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; A timeout to start; its time is a duration, :cancel or :update.
(deftype Timeout [type time content])

;; What the actions of one transition ask for. :events are the inserted ones, the last one first; :modules are the changes of the callback
;; module, in order.
(defrecord Plan [postpone? timeouts events modules])

(def nothing
  "The plan without actions."
  (Plan. false [] nil nil))

;; A value that stands for an action and is not a valid one.
(deftype Bad [action])

(def words
  "The words that actions begin with."
  [:reply :next-event :state-timeout :timeout :postpone :hibernate :change-callback-module :push-callback-module :pop-callback-module])

(def ^:private bare
  #{:postpone :hibernate :infinity :pop-callback-module})

;; ---- timeouts

(defn- timeout-type [head]
  (when (or (identical? :timeout head) (identical? :state-timeout head)
            (and (vector? head) (= 2 (count head)) (identical? :timeout (nth head 0))))
    head))

(defn- long-timeout [type action]
  (let [time (nth action 1 nil)]
    (case (count action)
      2 (when (= :cancel time) (Timeout. type :cancel nil))
      3 (when (or (= :update time) (host/nanos time)) (Timeout. type time (nth action 2)))
      nil)))

(defn- timeout
  "The action as a timeout; nil if it is not one."
  ^Timeout [action]
  (cond
    (vector? action) (some-> (timeout-type (nth action 0 nil)) (long-timeout action))
    (host/nanos action) (Timeout. :timeout action action)))

;; ---- one action or a list

(defn- one? [x]
  (let [head (when (vector? x) (nth x 0 nil))]
    (cond
      (vector? x) (or (and (keyword? head) (not (bare head)))
                      (and (= 2 (count x)) (boolean? (nth x 1)))
                      (and (vector? head) (some? (timeout x))))
      :else (not (or (nil? x) (sequential? x))))))

(defn listed
  "The actions as a list: one may stand without."
  [actions]
  (if (one? actions) [actions] actions))

;; ---- what they ask for

(defn from?
  "Is it what a call is answered with? A process of Erlang may give any term where this library has a reference."
  [x]
  (and (vector? x) (= 2 (count x)) (instance? Pid (nth x 0)) (some? (nth x 1))))

(defn- event-type? [x]
  (or (contains? #{:cast :info :internal :timeout :state-timeout} x)
      (and (vector? x) (= 2 (count x))
           (or (= :timeout (nth x 0))
               (and (= :call (nth x 0)) (from? (nth x 1)))))))

(defn reply?
  "Is it an action that answers a call?"
  [action]
  (and (vector? action) (= 3 (count action)) (identical? :reply (nth action 0)) (from? (nth action 1))))

(defn- event [plan [_ type content :as action]]
  (if (and (= 3 (count action)) (event-type? type))
    (update plan :events conj [type content])
    (Bad. action)))

(defn- flag [plan action entering?]
  (let [[word on?] (if (vector? action) action [action true])]
    (cond
      (= :hibernate word) plan
      entering? (Bad. action)
      :else (assoc plan :postpone? on?))))

(defn- module [plan action]
  (if (= (count (if (vector? action) action [action])) (if (= :pop-callback-module action) 1 2))
    (update plan :modules (fnil conj []) (if (vector? action) action [action]))
    (Bad. action)))

(defn- flag? [action]
  (or (= :postpone action) (= :hibernate action)
      (and (vector? action) (= 2 (count action)) (#{:postpone :hibernate} (nth action 0)) (boolean? (nth action 1)))))

(defn- add
  "The plan with one more action."
  [plan action reply entering?]
  (let [word (if (vector? action) (nth action 0 nil) action)]
    (cond
      (reply? action) (do (reply action) plan)
      (flag? action) (flag plan action entering?)
      (and (identical? :next-event word) (not entering?)) (event plan action)
      (contains? #{:change-callback-module :push-callback-module :pop-callback-module} word) (module plan action)
      :else (if-some [timeout (timeout action)]
              (update plan :timeouts conj timeout)
              (Bad. action)))))

(defn plan
  "What the actions ask for, a Plan; or the first Bad one. (reply action) answers a call, at once."
  [actions reply entering?]
  (let [actions (listed actions)]
    (cond
      (nil? actions) nothing
      (sequential? actions) (reduce (fn [plan action]
                                      (let [plan (add plan action reply entering?)]
                                        (if (instance? Bad plan) (reduced plan) plan)))
                                    nothing actions)
      :else (Bad. actions))))
