(ns magnetar.impl.trace.calls
  "Functions whose calls are told of. A var that is traced holds a stand-in for its function, an object that implements the same
  interfaces: so a call that passes primitive numbers works. A watch on the var traces what replaces the function.

  A stand-in tells of a call only while it is what its var holds and the watch is there. So one that a program has kept, as an argument of
  `map`, tells of nothing once tracing is off.

  Rejected: a function of Clojure around the other, which fails where the compiler has seen primitive hints; a table of traced vars, which
  would hold functions that the program has replaced."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.outcomes :as outcomes]
   [magnetar.impl.runtime]
   [magnetar.impl.trace.events :as events])
  (:import
   (clojure.lang IFn IMeta IObj Keyword MultiFn Namespace RT Var)
   (java.lang.reflect InvocationHandler Method Proxy)
   (java.util Comparator)
   (java.util.concurrent.atomic AtomicLong)
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(def ^:private watch-key ::watch)

(defonce ^:private ids (AtomicLong.))

(defn- handler-of [f]
  (when (and (instance? Proxy f) (Proxy/isProxyClass (class f)))
    (Proxy/getInvocationHandler f)))

(defn original
  "The function that f stands in for, or nil."
  [f]
  (some-> (handler-of f) meta ::original))

(defn traced?
  "Are calls of the var's function told of?"
  [^Var v]
  (some? (get (.getWatches v) watch-key)))

;; ---- a call

(defn- now ^long [^Fiber fiber]
  (.nanoTime (.environment fiber)))

(defn- told
  "Calls f, a function of no arguments that does the call, and tells of it at its depth."
  [^Fiber fiber {:keys [sink name]} args depth f]
  (let [before (.context fiber)
        event {:call (.incrementAndGet ^AtomicLong ids) :function name :args args :by (events/by) :depth depth}]
    (events/tell sink (assoc event :event :call))
    (events/set-depth fiber (inc (long depth)))
    (let [begun (now fiber)
          value (try
                  (f)
                  (catch Throwable e
                    (.setContext fiber before)
                    (events/tell sink (assoc event :event :throw :error e :nanos (- (now fiber) begun)))
                    (throw e)))
          nanos (- (now fiber) begun)]
      (.setContext fiber before)
      (events/tell sink (assoc event :event :return :value value :nanos nanos))
      value)))

(defn- call
  "Does the call, and tells of it, unless tracing of the var is off or a sink is at work. Until that is known it calls nothing that may be traced."
  [stand-in {:keys [^Var var] :as traced} args f]
  (let [fiber (Fiber/current)
        depth (events/depth fiber)]
    (if (or (identical? :off depth)
            (not (identical? stand-in (.getRawRoot var)))
            (identical? nil (.valAt (.getWatches var) watch-key)))
      (.invoke ^IFn f)
      (told fiber traced args depth f))))

;; ---- the stand-in

(defn- arguments-of
  "The arguments of a call of the method as a sequence: the twenty-first and on come in an array."
  [^Method method ^objects args]
  (cond
    (nil? args) nil
    (= "applyTo" (.getName method)) (aget args 0)
    (and (= "invoke" (.getName method)) (= 21 (alength args))) (seq (into (vec (take 20 args)) (aget args 20)))
    :else (seq args)))

(defn- compared [f ^objects args]
  (.compare ^Comparator f (aget args 0) (aget args 1)))

(defn- answer
  "What the stand-in does when a method of it is called."
  [stand-in {:keys [f name] :as traced} ^Method method ^objects args]
  (case (.getName method)
    ("invoke" "invokePrim" "applyTo" "call" "run")
    (let [arguments (arguments-of method args)
          value (call stand-in traced arguments (fn [] (.applyTo ^IFn f arguments)))]
      (when-not (= "run" (.getName method)) value))
    "compare" (call stand-in traced (seq args) (fn [] (compared f args)))
    "meta" (.meta ^IMeta f)
    "withMeta" (.withMeta ^IObj f (aget args 0))
    "toString" (str "#<traced " name ">")
    "hashCode" (Integer/valueOf (System/identityHashCode stand-in))
    "equals" (identical? stand-in (aget args 0))
    (.invoke method f args)))

(defn- handler [{:keys [f] :as traced}]
  (with-meta
    (reify InvocationHandler
      (invoke [_ stand-in method args] (answer stand-in traced method args)))
    {::original f}))

(defn- interfaces [f]
  (into-array Class (filter #(.isInterface ^Class %) (supers (class f)))))

(defn- stand-in [{:keys [f] :as traced}]
  (Proxy/newProxyInstance (or (.getClassLoader (class f)) (RT/baseLoader)) (interfaces f) (handler traced)))

;; ---- on and off

(defn traceable?
  "Does the var hold a function that a stand-in can replace?"
  [^Var v]
  (and (.hasRoot v)
       (not (.isMacro v))
       (fn? (.getRawRoot v))
       (not= "magnetar.trace" (str (.ns v)))))

(defn- var-name [^Var v]
  (symbol (str (.ns v)) (str (.sym v))))

(defn- replace-root
  "Puts a stand-in into the var for the function that it holds."
  [^Var v sink]
  (alter-var-root v (fn [f]
                      (if (original f)
                        f
                        (stand-in {:f f :var v :name (var-name v) :sink sink})))))

(defn- traces-again
  "A watch that traces what the program puts into the var, as by loading its file again."
  [sink]
  (fn [_ ^Var v _ _]
    (when (and (traceable? v) (not (original (.getRawRoot v))))
      (replace-root v sink))))

(defn untrace
  "Puts back what the var held. Nothing happens to a var that is not traced."
  [^Var v]
  (remove-watch v watch-key)
  (when (original (.getRawRoot v))
    (alter-var-root v #(or (original %) %)))
  v)

(defn trace
  "Tells the sink of the calls of the var's function. A var that is traced has the new sink."
  [^Var v sink]
  (untrace v)
  (add-watch v watch-key (traces-again sink))
  (replace-root v sink)
  v)

;; ---- which vars

(defn- why-not [^Var v]
  (cond
    (not (.hasRoot v)) "it has no value"
    (.isMacro v) "it is a macro, which runs when code is compiled: trace the functions that its code calls"
    (instance? MultiFn (.getRawRoot v)) "it is a multimethod: trace the functions that its methods call"
    (= "magnetar.trace" (str (.ns v))) "it belongs to the tracer"
    :else "its value is not a function"))

(defn find-var-in
  "The var that x is or names in the namespace; or nil."
  [ns x]
  (let [v (if (symbol? x)
            (try (ns-resolve ns x) (catch Exception _ nil))
            x)]
    (when (var? v) v)))

(defn- resolved [operation ns x]
  (or (find-var-in ns x)
      (arguments/misuse :magnetar/not-a-var
                        (str "`" operation "` wants vars, or symbols that name them; in " (ns-name ns) " there is no var " (arguments/show x) ".")
                        {:value x})))

(defn vars
  "The vars that the symbols and vars mean in the namespace."
  [operation ns xs]
  (mapv #(resolved operation ns %) xs))

(defn- check [v]
  (when-not (traceable? v)
    (arguments/misuse :magnetar/not-traceable (str "`trace-vars` cannot trace " v ": " (why-not v) ".") {:var v})))

(defn trace-all
  "Traces the vars; returns their names. If one cannot be traced, none is."
  [vars sink]
  (run! check vars)
  (mapv #(var-name (trace % sink)) vars))

(defn untrace-all
  "Untraces the vars; returns the names of those that were traced."
  [vars]
  (let [traced (filterv traced? vars)]
    (mapv #(var-name (untrace %)) traced)))

;; ---- namespaces

(def ^:private untraceable-namespaces
  "What the tracer itself uses."
  #"clojure\.core|magnetar\.trace|magnetar\.impl\..*")

(defn namespace-of
  "The namespace that x is or names, which can be traced."
  ^Namespace [operation x]
  (let [ns (if (symbol? x) (find-ns x) x)]
    (cond
      (not (instance? Namespace ns))
      (arguments/misuse :magnetar/no-such-namespace
                        (str "`" operation "` wants a namespace that is loaded; this is " (arguments/show x) ".") {:value x})
      (re-matches untraceable-namespaces (str ns))
      (arguments/misuse :magnetar/not-traceable
                        (str "`" operation "` cannot trace " ns ", which the tracer itself uses: trace single functions of it by `trace-vars`.")
                        {:namespace (ns-name ns)})
      :else ns)))

(defn of-namespace
  "The vars of the namespace, in the order of their names."
  [ns]
  (sort-by #(str (.sym ^Var %)) (vals (ns-interns ns))))
