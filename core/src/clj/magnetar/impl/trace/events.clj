(ns magnetar.impl.trace.events
  "What a trace tells, and to what: a writer gets lines, a function gets data. The depth is a context value of the fiber."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.match.refusals :refer [printed]]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Associative ILookup IPending)
   (java.io Writer)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process LocalProcess ProcessInfo)))

(set! *warn-on-reflection* true)

;; ---- the depth: a number, or :off while this fiber tells of an event

(def ^:private depth-key 'magnetar.trace/depth)

(defn depth-in
  "The depth in these context values, or :off. Calls no function that a program may trace."
  [^ILookup values]
  (if (identical? nil values) 0 (.valAt values depth-key 0)))

(defn depth
  "The depth of traced calls around this one, or :off. Calls no function that a program may trace."
  [^Fiber fiber]
  (depth-in (.context fiber)))

(defn indentation
  "The depth as a number, which an event has."
  []
  (let [depth (depth (Fiber/current))]
    (if (number? depth) depth 0)))

(defn set-depth
  "Sets the depth. Calls no function that a program may trace. The caller restores the former context."
  [^Fiber fiber depth]
  (let [^Associative values (.context fiber)]
    (.setContext fiber (if (identical? nil values) {depth-key depth} (.assoc values depth-key depth)))))

;; ---- text

(defn- of-thread [^Thread thread]
  (let [thread-name (.getName thread)]
    (cond
      (str/blank? thread-name) (str "fiber " (.threadId thread))
      (.isVirtual thread) (str thread-name " #" (.threadId thread))
      :else thread-name)))

(defn of-process
  "What a process is called that has no name. A fiber or thread that is one for a while, as for a call, is called the same as before and after."
  [^LocalProcess process]
  (if (.isGuest process)
    (of-thread (.thread ^ProcessInfo (.info process)))
    (str (.pid process))))

(defn by
  "The name of the running process, fiber or thread."
  []
  (if-some [process (LocalProcess/current)]
    (of-process process)
    (of-thread (Thread/currentThread))))

(defn source-text
  "The text of a form as short text, with the most usual marks of the reader."
  [text]
  (-> text
      (str/replace #"\(clojure\.core/deref ([^()\s]+)\)" "@$1")
      (str/replace #"\(quote ([^()\s]+)\)" "'$1")
      (str/replace #"\(var ([^()\s]+)\)" "#'$1")
      (str/replace #"\bp(\d+)__\d+#" "%$1")
      (reports/cut 200)))

(defn form-text
  "A form of the source as short text."
  [form]
  (source-text (printed form)))

(defn- error-text
  "What an error says, on one line. Its data are shown as the program's redaction allows."
  [error]
  (let [text (if (shown/redacts?)
               (str (.getName (class error)) ": " (ex-message error) (some->> (ex-data error) shown/shown (str " ")))
               (reports/words error))]
    (str/replace (reports/cut text 300) #"\s*\n\s*" " ")))

(def ^:private most-arguments 20)

(defn- shown-arguments
  "The texts of the arguments, up to the first one that is not realized: `apply` takes a lazy sequence, which may have no end."
  [args]
  (loop [args args, shown []]
    (cond
      (and (instance? IPending args) (not (realized? args))) (conj shown "..")
      (empty? args) shown
      (= most-arguments (count shown)) (conj shown "..")
      :else (recur (rest args) (conj shown (shown/shown (first args)))))))

(defn- call-text [{:keys [function args]}]
  (str "(" (str/join " " (cons function (shown-arguments args))) ")"))

(defn- step-text
  "An event of a label: a value, or what happens to a step of a transducer."
  [{:keys [event label value error]}]
  (case event
    :in (str label " <- " (shown/shown value))
    :out (str label " -> " (shown/shown value))
    :reduced (str label " ends early")
    :complete (str label " is complete")
    :throw (str label " !! " (error-text error))
    (str label ": " (shown/shown value))))

(defn- branch-text
  "An event of `condv`: the branch that a form takes, or a message that a receive leaves."
  [{:keys [event place value clause number locals others] :as data}]
  (str place (when (contains? data :value) (str ", of " (shown/shown value))) ": "
       (cond
         (= :skip event) "left in the mailbox"
         number (str "clause " number ", " clause)
         :else (or clause "no clause"))
       (when locals
         (str ", where " (str/join ", " (for [[sym x] locals] (str sym " is " (shown/shown x))))))
       (str/join (for [[number clause sentence] others]
                   (str "; not clause " number ", " clause ", since " sentence)))))

(defn how-many
  "The number of events in words."
  [n]
  (str n (if (= 1 n) " event" " events")))

(defn- end-text
  "Why a trace of messages has ended."
  [{:keys [reason limit dropped]}]
  (str "the trace of messages ends"
       (case reason
         :limit (str " at its limit of " (how-many limit))
         :caller " with its caller"
         "")
       (when (pos? (long dropped)) (str "; " dropped " dropped"))))

(defn- message-text
  "An event of a message."
  [{:keys [event number to kind value cause line] :as data}]
  (let [shown (str (when-not (contains? #{nil :message} kind) (str ", " (name kind))) ": " (shown/shown value))
        numbered (when number (str " " number))]
    (case event
      :send (str "sends" numbered " to " to shown (when cause (str "; because of " cause)) (when line (str ", at " line)))
      :take (str "takes" numbered shown)
      :lost (str "loses" numbered " to " to shown)
      :unhandled (str "does not handle" numbered shown)
      :end (end-text data))))

(defn- duration-text
  "How long a call took, if that is 10 milliseconds or more."
  [nanos]
  (let [millis (quot (long (or nanos 0)) 1000000)]
    (when (<= 10 millis)
      (str " (" millis " ms)"))))

(defn- event-text [{:keys [event value error label forms nanos] :as data}]
  (cond
    (#{:send :take :lost :unhandled :end} event) (message-text data)
    (some? label) (step-text data)
    (#{:branch :skip} event) (branch-text data)
    (= :call event) (call-text data)
    (= :return event) (str "=> " (shown/shown value) (duration-text nanos))
    :else (str (str/join "; in " (cons (str "!! " (error-text error)) forms)) (duration-text nanos))))

(defn text
  "The event as one line. An event of a message has no depth, and the end of a trace no place."
  [{:keys [depth by] :as data}]
  (str (when by (str "[" by "] ")) (apply str (repeat (or depth 0) "| ")) (event-text data)))

;; ---- sinks

(defn write-line
  "Writes the line by one call of the writer, so that lines of several fibers do not mix."
  [^Writer out line]
  (.write out (str line "\n"))
  (.flush out))

(defn sink
  "The sink for these options: what :to is, or the lines go to the writer."
  [operation options out]
  (arguments/options operation [:to] options)
  (let [to (:to options)]
    (arguments/option-function ":to" to "{:to tap>}")
    (or to #(write-line out (text %)))))

(defn tell
  "Gives the event to the sink. A sink that fails is reported, and the program goes on. Traced functions that the sink calls are not traced."
  [sink event]
  (let [fiber (Fiber/current)
        before (.context fiber)]
    (set-depth fiber :off)
    (try
      (sink event)
      (catch Throwable t
        (reports/stop-here t)
        (reports/report "sink of magnetar.trace" t))
      (finally (.setContext fiber before)))))
