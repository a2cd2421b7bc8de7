(ns magnetar.impl.context
  "Context values of a fiber: a map from names to values. The fibers that it starts and the messages that it sends share the map.

  While a server handles a message, the values of its sender lie over the server's own; if both are too many, only the sender's are there. A process
  that is started meanwhile inherits that map.

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
  (cond
    (empty? values) own
    (empty? own) values
    :else (let [both (into own values)]
            (if (<= (how-many both) (long most)) both values))))

(defn- values-over [own context]
  (laid-over (Propagation/valuesOf own) (Propagation/valuesOf context)))

(defn- over
  "The context `lower` with the values and thread-locals of `upper` over its own."
  [lower upper]
  (Propagation/over lower upper (values-over lower upper)))

;; ---- while a process handles a message

;; The context of the process itself, and the one that the message was sent in. They are kept in the process and not in its map of context values, since
;; what it starts meanwhile inherits the map.
(deftype Contexts [own sent])

(defn- here
  "The Contexts of the message that this process handles, or nil."
  ^Contexts []
  (when-some [process (LocalProcess/current)]
    (.contexts process)))

(defn own
  "The context of this fiber; of a process that handles a message, the process's own."
  []
  (if-some [contexts (here)]
    (.-own contexts)
    (outgoing)))

(defn sent
  "The context, as `outgoing`, that the message which this process handles was sent in. Nil if it was sent in none, or if no message is handled."
  []
  (when-some [contexts (here)]
    (.-sent contexts)))

(defn handle
  "Calls f, in which this process handles a message that was sent in this context: the values of that lie over the process's own."
  [^LocalProcess process context f]
  (let [before (.contexts process)
        own (own)]
    (.setContexts process (Contexts. own context))
    (try
      (call-in (over own context) f)
      (finally (.setContexts process before)))))

;; A state machine handles an event that it postponed while it handles a later message.

(defn kept
  "The event, which remembers the context of the message that it came with."
  [event]
  (if-some [context (sent)]
    (vary-meta event assoc ::sent context)
    event))

(defn retried
  "The event, which remembers that it came without a context if it remembers none."
  [event]
  (if (and (here) (not (contains? (meta event) ::sent)))
    (vary-meta event assoc ::sent nil)
    event))

(defn call-as
  "Calls f as for the message that the event remembers, else in the current context."
  [event f]
  (if-some [[_ context] (find (meta event) ::sent)]
    (handle (LocalProcess/current) context f)
    (f)))

(defn carried
  "f, or a function that calls it with the context of this caller over the context of the fiber that calls it."
  [f]
  (if-some [context (outgoing)]
    (fn [& args]
      (let [own (outgoing)]
        (call-in (over own context) #(apply f args))))
    f))
