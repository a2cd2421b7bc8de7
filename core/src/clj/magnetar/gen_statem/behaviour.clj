(ns magnetar.gen-statem.behaviour
  "What a state machine does: its callbacks, its callback mode, and the functions of its states."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest])
  (:import
   (clojure.lang Namespace)
   (magnetar.impl.otp.behaviour Behaviour)))

(set! *warn-on-reflection* true)

(def ^:private of-gen-statem
  {:kind "a gen-statem"
   :required [:init :callback-mode]
   :optional [:handle-event :states :terminate :code-change :format-status]
   :arguments '{:init [argument], :handle-event [type content state data], :terminate [reason state data], :code-change [old state data extra]
                :format-status [status]}
   :of-states '[type content data]})

(def ^:private callbacks
  (into #{} (mapcat of-gen-statem) [:required :optional]))

(def ^:private modes
  [:state-functions :handle-event-function :state-enter])

;; The callback mode, as read when the callback module was.
(deftype Mode [functions? enter? handle-event])

(defn mode
  "The callback mode of a callback module."
  ^Mode [^Behaviour behaviour]
  (.-details behaviour))

(defn- value-of [x]
  (if (var? x) @x x))

(defn- bad-mode [label x]
  (let [meant (some #(suggest/closest % modes) (remove (set modes) (if (sequential? x) x [x])))]
    (arguments/misuse :magnetar/bad-callback-mode
                      (str "The callback-mode of " label " is :state-functions or :handle-event-function, or a vector of one of these and "
                           ":state-enter; this is " (arguments/show x) "." (when meant (str " Is " meant " meant?")))
                      {:callback-module label :callback-mode x :meant meant})))

(defn- parse-mode [label x]
  (let [words (if (sequential? x) x [x])
        [kind & more] (remove #{:state-enter} words)]
    (when-not (and (#{:state-functions :handle-event-function} kind) (empty? more))
      (bad-mode label x))
    [(= :state-functions kind) (boolean (some #{:state-enter} words))]))

(defn- check-states [label source]
  (let [states (value-of (behaviour/lookup source :states))]
    (when-not (and (map? states) (every? ifn? (vals states)))
      (arguments/misuse :magnetar/bad-states
                        (str "The :states of the callback module " label " are a map from states to their functions, as in {:off (fn [type content data] ..)}; "
                             "this is " (arguments/show states) ".")
                        {:callback-module label :states states}))))

(defn- read-mode [label source]
  (let [[functions? enter?] (parse-mode label (value-of (behaviour/lookup source :callback-mode)))]
    (cond
      (and (not functions?) (not (ifn? (behaviour/lookup source :handle-event))))
      (behaviour/missing of-gen-statem label source :handle-event)

      (and functions? (not (instance? Namespace source)))
      (check-states label source))
    (Mode. functions? enter? (behaviour/hot source :handle-event))))

(defn- check-no-declaration [x]
  (when (and (map? x) (:initial x) (not (:init x)))
    (arguments/misuse :magnetar/not-a-callback-module
                      (str "This is a state machine declared as data: " (arguments/show x) "; a callback module is what (statem/machine ..) makes of it.")
                      {:callback-module x})))

(defn behaviour
  "The callback module of a state machine, checked."
  ^Behaviour [x]
  (check-no-declaration x)
  (if (instance? Behaviour x) x (behaviour/of-kind of-gen-statem x read-mode)))

(defn reread
  "The callback module, with the callback mode that it has by now."
  ^Behaviour [^Behaviour behaviour]
  (Behaviour. (.-label behaviour) (.-source behaviour) nil nil (read-mode (.-label behaviour) (.-source behaviour)) (.-kind behaviour)))

;; ---- states

(defn- word? [state]
  (and (or (keyword? state) (symbol? state)) (nil? (namespace state))))

(defn- from-namespace [ns state]
  (when (and (word? state) (not (callbacks (keyword state))))
    (behaviour/lookup ns state)))

(defn- from-var [v state]
  (when (get (:states @v) state)
    (fn [type content data]
      ((get (:states @v) state) type content data))))

(defn state-callback
  "The function (f type content data) of the state; nil if it has none."
  [^Behaviour behaviour state]
  (let [source (.-source behaviour)
        mode (mode behaviour)
        handle (.-handle-event mode)]
    (cond
      (not (.-functions? mode)) (fn [type content data] (handle type content state data))
      (map? source) (get (:states source) state)
      (var? source) (from-var source state)
      :else (from-namespace source state))))

(defn states
  "The states that the callback module has functions for."
  [^Behaviour behaviour]
  (let [source (.-source behaviour)]
    (if (instance? Namespace source)
      (sort (remove callbacks (map keyword (keys (ns-publics source)))))
      (keys (:states (value-of source))))))
