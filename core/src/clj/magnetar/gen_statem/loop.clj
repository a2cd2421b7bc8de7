(ns magnetar.gen-statem.loop
  "A state machine at work: takes an event, calls the callback of its state, goes through the transition that this returned."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-statem.actions :as actions]
   [magnetar.gen-statem.behaviour :as behaviour]
   [magnetar.gen-statem.refusals :as refusals]
   [magnetar.gen-statem.timers :as timers]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.context :as context]
   [magnetar.impl.otp.behaviour :as otp-behaviour]
   [magnetar.impl.otp.debug :as debug]
   [magnetar.impl.otp.host :as host :refer [guarded head]]
   [magnetar.impl.otp.reply :as reply]
   [magnetar.impl.runtime]
   [magnetar.impl.versions :as versions]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report])
  (:import
   (magnetar.gen_statem.actions Bad Plan)
   (magnetar.gen_statem.behaviour Mode)
   (magnetar.impl.otp.behaviour Behaviour)
   (magnetar.impl.otp.host Failed Kind Next Server)
   (magnetar.kernel.fiber Exit Fiber)))

(set! *warn-on-reflection* true)

;; What a machine is between two events. :modules are callback modules, the one in use first, those that it was pushed on behind; :on is the
;; callback of the state; :queue are events that come before any message, :postponed those that wait for another state, the last one first.
;; An event is [type content].
(defrecord Now [modules state on data queue postponed timers zero debug])

;; What a callback returned, if the machine goes on.
(deftype Result [state data actions repeat?])

(defn- module ^Behaviour [^Now now]
  (first (.-modules now)))

(defn- noted [^Now now ^Server server event]
  (if-some [debug (.-debug now)]
    (assoc now :debug (debug/note debug (.-who server) event))
    now))

;; ---- the end

(defn- parts
  "What is shown of a machine."
  [{:keys [state data queue postponed]}]
  {:state state :data data :queue (vec queue) :postponed (vec (reverse postponed))})

(defn- end
  "Ends the machine. `bare` is the reason that terminate is told."
  [server ^Now now reason bare event]
  (timers/cancel-all now)
  (let [last-reason (host/clean-up server (module now) reason bare (.-state now) (.-data now))]
    (when-not (report/silent? last-reason)
      (host/report-crash server (module now) last-reason (parts now) event (.-debug now)))
    (throw (Exit. last-reason))))

(defn- refused [server now event reason]
  (end server now reason reason event))

;; ---- what callbacks return

(defn- result
  "The value as a Result; nil if it is not one."
  [^Now now value]
  (let [state (.-state now)
        data (.-data now)]
    (if (vector? value)
      (let [size (count value)]
        (case (head value)
          :next-state (when (<= 3 size 4) (Result. (nth value 1) (nth value 2) (nth value 3 nil) false))
          :keep-state (when (<= 2 size 3) (Result. state (nth value 1) (nth value 2 nil) false))
          :keep-state-and-data (when (<= 1 size 2) (Result. state data (nth value 1 nil) false))
          :repeat-state (when (<= 2 size 3) (Result. state (nth value 1) (nth value 2 nil) true))
          :repeat-state-and-data (when (<= 1 size 2) (Result. state data (nth value 1 nil) true))
          nil))
      (case value
        :keep-state-and-data (Result. state data nil false)
        :repeat-state-and-data (Result. state data nil true)
        nil))))

(defn- answer
  "Sends the reply that the action is."
  [now server [_ from value]]
  (reply/reply from value)
  (noted now server [:out value (nth from 0)]))

(defn- replies
  "The replies that [:stop-and-reply ..] has; nil if they are none."
  [x]
  (let [all (actions/listed x)]
    (when (and (sequential? all) (every? actions/reply? all))
      all)))

(defn checked-replies
  "The replies as a list; misuse if they are not replies."
  [x]
  (or (replies x)
      (arguments/misuse :magnetar/bad-replies
                        (str "`reply` wants [:reply from value], or a list of these, where `from` came with [:call from]; this is "
                             (arguments/show x) ".")
                        {:value x})))

