(ns magnetar.impl.timeouts
  "The end of a wait whose time is over: the value of :else, or the error that all such waits have in common."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (java.time Instant)
   (magnetar TimeoutException)))

(set! *warn-on-reflection* true)

(defn call
  "Returns [module function arguments], which names the call of an operation in an exit reason, as Erlang's {Module, Function, Args} does."
  [operation args]
  [(symbol (namespace operation)) (keyword (name operation)) (mapv codec/plain args)])

(defn- period [duration]
  (if (instance? Instant duration)
    (str "by " duration)
    (str "within " (arguments/show-duration duration))))

(defn- remedy [duration]
  (str "Give it a " (if (instance? Instant duration) "later :deadline" "longer :timeout") ", or {:else value} to get that value instead of this error."))

(defn- usual-sentence [operation target duration]
  (str "`" operation "` has waited for " (arguments/show target) " and did not complete " (period duration) ". " (remedy duration)))

(defn error
  "Returns the TimeoutException of an operation, a qualified symbol, that waited for the target; `more` is added to its data."
  ([operation target duration args]
   (error (usual-sentence operation target duration) operation target duration args nil))
  ([sentence operation target duration args more]
   (errors/at-caller
     (TimeoutException. sentence (assoc more
                                        :magnetar/reason :magnetar/timeout
                                        :operation operation
                                        :target target
                                        :duration duration
                                        :magnetar/exit [:timeout (call operation args)])))))

(defn outcome
  "Returns the :else of the options, if they have one; else throws the error."
  [options operation target duration args]
  (if (contains? options :else)
    (:else options)
    (throw (error operation target duration args))))
