(ns magnetar.drivers.support
  "What the tests of drivers share: many fibers that wait in a driver, and a cancellation of one that waits."
  (:require
   [clojure.string :as str]
   [magnetar.channel :as channel]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [fork with-scope]])
  (:import
   (java.sql Connection)))

(set! *warn-on-reflection* true)

;; HikariCP and Jedis log through SLF4J, which has nowhere to log here.
(System/setProperty "slf4j.internal.verbosity" "ERROR")

(def ^:private limit-ms
  "How long a test waits for what must come."
  20000)

(defn wait-until
  "What `ready?` returns once that is logical true; nil if it does not come to be."
  [ready?]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long limit-ms)))]
    (loop []
      (or (ready?)
          (when (< (System/nanoTime) deadline)
            (Thread/yield)
            (recur))))))

(defmacro eventually
  "The value of the expression once it is logical true; nil if it does not come to be."
  [expression]
  `(wait-until (fn [] ~expression)))

(defn execute [^Connection connection sql]
  (with-open [statement (.createStatement connection)]
    (.execute statement sql)))

(defn value
  "The value of the query's first row and column."
  [^Connection connection sql]
  (with-open [statement (.createStatement connection)
              rows (.executeQuery statement sql)]
    (when (.next rows) (.getObject rows 1))))

(def many
  "More fibers than there can be carriers: one for each processor, and the eight that Magnetar may add."
  (+ (.availableProcessors (Runtime/getRuntime)) 8 4))

(defn- frames [^Thread thread]
  (.getStackTrace thread))

(defn- in-driver?
  "Is a class of the driver, whose name begins like this, on the stack of the thread?"
  [prefix thread]
  (some #(str/starts-with? (.getClassName ^StackTraceElement %) prefix) (frames thread)))

(defn parked-in?
  "Does the fiber wait in the driver, and without a carrier?"
  [prefix ^Thread thread]
  (and (contains? #{"WAITING" "TIMED_WAITING"} (str (.getState thread)))
       (in-driver? prefix thread)))

(defn holds-carrier-in?
  "Is the fiber in native code of the driver?"
  [prefix ^Thread thread]
  (and (= "RUNNABLE" (str (.getState thread)))
       (boolean (some-> ^StackTraceElement (first (frames thread)) .isNativeMethod))
       (in-driver? prefix thread)))

(defn ping-pong
  "Two fibers that send each other a number until it is 1000, which is returned."
  []
  (let [[there back] (repeatedly 2 channel/chan)
        add-one (fn [from to]
                  (loop []
                    (when-some [n (channel/take from)]
                      (channel/put to (inc n))
                      (recur))))]
    (with-scope [s]
      (fork s add-one there back)
      @(fork s (fn []
                 (loop [n 0]
                   (if (= 1000 n)
                     (do (channel/close there) n)
                     (do (channel/put there n) (recur (long (channel/take back)))))))))))

(defn with-fibers
  "Calls f with the threads of n fibers that call `work`. f must let them end."
  [n work f]
  (with-scope [s]
    (let [threads (repeatedly n promise)]
      (doseq [thread (doall threads)]
        (fork s #(do (deliver thread (Thread/currentThread)) (work))))
      (f (mapv deref threads)))))

(defn as-cancelled
  "Calls work. The driver's exception for a query that was cancelled becomes a cancellation: `sleep` throws it."
  [work]
  (try
    (work)
    (catch Exception e
      (scope/sleep 0)
      (throw e))))

(defn cancelled-in
  "Forks work, cancels it once `waiting?` is true, and waits for its end. Returns how it ended, as `scope/result` does."
  [waiting? work]
  (with-scope [s]
    (let [f (fork s work)]
      (when-not (wait-until waiting?)
        (throw (ex-info "the work does not begin to wait" {:result (scope/result f)})))
      (scope/cancel f :enough)
      (try (scope/join f) (catch Exception _ nil))
      (scope/result f))))

(defn why-stuck
  "What `magnetar.inspect/why-stuck` says of a fiber that calls `work`, which is cancelled then."
  [waiting? work]
  (with-scope [s]
    (let [f (fork s as-cancelled work)]
      (wait-until waiting?)
      (let [text (wait-until #(:text (inspect/why-stuck f)))] ; it is about to wait
        (scope/cancel f)
        (try (scope/join f) (catch Exception _ nil))
        text))))
