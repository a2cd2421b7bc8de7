(ns magnetar.gen-statem.machine
  "State machines that are declared as data: checks them, and makes a callback module of them."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-statem.actions :as actions]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest]
   [magnetar.proc-lib.report :as report]))

(set! *warn-on-reflection* true)

(def ^:private of-machine [:name :initial :data :states :on :unexpected :terminate :format-status])
(def ^:private of-state [:on :enter :after :postpone :final :label])
(def ^:private of-transition [:to :when :do :reply :actions :label])

;; ---- errors in a declaration

(defn- refuse [at what value known]
  (let [meant (suggest/closest value known)]
    (arguments/misuse :magnetar/bad-machine
                      (str "The machine is wrong at " (pr-str at) ": " what (when meant (str " Is " (pr-str meant) " meant?")))
                      {:at at :value value :meant meant})))

(defn- check-keys [at m known]
  (when-not (map? m)
    (refuse at (str "there has to be a map with " (behaviour/names known) "; this is " (arguments/show m) ".") nil nil))
  (doseq [k (keys m) :when (not (some #{k} known))]
    (refuse (conj at k) (str (pr-str k) " means nothing here; known are " (behaviour/names known) ".") k known)))

(defn- check-function [at f]
  (when-not (or (nil? f) (ifn? f))
    (refuse at (str "there has to be a function; this is " (arguments/show f) ".") nil nil)))

(defn- check-target [at states target]
  (when-not (contains? states target)
    (refuse at (str "there is no state " (arguments/show target) "; the states are " (behaviour/names (keys states)) ".") target (filter keyword? (keys states)))))

;; ---- the machine in its full form: each event has a vector of transitions

(defn- transition [at states x]
  (let [t (if (map? x) x {:to x})]
    (check-keys at t of-transition)
    (when (contains? t :to)
      (check-target (conj at :to) states (:to t)))
    (doseq [k [:when :do :reply :actions]]
      (check-function (conj at k) (k t)))
    t))

(defn- transitions [at states x]
  (let [all (if (vector? x) x [x])]
    (into [] (map-indexed (fn [i t] (transition (if (vector? x) (conj at i) at) states t))) all)))

(defn- events [at states on]
  (when-not (or (nil? on) (map? on))
    (refuse at (str "there has to be a map from events to transitions; this is " (arguments/show on) ".") nil nil))
  (into {} (for [[event x] on] [event (transitions (conj at event) states x)])))

(defn- after [at states x]
  (when x
    (when-not (and (vector? x) (= 2 (count x)) (host/nanos (nth x 0)))
      (refuse at (str "there has to be [ms transition]; this is " (arguments/show x) ".") nil nil))
    [(nth x 0) (transitions (conj at 1) states (nth x 1))]))

(defn- state [at states x]
  (check-keys at x of-state)
  (check-function (conj at :enter) (:enter x))
  (when-not (or (nil? (:postpone x)) (set? (:postpone x)))
    (refuse (conj at :postpone) (str "there has to be a set of events; this is " (arguments/show (:postpone x)) ".") nil nil))
  (when-some [both (some #(when (contains? (:postpone x) (key %)) %) (:on x))]
    (refuse (conj at :postpone) (str (arguments/show (key both)) " has a transition as well, which would never be taken: leave one of them out.") nil nil))
  (assoc x :on (events (conj at :on) states (:on x)) :after (after (conj at :after) states (:after x))))

(defn full
  "The machine, checked, in its full form."
  [{:keys [states initial on] :as machine}]
  (check-keys [] machine of-machine)
  (when-not (and (map? states) (seq states))
    (refuse [:states] (str "there have to be states, as a map; this is " (arguments/show states) ".") nil nil))
  (when-not (contains? machine :initial)
    (refuse [:initial] "there has to be the first state." nil nil))
  (check-target [:initial] states initial)
  (doseq [k [:unexpected :terminate :format-status]]
    (check-function [k] (k machine)))
  (assoc machine
         :on (events [:on] states on)
         :states (into {} (for [[name x] states] [name (state [:states name] states x)]))))

;; ---- at work

(defn- event-name [content]
  (if (vector? content) (nth content 0 nil) content))

(defn- call? [type]
  (and (vector? type) (= :call (nth type 0))))

(defn- chosen
  "The first of the transitions whose condition holds."
  [transitions data content]
  (some (fn [{condition :when :as t}]
          (when (or (nil? condition) (condition data content)) t))
        transitions))

(defn- replies [{:keys [reply]} type data content]
  (when (call? type)
    [[:reply (nth type 1) (if reply (reply data content) :ok)]]))

(defn- go [{:keys [actions] :as t} type content state data]
  (let [data (if-some [f (:do t)] (f data content) data)]
    [:next-state (:to t state) data
     (into (vec (replies t type data content)) (when actions (actions/listed (actions data content))))]))

(defn- no-transition [{:keys [unexpected]} type content state data]
  (cond
    unexpected (unexpected type content state data)
    (call? type) [:keep-state-and-data [:reply (nth type 1) [:error [:unexpected-event content :in state]]]]
    :else (do
            (report/ignored content {:event :unexpected-event :pid (actor/self)
                                     :type (codec/plain type) :content (codec/plain content) :state (codec/plain state)})
            :keep-state-and-data)))

(defn- enter [{:keys [states]} state data]
  (let [{:keys [enter after final]} (get states state)
        data (if enter (enter data) data)]
    (if final
      [:stop :normal data]
      [:keep-state data (when after [:state-timeout (nth after 0) ::after])])))

(defn- handle-event [{:keys [states on] :as machine} type content state data]
  (let [{:keys [after postpone] :as here} (get states state)
        event (event-name content)]
    (cond
      (= :enter type) (enter machine state data)
      (and (= :state-timeout type) (= ::after content)) (if-some [t (chosen (nth after 1) data content)]
                                                          (go t type content state data)
                                                          :keep-state-and-data)
      (contains? postpone event) [:keep-state-and-data :postpone]
      :else (if-some [t (or (chosen (get-in here [:on event]) data content) (chosen (get on event) data content))]
              (go t type content state data)
              (no-transition machine type content state data)))))

(defn- first-data [{:keys [data] :as machine} argument]
  (cond
    (or (fn? data) (var? data)) (data argument)
    (contains? machine :data) data
    :else argument))

(defn behaviour
  "The callback module of a machine in its full form."
  [{:keys [name initial terminate format-status] :as machine}]
  (cond-> {:name (or name "(a machine)")
           :callback-mode [:handle-event-function :state-enter]
           :init (fn [argument] [:ok initial (first-data machine argument)])
           :handle-event (fn [type content state data] (handle-event machine type content state data))
           ::machine machine}
    terminate (assoc :terminate terminate)
    format-status (assoc :format-status format-status)))

(defn of
  "The machine in its full form, of a declaration or of the callback module that was made of one."
  [x]
  (or (::machine x) (full x)))
