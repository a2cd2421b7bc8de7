(ns magnetar.gen-statem.refusals
  "Why a state machine ends whose callback returned what it may not: [reason what sentence]."
  {:no-doc true}
  (:require
   [magnetar.gen-statem.actions :as actions]
   [magnetar.gen-statem.behaviour :as statem]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest])
  (:import
   (magnetar.gen_statem.behaviour Mode)
   (magnetar.impl.otp.behaviour Behaviour)))

(set! *warn-on-reflection* true)

(def ^:private returns
  [:next-state :keep-state :keep-state-and-data :repeat-state :repeat-state-and-data :stop :stop-and-reply])

(def ^:private shapes
  (str "[:next-state s d], [:keep-state d], :keep-state-and-data, [:repeat-state d] or :repeat-state-and-data, each with actions behind, "
       "or :stop, [:stop why], [:stop why d] or [:stop-and-reply why replies]"))

(def ^:private action-shapes
  (str "[:reply from v], [:next-event type content], :postpone, [:state-timeout ms content], [:timeout ms content], [[:timeout name] ms content], "
       "with :cancel or :update for ms, :hibernate, [:change-callback-module m], [:push-callback-module m] and :pop-callback-module"))

(defn- label [^Behaviour behaviour]
  (.-label behaviour))

(defn- where [behaviour {:keys [state]} [type content]]
  (str (if (.-functions? (statem/mode behaviour)) "The state function " "handle-event in the state ")
       (codec/text state) " of " (label behaviour) ", called for "
       (if (and (vector? type) (= :call (nth type 0))) (str "the call " (codec/text content)) (codec/text [type content]))))

(defn- meant [x known]
  (when-some [near (suggest/closest (if (vector? x) (host/head x) x) known)]
    (if (= near (if (vector? x) (host/head x) x))
      (str " The parts of " near " are wrong.")
      (str " Is " near " meant?"))))

(defn bad-return
  "It returned what is no result."
  [behaviour now event value]
  [:bad-return-from-state-function (codec/plain value)
   (str (where behaviour now event) ", returned " (codec/text value) "." (meant value returns) " It has to return " shapes ".")])

(defn bad-enter-return
  "It wanted another state while it entered this one."
  [behaviour {:keys [state] :as now} value]
  [:bad-state-enter-return-from-state-function (codec/plain value)
   (str (where behaviour now [:enter state]) ", returned " (codec/text value)
        "; while a state is entered there is no way to another: use the action [:state-timeout 0 content], or change the state before.")])

(defn bad-action
  "It returned what is no action."
  [behaviour now event action entering?]
  [(if entering? :bad-state-enter-action-from-state-function :bad-action-from-state-function)
   (codec/plain action)
   (str (where behaviour now event) ", returned the action " (codec/text action)
        (if (and entering? (= action (first (actions/listed action))) (contains? #{:postpone :next-event} (or (host/head action) action)))
          "; an enter call is no event: it can neither be postponed nor insert events."
          (str "." (meant action actions/words) " The actions are " action-shapes ".")))])

(defn popped-too-often
  "It wanted to go back from the callback module that the machine was started with."
  [behaviour now event]
  [(if event :bad-action-from-state-function :bad-state-enter-action-from-state-function)
   :pop-callback-module
   (str (where behaviour now (or event [:enter (:state now)])) ", returned the action :pop-callback-module. There is "
        "no callback module under " (label behaviour) " to go back to: pop as often as you push.")])

(defn- no-function [behaviour state]
  (let [known (statem/states behaviour)
        near (suggest/closest state (filter keyword? known))]
    (str "The callback module " (label behaviour) " has no function for the state " (codec/text state) "; it has them for "
         (behaviour/names (take 30 known)) "." (when near (str " Is " near " meant?")))))

(defn unknown-state
  "It wanted a state that has no function."
  [behaviour now event state]
  [:bad-state-from-state-function (codec/plain state)
   (str (where behaviour now event) ", went to the state " (codec/text state) ". " (no-function behaviour state))])

(defn unknown-first-state
  "A machine is to begin in a state that has no function."
  [behaviour state]
  [:bad-state-from-init (codec/plain state) (no-function behaviour state)])

(defn bad-init
  "init returned what it may not."
  [behaviour value]
  [:bad-return-from-init (codec/plain value)
   (str "init of " (label behaviour) " returned " (codec/text value)
        "; it has to return [:ok state data], with actions behind, [:stop why], [:error why] or :ignore.")])
