(ns magnetar.otp.machines
  "State machines that the scenarios of OTP are made of."
  (:require
   [magnetar.actor :as actor :refer [self]]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.runtime]
   [magnetar.otp.servers :as servers :refer [tell tells]]
   [magnetar.sys :as sys]))

(set! *warn-on-reflection* true)

;; ---- machines that do what they are told

(defn- entered [old state]
  (tell [:enter old state])
  (if-some [f (actor/pget :on-enter)] (f state) :keep-state-and-data))

(defn handle-event
  "An event whose content is a function is what that returns, of the type, the state and the data; others are told."
  [type content state data]
  (cond
    (= :enter type) (entered content state)
    (fn? content) (content type state data)
    (= :get content) [:keep-state-and-data [:reply (second type) [state data]]]
    (= :which content) [:keep-state-and-data [:reply (second type) :handle-event]]
    :else (do (tell [type content]) :keep-state-and-data)))

(defn scripted
  "A callback module in the callback mode."
  [mode]
  {:name 'scripted-machine
   :callback-mode mode
   :init (fn [f] (f))
   :handle-event handle-event
   :terminate (fn [why state _] (tell [:terminate why state]))})

(def switch
  "A callback module with state functions, that counts how often it was pushed."
  {:name 'switch
   :callback-mode :state-functions
   :init (fn [n] [:ok :off n])
   :states {:off (fn [type content n]
                   (case content
                     :push [:next-state :on (inc n)]
                     :get [:keep-state-and-data [[:reply (second type) [:off n]]]]
                     :which [:keep-state-and-data [[:reply (second type) :state-function]]]
                     :pop [:keep-state-and-data [:pop-callback-module [:reply (second type) :popped]]]))
            :on (fn [type _ n]
                  [:keep-state-and-data [[:reply (second type) [:on n]]]])}})

(def ^:private plain :handle-event-function)

(def entering
  "The mode in which states are entered."
  [:handle-event-function :state-enter])

(defn- begin [mode start state on-enter]
  (let [me (self)]
    (second (start (scripted mode) (fn []
                                     (actor/pput :to me)
                                     (actor/pput :on-enter on-enter)
                                     [:ok state :data])))))

(defn machine
  "A machine in the state, linked to this process, which it tells what befalls it."
  ([] (machine :a))
  ([state] (machine state plain nil))
  ([state mode on-enter] (begin mode statem/start-link state on-enter)))

(defn lone
  "Like `machine`, without a link."
  ([] (lone :a plain nil))
  ([state mode on-enter] (begin mode statem/start state on-enter)))

;; ---- events

(defn cast-all
  "Casts these to the machine, which gets the first when it has all."
  [pid & contents]
  (sys/suspend pid)
  (run! #(statem/cast pid %) contents)
  (sys/resume pid))

(defn act
  "An event that stays in the state, with these actions."
  [& actions]
  (fn [_ _ _] [:keep-state-and-data actions]))

(defn go
  "An event that goes to the state, with these actions."
  [state & actions]
  (fn [_ _ data] [:next-state state data actions]))

(defn waiting-for
  "An event that is told as [state word], and postponed in all states but this one."
  [wanted word]
  (fn [_ state _]
    (tell [state word])
    [:keep-state-and-data (if (= wanted state) [] :postpone)]))

(defn telling
  "An event that is told as [state word], and goes to another state if one is given."
  ([word] (telling word nil))
  ([word next]
   (fn [_ state data]
     (tell [state word])
     [:next-state (or next state) data])))

(defn told
  "The next n messages."
  [n]
  (vec (repeatedly n tells)))

(defn told-until-end
  "The messages until one that says :end."
  []
  (loop [all []]
    (let [message (tells)]
      (if (or (= :late message) (= :end (peek message)))
        all
        (recur (conj all message))))))
