(ns magnetar.impl.trace.messages
  "Shows the messages of the kernel to the traces that want them, with what they are because of.

  A message carries a mark, in the way of a thread-local that travels. It says which number the message has for each trace, and the number of the message
  that it is because of. What a process sends and starts while it handles the message takes the latter along, over spawns, go blocks, forks and tasks.
  It does not travel any more when the last trace has ended.

  An answer to a call carries no mark when it is taken. It is known by its reference."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.propagation :as propagation]
   [magnetar.impl.runtime]
   [magnetar.impl.stamped]
   [magnetar.impl.trace.events :as events]
   [magnetar.impl.trace.tracer :as tracer])
  (:import
   (java.util Map$Entry)
   (java.util.function Consumer Supplier)
   (magnetar.impl.stamped Stamped)
   (magnetar.impl.trace.tracer Tracer)
   (magnetar.kernel.fiber Fiber Propagation Propagation$Accessor)
   (magnetar.kernel.process LocalProcess Ref Traffic Traffic$Observer)))

(set! *warn-on-reflection* true)

(defonce ^:private tracers (atom []))

;; ---- causes

;; Of a message: `own` from the id of a trace to the message's number; `causes` the same for what is sent because of it, where a message that a trace does not
;; show hands on its cause; `newest` the id of the last trace that there was.
(deftype Mark [causes own ^long newest])

(defn- causes-of [x]
  (if (instance? Mark x) (.-causes ^Mark x) x))

;; What is done now is because of x: a Mark, or a map of causes. With a pid it holds for that process only, and not for the thread that it runs on.
(deftype Because [pid x])

(def ^:private ^ThreadLocal because (ThreadLocal.))

(defn- current-pid []
  (some-> (LocalProcess/current) .pid))

(defn- remembered []
  (when-some [^Because b (.get because)]
    (when (or (nil? (.-pid b)) (identical? (current-pid) (.-pid b)))
      (.-x b))))

(defn- remember [x]
  (if (nil? x)
    (.remove because)
    (.set because (Because. (current-pid) x))))

;; What travels is what a message or a start is because of. The number of a message does not: what is started is not the message.
(def ^:private cause-accessor
  (let [set (reify Consumer (accept [_ x] (remember x)))
        clear (reify Runnable (run [_] (remember nil)))]
    (Propagation$Accessor. ::because (reify Supplier (get [_] (causes-of (remembered)))) set clear set clear true)))

(defn- mark-in
  "What a message with this context carries: a Mark, a map of causes, or nil."
  [context]
  (Propagation/local context cause-accessor))

(defn- known?
  "Was the message sent while there was this trace?"
  [^Tracer tracer mark]
  (and (instance? Mark mark) (<= (long (.-id tracer)) (.-newest ^Mark mark))))

(defn- number-of [^Tracer tracer ^Mark mark]
  (get (.-own mark) (.-id tracer)))

;; ---- what a message is

(defn- answer?
  "Is it [reference value], as the answer to a call? A program may send the like, see `tracer/as-seen`."
  [message]
  (and (or (vector? message) (instance? Map$Entry message))
       (= 2 (count message))
       (instance? Ref (nth message 0))))

(defn- request-parts [message]
  (let [from (nth message 1 nil)
        request (nth message 2 nil)]
    {:kind :call
     :value (if (instance? Stamped request) (.-request ^Stamped request) request)
     :ref (when (vector? from) (nth from 1 nil))}))

(defn- parts
  "What the message is, as {:kind :value}. A call and its answer also have the :ref."
  [message]
  (let [word (when (vector? message) (nth message 0 nil))]
    (cond
      (identical? :magnetar/call word) (request-parts message)
      (identical? :magnetar/cast word) {:kind :cast, :value (nth message 1 nil)}
      (answer? message) {:kind :answer, :value (nth message 1), :ref (nth message 0), :whole message}
      :else {:kind :message, :value message})))

;; ---- the traces

(declare observer)

(defn- change-tracers
  "Applies f to the traces. There is an observer while there are traces."
  [f & args]
  (locking tracers
    (let [before @tracers
          now (apply swap! tracers f args)]
      (when-not (= (empty? before) (empty? now))
        (propagation/use-accessors :trace (when (seq now) [cause-accessor]))
        (if (seq now)
          (Traffic/add observer)
          (Traffic/remove observer))))))

