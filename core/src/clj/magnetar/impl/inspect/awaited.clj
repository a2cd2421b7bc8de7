(ns magnetar.impl.inspect.awaited
  "What a thread waits for in the JDK, or in what Clojure builds on it: a promise, a future, a queue, a barrier.

  The object on which the JDK parks a thread says little: a promise, a latch and a barrier park on the inside of another object. So the outermost frame before
  the program's own is taken: what the program has called, such as ArrayBlockingQueue.put."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.inspect Locals$Frame)))

(set! *warn-on-reflection* true)

(def ^:private of-library
  "How the classes begin in which a wait may be, below the program's own frames."
  #"^(java\.|jdk\.|sun\.|clojure\.core\$(promise|future_call|deref|deref_future|await)\b|clojure\.lang\.Delay\b)")

(defn- word
  "What a class is called in a sentence: CountDownLatch, promise, Delay."
  [class-name]
  (let [[outer inner] (str/split (peek (str/split class-name #"\.")) #"\$")]
    (if (= "core" outer) inner outer)))

(defn with-article
  "The word after its article."
  [word]
  (str (if (re-find #"^[AEIOUaeiou]" word) "an " "a ") word))

(def ^:private into-queue "to put into $1")

(def ^:private for-what
  "From a class and its method to what is waited for. $1 is the class, with its article."
  [[#"promise\.deref" "for a promise"]
   [#"(?:future_call|deref_future)\.\w+" "for a future"]
   [#"Delay\.\w+" "for the value of a delay"]
   [#"await\.\w+" "for the actions of agents"]
   [#"Semaphore\.acquire\w*" "for a permit of a Semaphore"]
   [#"(CyclicBarrier|Phaser)\.\w*[aA]wait\w*" "for the other parties of $1"]
   [#"(Exchanger)\.exchange" "for the other party of $1"]
   [#"(\w+(?:Queue|Deque))\.(?:put|transfer|offer)\w*" into-queue]
   [#"(\w+(?:Queue|Deque))\.(?:take|poll)\w*" "to take from $1"]
   [#"(\w+)\.awaitTermination" "for the end of the tasks of $1"]
   [#"(FutureTask|CompletableFuture|ForkJoinTask)\.\w+" "for $1"]
   [#"Thread\.join" "for the end of a thread"]
   [#"Process\w*\.waitFor" "for the end of a process of the operating system"]
   [#"(CountDownLatch)\.await" "for $1"]])

(defn- what
  "[words class] of what a frame waits for: the words as in `for-what`, and the class that they leave open; nil for a frame that says nothing."
  [^StackTraceElement frame]
  (let [called (str (word (.getClassName frame)) "." (.getMethodName frame))]
    (some (fn [[pattern words]]
            (when-some [found (re-matches pattern called)]
              [words (when (vector? found) (second found))]))
          for-what)))

(defn- of-library? [^StackTraceElement frame]
  (re-find of-library (.getClassName frame)))

(def ^:private jdks
  "The kinds of waits in the JDK whose stack may tell more."
  #{:latch :semaphore :condition :park :lock})

(defn- telling
  "[what index] of the outermost of these frames that tells what the node waits for in the JDK; nil without one."
  [frames {:keys [wait]}]
  (when (jdks (:why wait))
    (->> frames
         (take-while of-library?)
         (keep-indexed (fn [i frame] (when-some [what (what frame)] [what i])))
         last)))

(defn- what-of [snapshot node]
  (first (telling (stacks/frames snapshot node) node)))

(defn words
  "What the node waits for in the JDK, such as \"for a promise\" or \"to put into an ArrayBlockingQueue\"; nil if its stack does not tell."
  [snapshot node]
  (when-some [[words class] (what-of snapshot node)]
    (if class (str/replace words "$1" (with-article class)) words)))

(defn puts?
  "Does the node wait to put into a queue?"
  [snapshot node]
  (= into-queue (first (what-of snapshot node))))

(defn- of-class? [class-name x]
  (some #(= class-name (.getName ^Class %)) (take-while some? (iterate #(.getSuperclass ^Class %) (class x)))))

(defn object
  "The object of that wait: the promise or the queue itself; nil if it is not known. It is in the local variables of the frame. They are read only if the
  stack tells that there may be one."
  [snapshot node]
  (when-some [[_ i] (telling (stacks/frames snapshot node) node)]
    (when-some [^Locals$Frame frame (nth (:frames (stacks/of snapshot node)) i nil)]
      (first (filter #(of-class? (.getClassName ^StackTraceElement (.at frame)) %) (.objects frame))))))
