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
    (Propagation$Accessor. ::at (reify Supplier (get [_])) nothing no-more nothing no-more)))

(defn- now-of
  "The clock of the sender; of a timer, which is no fiber, the clock of its environment."
  [^Fiber sender]
  (.nanoTime (if sender (.environment sender) (Environment/current))))

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

(defn at
  "The nanoseconds of the clock at which the message with this context was sent; nil if they are not known."
  [context]
  (Propagation/local context time-accessor))
