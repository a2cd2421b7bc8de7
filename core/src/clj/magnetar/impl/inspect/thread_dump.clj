(ns magnetar.impl.inspect.thread-dump
  "Reads the JDK's thread dumps as text: of `jcmd Thread.dump_to_file`, of `jstack` and `jcmd Thread.print`, and what `kill -QUIT` makes a JVM print.

  A thread is a map.

    :id      its number, a string
    :name    its name
    :state   RUNNABLE, BLOCKED, WAITING or TIMED_WAITING
    :frames  StackTraceElements, the innermost first
    :waits   {:how :monitor, :park or :notify, :object its text, :class the name of its class}, or nil
    :owns    the texts of the objects that it has locked
    :virtual true of a virtual thread
    :carries the number of the virtual thread that it runs as a carrier, if the dump has it"
  {:no-doc true}
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

;; ---- lines

(def ^:private first-line-in-file
  "The first line of a thread of `Thread.dump_to_file`."
  #"#(\d+) \"(.*)\"( virtual)? (RUNNABLE|BLOCKED|WAITING|TIMED_WAITING|NEW|TERMINATED)\b.*")

(def ^:private first-line-in-print
  "The first line of a thread of `jstack`. Threads of the JVM itself have no number."
  #"\"(.*)\" #(\d+) .*")

(defn- thread [id name state]
  {:id id :name name :state state :frames [] :owns #{}})

(defn- first-line [line]
  (if-some [[_ id name virtual state] (re-matches first-line-in-file line)]
    (cond-> (thread id name state) virtual (assoc :virtual true))
    (when-some [[_ name id] (re-matches first-line-in-print line)]
      (thread id name nil))))

(defn- mounted
  "The virtual thread whose stack follows the stack of its carrier."
  [line]
  (when-some [[_ id] (re-matches #"\s+Mounted virtual thread #(\d+)" line)]
    (assoc (thread id (str "virtual thread #" id) "RUNNABLE") :virtual true)))

(defn- frame [line]
  (when-some [[_ class method place] (re-matches #"\s+at (?:[^/\s(]+/)?([^\s(]+)\.([^.\s(]+)\((.*)\)" line)]
    (let [[_ file number] (re-matches #"(?:[^/]*/)?([^:]+):(\d+)" place)]
      (StackTraceElement. class method file (if number (Integer/parseInt number) -1)))))

(defn frame-of
  "The StackTraceElement of a frame as text, such as \"java.base/java.lang.Thread.run(Thread.java:1474)\"; nil if the text is no frame."
  [text]
  (frame (str " at " text)))

(defn- object
  "[text class] of the object of a line such as \"- locked <0x1> (a Foo)\" or \"- locked <Foo@1>\"."
  [line]
  (when-some [[_ text class] (re-find #"<([^>]+)>(?: \(an? ([^)]+)\))?" line)]
    [text (or class (first (str/split text #"@")))]))

(def ^:private how-of
  {"waiting to lock" :monitor, "waiting to re-lock in wait()" :monitor, "parking to wait for" :park, "waiting on" :notify})

(defn- wait [line]
  (when-some [[_ words] (re-find #"- (waiting to lock|waiting to re-lock in wait\(\)|parking to wait for|waiting on) +<" line)]
    (let [[text class] (object line)]
      {:how (how-of words) :object text :class class})))

(defn- with-line
  "The thread with what this line of its stack says."
  [{:keys [waits] :as thread} line]
  (if-some [frame (frame line)]
    (update thread :frames conj frame)
    (condp re-find line
      #"Carrying virtual thread #" (assoc thread :carries (second (re-find #"#(\d+)" line)))
      #"java\.lang\.Thread\.State: " (assoc thread :state (second (re-find #"State: (\w+)" line)))
      #"- (?:locked|) ?<" (update thread :owns conj (first (object line))) ; the second one is a lock of java.util.concurrent
      #"- (?:waiting|parking)" (if waits thread (assoc thread :waits (wait line)))
      thread)))

;; ---- all

(defn- end?
  "Does the JVM's summary of deadlocks begin at this line? It repeats stacks."
  [line]
  (re-matches #"Found (one|\d+) Java-level deadlocks?:?" line))

(defn- last-dump
  "The text from its last dump on. A program prints a dump at each signal."
  [text]
  (subs text (or (str/last-index-of text "Full thread dump") 0)))

(defn threads
  "The threads of the last dump in the text; an empty vector without a dump."
  [text]
  (loop [[line & lines] (str/split-lines (last-dump text)), threads [], current nil]
    (cond
      (or (nil? line) (end? line)) (cond-> threads current (conj current))
      :else (if-some [next (or (first-line line) (mounted line))]
              (recur lines (cond-> threads current (conj current)) next)
              (recur lines threads (some-> current (with-line line)))))))
