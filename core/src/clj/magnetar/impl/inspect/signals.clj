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

(defn- refuse [^Signal signal why]
  (throw (errors/illegal-state :magnetar/signal-in-use
                               (str why " the signal " (.getName signal) ", so `on-signal` cannot have it; take \"USR1\".")
                               {:signal (.getName signal)})))

(defn- refuse-used [signal]
  (refuse signal "The JVM itself uses"))

(defn- install
  "Sets the handler, and returns the former one. HotSpot would let a program take USR2, which it uses itself, and the signals that end the program, which would
  then be ignored. So these are refused here."
  [^Signal signal handler]
  (case (.getName signal)
    ("USR2" "QUIT") (refuse-used signal)
    ("TERM" "INT" "HUP") (refuse signal "A program is ended by")
    ("KILL" "STOP") (refuse signal "No program can handle")
    nil)
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
