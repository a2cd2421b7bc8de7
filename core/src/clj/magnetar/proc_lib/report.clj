(ns magnetar.proc-lib.report
  "Where processes of OTP say what befell them: one event, as a map, for each thing."
  {:no-doc true}
  (:require
   [magnetar.impl.context :as context]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.hooks :as hooks]
   [magnetar.impl.loading :as loading]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (java.util.function Consumer)
   (magnetar.kernel.fiber Cancelled Exit Fiber)
   (magnetar.kernel.process LocalProcess LongQueues LongQueues$Warning Traffic)))

(set! *warn-on-reflection* true)

;; ---- where events go

;; Loaded by the first report, with the words of events: a program that reports nothing needs neither. A failure is not kept: that report may come
;; where the stack is full.
(defonce ^:private logger (atom nil))

(defn- write [{:keys [level] :as event}]
  ((or @logger (reset! logger (loading/value 'magnetar.proc-lib.loggers/log))) level (dissoc event :level)))

(defn- hook-name [kind f]
  (if (= write f)
    (str "The logger of " kind)
    (str (fibers/site-of "The hook" f) " of the kind " kind)))

(defn- tell-of-failure [kind ^Throwable t event f]
  (let [text (loading/value 'magnetar.proc-lib.text/event)]
    (binding [*out* *err*]
      (println (str (hook-name kind f) " failed: " (or (ex-message t) (.getName (class t))) ". It was given:\n"
                    (text (dissoc event :level)))))))

(defn- failed
  "Tells what the hook f has thrown. Where that fails too, as for lack of memory, it takes the way of failures, which has memory set aside."
  [kind t event f]
  (try
    (tell-of-failure kind t event f)
    (catch Throwable _ (reports/report t))))

(defn- ending?
  "True on a process that has to end. A receive may throw its exit a moment before the fiber has the cause."
  []
  (if-some [process (LocalProcess/current)]
    (not (.isAlive (.pid process)))
    false))

(defn- hand
  "Calls f with the event. If it fails, that is told, and does not concern the caller, whose own end goes on.

  f may throw an Exit or a Cancelled of its own making. It is thrown on only where the fiber or its process has to end."
  [kind event f]
  (try
    (f event)
    (catch Throwable t
      (when (or (instance? Exit t) (instance? Cancelled t))
        (.check (Fiber/current))
        (when (ending?) (throw t)))
      (failed kind t event f))))

(defn hand-to-hooks
  "Calls the hooks of the kind with the event, in their order, and returns true; nil where no hook is there."
  [kind event]
  (when-some [functions (seq (hooks/of kind))]
    (run! #(hand kind event %) functions)
    true))

(defn tell
  "Reports an event: {:event .. :level :error, :warning or :info ..}. What goes wrong with that does not concern the caller."
  [event]
  (when-not (hand-to-hooks :report event)
    (hand :report event write)))

(defn ignored
  "Reports that this process has no use for the message that it has taken. A trace of messages shows it."
  [message event]
  (Traffic/ignores message)
  (tell (assoc event :level :warning)))

;; ---- long mailboxes

(defn- tell-long-queue [^LongQueues$Warning warning]
  (tell (cond-> {:event :long-message-queue, :level :warning, :pid (.pid warning), :messages (.messages warning), :message (.text warning)}
          (.sender warning) (assoc :sender (.sender warning))
          (.line warning) (assoc :line (.line warning)))))

(LongQueues/setHook (reify Consumer (accept [_ warning] (tell-long-queue warning))))

;; ---- last words, which a supervisor keeps in its history

;; Each may be some hundred kilobytes, and the last words of a server without a supervisor may never be asked for.
(def ^:private most-words 100)

(def ^:private no-words {:order clojure.lang.PersistentQueue/EMPTY :words {}})

(defonce ^:private real-words (atom no-words))

(defn- last-words []
  (environment/local real-words ::words no-words))

(defn- keep-words [{:keys [order words]} pid event]
  (let [order (conj order pid)
        words (assoc words pid event)]
    (if (< (long most-words) (count order))
      {:order (pop order) :words (dissoc words (peek order))}
      {:order order :words words})))

(defn- context
  "The context values of this fiber as the program's redaction leaves them, a map or a text; nil for a fiber without any."
  []
  (when-some [values (not-empty (into {} (remove context/of-library?) (.context (Fiber/current))))]
    ((loading/value 'magnetar.impl.inspect.shown/redacted) values)))

;; A function that returns the ids of the current span, a map, or nil. It waits for nothing and throws nothing.
(defonce ^:private of-span (atom nil))

(defn add-to-crashes
  "Adds what f returns, a map or nil, to each report of a crash from now on; nil adds nothing."
  [f]
  (reset! of-span f))

(defn crash
  "Reports the crash of a process, with the context values and the span it had, and keeps what it last did for its supervisor."
  [{:keys [pid] :as event}]
  (let [values (context)
        ids (when-some [f @of-span] (f))]
    (swap! (last-words) keep-words pid (select-keys event [:last-message :state]))
    (tell (cond-> (merge event ids {:event :crash :level :error})
            values (assoc :context values)))))

(defn take-words
  "The last message and the state of a process that crashed lately, once: they are forgotten then. Nil if it did not crash."
  [pid]
  (let [words (last-words)]
    (when (contains? (:words @words) pid)
      (let [[before _] (swap-vals! words update :words dissoc pid)]
        (get-in before [:words pid])))))

(defn silent?
  "Is this a reason for which processes end as they should?"
  [reason]
  (or (= :normal reason) (= :shutdown reason) (and (vector? reason) (= :shutdown (first reason)) (= 2 (count reason)))))
