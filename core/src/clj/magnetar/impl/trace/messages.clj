(ns magnetar.impl.trace.messages
  "Tracers of messages: each tells of the messages that it wants, up to a limit, and of what becomes of them.

  A message carries a mark among the context values of its sender. It says which number the message has for each tracer, and what it is because of.
  So causes are known across processes, spawns, calls, go blocks, forks and tasks. Answers and lost messages carry no context. They are known by identity.

  The traced program is never held up. An event goes into a queue, and is dropped if that is full. A fiber takes the events out, and gives them to the sink."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.runtime]
   [magnetar.impl.trace.events :as events])
  (:import
   (clojure.lang IDeref)
   (java.io Writer)
   (java.lang.ref WeakReference)
   (java.util ArrayDeque IdentityHashMap Map$Entry)
   (java.util.concurrent ArrayBlockingQueue)
   (java.util.concurrent.atomic AtomicBoolean AtomicLong)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.fiber Fiber Propagation)
   (magnetar.kernel.park Latch WaitReason)
   (magnetar.kernel.process LocalProcess Pid ProcessTable Ref Traffic Traffic$Observer)
   (magnetar.kernel.time Waits)))

(set! *warn-on-reflection* true)

;; ---- the mark of a message

;; causes: from the id of a tracer to the number of the message because of which something is sent; own: to the number of the marked message itself.
(deftype Mark [causes own])

