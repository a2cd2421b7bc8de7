(ns clojure.core.async.impl.protocols
  "The contract between the operations of core.async and channels, handlers and buffers, for ports that programs write
  themselves. Channels of Magnetar fulfil it, and whatever fulfils it works in Magnetar's operations.")

(def ^:const ^{:tag 'int} MAX-QUEUE-SIZE
  "How many callbacks may wait on either side of a channel."
  1024)

(defprotocol ReadPort
  "What values can be taken from."
  (take! [port fn1-handler]
    "A reference to the value, or to nil if the port is closed; nil if the handler was queued."))

(defprotocol WritePort
  "What values can be put on."
  (put! [port val fn1-handler]
    "A reference to true, or to false if the port is closed; nil if the handler was queued. Throws on a nil value."))

(defprotocol Channel
  "What can be closed."
  (close! [chan] "Closes it.")
  (closed? [chan] "True once closed, though values may be left to take."))

(defprotocol Handler
  "The party of an operation; also a java.util.concurrent.locks.Lock."
  (active? [h] "True until it was committed. Asked with or without the lock.")
  (blockable? [h] "True if it may be queued.")
  (lock-id [h] "The order of locking; 0 for a handler that needs no lock.")
  (commit [h] "Commits to the operation; returns the function of its result. Called under the lock, once."))

(defprotocol Buffer
  "The values that a channel has accepted and not handed out; called under the channel's lock."
  (full? [b] "True while a put has to wait.")
  (remove! [b] "Removes the next value and returns it.")
  (add!* [b itm] "Adds a value, or drops one; returns b.")
  (close-buf! [b] "The channel was closed."))

(defprotocol Capacity
  "What says how much it holds."
  (capacity [b] "How many values it can hold; nil if that is not known."))

(defn add!
  "Adds itm, which is not nil, to b; the reducing function of buffers."
  ([b] b)
  ([b itm]
   (assert (not (nil? itm)))
   (add!* b itm)))

(defprotocol Executor
  "What runs tasks."
  (exec [e runnable] "Runs the task on another thread."))

(defprotocol UnblockingBuffer
  "A mark of buffers on which a put never waits.")