(defn- stop-and-reply [server now event [_ why x :as value]]
  (if-some [replies (replies x)]
    (let [now (reduce #(answer %1 server %2) now replies)]
      (end server (assoc now :data (nth value 3 (:data now))) why why event))
    (refused server now event (refusals/bad-return (module now) now event value))))

(defn- quit
  "Ends the machine after a callback that returned no Result."
  [server now event value]
  (let [size (long (if (vector? value) (count value) 0))
        word (if (vector? value) (head value) value)]
    (cond
      (instance? Failed value) (end server now (.-reason ^Failed value) (.-bare ^Failed value) event)
      (and (= :stop word) (<= size 3)) (let [why (if (< 1 size) (nth value 1) :normal)]
                                         (end server (if (= 3 size) (assoc now :data (nth value 2)) now) why why event))
      (and (= :stop-and-reply word) (<= 3 size 4)) (stop-and-reply server now event value)
      :else (refused server now event (refusals/bad-return (module now) now event value)))))

;; ---- transitions

(defn- source-of [^Behaviour behaviour]
  (.-source behaviour))

(defn- change-module [modules [word x]]
  (case word
    :change-callback-module (conj (rest modules) (behaviour/behaviour x))
    :push-callback-module (conj modules (behaviour/behaviour x))
    :pop-callback-module (if (next modules) (rest modules) (reduced ::too-often))))

(defn- changed-modules [server ^Now now event changes]
  (if changes
    (let [modules (guarded server (reduce change-module (.-modules now) changes))]
      (cond
        (instance? Failed modules) (quit server now event modules)
        (= ::too-often modules) (refused server now event (refusals/popped-too-often (module now) now event))
        :else
        (do (versions/serves-only (map source-of modules))
            modules)))
    (.-modules now)))

(defn- callback
  "The callback of the state, in the module that is in use. The machine ends if the module has no such callback."
  [server now event modules state]
  (or (behaviour/state-callback (first modules) state)
      (refused server now event (refusals/unknown-state (first modules) now event state))))

(defn- plan
  "The Plan of the actions, and the machine after their replies."
  [server now event actions entering?]
  (if (nil? actions)
    [actions/nothing now]
    (let [after (volatile! now)
          plan (actions/plan actions #(vswap! after answer server %) entering?)]
      (if (instance? Bad plan)
        (refused server @after event (refusals/bad-action (module now) now event (.-action ^Bad plan) entering?))
        [plan @after]))))

(defn- retried
  "The queue with the postponed events in front again."
  [queue postponed]
  (into (or queue ()) (map context/retried) postponed))

(defn- moved
  "The machine in its next state, before that is entered."
  [server ^Now now event ^Result result ^Plan plan]
  (let [state (.-state result)
        changed? (not= state (.-state now))
        modules (changed-modules server now event (.-modules plan))
        postponed (if (and event (.-postpone? plan)) (conj (.-postponed now) (context/kept event)) (.-postponed now))
        queue (if changed? (retried (.-queue now) postponed) (.-queue now))
        on (if (and (not changed?) (identical? modules (.-modules now))) (.-on now) (callback server now event modules state))]
    (cond-> (Now. modules state on (.-data result)
                  (if-some [events (.-events plan)] (into (or queue ()) events) queue)
                  (if changed? () postponed)
                  (.-timers now) (.-zero now) (.-debug now))
      changed? (timers/cancel :state-timeout))))

(defn- called
  "What the callback of the state returns; or that it Failed."
  [server ^Now now type content]
  (guarded server (context/restored ((.-on now) type content (.-data now)))))

(defn- enter
  "Calls the callback for having entered its state; starts the timeouts of the transition and its own."
  [server ^Now now event old timeouts]
  (let [value (called server now :enter old)
        ^Result result (result now value)]
    (cond
      (nil? result) (quit server now [:enter old] value)
      (not= (.-state now) (.-state result)) (refused server now [:enter old] (refusals/bad-enter-return (module now) now value))
      :else (let [[^Plan plan ^Now now] (plan server now [:enter old] (.-actions result) true)
                  ^Now now (moved server now nil result plan)
                  timeouts (into timeouts (.-timeouts plan))]
              (if (.-repeat? result)
                (recur server now event old timeouts)
                (timers/start-all now timeouts))))))

(defn- transition
  "The machine after the transition that the callback of the event wanted."
  [server ^Now now event ^Result result]
  (let [old (.-state now)
        [^Plan plan now] (plan server now event (.-actions result) false)
        after (moved server now event result plan)
        after (noted after server (if (.-postpone? plan) [:postpone event old] [:consume event old (.-state result)]))]
    (if (and (.-enter? (behaviour/mode (module after))) (or (.-repeat? result) (not= old (.-state result))))
      (enter server after event old (.-timeouts plan))
      (timers/start-all after (.-timeouts plan)))))

;; ---- events

(defn- step [server ^Now now [type content :as event]]
  (let [^Now now (if (.-timers now) (timers/cancel now :timeout) now)
        ^Now now (noted now server [:in event (.-state now)])
        value (called server now type content)]
    (if-some [result (result now value)]
      (transition server now event result)
      (quit server now event value))))

(defn- due
  "The machine with the event of a timeout of no time in front of its queue."
  [^Now now]
  (let [type (first (.-zero now))
        event [type (timers/content now type)]]
    (-> (timers/ended now type)
        (assoc :zero (subvec (.-zero now) 1))
        (assoc :queue (list event)))))

(defn- drain
  "Handles the events that come before the next message. Each is a point at which the machine may be told to exit, and lets others run: they may
  never end."
  [server ^Now now]
  (.enter (Fiber/current))
  (let [queue (.-queue now)]
    (cond
      (seq queue) (recur server (context/call-as (peek queue) #(step server (assoc now :queue (pop queue)) (peek queue))))
      (seq (.-zero now)) (recur server (due now))
      :else (Next. now (.-debug now) clock/infinite))))

(defn- event-of
  "The event that the message is. Another node may send what only begins as a request."
  [message]
  (let [word (head message)]
    (cond
      (and (identical? :magnetar/call word) (= 3 (count message)) (actions/from? (nth message 1))) [[:call (nth message 1)] (nth message 2)]
      (and (identical? :magnetar/cast word) (= 2 (count message))) [:cast (nth message 1)]
      :else [:info message])))

(defn- on-timer [server now [_ type :as message]]
  (if (timers/current? now message)
    (drain server (step server (timers/ended now type) [type (timers/content now type)]))
    (Next. now (:debug now) clock/infinite)))

(defn- process [server message ^Now now debug]
  (let [now (if (identical? debug (.-debug now)) now (assoc now :debug debug))]
    (if (and (identical? :magnetar/timeout (head message)) (= 3 (count message)))
      (on-timer server now message)
      (drain server (step server now (event-of message))))))

;; ---- sys

(defn- in-state
  "The machine in another state, without a transition."
  [now [state data]]
  (if-some [on (behaviour/state-callback (module now) state)]
    (assoc now :state state :on on :data data)
    (throw (ex-info (peek (refusals/unknown-first-state (module now) state)) {}))))

(defn- old-version
  "[version] of the module in use, where `old` is that, or a map from the namespaces of all modules to versions; nil if it is what is loaded."
  [behaviour old]
  (let [name (versions/home (source-of behaviour))]
    (cond
      (not (and (map? old) (contains? old name))) [old]
      (not= (old name) (versions/version name)) [(old name)])))

(defn- change-code [now old extra]
  (let [modules (apply list (map behaviour/reread (:modules now)))
        change (otp-behaviour/callback (first modules) :code-change)
        [old :as changed?] (old-version (first modules) old)
        value (if (and change changed?)
                (change old (:state now) (:data now) extra)
                [:ok (:state now) (:data now)])]
    (if (and (= :ok (head value)) (= 3 (count value)))
      (in-state (assoc now :modules modules) (rest value))
      (throw (ex-info (str "code-change returned " (codec/text value) "; it has to return [:ok state data].") {})))))

(defn- replaced [now f]
  (let [value (f [(:state now) (:data now)])]
    (if (and (vector? value) (= 2 (count value)))
      (in-state now value)
      (throw (ex-info (str "The function of replace-state returned " (codec/text value) "; it has to return [state data].") {})))))

(defn- debug-view [^Server server debug]
  {:who (.-who server)
   :parent (.-parent server)
   :state-of (juxt :state :data)
   :replaced replaced
   :change-code change-code
   :status (fn [now debug running]
             (host/status server (module now) (assoc (parts now) :timeouts (vec (keys (:timers now)))) debug running))
   :terminate (fn [now reason] (end server (assoc now :debug debug) reason reason nil))})

(def kind
  "The kind of server that gen-statem is."
  (reify Kind
    (process [_ server message now debug] (process server message now debug))
    (end [_ server reason now message debug] (end server (assoc now :debug debug) reason reason message))
    (view [_ server debug] (debug-view server debug))
    (idle [_ server now debug frame] (host/idle server now debug frame))))

;; ---- the beginning

(defn- fresh [behaviour state data debug]
  (Now. (list behaviour) state (behaviour/state-callback behaviour state) data () () nil [] debug))

(defn- serve
  "Enters the first state, does what the actions ask for, and serves."
  [server ^Now now actions]
  (let [[^Plan plan ^Now now] (plan server now [:internal :init] actions false)
        after (moved server now nil (Result. (.-state ^Now now) (.-data ^Now now) nil false) plan)
        after (if (.-enter? (behaviour/mode (module after)))
                (enter server after nil (.-state ^Now now) (.-timeouts plan))
                (timers/start-all after (.-timeouts plan)))]
    (host/serve server (drain server after))))

(defn- up [^Server server debug value fail]
  (let [behaviour (.-behaviour server)
        [word state data actions] (when (vector? value) value)]
    (cond
      (not (and (= :ok word) (<= 3 (count value) 4))) (fail (refusals/bad-init behaviour value))
      (nil? (behaviour/state-callback behaviour state)) (fail (refusals/unknown-first-state behaviour state))
      :else (do
              (proc-lib/init-ack [:ok (actor/self)])
              (serve server (fresh behaviour state data debug) actions)))))

(defn begin
  "The body of the process of a state machine: takes the name, calls init, serves."
  [behaviour argument options parent]
  (host/begin kind behaviour argument options parent up))

(defn enter-loop
  "Makes this process a state machine; does not return."
  [behaviour state data {:keys [name debug actions]} parent]
  (let [server (host/server kind behaviour name parent nil)
        now (fresh behaviour state data (debug/start-debug debug))]
    (if (:on now)
      (serve server now actions)
      (refused server now nil (refusals/unknown-first-state behaviour state)))))
