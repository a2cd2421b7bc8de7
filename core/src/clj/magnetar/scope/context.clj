(ns magnetar.scope.context
  "Named context values, for a piece of work and all that it starts.

  A context value is known there without being passed along.

  defcontext    names one
  with-context  gives it a value in a body
  deref         reads it, in every fiber that the library starts: forks, go blocks, pmap, callbacks

  A fiber takes the values of the fiber that starts it by reference. That costs one pointer, however many
  values there are. A plain argument is clearer where it can be passed. A dynamic var is right where
  Clojure's own tools look for one, such as *out*.

  Require it as `[magnetar.scope.context :as context :refer [defcontext with-context]]`."
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
  "Returns a context value named by the symbol sym.

  Without a default, reading it unbound throws an IllegalArgumentException.

  See also `defcontext`."
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
  "Defines a context value, with or without a default.

  Example:

    (defcontext user)          ; @user fails unless it is bound
    (defcontext locale :en)
    @locale ;=> :en"
  [sym & default]
  `(def ~sym (context '~(symbol (str *ns*) (str sym)) ~@default)))

(defn context*
  "Calls f with the context values in pairs, a map from context to value.

  See also `with-context`."
  [pairs f]
  (context/with pairs f))

(defmacro with-context
  "Does body with context values, in this fiber and in every fiber started by it.

  Example:

    (with-context [user \"ada\" locale :fr] (fork s render))"
  [bindings & body]
  `(context* ~(apply hash-map bindings) (fn [] ~@body)))
