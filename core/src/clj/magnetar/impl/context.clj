(ns magnetar.impl.context
  "Context values of a fiber: a map from names to values. The fibers that it starts and the messages that it sends share the map.

  While a server handles a message, the values of its sender lie over the server's own. The map then says in its metadata what the server's own are, and
  whose they are: a process that is started meanwhile shares the map, and all of it is its own.

  What a fiber starts or sends takes its outgoing context along: the map, and the thread-locals of other libraries if `magnetar.scope.thread-locals` has
  them travel. Only Propagation looks into it. It is put in place for good on a thread that is new, else for a while."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Fiber Propagation)
   (magnetar.kernel.process LocalProcess)))

(set! *warn-on-reflection* true)

(defn- key-of [x]
  (or (::name (meta x))
      (throw (errors/illegal-argument :magnetar/not-a-context
                                      (str "with-context binds names made by defcontext; this is " (arguments/show x) ".")
                                      {:value x}))))

(def most
  "How many context values there may be at once. They travel with each message, so they are no place for data."
  64)

(defn outgoing
  "The context of what this fiber starts or sends."
  []
  (.outgoing (Fiber/current)))

(defn call-in
  "Calls f in this outgoing context, which may be nil."
  [context f]
  (let [fiber (Fiber/current)
        before (.enterContext fiber context)]
    (try
      (f)
      (finally (.leaveContext fiber before)))))

(defn restoring
  "Calls f, and restores the thread-locals that travel."
  [f]
  (let [fiber (Fiber/current)
        before (.keepContext fiber)]
    (try
      (f)
      (finally (.leaveContext fiber before)))))

(defmacro restored
  "Does body. If thread-locals travel, those that it changes are restored afterwards; else no closure is made of it."
  [& body]
  `(if (Propagation/isOn)
     (restoring (^:once fn* [] ~@body))
     (do ~@body)))

(defn- call-with-values
  "Calls f with these context values, a map. Thread-locals stay as they are."
  [values f]
  (let [fiber (Fiber/current)
        before (.context fiber)]
    (.setContext fiber values)
    (try
      (f)
      (finally (.setContext fiber before)))))

(defn of-library?
  "Is the entry of a context one that a trace or telemetry has made, and not the program?"
  [[sym _]]
  (contains? #{"magnetar.trace" "magnetar.telemetry"} (namespace sym)))

(defn- how-many
  "The number of the program's context values. It is exact where there may be too many."
  ^long [values]
  (let [all (count values)]
    (if (< (long most) all) (count (remove of-library? values)) all)))

(defn- checked [values]
  (let [n (how-many values)]
    (if (<= n (long most))
      values
      (throw (errors/illegal-argument :magnetar/too-many-contexts
                                      (str "There may be " most " context values at once; these would be " n ": bind one context to a map.")
                                      {:count n})))))

(defn with
  "Calls f with the context values in pairs, a map from context to value."
  [pairs f]
  (call-with-values (checked (into (or (.context (Fiber/current)) {}) (map (fn [[k v]] [(key-of k) v])) pairs)) f))

(defn without
  "Calls f with no context values, and without thread-locals that travel."
  [f]
  (call-in nil f))

;; ---- the context of a message

(defn- laid-over
  "The values of the second map over the first one's. If these are too many, only the second map."
  [own values]
  (let [both (into (or own {}) values)]
    (if (<= (how-many both) (long most)) both values)))

(defn- values-over [own context]
  (laid-over (Propagation/valuesOf own) (Propagation/valuesOf context)))

(defn over
  "The context in which the process handles a message of this context: the values of the message over its own."
  [^LocalProcess process own context]
  (let [locals (Propagation/over own context nil)
        about {::of (.pid process) ::own own ::sent (Propagation/withValues context nil)}]
    (Propagation/over own context (with-meta (values-over own context) (if locals (assoc about ::locals locals) about)))))

(defn- handling?
  "Is it the context in which this process handles a message?"
  [values]
  (when-some [of (::of (meta values))]
    (when-some [process (LocalProcess/current)]
      (identical? of (.pid process)))))

(defn own
  "The context of this fiber; of a server that handles a message, the server's own."
  []
  (let [values (.context (Fiber/current))]
    (if (handling? values) (::own (meta values)) (outgoing))))

(defn sent
  "The thread-locals that the message which this server handles was sent with, as `outgoing`, without the context values: these would lead from
  each message to the one before. Nil if it was sent without any, or if no message is handled."
  []
  (let [values (.context (Fiber/current))]
    (when (handling? values) (::sent (meta values)))))

;; A state machine handles an event that it postponed while it handles a later message.

(defn kept
  "The event, which remembers the context of the message that it came with."
  [event]
  (let [values (.context (Fiber/current))]
    (if (handling? values)
      (vary-meta event assoc ::context (Propagation/withValues (::locals (meta values)) values))
      event)))

(defn retried
  "The event, which remembers that it came without a context if it remembers none."
  [event]
  (if (and (handling? (.context (Fiber/current))) (not (contains? (meta event) ::context)))
    (vary-meta event assoc ::context (own))
    event))

(defn call-as
  "Calls f in the context that the event remembers, else in the current one."
  [event f]
  (if-some [[_ context] (find (meta event) ::context)]
    (call-in context f)
    (f)))

(defn carried
  "f, or a function that calls it with the context of this caller over the context of the fiber that calls it."
  [f]
  (if-some [context (outgoing)]
    (fn [& args]
      (let [own (outgoing)]
        (call-in (Propagation/over own context (values-over own context)) #(apply f args))))
    f))
