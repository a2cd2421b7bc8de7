(ns magnetar.scope.context
  "Named context values: what a piece of work and all that it starts should know, without passing it along.

  defcontext    names one
  with-context  gives it a value in a body
  deref         reads it, in every fiber that the library starts: forks, go blocks, pmap, callbacks

  A fiber takes the values of the one that starts it by reference: it costs one pointer however many values there are. A plain
  argument is clearer where it can be passed; a dynamic var is right where Clojure's own tools look for one, such as *out*."
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.context :as context]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang IDeref)
   (java.io Writer)
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(defn- unbound [sym]
  (errors/illegal-argument
    :magnetar/unbound-context
    (str "The context value " sym " has no value here and no default: bind it with (with-context [" (name sym) " ..] ..).")
    {:context sym}))

(defn- value-of [sym default]
  (let [value (get (.context (Fiber/current)) sym default)]
    (if (identical? value ::unbound)
      (throw (unbound sym))
      value)))

(defn context
  "A context value named by the symbol sym; without a default, reading it unbound fails. See `defcontext`."
  ([sym] (context sym ::unbound))
  ([sym default]
   (when-not (symbol? sym)
     (throw (errors/illegal-argument :magnetar/not-a-symbol (str "`context` wants a symbol as the name; this is " (arguments/show sym) ".") {:value sym})))
   (with-meta (reify IDeref (deref [_] (value-of sym default)))
     {::context/name sym :type ::context})))

;; Without reading it: that may fail.
(defmethod print-method ::context [x ^Writer writer]
  (.write writer (str "#<Context " (::context/name (meta x)) ">")))

(defmacro defcontext
  "Defines a context value, with a default or without one.

    (defcontext user)            @user fails unless it is bound
    (defcontext locale :en)      @locale ;=> :en unless it is bound"
  [sym & default]
  `(def ~sym (context '~(symbol (str *ns*) (str sym)) ~@default)))

(defn context*
  "Calls f with the context values in pairs, a map from context to value. See `with-context`."
  [pairs f]
  (context/with pairs f))

(defmacro with-context
  "Does body with the context values bound, in this fiber and in every one that is started by it.

    (with-context [user \"ada\" locale :fr] (fork s render))"
  [bindings & body]
  `(context* ~(apply hash-map bindings) (fn [] ~@body)))
