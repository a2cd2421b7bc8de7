(ns magnetar.impl.context
  "Context values of a fiber: a map from names to values. The fibers that it starts and the messages that it sends share the map.

  While a server handles a message, the values of its sender lie over the server's own. The map then says in its metadata what the server's own are, and
  whose they are: a process that is started meanwhile shares the map, and all of it is its own."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Fiber)
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

(defn call-in
  "Calls f in this context, a map or nil."
  [context f]
  (let [fiber (Fiber/current)
        before (.context fiber)]
    (.setContext fiber context)
    (try
      (f)
      (finally (.setContext fiber before)))))

(defn- checked [context]
  (if (<= (count context) (long most))
    context
    (throw (errors/illegal-argument :magnetar/too-many-contexts
                                    (str "There may be " most " context values at once; these would be " (count context) ": bind one context to a map.")
                                    {:count (count context)}))))

(defn with
  "Calls f with the context values in pairs, a map from context to value."
  [pairs f]
  (call-in (checked (into (or (.context (Fiber/current)) {}) (map (fn [[k v]] [(key-of k) v])) pairs)) f))

(defn without
  "Calls f with no context values."
  [f]
  (call-in nil f))

;; ---- the context of a message

(defn- laid-over
  "The values of the second context over the first one's. If these are too many, only the second context."
  [own context]
  (let [both (into (or own {}) context)]
    (if (<= (count both) (long most)) both context)))

(defn over
  "The context in which the process handles a message of this context: the values of the message over its own."
  [^LocalProcess process own context]
  (with-meta (laid-over own context) {::of (.pid process) ::own own}))

(defn- handling?
  "Is it the context in which this process handles a message?"
  [context]
  (when-some [of (::of (meta context))]
    (when-some [process (LocalProcess/current)]
      (identical? of (.pid process)))))

(defn own
  "The context of this fiber; of a server that handles a message, the server's own."
  []
  (let [context (.context (Fiber/current))]
    (if (handling? context) (::own (meta context)) context)))

;; A state machine handles an event that it postponed while it handles a later message.

(defn kept
  "The event, which remembers the context of the message that it came with."
  [event]
  (let [context (.context (Fiber/current))]
    (if (handling? context) (vary-meta event assoc ::context context) event)))

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
  "f, or a function that calls it with the context values of this caller over the values of the fiber that calls it."
  [f]
  (if-some [context (.context (Fiber/current))]
    (fn [& args]
      (call-in (laid-over (.context (Fiber/current)) context) #(apply f args)))
    f))
