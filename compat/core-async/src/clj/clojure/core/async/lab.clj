(ns clojure.core.async.lab
  "The four names of core.async's lab: ports that stand for several, experimental as there."
  (:require
   [clojure.core.async]
   [magnetar.async :as a]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.channel Handler Port Ports ReadPort WritePort)))

(set! *warn-on-reflection* true)

(declare take-committed)

;; Ports are kept in vectors, in the order in which they were given: the order of a set would differ from run to run.
(defn- without [ports port]
  (filterv #(not= port %) ports))

(defn- settle
  "Hands the value of `port` to what takes it; if the port was closed, drops it and tries the others."
  [live target port value]
  (if (some? value)
    (ports/complete target value)
    (do
      (swap! live without port)
      (let [answer (take-committed live target)]
        (when-not (ports/pending? answer)
          (ports/complete target answer))))))

(defn- take-committed
  "Takes from any live port for an operation that is committed: the value, nil if all are closed, or pending; then `target` gets it."
  [live target]
  (if (empty? @live)
    nil
    (let [later (with-meta (fn [[value port]] (settle live target port value)) {:on-caller? true})
          [value port :as now] (some-> (a/do-alts later (seq @live) {}) deref)]
      (cond
        (nil? now) Port/PENDING
        (some? value) value
        :else (do (swap! live without port)
                  (recur live target))))))

(defn- watching
  "The handler for one of the ports; keeps in the volatile `target` what takes the result once it was committed."
  [^Handler handler live port target]
  (reify Handler
    (active [_] (.active handler))
    (blockable [_] (.blockable handler))
    (lockId [_] (.lockId handler))
    (lock [_] (.lock handler))
    (unlock [_] (.unlock handler))
    (commit [_]
      (let [taker (vreset! target (.commit handler))]
        (ports/completion #(settle live taker port %))))))

(defn- closed
  "Nil for a handler that is still open, which commits it."
  [handler]
  (if (ports/commit handler) nil Port/PENDING))

(defn- take-any [live handler]
  (if (empty? @live)
    (closed handler)
    (loop [[port & more] (environment/shuffled @live)]
      (let [target (volatile! nil)
            value (.take (Ports/readPort port) (watching handler live port target))]
        (cond
          (and (ports/pending? value) more) (recur more)
          (or (ports/pending? value) (some? value)) value
          :else (do (swap! live without port)
                    (take-committed live @target)))))))

(defn ->MultiplexingReadPort
  "A port to take from any of the ports in the collection read-ports. mutex is not needed and may be nil; see `multiplex`."
  [mutex read-ports]
  (let [live (atom (vec (distinct read-ports)))]
    (reify ReadPort
      (take [_ handler] (take-any live handler)))))

(defn multiplex
  "A port that takes from any of ports, at random among those that are ready. A port that is closed is dropped; once all are,
  it is closed.

    (<! (multiplex a b))"
  [& ports]
  (->MultiplexingReadPort nil ports))

(defn- put-rest [left value ^Handler handler]
  (if (= 1 (count left))
    (.put (Ports/writePort (first left)) value handler)
    (let [later (fn [[_ port]]
                  (let [answer (put-rest (without left port) value handler)]
                    (when-not (ports/pending? answer)
                      (some-> (ports/commit handler) (ports/complete answer)))))
          now (a/do-alts later (mapv #(vector % value) left) {})]
      (if now
        (recur (without left (second @now)) value handler)
        Port/PENDING))))

(defn ->BroadcastingWritePort
  "A port that puts on each of the ports in the collection write-ports; see `broadcast`."
  [write-ports]
  (reify WritePort
    (put [_ value handler] (put-rest (vec (distinct write-ports)) value handler))))

(defn broadcast
  "A port that puts each value on all of ports; the put is done when all have accepted. Give them buffers.

    (>! (broadcast a b) :x)"
  [& ports]
  (->BroadcastingWritePort ports))
