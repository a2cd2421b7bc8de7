(ns magnetar.scope.thread-locals
  "Thread-locals of other libraries that travel with the context values.

  OpenTelemetry's current Context and the MDC of a logger are thread-locals. Each fiber and server has a
  thread of its own, so they are lost at each start and with each message. They can travel as the context
  values of `magnetar.scope.context` do. The program has to turn that on.

  propagate      turns it on, and tells which thread-locals travel
  propagated     tells which travel now
  stop           turns it off

  Each needs an accessor of `io.micrometer:context-propagation`. Magnetar does not depend on that library: add
  it to your project, and register the accessors in its ContextRegistry.

  Require it as `[magnetar.scope.thread-locals :as thread-locals]`."
  {:added "0.2"}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.propagation :as propagation]
   [magnetar.impl.runtime])
  (:import
   (java.lang.invoke MethodHandle MethodHandleProxies MethodHandles MethodType)
   (java.util.function Consumer Supplier)
   (magnetar.kernel.fiber Propagation$Accessor)))

(set! *warn-on-reflection* true)

;; The library is called through method handles: compiled against it, this namespace could not be loaded without it.

(defn- library-class ^Class [named]
  (errors/library-class "propagate" 'io.micrometer/context-propagation "1.1.3" named))

(defn- registered
  "The accessors of the ContextRegistry that the JVM has."
  []
  (let [registry (library-class "io.micrometer.context.ContextRegistry")
        instance (.invoke (.getMethod registry "getInstance" (make-array Class 0)) nil (object-array 0))]
    (vec (.invoke (.getMethod registry "getThreadLocalAccessors" (make-array Class 0)) instance (object-array 0)))))

(defn- calling
  "A function of the JDK's interface that calls the method of the accessor."
  [^Class interface accessor ^String method ^Class returned & parameters]
  (let [of (library-class "io.micrometer.context.ThreadLocalAccessor")
        type (MethodType/methodType returned ^"[Ljava.lang.Class;" (into-array Class parameters))
        handle (.findVirtual (MethodHandles/publicLookup) of method type)]
    (MethodHandleProxies/asInterfaceInstance interface (.bindTo ^MethodHandle handle accessor))))

(defn- key-of [accessor]
  (let [^Supplier key (calling Supplier accessor "key" Object)]
    (.get key)))

(defn- access ^Propagation$Accessor [accessor]
  (Propagation$Accessor. (key-of accessor)
                         (calling Supplier accessor "getValue" Object)
                         (calling Consumer accessor "setValue" Void/TYPE Object)
                         (calling Runnable accessor "setValue" Void/TYPE)
                         (calling Consumer accessor "restore" Void/TYPE Object)
                         (calling Runnable accessor "restore" Void/TYPE)))

(defn- check-keys [wanted accessors]
  (let [known (mapv key-of accessors)]
    (when-not (and (or (sequential? wanted) (set? wanted)) (every? (set known) wanted))
      (arguments/misuse :magnetar/no-such-accessor
                        (str (arguments/subject :keys) " a collection of keys of registered accessors, which are " (arguments/show known)
                             "; this is " (arguments/show wanted) ".")
                        {:keys wanted :registered known}))))

(defn- chosen [accessors {:keys [keys] :as options}]
  (if (contains? options :keys)
    (do
      (check-keys keys accessors)
      (filterv (comp (set keys) key-of) accessors))
    accessors))

(defn propagated
  "Returns the keys of the thread-locals that travel, as a vector.

  It is empty while nothing travels.

  See also `propagate`."
  {:added "0.2"}
  []
  (mapv #(.key ^Propagation$Accessor %) (propagation/accessors :thread-locals)))

(defn propagate
  "Lets thread-locals travel from now on; returns the keys of their accessors.

  They are captured at each start of a fiber and at each send. They are in place in the started fiber, and
  while a server handles the message. After each callback of a server they are as they were before, also if
  it threw. `docs/guide/thread-locals.md` has the table.

  There is one setting for the whole JVM. An accessor that is registered later travels after the next
  `propagate`. The vector that it returns is empty if no accessor is registered. An accessor that throws is
  reported as a :failure of `magnetar.report`.

  Throws an ExceptionInfo with the :magnetar/reason :magnetar/library-missing if
  io.micrometer:context-propagation is not on the class path.

  Options:
    :keys  the keys of the accessors that travel. Default all that are registered

  Example:

    (thread-locals/propagate)                      ; [\"opentelemetry\" \"cp.slf4j\"]
    (thread-locals/propagate {:keys [\"cp.slf4j\"]}) ; [\"cp.slf4j\"]

  See also `stop`, `magnetar.scope.context/with-context`."
  {:added "0.2"}
  ([] (propagate nil))
  ([options]
   (arguments/options "propagate" [:keys] options)
   (propagation/use-accessors :thread-locals (mapv access (chosen (registered) options)))
   (propagated)))

(defn stop
  "Lets thread-locals travel no longer; returns nil.

  Messages that are under way keep what was captured.

  See also `propagate`."
  {:added "0.2"}
  []
  (propagation/use-accessors :thread-locals nil))
