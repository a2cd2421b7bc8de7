(ns magnetar.impl.timeouts
  "The end of a wait whose time is over: the value of :else, or the error that all such waits have in common."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (java.time Instant)
   (magnetar TimeoutException)))

(set! *warn-on-reflection* true)

(defn call
  "Returns the call of a function, a qualified symbol, as it stands in an exit reason: Erlang's {Module, Function, Args}."
  [operation args]
  [(symbol (namespace operation)) (keyword (name operation)) (mapv language/plain args)])

(defn- period [duration]
  (cond
    (number? duration) (str "within " duration " ms")
    (instance? Instant duration) (str "by " duration)
    :else (str "within " (arguments/show duration))))

(defn- usual-sentence [operation target duration]
  (str "`" operation "` got no answer from " (arguments/show target) " " (period duration)
       ". Give it a longer :timeout, or {:else value} to get that value instead of this error."))

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
