(ns magnetar.impl.sent
  "When messages were sent, while a part of the library wants to know: each carries the time as a thread-local that travels, and that no thread ever has.
  So what is started does not carry it."
  {:no-doc true}
  (:require
   [magnetar.impl.propagation :as propagation]
   [magnetar.impl.runtime])
  (:import
   (java.util.function Consumer Supplier)
   (magnetar.kernel.fiber Environment Fiber Propagation Propagation$Accessor)
   (magnetar.kernel.process Traffic Traffic$Observer)))

(set! *warn-on-reflection* true)

(def ^:private time-accessor
  (let [nothing (reify Consumer (accept [_ _]))
        no-more (fn [])]
    (Propagation$Accessor. ::at (reify Supplier (get [_])) nothing no-more nothing no-more true)))

;; When a message was sent, by the clock of the environment that it was sent in.
(deftype Time [^Environment environment ^long nanos])

(defn- now-of
  "The time of the sender; of a timer, which is no fiber, the time of its environment."
  [^Fiber sender]
  (let [environment (if sender (.environment sender) (Environment/current))]
    (Time. environment (.nanoTime environment))))

(def ^:private observer
  (reify Traffic$Observer
    (sends [_ sender _ _ context] (Propagation/withLocal context time-accessor (now-of sender)))))

;; The parts of the library that want to know.
(defonce ^:private users (atom #{}))

(defn want
  "Lets each message carry the time of its send, for the part of the library with this name."
  [user]
  (locking users
    (when (empty? @users)
      (propagation/use-accessors :sent [time-accessor])
      (Traffic/add observer))
    (swap! users conj user)))

(defn want-no-more
  "Ends what `want` began, unless another part of the library wants it too."
  [user]
  (locking users
    (when (= #{user} @users)
      (Traffic/remove observer)
      (propagation/use-accessors :sent nil))
    (swap! users disj user)))

(defn waited
  "For how many nanoseconds the message with this context has waited. Nil if that is not known, as of one that comes from a simulation or goes into one,
  where there are two clocks."
  [context]
  (when-some [^Time sent (Propagation/local context time-accessor)]
    (let [here (Environment/current)]
      (when (identical? here (.-environment sent))
        (- (.nanoTime here) (.-nanos sent))))))
