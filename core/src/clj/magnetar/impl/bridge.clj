(ns magnetar.impl.bridge
  "Joins our channels and those of core.async: each library's ports work in the other's operations.
  Loaded when core.async's protocols are on the class path, its own or those of magnetar-core-async."
  {:no-doc true}
  (:require
   [clojure.core.async.impl.protocols :as-alias impl]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang IDeref)
   (java.util.concurrent.locks Lock)
   (magnetar.kernel.channel Buffer Handler Port Ports ReadPort WritePort)))

(set! *warn-on-reflection* true)

;; ---- theirs to ours: a handler or a port of core.async, as the kernel sees it

(defn- our-handler
  "A handler of core.async as one of the kernel's."
  ^Handler [h]
  (if (instance? Handler h)
    h
    (reify Handler
      (active [_] (boolean (impl/active? h)))
      (blockable [_] (boolean (impl/blockable? h)))
      (lockId [_] (long (impl/lock-id h)))
      (commit [_]
        (let [f (impl/commit h)]
          (ports/completion (if (:on-caller? (meta f)) f #(fibers/dispatch "callback" (fn [] (f %)))))))
      (lock [_] (.lock ^Lock h))
      (unlock [_] (.unlock ^Lock h)))))

(defn- boxed
  "The answer of a port of ours as core.async wants it: a reference, or nil if the operation was queued."
  [answer]
  (when-not (ports/pending? answer)
    (ports/box answer)))

;; ---- ours to theirs

(defn- unboxed [box]
  (if (nil? box) Port/PENDING (.deref ^IDeref box)))

(defn- port-of
  "A port of core.async as one of the kernel's, or nil if `x` is none."
  [x]
  (when (or (satisfies? impl/ReadPort x) (satisfies? impl/WritePort x) (satisfies? impl/Channel x))
    (reify
      Port
      (close [_] (impl/close! x))
      (isClosed [_] (boolean (impl/closed? x)))
      ReadPort
      (take [_ handler] (unboxed (impl/take! x handler)))
      WritePort
      (put [_ value handler] (unboxed (impl/put! x value handler))))))

(defn- buffer-of
  "A buffer of core.async as one of the kernel's, or nil if `x` is none."
  [x]
  (when (satisfies? impl/Buffer x)
    (proxy [Buffer] []
      (isFull [] (boolean (impl/full? x)))
      (insert [value] (impl/add!* x value))
      (remove [] (impl/remove! x))
      (close [] (impl/close-buf! x))
      (size [] (count x))
      (capacity [] (int (or (when (satisfies? impl/Capacity x) (impl/capacity x)) -1)))
      (isUnblocking [] (satisfies? impl/UnblockingBuffer x))
      (isTransparent [] false)
      (runsUserCode [] true)
      (original [] x)
      (snapshot [] (object-array 0)))))

(defn take-by-handler
  "Takes a value from a port of ours for a handler of core.async's."
  [^ReadPort port handler]
  (boxed (.take port (our-handler handler))))

(defn put-by-handler
  "Puts a value on a port of ours for a handler of core.async's."
  [^WritePort port value handler]
  (when (nil? value)
    (throw (IllegalArgumentException. "Can't put nil on channel")))
  (boxed (.put port value (our-handler handler))))

(extend-protocol impl/ReadPort
  ReadPort
  (take! [port handler] (take-by-handler port handler)))

(extend-protocol impl/WritePort
  WritePort
  (put! [port value handler] (put-by-handler port value handler)))

(extend-protocol impl/Channel
  Port
  (close! [port] (.close port))
  (closed? [port] (.isClosed port)))

(extend-protocol impl/Handler
  Handler
  (active? [h] (.active h))
  (blockable? [h] (.blockable h))
  (lock-id [h] (.lockId h))
  (commit [h]
    (let [target (.commit h)]
      (with-meta (fn [result] (ports/complete target result)) {:on-caller? true}))))

(extend-protocol impl/Buffer
  Buffer
  (full? [b] (.isFull b))
  (remove! [b] (.remove b))
  (add!* [b value] (doto b (.insert value)))
  (close-buf! [b] (.close b)))

(extend-protocol impl/Capacity
  Buffer
  (capacity [b] (let [n (.capacity b)] (when-not (neg? n) n))))

(doseq [unblocking [(Buffer/dropping 1) (Buffer/sliding 1) (Buffer/promise) (Buffer/unbounded)]]
  (extend (class unblocking) impl/UnblockingBuffer {}))

(Ports/adapt port-of)
(reset! chans/buffer-adapter buffer-of)