(def ^:private mark-key 'magnetar.trace/message)

(defn- mark-in ^Mark [context]
  (get (Propagation/valuesOf context) mark-key))

(defn- with-mark [context mark]
  (Propagation/withValues context (assoc (Propagation/valuesOf context) mark-key mark)))

;; ---- what a message is

(defn- answer? [message]
  (or (instance? Map$Entry message)
      (and (vector? message) (< 1 (count message)) (instance? Ref (nth message 0)))))

(defn- parts
  "What the message is, as {:kind :value}. A call also has the :ref of its answer."
  [message]
  (let [word (when (vector? message) (nth message 0 nil))]
    (case word
      :magnetar/call {:kind :call, :value (nth message 2), :ref (nth (nth message 1) 1)}
      :magnetar/cast {:kind :cast, :value (nth message 1)}
      (if (answer? message)
        {:kind :answer, :value (nth message 1), :ref (nth message 0)}
        {:kind :message, :value message}))))

;; ---- a tracer

(def ^:private longest-queue 1000)

;; The lock guards `told`, which holds {:number :events :dropped :ended :second :in-second :names}, and the two maps: `open` from a message to
;; [number to] of each send of it that is neither taken nor lost, `calls` from the reference of a call to its number.
(deftype Tracer [id wanted ^long limit rate sink owner ^ReentrantLock lock told ^IdentityHashMap open ^IdentityHashMap calls
                 ^ArrayBlockingQueue queue ^AtomicBoolean drained ^Latch done]
  IDeref
  (deref [_] (:events @told)))

(defmethod print-method Tracer [^Tracer tracer ^Writer out]
  (let [{:keys [events ended]} @(.-told tracer)]
    (.write out (str "#<trace of messages, " (events/how-many (count events)) (when ended ", ended") ">"))))

(defonce ^:private tracers (atom []))
(defonce ^:private ids (AtomicLong.))

(defn- owner-here
  "A function that says whether the caller still lives."
  []
  (if-some [process (LocalProcess/current)]
    (let [pid (.pid process)]
      #(.isAlive ^Pid pid))
    (let [thread (WeakReference. (Thread/currentThread))]
      #(boolean (some-> ^Thread (.get ^WeakReference thread) .isAlive)))))

(defmacro ^:private locked [tracer & body]
  `(let [^ReentrantLock lock# (.-lock ~tracer)]
     (.lock lock#)
     (try ~@body (finally (.unlock lock#)))))

;; ---- names

(defn- name-of
  "What the process is called: its registered name, also once it is dead, else its pid."
  [^Tracer tracer ^Pid pid]
  (let [told (.-told tracer)]
    (or (get-in @told [:names pid])
        (let [text (some-> ^LocalProcess (ProcessTable/live pid) .name pr-str)]
          (when text
            (vswap! told assoc-in [:names pid] text))
          (or text (str pid))))))

(defn- address-text [tracer to]
  (cond
    (instance? Pid to) (name-of tracer to)
    (instance? Ref to) (if-some [maker (.maker ^Ref to)] (name-of tracer maker) (str to))
    :else (if-some [pid (when (or (keyword? to) (symbol? to)) (ProcessTable/whereis to))]
            (name-of tracer pid)
            (arguments/show to))))

(defn- by-text
  "What sends or takes: a process, a fiber or a thread."
  [tracer]
  (if-some [process (LocalProcess/current)]
    (name-of tracer (.pid process))
    (events/by)))

;; ---- telling

(defn- tell-all
  "Gives the events in the queue to the sink."
  [^Tracer tracer]
  (loop []
    (when-some [event (.poll ^ArrayBlockingQueue (.-queue tracer))]
      (events/tell (.-sink tracer) event)
      (recur))))

(declare drain)

(defn- finish-draining [^Tracer tracer]
  (.set ^AtomicBoolean (.-drained tracer) true)
  (if (.isEmpty ^ArrayBlockingQueue (.-queue tracer))
    (when (:ended @(.-told tracer))
      (.release ^Latch (.-done tracer)))
    (drain tracer)))

(defn- waiting?
  "Is there an event to tell, or the end?"
  [^Tracer tracer]
  (or (not (.isEmpty ^ArrayBlockingQueue (.-queue tracer)))
      (and (:ended @(.-told tracer)) (not (.isReleased ^Latch (.-done tracer))))))

(defn- drain
  "Lets a fiber tell the events, unless one does."
  [^Tracer tracer]
  (when (and (waiting? tracer) (.compareAndSet ^AtomicBoolean (.-drained tracer) true false))
    (fibers/dispatch "trace of messages" #(try
                                            (tell-all tracer)
                                            (finally (finish-draining tracer))))))

(defn- add
  "Adds an event. It is kept, and told unless the queue is full. Called with the lock."
  [^Tracer tracer event]
  (vswap! (.-told tracer) update :events conj event)
  (when-not (.offer ^ArrayBlockingQueue (.-queue tracer) event)
    (vswap! (.-told tracer) update :dropped inc)))

(defn- end-locked
  "Ends the tracer, for :limit, :stopped or :caller. Called with the lock."
  [^Tracer tracer reason]
  (let [told (.-told tracer)]
    (when-not (:ended @told)
      (vswap! told assoc :ended reason)
      (add tracer {:event :end, :reason reason, :limit (.-limit tracer), :dropped (:dropped @told), :by (by-text tracer)})
      (.clear ^IdentityHashMap (.-open tracer))
      (.clear ^IdentityHashMap (.-calls tracer)))))

(declare observer)

(defn- change-tracers
  "Applies f to the tracers. There is an observer while there are tracers."
  [f & args]
  (locking tracers
    (Traffic/observe (when (seq (apply swap! tracers f args)) observer))))

(defn- without [tracers tracer]
  (filterv #(not (identical? tracer %)) tracers))

(defmacro ^:private telling
  "Does body, which adds events to the tracer, with its lock, unless the tracer has ended. Then the events are told."
  [tracer & body]
  `(let [^Tracer tracer# ~tracer
         value# (locked tracer#
                  (when-not (:ended @(.-told tracer#))
                    (if ((.-owner tracer#))
                      (do ~@body)
                      (end-locked tracer# :caller))))]
     (when (:ended @(.-told tracer#))
       (change-tracers without tracer#))
     (drain tracer#)
     value#))

(defn- show
  "Adds the event, which may be the last one. Called with the lock."
  [^Tracer tracer event]
  (add tracer event)
  (when (<= (.-limit tracer) (count (:events @(.-told tracer))))
    (end-locked tracer :limit)))

;; ---- which messages

(defn- wanted?
  "Does the tracer want the message? It wants the answers to the calls that it wants."
  [^Tracer tracer {:keys [kind value ref]}]
  (or (nil? (.-wanted tracer))
      (if (= :answer kind)
        (locked tracer (.containsKey ^IdentityHashMap (.-calls tracer) ref))
        ((.-wanted tracer) value))))

(defn- within-rate?
  "False, and counted as dropped, if there are too many messages in this second. Called with the lock."
  [^Tracer tracer]
  (or (nil? (.-rate tracer))
      (let [now (quot (.nanoTime (.environment (Fiber/current))) 1000000000)
            told (.-told tracer)
            {:keys [second in-second]} @told
            before (if (= now second) in-second 0)]
        (if (< (long before) (long (.-rate tracer)))
          (do (vswap! told assoc :second now :in-second (inc (long before)))
              true)
          (do (vswap! told update :dropped inc)
              false)))))

;; ---- messages that are under way

(defn- open-at ^ArrayDeque [^Tracer tracer message]
  (.computeIfAbsent ^IdentityHashMap (.-open tracer) message (fn [_] (ArrayDeque.))))

(defn- close
  "Forgets a send of the message, which the test accepts, and returns its number, or nil. Called with the lock."
  [^Tracer tracer message test]
  (when-some [sends (.get ^IdentityHashMap (.-open tracer) message)]
    (when-some [found (first (filter test sends))]
      (.removeFirstOccurrence ^ArrayDeque sends found)
      (when (.isEmpty ^ArrayDeque sends)
        (.remove ^IdentityHashMap (.-open tracer) message))
      (first found))))

(defn- show-send
  "Adds the event of a message that is sent, and returns its number; nil if there are too many. Called with the lock."
  [^Tracer tracer {:keys [kind value ref]} message to by causes]
  (when (within-rate? tracer)
    (let [number (:number (vswap! (.-told tracer) update :number inc))
          cause (get causes (.-id tracer))
          call (when (= :answer kind) (.remove ^IdentityHashMap (.-calls tracer) ref))]
      (.add (open-at tracer message) [number to])
      (when (= :call kind)
        (.put ^IdentityHashMap (.-calls tracer) ref number))
      (show tracer (cond-> {:event :send, :number number, :by by, :to (address-text tracer to), :kind kind, :value value}
                     cause (assoc :cause cause)
                     call (assoc :call call)))
      number)))

;; ---- what the kernel shows

(defn- sent
  "The number that the message has for the tracer; nil if the tracer does not tell of it."
  [^Tracer tracer parts by message to causes]
  (when (wanted? tracer parts)
    (telling tracer (show-send tracer parts message to (or by (by-text tracer)) causes))))

(defn- quiet?
  "Is this the work of a sink, which is not traced?"
  [context]
  (= :off (events/depth-in (Propagation/valuesOf context))))

(defn- marked
  "The context values that the message carries."
  [by to message context]
  (let [before (mark-in context)
        causes (if before (.-causes before) {})
        parts (parts message)
        own (reduce (fn [own ^Tracer tracer]
                      (if-some [number (sent tracer parts by message to causes)] (assoc own (.-id tracer) number) own))
                    {} @tracers)]
    (with-mark context (Mark. (merge causes own) own))))

(defn- taken [^Tracer tracer parts ^Mark mark message]
  (let [known (when mark (get (.-own mark) (.-id tracer)))]
    (when (or known (and (nil? mark) (or (= :answer (:kind parts)) (wanted? tracer parts))))
      (telling tracer
        (let [number (close tracer message #(or (nil? known) (= known (first %))))]
          (cond
            (or known number) (show tracer {:event :take, :number (or known number), :by (by-text tracer), :value (:value parts)})
            (= :answer (:kind parts)) nil
            (within-rate? tracer) (show tracer {:event :take, :by (by-text tracer), :value (:value parts)})))))))

(defn- forget-cause
  "Lets nothing that this fiber now sends and starts be because of a message."
  []
  (let [fiber (Fiber/current)]
    (when (mark-in (.context fiber))
      (.setContext fiber (not-empty (dissoc (.context fiber) mark-key))))))

(defn- remember-cause
  "Lets what this process now sends and starts be because of the message. A server does so itself, since it handles a message in the message's context."
  [mark message]
  (let [fiber (Fiber/current)]
    (when-not (or (some-> (LocalProcess/current) .server) (answer? message))
      (if mark
        (.setContext fiber (with-mark (.context fiber) mark))
        (forget-cause)))))

(defn- lost [^Tracer tracer parts to message]
  (let [here? #(= to (second %))
        open? #(some here? (.get ^IdentityHashMap (.-open tracer) message))]
    (when (or (locked tracer (open?)) (wanted? tracer parts))
      (telling tracer
        (when-not (open?)
          (show-send tracer parts message to (by-text tracer) (some-> (mark-in (.context (Fiber/current))) .-causes)))
        (when-some [number (close tracer message here?)] ; nil if the trace has ended, or there are too many
          (show tracer {:event :lost, :number number, :by (by-text tracer), :to (address-text tracer to), :kind (:kind parts)
                        :value (:value parts)}))))))

(defn- ignored [^Tracer tracer parts ^Mark mark]
  (let [number (when mark (get (.-own mark) (.-id tracer)))]
    (when (or number (and (nil? mark) (wanted? tracer parts)))
      (telling tracer
        (show tracer (cond-> {:event :unhandled, :by (by-text tracer), :value (:value parts)}
                       number (assoc :number number)))))))

(defmacro ^:private unharmed
  "The value of body; `otherwise` if it throws. A tracer never breaks the program."
  [otherwise & body]
  `(try ~@body (catch Throwable _# ~otherwise)))

(def ^:private observer
  (reify Traffic$Observer
    (sends [_ sender to message context]
      (unharmed context
        (if (quiet? context)
          context
          (marked (when (nil? sender) "a timer") to message context))))
    (takes [_ message context]
      (unharmed nil
        (when-not (or (quiet? context) (quiet? (.context (Fiber/current))))
          (let [mark (mark-in context)
                parts (parts message)]
            (run! #(taken % parts mark message) @tracers)
            (remember-cause mark message)))))
    (loses [_ to message]
      (unharmed nil
        (when-not (quiet? (.context (Fiber/current)))
          (let [parts (parts message)]
            (run! #(lost % parts to message) @tracers)))))
    (ignores [_ message]
      (unharmed nil
        (let [mark (mark-in (.context (Fiber/current)))
              parts (parts message)]
          (run! #(ignored % parts mark) @tracers))))))

;; ---- start and stop

(defn- limit-of [options]
  (when-not (contains? options :limit)
    (arguments/misuse :magnetar/no-limit
                      (str "`trace/messages` wants a :limit, the number of events after which it ends, as in {:limit 100}; these options are "
                           (arguments/show options) ".")
                      {:options options}))
  (arguments/whole ":limit" (:limit options)))

(defn start
  "Starts a tracer with the options of `magnetar.trace/messages*`. Lines go to the writer."
  [options out]
  (arguments/options "messages" [:limit :match :rate :to] options)
  (let [limit (limit-of options)
        rate (some->> (:rate options) (arguments/whole ":rate"))
        wanted (arguments/option-function ":match" (:match options) "{:match vector?}")
        sink (events/sink "messages" (select-keys options [:to]) out)
        tracer (Tracer. (.incrementAndGet ^AtomicLong ids) wanted limit rate sink (owner-here) (ReentrantLock.)
                        (volatile! {:number 0, :events [], :dropped 0, :names {}}) (IdentityHashMap.) (IdentityHashMap.)
                        (ArrayBlockingQueue. longest-queue) (AtomicBoolean. true) (Latch.))]
    (change-tracers conj tracer)
    tracer))

(def ^:private patience
  "How many nanoseconds `stop` waits for the sink."
  1000000000)

(defn- check-tracer [operation x]
  (when-not (instance? Tracer x)
    (arguments/misuse :magnetar/not-a-tracer
                      (str "`trace/" operation "` wants what `trace/messages` returned; this is " (arguments/show x) ".") {:value x})))

(defn stop
  "Ends the tracer. Waits until its events are told, at most a second; those that are left are dropped."
  [^Tracer tracer]
  (check-tracer "stop" tracer)
  (locked tracer (end-locked tracer :stopped))
  (change-tracers without tracer)
  (when (empty? @tracers)
    (forget-cause))
  (drain tracer)
  (when-not (Waits/await ^Latch (.-done tracer) WaitReason/CALLBACK tracer patience)
    (locked tracer
      (let [left (ArrayDeque.)]
        (.drainTo ^ArrayBlockingQueue (.-queue tracer) left)
        (vswap! (.-told tracer) update :dropped + (.size left)))))
  (let [{:keys [events dropped ended]} @(.-told tracer)]
    {:events (dec (count events)), :dropped dropped, :reason ended}))

(defn events-of
  "The events of a tracer. A vector of events is taken as it is."
  [x]
  (if (vector? x)
    x
    (do (check-tracer "diagram" x)
        @x)))
