(ns magnetar.otel.queue
  "For how long messages of servers have waited in the mailbox: each carries the time of its send, as a thread-local that travels and is never set."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.context :as context]
   [magnetar.impl.runtime])
  (:import
   (java.util.function Consumer Supplier)
   (magnetar.kernel.fiber Environment Fiber Propagation Propagation$Accessor)
   (magnetar.kernel.process Traffic Traffic$Observer)))

(set! *warn-on-reflection* true)

(def access-to-it
  "The access to the time of the send. No thread has it, so that only messages carry it, and not what is started."
  (let [nothing (reify Consumer (accept [_ _]))
        no-more (fn [])]
    (Propagation$Accessor. ::sent-at (reify Supplier (get [_])) nothing no-more nothing no-more)))

(defn- now-of
  "The clock of the sender; of a timer, which is no fiber, that of its environment."
  [^Fiber sender]
  (.nanoTime (if sender (.environment sender) (Environment/current))))

(def ^:private observer
  (reify Traffic$Observer
    (sends [_ sender _ _ context] (Propagation/withLocal context access-to-it (now-of sender)))
    (takes [_ _ _])
    (loses [_ _ _ _])
    (ignores [_ _])))

(defn start
  "Lets each message carry the time of its send, if the access is in use."
  []
  (Traffic/add observer))

(defn stop
  "Ends what `start` began."
  []
  (Traffic/remove observer))

(defn seconds
  "For how many seconds the message that this server handles has waited; nil if it was sent before `start`."
  []
  (when-some [at (Propagation/local (context/sent) access-to-it)]
    (/ (double (- (clock/now) (long at))) 1e9)))
