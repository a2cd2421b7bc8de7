(ns magnetar.resilience.breaker
  "A circuit breaker that is a server: shared by its name, supervised, and awake while no call comes.

  It has the states and rules of `magnetar.impl.breaker`. A process adds four things. The breaker is half-open at its time, and not at
  the next call. A probe may do the trials, so that no call of the program has to. Subscribers are told of changes. The trial of a caller that
  has died is given to another. A call runs on the fiber of its caller."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [!]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.breaker :as machine]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope])
  (:import
   (java.time Duration)))

(set! *warn-on-reflection* true)

;; ---- the server: {:who :how :probe :breaker :trials {monitor epoch} :subscribers {monitor pid}}

(defn- start-probe [{:keys [probe breaker] :as state}]
  (let [[_ ref] (actor/spawn-opt probe {:monitor true :bindings :none})]
    (assoc state :probing [ref (:epoch breaker)])))

(defn- entered
  "What the server does on its way into a state."
  [{:keys [breaker how probe] :as state} after]
  (case after
    :open (do
            (when (< (long (:delay how)) clock/infinite)
              (actor/send-after (Duration/ofNanos (:delay how)) (actor/self) [::delay-over (:epoch breaker)]))
            state)
    :half-open (if probe (start-probe state) state)
    :closed state))

(defn- move
  "The state with the breaker after f; those who want to know are told of a change."
  [{:keys [who breaker subscribers] :as state} f]
  (let [before (:state breaker)
        {after :state :as changed} (f breaker)
        state (assoc state :breaker changed)]
    (if (= before after)
      state
      (do
        (run! #(! % [:breaker who before after]) (vals subscribers))
        (entered state after)))))

(defn- record [{:keys [how] :as state} epoch good?]
  (move state #(machine/record % how epoch good? (clock/now))))

(defn- on-trial
  "The state once a process is on trial: if it dies, another one may be."
  [{:keys [breaker] :as state} pid]
  (if (= :half-open (:state breaker))
    (assoc-in state [:trials (actor/monitor pid)] [pid (:epoch breaker)])
    state))

(defn- admit [{:keys [how probe breaker] :as state} pid]
  (if (or (= :open (:state breaker)) (and probe (= :half-open (:state breaker))))
    [:reply [:refused (machine/refusal breaker how (clock/now))] state]
    (let [{:keys [breaker] :as state} (move state #(machine/admit % how (clock/now)))]
      (if (:pass? breaker)
        [:reply [:pass (:epoch breaker) (:fail-on how)] (on-trial state pid)]
        [:reply [:refused (machine/refusal breaker how (clock/now))] state]))))

(defn- end-trial [{:keys [trials] :as state} pid]
  (if-some [ref (some (fn [[ref [who]]] (when (= pid who) ref)) trials)]
    (do
      (actor/demonitor ref {:flush true})
      (update state :trials dissoc ref))
    state))

(defn- handle-call [request [pid] state]
  (case (when (vector? request) (first request))
    :admit (admit state pid)
    :subscribe [:reply :ok (assoc-in state [:subscribers (actor/monitor pid)] pid)]
    :status [:reply (machine/look (:breaker state)) state]
    [:reply [:error :unknown-call] state]))

(defn- handle-cast [request state]
  (let [[word pid epoch good?] (when (vector? request) request)]
    [:noreply (if (= :record word)
                (record (end-trial state pid) epoch good?)
                state)]))

(defn- probed
  "The state once the probe has ended. If that did not decide it, since more than one has to succeed, the next one begins: no call may."
  [{[_ epoch] :probing :as state} good?]
  (let [{:keys [breaker] :as state} (-> (update-in state [:breaker :trials] inc)
                                        (dissoc :probing)
                                        (record epoch good?))]
    (if (= epoch (:epoch breaker)) (start-probe state) state)))

(defn- down [{:keys [trials probing] :as state} ref why]
  (let [[_ epoch] (trials ref)]
    (cond
      epoch (record (update state :trials dissoc ref) epoch nil)
      (= ref (first probing)) (probed state (= :normal why))
      :else (update state :subscribers dissoc ref))))

(defn- handle-info [message {:keys [breaker] :as state}]
  (let [[word x _ _ why] (when (vector? message) message)]
    [:noreply (cond
                (= :DOWN word) (down state x why)
                (= [::delay-over (:epoch breaker)] message) (move state #(machine/half-open % (clock/now)))
                :else state)]))

(def ^:private behaviour
  {:name 'magnetar.resilience/circuit-breaker
   :init (fn [state] [:ok (assoc state :who (or (:who state) (actor/self)) :breaker machine/closed :trials {} :subscribers {})])
   :handle-call handle-call
   :handle-cast handle-cast
   :handle-info handle-info})

;; ---- start

(defn- start-with [operation start {:keys [name probe] :as options}]
  (arguments/options operation [:name :failure-threshold :success-threshold :delay :fail-on :probe] options)
  (let [how (machine/options options)]
    (start behaviour
           {:who name :how how :probe (arguments/option-function :probe probe "ping")}
           {:name name :spawn-opt {:bindings :none}})))

(defn start-link
  "See `magnetar.resilience/start-breaker-link`."
  [options]
  (start-with "start-breaker-link" gs/start-link options))

(defn start
  "See `magnetar.resilience/start-breaker`."
  [options]
  (start-with "start-breaker" gs/start options))

;; ---- use

(defn- ask [breaker request]
  (gs/call breaker request {:timeout :infinity}))

(defn- tell [breaker epoch good?]
  (scope/shield (gs/cast breaker [:record (actor/self) epoch good?])))

(defn- guarded [breaker f]
  (let [[word x fail-on] (ask breaker [:admit])]
    (when (= :refused word)
      (throw x))
    (let [{:keys [value error]} (try {:value (f)} (catch Throwable e {:error e}))]
      (tell breaker x (machine/good? fail-on error))
      (if error (throw error) value))))

(defn run
  "Calls f on this fiber if the breaker lets it pass, and returns its value; else throws an ExceptionInfo of :magnetar/circuit-open."
  [breaker f]
  (proc-lib/in-process #(guarded breaker f)))

;; ---- look

(defn status
  "What the breaker shows: {:state :calls :failures :trials}."
  [breaker]
  (ask breaker [:status]))

(defn subscribe
  "See `magnetar.resilience/subscribe`."
  [breaker]
  (actor/self) ; fails outside of processes, which get no messages
  (ask breaker [:subscribe]))
