(ns magnetar.impl.ports
  "The operations on ports of every kind: channels of ours, ports of a program, channels of core.async."
  {:no-doc true}
  (:refer-clojure :exclude [take])
  (:require
   [magnetar.impl.refusals :as refusals]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions])
  (:import
   (clojure.lang IDeref)
   (magnetar.kernel.channel Callback Channel Handler Handler$Completion Port Ports Select Select$Chosen)))

(set! *warn-on-reflection* true)

;; The classes of misuse are core.async's here (impl.refusals); `magnetar.channel` has its own.

(defn pending?
  "True if `answer` says that the operation did not happen."
  [answer]
  (identical? answer Port/PENDING))

(defn take
  "Takes a value; waits until there is one; nil if closed."
  [x]
  (Ports/take x))

(defn put
  "Puts a value; waits while there is no room; false if closed."
  [x value]
  (Ports/put x value))

(defn- require-value [value]
  (when (nil? value)
    (throw (IllegalArgumentException. "Can't put nil on channel"))))

(defn check-put
  "Refuses what cannot be put, or put on."
  [x value]
  (require-value value)
  (Ports/writePort x))

(defn poll
  "Takes a value if there is one now; else an answer that is `pending?`."
  [x]
  (if (instance? Channel x)
    (.receiveNow ^Channel x)
    (Ports/take (Ports/readPort x) 0)))

(defn offer
  "Puts a value if that is possible now; else an answer that is `pending?`."
  [x value]
  (if (instance? Channel x)
    (.sendNow ^Channel x value)
    (do (require-value value)
        (Ports/put (Ports/writePort x) value 0))))

(defn close
  "Closes the port."
  [x]
  (.close (Ports/port x)))

(defn closed?
  "True if the port was closed."
  [x]
  (.isClosed (Ports/port x)))

(defn completion
  "`f` as the function that takes the result of an operation."
  ^Handler$Completion [f]
  (reify Handler$Completion
    (complete [_ result] (f result))))

(defn complete
  "Hands the result to what takes it."
  [^Handler$Completion target result]
  (.complete target result))

(defn commit
  "What takes the result of the operation of `handler`, which is committed by this; nil if it has happened elsewhere."
  [^Handler handler]
  (.lock handler)
  (try
    (when (.active handler) (.commit handler))
    (finally (.unlock handler))))

(defn take-later
  "Takes a value now, or queues `callback`: the value, or an answer that is `pending?`."
  [x ^Callback callback]
  (Ports/take (Ports/readPort x) callback))

(defn put-later
  "Puts a value now, or queues `callback`: true or false, or an answer that is `pending?`."
  [x value ^Callback callback]
  (require-value value)
  (Ports/put (Ports/writePort x) value callback))

;; ---- select

(defn- check-values [ports]
  (dotimes [i (count ports)]
    (let [port (nth ports i)]
      (when (vector? port)
        (when (< (count port) 2) (throw (refusals/no-put port)))
        (assert (some? (port 1)) "can't put nil on channel")))))

(defn- select ^Select [ports priority?]
  (assert (pos? (count ports)) "alts must have at least one channel operation")
  (check-values ports)
  (let [select (Select/over ^java.util.List ports)]
    (if priority? (.inOrder select) select)))

(defn- answer [ports ^Select$Chosen chosen]
  (let [clause (nth ports (.index chosen))]
    [(.value chosen) (if (vector? clause) (nth clause 0) clause)]))

(defn port?
  "True for ports of ours and of other libraries."
  [x]
  (Ports/isPort x))

(defn- as-clauses [ports]
  (cond
    (vector? ports) ports
    (seqable? ports) (vec ports)
    :else
    (throw (refusals/wrong-value "alts!" "a collection of ports" ports "Write it in a vector."))))

(defn alts
  "Waits for the first of several operations; see `magnetar.async/alts!`."
  [ports {:keys [priority] :as opts}]
  (transactions/refuse "alts!")
  (refusals/options opts)
  (let [ports (as-clauses ports)
        select (select ports priority)]
    (if (and opts (contains? opts :default))
      (if-some [chosen (.now select)]
        (answer ports chosen)
        [(:default opts) :default])
      (answer ports (.await select)))))

(defn alts-within
  "Like `alts` without a default, for so many nanoseconds; nil if nothing happened."
  [ports priority? ^long nanos]
  (transactions/refuse "select")
  (let [ports (as-clauses ports)]
    (some->> (.awaitWithin (select ports priority?) nanos) (answer ports))))

(defn box
  "A reference that holds `value`."
  [value]
  (reify IDeref
    (deref [_] value)))

(defn alts-later
  "Does one of the operations now and returns it boxed, or calls `f` with it later and returns nil."
  [f ports {:keys [priority] :as opts} on-caller?]
  (refusals/options opts)
  (let [ports (as-clauses ports)
        select (select ports priority)
        now (if (contains? opts :default)
              (.now select)
              (.whenChosen select (completion #(f (answer ports %))) on-caller?))]
    (cond
      now (box (answer ports now))
      (contains? opts :default) (box [(:default opts) :default]))))