(defn- each-live
  "Calls f with each trace that has not ended. Forgets the others."
  [f]
  (run! #(when (tracer/live? %) (f %)) @tracers)
  (when (some tracer/ended? @tracers)
    (change-tracers #(vec (remove tracer/ended? %)))))

;; ---- what the kernel shows

(defn- quiet?
  "Is this the work of a sink, which is not traced?"
  [context]
  (= :off (events/depth-in (Propagation/valuesOf context))))

(defn- quiet-here? []
  (quiet? (.context (Fiber/current))))

(defn- sends
  "The context that the message carries instead of its sender's."
  [by to message context]
  (let [parts (parts message)
        newest (reduce max 0 (map #(.-id ^Tracer %) @tracers))
        causes (causes-of (mark-in context))
        own (volatile! {})
        kept (volatile! {})]
    (each-live (fn [^Tracer tracer]
                 (let [id (.-id tracer)
                       parts (tracer/as-seen tracer parts)
                       cause (get causes id)]
                   (when cause
                     (vswap! kept assoc id cause))
                   (when-some [number (when (tracer/wanted? tracer parts) (tracer/sent tracer parts to by cause))]
                     (vswap! own assoc id number)))))
    (Propagation/withLocal context cause-accessor (Mark. (not-empty (merge @kept @own)) @own newest))))

(defn- each-that-shows
  "For each trace that shows the message: (numbered tracer parts number) if it has shown the send, else (unnumbered tracer parts)."
  [message mark numbered unnumbered]
  (let [parts (parts message)]
    (each-live (fn [tracer]
                 (let [parts (tracer/as-seen tracer parts)]
                   (if (known? tracer mark)
                     (some->> (number-of tracer mark) (numbered tracer parts))
                     (when (tracer/wanted? tracer parts)
                       (unnumbered tracer parts))))))))

(defn- takes [message mark]
  (each-that-shows message mark tracer/taken tracer/taken-unmarked))

(defn- loses [to message mark]
  (let [causes (causes-of (remembered))]
    (each-that-shows message mark
                     #(tracer/lost %1 %2 to %3)
                     (fn [^Tracer tracer parts] (tracer/lost-at-once tracer parts to (get causes (.-id tracer)))))))

(defn- ignores [message]
  (each-that-shows message (remembered) tracer/ignored #(tracer/ignored %1 %2 nil)))

(defn- remember-message
  "Lets what this process now sends and starts be because of the message. A server does so itself, since it handles a message in the message's context."
  [mark message]
  (when-not (or (some-> (LocalProcess/current) .server) (answer? message))
    (remember mark)))

(defmacro ^:private unharmed
  "The value of body; `otherwise` if it throws. A trace never breaks the program."
  [otherwise & body]
  `(try ~@body (catch Throwable _# ~otherwise)))

(def ^:private observer
  (reify Traffic$Observer
    (sends [_ sender to message context]
      (unharmed context
        (if (quiet? context)
          context
          (sends (when (nil? sender) "a timer") to message context))))
    (takes [_ message context]
      (unharmed nil
        (when-not (or (quiet? context) (quiet-here?))
          (let [mark (mark-in context)]
            (takes message mark)
            (remember-message mark message)))))
    (loses [_ to message context]
      (unharmed nil
        (when-not (or (quiet? context) (quiet-here?))
          (loses to message (mark-in context)))))
    (ignores [_ message]
      (unharmed nil
        (when-not (quiet-here?)
          (ignores message))))))

;; ---- start and stop

(defn- limit-of [options]
  (when-not (contains? options :limit)
    (arguments/misuse :magnetar/no-limit
                      (str "`trace/messages` wants a :limit, the number of events after which it ends, as in {:limit 100}; these options are "
                           (arguments/show options) ".")
                      {:options options}))
  (arguments/whole ":limit" (:limit options)))

(defn- match-of
  "The function that is the :match. A pattern is one only where the macro sees it."
  [{:keys [match]}]
  (when (or (vector? match) (map? match))
    (arguments/misuse :magnetar/bad-option
                      (str ":match is a pattern only in a literal map of options, as in (trace/messages {:limit 100, :match [:order _]}); here it has to be "
                           "a function of a message; this is " (arguments/show match) ".")
                      {:option :match, :value match}))
  (arguments/option-function ":match" match "(trace/messages* {:limit 100, :match vector?})"))

(defn start
  "Starts a trace with the options of `magnetar.trace/messages*`. Lines go to the writer."
  [options out]
  (arguments/options "messages" [:limit :match :rate :to] options)
  (let [tracer (tracer/tracer {:limit (limit-of options)
                               :rate  (some->> (:rate options) (arguments/whole ":rate"))
                               :match (match-of options)
                               :sink  (events/sink "messages" (select-keys options [:to]) out)})]
    (change-tracers conj tracer)
    tracer))

(defn- check-tracer [operation x]
  (when-not (instance? Tracer x)
    (arguments/misuse :magnetar/not-a-tracer
                      (str "`trace/" operation "` wants what `trace/messages` returned; this is " (arguments/show x) ".") {:value x})))

(defn stop
  "Ends the trace, and waits until its events are told, at most a second."
  [tracer]
  (check-tracer "stop" tracer)
  (try
    (tracer/stop tracer)
    (finally (change-tracers #(vec (remove (partial identical? tracer) %))))))

(defn stop-all
  "Ends all traces, and then waits as `stop` does."
  []
  (let [all @tracers]
    (run! tracer/end-now all)
    (mapv stop all)))

(defn events
  "The events of the trace so far."
  [tracer]
  (check-tracer "events" tracer)
  (tracer/events tracer))

(defn- event? [x]
  (and (map? x)
       (case (:event x)
         :end true
         :send (every? (partial contains? x) [:number :by :to :kind :value])
         (:take :lost :unhandled) (every? (partial contains? x) [:by :value])
         false)))

(defn events-of
  "The events of a trace. A vector of events is taken as it is."
  [x]
  (if (vector? x)
    (do
      (when-some [[place wrong] (first (keep-indexed (fn [i x] (when-not (event? x) [i x])) x))]
        (arguments/misuse :magnetar/not-a-tracer
                          (str "`trace/diagram` wants the events of a trace of messages, as its docstring and that of `messages` show them; number " place
                               " is " (arguments/show wrong) ".")
                          {:value wrong}))
      x)
    (do (check-tracer "diagram" x)
        (tracer/events x))))
