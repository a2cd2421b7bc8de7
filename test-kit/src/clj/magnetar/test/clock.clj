(ns magnetar.test.clock
  "An environment whose clock a test moves: time passes when all of its fibers wait, and then at once."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (java.util Queue)
   (java.util.concurrent ConcurrentLinkedQueue)
   (java.util.concurrent.atomic AtomicLong)
   (java.util.concurrent.locks LockSupport)
   (magnetar.kernel.fiber Fiber Fibers Fibers$Hold Environment)
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.park Parked)
   (magnetar.kernel.time Wheel)))

(set! *warn-on-reflection* true)

(def ^:private tick 1000000)

;; A turn of the wheel looks at the clock once or twice. The first looks may belong to a turn that began before the clock was moved.
(def ^:private looks 5)

(defn- environment
  "An environment; `turns` counts how often its wheel has looked at the clock, and `wheel` is then the wheel's thread; `threads` are the threads of
  its fibers: a fiber leaves the kernel's list before its very last acts, which wake others."
  ^Environment [^AtomicLong clock ^AtomicLong turns wheel ^Queue threads]
  (proxy [Environment] []
    (nanoTime []
      (when (Wheel/isTimerThread)
        (deliver wheel (Thread/currentThread))
        (.incrementAndGet turns))
      (.get clock))
    (coarseNanos [] (.get clock))
    (newThread [name task]
      (let [thread (.unstarted (.name (Thread/ofVirtual) ^String name) task)]
        (.add threads thread)
        thread))
    (seed [] 4711)))

(defn- wait-of
  "The id of the wait in the kernel that a thread is in, a word if it was not started yet or has ended; else nil."
  [^Thread thread]
  (condp = (.getState thread)
    Thread$State/WAITING (when-some [wait (Parked/waitOf thread)]
                           (.id wait))
    Thread$State/NEW :new
    Thread$State/TERMINATED :ended
    nil))

(defn- waits-of
  "The wait of each thread, nil if one does not wait."
  [^Queue threads]
  (.removeIf threads #(= Thread$State/TERMINATED (.getState ^Thread %)))
  (reduce (fn [found thread]
            (if-some [wait (wait-of thread)] (conj found wait) (reduced nil)))
          [] threads))

;; One look is not enough: a thread that was looked at may be woken by one that waits by the time that it is looked at. Each wait has a number
;; of its own. A thread in the same wait at both looks has waited between them, so at one instant all threads waited.
(defn- all-wait? [threads]
  (let [found (waits-of threads)]
    (and found (= found (waits-of threads)))))

(defn- pass-time
  "Moves the clock to the next timer, without one by a millisecond, and returns when the wheel has woken whom that concerns."
  [^Environment environment ^AtomicLong clock ^AtomicLong turns wheel]
  (let [next (.nextNanos (Wheel/of environment))
        timers? (< next Long/MAX_VALUE)
        enough (+ (long looks) (.get turns))]
    (.set clock (if timers? (max next (.get clock)) (+ (long tick) (.get clock))))
    (while (and timers? (< (.get turns) (long enough)))
      (LockSupport/unpark @wheel)
      (Thread/yield))))

(defn- run-in
  "Calls f on a fiber of the environment; returns a promise of its outcome."
  [environment f]
  (let [outcome (promise)
        body (bound-fn* #(deliver outcome (try {:value (f)} (catch Throwable e {:error e}))))
        starter (Thread. #(Fibers/start "simulated" Fibers$Hold/STRONG ^Runnable body))]
    (Fibers/adopt starter environment)
    (.start starter)
    (.join starter)
    outcome))

(def ^:private longest-nanos 30000000000)

(defn- wait-words [^Thread thread]
  (str "  " (.getName thread)
       (when-some [words (.waitsFor (FiberInfo/of thread))]
         (str " waits for " words))))

(defn- late [threads]
  (errors/illegal-state :magnetar.test/not-ended
                        (str/join "\n" (cons "The body of `with-virtual-clock` has not ended after 30 seconds, of real time; its fibers are:" (sort (map wait-words threads))))
                        {}))

(defn- value-of
  "The value of the outcome; throws its error. Without an outcome it throws the error that names the waiting fibers."
  [outcome threads]
  (let [{:keys [value error]} (if (realized? outcome) @outcome {:error (late threads)})]
    (if error (throw error) value)))

(defn- move-clock
  "Lets time pass until there is an outcome, or patience is over."
  [environment clock turns wheel threads outcome]
  (let [deadline (+ (System/nanoTime) (long longest-nanos))]
    (while (and (not (realized? outcome)) (< (System/nanoTime) deadline))
      (if (all-wait? threads)
        (pass-time environment clock turns wheel)
        (Thread/yield)))))

(defn virtual?
  "True on a fiber of an environment whose clock a test moves."
  []
  (not (identical? Environment/REAL (.environment (Fiber/current)))))

(defn simulated*
  "Calls f in an environment of its own; see `simulated`."
  [f]
  (let [clock (AtomicLong.)
        turns (AtomicLong.)
        wheel (promise)
        threads (ConcurrentLinkedQueue.)
        environment (environment clock turns wheel threads)
        outcome (run-in environment f)]
    (try
      (move-clock environment clock turns wheel threads outcome)
      (value-of outcome threads)
      (finally (.end (Wheel/of environment))))))

(defn now
  "Milliseconds of the simulated time that have passed."
  []
  (quot (.nanoTime (.environment (Fiber/current))) (long tick)))
