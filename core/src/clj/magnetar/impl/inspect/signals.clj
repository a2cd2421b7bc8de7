(ns magnetar.impl.inspect.signals
  "Prints the state of the program when the operating system sends it a signal.

  The JVM calls a handler on a thread of its own, so it works while all carriers are occupied. What two signals print is not interleaved."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.inspect.dump :as dump]
   [magnetar.impl.inspect.views :as views])
  (:import
   (java.io Writer)
   (java.lang AutoCloseable)
   (sun.misc Signal SignalHandler)))

(set! *warn-on-reflection* true)

(defn- state
  "The lines of the state; if it cannot be read, a line that says why."
  []
  (try
    (str/join "\n" (views/overview (dump/now)))
    (catch Throwable failed
      (str "The state of the program could not be read: " failed))))

(defn- print-state [^Writer out]
  (let [^String text (str (state) "\n")]
    (locking out
      (.write out text)
      (.flush out))))

(defn- signal ^Signal [^String name]
  (try
    (Signal. name)
    (catch IllegalArgumentException _
      (throw (errors/illegal-argument :magnetar/unknown-signal
                                      (str "`on-signal` does not know the signal " (pr-str name) " on this operating system; \"USR1\" is the usual one.") {:value name})))))

(defn- refuse-used [^Signal signal]
  (throw (errors/illegal-state :magnetar/signal-in-use
                               (str "The JVM uses the signal " (.getName signal) " itself, so `on-signal` cannot have it; take \"USR1\".")
                               {:signal (.getName signal)})))

(defn- install
  "Sets the handler, and returns the former one. HotSpot uses USR2 itself, and would let a program take it, so USR2 is refused here."
  [^Signal signal handler]
  (when (= "USR2" (.getName signal))
    (refuse-used signal))
  (try
    (Signal/handle signal handler)
    (catch IllegalArgumentException _
      (refuse-used signal))))

(defn on-signal
  "Prints the state on `out` at each signal of this name, until the returned AutoCloseable is closed."
  ^AutoCloseable [name out]
  (let [signal (signal name)
        handler (reify SignalHandler (handle [_ _] (print-state out)))
        before (install signal handler)]
    (reify AutoCloseable
      (close [_] (Signal/handle signal before)))))
