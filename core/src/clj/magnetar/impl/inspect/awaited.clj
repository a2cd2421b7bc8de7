(ns magnetar.impl.inspect.awaited
  "What a thread waits for in the JDK, or in what Clojure builds on it: a promise, a future, a queue, a barrier.

  The object on which the JDK parks a thread says little: a promise, a latch and a barrier park on an inner object of theirs. So the method that the program
  has called is taken, such as ArrayBlockingQueue.put: the outermost of the library's frames above the program's own."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.inspect Locals$Frame)))

(set! *warn-on-reflection* true)

(def ^:private library-class
  "Matches the classes that a program calls to wait, by their beginning: of the JDK, of Clojure, and of Commons Pool, on which
  JedisPool and DBCP are built."
  #"^(java\.|jdk\.|sun\.|org\.apache\.commons\.pool2\.|clojure\.core\$(promise|future_call|deref|deref_future|await)\b|clojure\.lang\.Delay\b)")

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
  "From a pattern for a class and its method to what is waited for. $1 stands for the class that the pattern matches, with its article."
  [[#"promise\.deref" "for a promise"]
   [#"(?:future_call|deref_future)\.\w+" "for a future"]
   [#"Delay\.\w+" "for the value of a delay"]
   [#"await\.\w+" "for the actions of agents"]
   [#"Semaphore\.acquire\w*" "for a permit of a Semaphore"]
   [#"Generic(?:Keyed)?ObjectPool\.borrowObject" "for a connection, or another object, of a pool"]
   [#"(CyclicBarrier|Phaser)\.\w*[aA]wait\w*" "for the other parties of $1"]
   [#"(Exchanger)\.exchange" "for the other party of $1"]
   [#"(\w+(?:Queue|Deque))\.(?:put|transfer|offer)\w*" into-queue]
   [#"(\w+(?:Queue|Deque))\.(?:take|poll)\w*" "to take from $1"]
   [#"(\w+)\.awaitTermination" "for the end of the tasks of $1"]
   [#"(FutureTask|CompletableFuture|ForkJoinTask)\.\w+" "for $1"]
   [#"Object\.wait0?" "to be notified"]
   [#"Thread\.join" "for the end of a thread"]
   [#"Process\w*\.waitFor" "for the end of a process of the operating system"]
   [#"(CountDownLatch)\.await" "for $1"]])

(defn- what
  "[words class] of what a frame waits for: the words as in `for-what`, and the class that stands for $1 in them; nil for any other frame."
  [^StackTraceElement frame]
  (let [called (str (word (.getClassName frame)) "." (.getMethodName frame))]
    (some (fn [[pattern words]]
            (when-some [found (re-matches pattern called)]
              [words (when (vector? found) (second found))]))
          for-what)))

(defn- of-library? [^StackTraceElement frame]
  (re-find library-class (.getClassName frame)))

(def ^:private told-by-stack
  "The kinds of waits in the JDK whose stack may say what is waited for."
  #{:latch :semaphore :condition :park :lock})

(defn- telling
  "[what index] of the outermost of these frames that says what the node waits for in the JDK; nil without one."
  [frames {:keys [wait]}]
  (when (told-by-stack (:why wait))
    (->> frames
         (take-while of-library?)
         (keep-indexed (fn [i frame] (when-some [what (what frame)] [what i])))
         last)))

(defn- what-of [snapshot node]
  (first (telling (stacks/frames snapshot node) node)))

(defn words
  "What the node waits for in the JDK, such as \"for a promise\" or \"to put into an ArrayBlockingQueue\"; nil if its stack does not say it."
  [snapshot node]
  (when-some [[words class] (what-of snapshot node)]
    (if class (str/replace words "$1" (with-article class)) words)))

(defn short-words
  "What the node waits for, as in a row of a tree: \"a promise\", \"take from a channel\"; nil if it does not wait."
  [snapshot {:keys [wait] :as node}]
  (or (some-> (words snapshot node) (str/replace #"^(for|to) " ""))
      (:words wait)))

(defn puts?
  "Does the node wait to put into a queue?"
  [snapshot node]
  (= into-queue (first (what-of snapshot node))))

(defn- of-class? [class-name x]
  (some #(= class-name (.getName ^Class %)) (take-while some? (iterate #(.getSuperclass ^Class %) (class x)))))

(defn object
  "The object of that wait: the promise or the queue itself; nil if it is not known. It is in the local variables of the frame that `telling` finds. They are
  read only if there is such a frame."
  [snapshot node]
  (when-some [[_ i] (telling (stacks/frames snapshot node) node)]
    (when-some [^Locals$Frame frame (nth (:frames (stacks/of snapshot node)) i nil)]
      (first (filter #(of-class? (.getClassName ^StackTraceElement (.at frame)) %) (.objects frame))))))
