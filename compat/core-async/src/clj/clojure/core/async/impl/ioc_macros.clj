(ns clojure.core.async.impl.ioc-macros
  "What go blocks call that were compiled with core.async's own `go`: state machines, which run on a virtual thread here.

  Where core.async leaves the machine to wait and resumes it by a callback, these functions wait themselves and let it go on. The functions that
  make machines at compile time are not here: go blocks that are compiled with this module are fibers."
  (:require
   [clojure.core.async.impl.dispatch :as dispatch]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent.atomic AtomicReferenceArray)
   (magnetar.kernel.channel Port)))

(set! *warn-on-reflection* true)

;; The places of a machine's state; compiled code has them as numbers.
(def ^:const FN-IDX "Of the function of the machine." 0)
(def ^:const STATE-IDX "Of the number of the block that is next." 1)
(def ^:const VALUE-IDX "Of the value that the last block, or operation, left." 2)
(def ^:const BINDINGS-IDX "Of the dynamic bindings." 3)
(def ^:const EXCEPTION-FRAMES "Of the blocks that catch." 4)
(def ^:const USER-START-IDX "Of the channel of the result." 5)

(defn aset-object
  "Sets a place of the state."
  [^AtomicReferenceArray state ^long idx value]
  (.set state idx value))

(defn aget-object
  "What is at a place of the state."
  [^AtomicReferenceArray state ^long idx]
  (.get state idx))

(defmacro aset-all!
  "Sets places of the state, given as pairs; returns the state."
  [state & more]
  (assert (even? (count more)) "aset-all! takes pairs of a place and a value")
  (let [s (gensym "state")]
    `(let [~s ~state]
       ~@(map (fn [[idx value]] `(aset-object ~s ~idx ~value)) (partition 2 more))
       ~s)))

(defn- result-channel
  "The channel of the result: one place later in machines of core.async before 1.8."
  [state]
  (let [x (aget-object state USER-START-IDX)]
    (if (instance? Port x) x (aget-object state (inc USER-START-IDX)))))

(defn run-state-machine
  "Runs the machine until it ends."
  [state]
  ((aget-object state FN-IDX) state))

(defn run-state-machine-wrapped
  "Like `run-state-machine`; what it throws closes its channel and is reported as the failure of a go block."
  [state]
  (try
    (run-state-machine state)
    (catch Throwable e
      (ports/close (result-channel state))
      (dispatch/ex-handler e))))

(defn- go-on [state block value]
  (aset-all! state VALUE-IDX value STATE-IDX block)
  :recur)

(defn take!
  "Takes from c, waits if need be, and goes on at the block."
  [state block c]
  (go-on state block (ports/take c)))

(defn put!
  "Puts value on c, waits if need be, and goes on at the block."
  [state block c value]
  (go-on state block (ports/put c value)))

(defn return-chan
  "Ends the machine: puts the value, unless nil, on its channel, closes it and returns it."
  [state value]
  (let [c (result-channel state)]
    (when (some? value) (ports/offer c value))
    (ports/close c)
    c))
