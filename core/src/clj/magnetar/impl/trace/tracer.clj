(ns magnetar.impl.trace.tracer
  "One trace of messages: its events up to a limit, and the fiber that gives them to a sink.

  The traced program is never held up. An event goes into a queue, and is dropped if that is full. A fiber takes the events out, and gives them to the sink.
  The place of the last event is kept free."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.trace.events :as events])
  (:import
   (java.io Writer)
   (java.lang.ref WeakReference)
   (java.util ArrayList)
   (java.util.concurrent ArrayBlockingQueue)
   (java.util.concurrent.atomic AtomicBoolean AtomicLong)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.park Latch WaitReason)
   (magnetar.kernel.process Caller LocalProcess Pid ProcessTable Ref)
   (magnetar.kernel.time Waits)))

(set! *warn-on-reflection* true)

(def ^:private longest-queue 1000)

;; The lock guards `state`, a map of
;;   :events            the events without the end
;;   :end               the last event, once the trace has ended
;;   :dropped           how many events were not told, or not made
;;   :number            of the last message
;;   :calls             from the reference of a call that was shown to its number
;;   :answers           from the reference of an answer that was sent to its number, nil if it was dropped
;;   :names             from a pid to what it is called in the events
;;   :second, :shown    the second of the clock, and how many messages were shown in it
;;   :abandoned         true if `stop` has waited for the sink in vain
(deftype Tracer [id match limit rate sink owner-alive? begun ^ReentrantLock lock state ^ArrayBlockingQueue queue ^AtomicBoolean idle ^Latch done
                 ^AtomicBoolean match-failed])

(defmacro ^:private locked [tracer & body]
  `(let [^ReentrantLock lock# (.-lock ~(with-meta tracer {:tag `Tracer}))]
     (.lock lock#)
     (try ~@body (finally (.unlock lock#)))))

(defn- state [^Tracer tracer]
  @(.-state tracer))

(defn- change
  "Applies f to the state. Called with the lock."
  [^Tracer tracer f & args]
  (vreset! (.-state tracer) (apply f (state tracer) args)))

(defn ended? [tracer]
  (some? (:end (state tracer))))

(defn- end-event
  "The last event, with the number of events that were dropped until now."
  [tracer]
  (let [{:keys [end dropped]} (state tracer)]
    (when end
      (assoc end :dropped dropped))))

(defn events
  "The events so far, a vector. The last one is the :end, if the trace has ended."
  [tracer]
  (let [end (end-event tracer)]
    (cond-> (:events (state tracer)) end (conj end))))

(defmethod print-method Tracer [tracer ^Writer out]
  (.write out (str "#<trace of messages, " (events/how-many (count (:events (state tracer)))) (when (ended? tracer) ", ended") ">")))

;; ---- start

(defonce ^:private ids (AtomicLong.))

(defn- owner-here
  "A function that says whether the caller still lives."
  []
  (if-some [process (LocalProcess/current)]
    (let [pid (.pid process)]
      #(.isAlive ^Pid pid))
    (let [thread (WeakReference. (Thread/currentThread))]
      #(boolean (some-> ^Thread (.get ^WeakReference thread) .isAlive)))))

(defn- now
  "The nanoseconds of the clock of this fiber."
  ^long []
  (.nanoTime (.environment (Fiber/current))))

(defn tracer
  "A trace that belongs to the caller. match is a function of a message, or nil for all messages; rate may be nil."
  [{:keys [match limit rate sink]}]
  (Tracer. (.incrementAndGet ^AtomicLong ids) match limit rate sink (owner-here) (now) (ReentrantLock.)
           (volatile! {:events [], :dropped 0, :number 0, :calls {}, :answers {}, :names {}})
           (ArrayBlockingQueue. (inc (long longest-queue))) (AtomicBoolean. true) (Latch.) (AtomicBoolean.)))

;; ---- names

(defn- name-of
  "What the process is called: its registered name or its pid, and in all of a trace the same. Called with the lock."
  [tracer ^Pid pid]
  (or (get-in (state tracer) [:names pid])
      (let [process (ProcessTable/live pid)
            text (cond
                   (nil? process) (str pid)
                   (.name process) (pr-str (.name process))
                   :else (events/of-process process))]
        (change tracer assoc-in [:names pid] text)
        text)))

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

;; ---- the sink

(defn- tell-all
  "Gives the events in the queue to the sink."
  [^Tracer tracer]
  (loop []
    (when-some [event (.poll ^ArrayBlockingQueue (.-queue tracer))]
      (events/tell (.-sink tracer) (if (= :end (:event event)) (end-event tracer) event))
      (recur))))

(declare deliver-events)

(defn- finish-delivery [^Tracer tracer]
  (.set ^AtomicBoolean (.-idle tracer) true)
  (if (.isEmpty ^ArrayBlockingQueue (.-queue tracer))
    (when (ended? tracer)
      (.release ^Latch (.-done tracer)))
    (deliver-events tracer)))

(defn- to-deliver?
  "Is there an event to tell, or the end?"
  [^Tracer tracer]
  (or (not (.isEmpty ^ArrayBlockingQueue (.-queue tracer)))
      (and (ended? tracer) (not (.isReleased ^Latch (.-done tracer))))))

(defn- deliver-events
  "Lets a fiber tell the events, unless one does."
  [^Tracer tracer]
  (when (and (to-deliver? tracer) (.compareAndSet ^AtomicBoolean (.-idle tracer) true false))
    (fibers/dispatch "trace of messages" #(try
                                            (tell-all tracer)
                                            (finally (finish-delivery tracer))))))

;; ---- events

(defn- drop-event [tracer]
  (change tracer update :dropped inc))

(defn- end
  "Ends the trace, for :limit, :stopped or :caller. Called with the lock."
  [^Tracer tracer reason]
  (when-not (ended? tracer)
    (let [event {:event :end, :reason reason, :limit (.-limit tracer)}]
      (change tracer assoc :end event :calls {} :answers {})
      (.offer ^ArrayBlockingQueue (.-queue tracer) event))))

(defn- add
  "Adds an event, which may be the last one. It is told unless the queue is full. Called with the lock."
  [^Tracer tracer data]
  (let [event (assoc data :nanos (- (now) (long (.-begun tracer))))
        ^ArrayBlockingQueue queue (.-queue tracer)]
    (change tracer update :events conj event)
    (if (< (.size queue) (long longest-queue))
      (.offer queue event)
      (drop-event tracer)))
  (when (<= (long (.-limit tracer)) (count (:events (state tracer))))
    (end tracer :limit)))

(defmacro ^:private unless-ended
  "The value of body, which adds events, with the lock; nil if the trace has ended. Then the events are told."
  [tracer & body]
  `(let [value# (locked ~tracer (when-not (ended? ~tracer) ~@body))]
     (deliver-events ~tracer)
     value#))

(defn live?
  "True if the trace has not ended. It ends here if its owner has."
  [^Tracer tracer]
  (cond
    (ended? tracer) false
    ((.-owner-alive? tracer)) true
    :else (do (unless-ended tracer (end tracer :caller))
              false)))

;; ---- which messages

(defn- matches? [^Tracer tracer value]
  (try
    (boolean ((.-match tracer) value))
    (catch Throwable t
      (when (instance? InterruptedException t)
        (.interrupt (Thread/currentThread)))
      (when (.compareAndSet ^AtomicBoolean (.-match-failed tracer) false true)
        (reports/report ":match of magnetar.trace/messages" t))
      false)))

(defn as-seen
  "The parts of a message as the trace has to see them: what looks like an answer is one only if it answers a call that the trace has shown."
  [tracer {:keys [kind ref whole] :as parts}]
  (let [{:keys [calls answers]} (state tracer)]
    (if (or (not= :answer kind) (contains? calls ref) (contains? answers ref))
      parts
      {:kind :message, :value whole})))

(defn wanted?
  "Does the trace want the message, as it sees it? It wants the answers to the calls that it has shown. A :match that throws does not."
  [^Tracer tracer {:keys [kind value]}]
  (or (nil? (.-match tracer))
      (= :answer kind)
      (matches? tracer value)))

(defn- within-rate?
  "False, and counted as dropped, if there are too many messages in this second. Called with the lock."
  [^Tracer tracer]
  (or (nil? (.-rate tracer))
      (let [now (quot (now) 1000000000)
            {:keys [second shown]} (state tracer)
            before (long (if (= now second) shown 0))
            more? (< before (long (.-rate tracer)))]
        (if more?
          (change tracer assoc :second now :shown (inc before))
          (drop-event tracer))
        more?)))

;; ---- what becomes of a message

(defn- note-call
  "Remembers the reference of a call or an answer that has the number, or was dropped. Returns the number of the call of an answer."
  [tracer {:keys [kind ref]} number]
  (let [call (get-in (state tracer) [:calls ref])]
    (cond
      (and (= :call kind) number) (change tracer assoc-in [:calls ref] number)
      (and (= :answer kind) ref) (change tracer #(-> % (update :calls dissoc ref) (assoc-in [:answers ref] number))))
    call))

(defn- line-of-sender
  "The line of the program that sends the message; nil for an answer, which a server sends when its callback has returned."
  [kind]
  (when-not (= :answer kind)
    (Caller/line)))

(defn- add-send
  "Adds the event of a message that is sent, and returns its number; nil if there are too many. Called with the lock."
  [tracer {:keys [kind value] :as parts} to by cause]
  (let [line (line-of-sender kind)
        number (when (within-rate? tracer)
                 (:number (change tracer update :number inc)))
        call (note-call tracer parts number)]
    (when number
      (add tracer (cond-> {:event :send, :number number, :by (or by (by-text tracer)), :to (address-text tracer to), :kind kind, :value value}
                    line (assoc :line line)
                    cause (assoc :cause cause)
                    (and call (= :answer kind)) (assoc :call call)))
      number)))

(defn sent
  "Shows that the message is sent, because of the message with the number `cause`. Returns its number; nil if it is not shown."
  [tracer parts to by cause]
  (unless-ended tracer (add-send tracer parts to by cause)))

(defn- add-fate
  "Adds what became of a message that was sent with the number, which may be unknown. Called with the lock."
  [tracer event {:keys [value]} number more]
  (add tracer (cond-> (assoc more :event event, :by (by-text tracer), :value value)
                number (assoc :number number))))

(defn taken
  "Shows that the message with the number was taken."
  [tracer parts number]
  (unless-ended tracer (add-fate tracer :take parts number nil)))

(defn taken-unmarked
  "Shows that a message was taken that carries no number: an answer to a call, or one from before the trace."
  [tracer {:keys [ref] :as parts}]
  (unless-ended tracer
    (if-some [[_ number] (find (:answers (state tracer)) ref)]
      (do (change tracer update :answers dissoc ref)
          (when number
            (add-fate tracer :take parts number nil)))
      (when (within-rate? tracer)
        (add-fate tracer :take parts nil nil)))))

(defn- add-loss [tracer {:keys [kind] :as parts} to number]
  (when (and number (not (ended? tracer)))
    (add-fate tracer :lost parts number {:to (address-text tracer to), :kind kind})))

(defn lost
  "Shows that the message with the number was lost."
  [tracer parts to number]
  (unless-ended tracer (add-loss tracer parts to number)))

(defn lost-at-once
  "Shows that a message is sent, and that it is lost."
  [tracer parts to cause]
  (unless-ended tracer (add-loss tracer parts to (add-send tracer parts to nil cause))))

(defn ignored
  "Shows that the current process has no use for the message that it has taken, whose number may be unknown."
  [tracer parts number]
  (unless-ended tracer (add-fate tracer :unhandled parts number nil)))

;; ---- stop

(def ^:private patience
  "How many nanoseconds `stop` waits for the sink."
  1000000000)

(defn- abandon
  "Drops the events that the sink has not taken, except for the last one."
  [^Tracer tracer]
  (locked tracer
    (let [^ArrayBlockingQueue queue (.-queue tracer)
          left (ArrayList.)]
      (.drainTo queue left)
      (run! #(if (= :end (:event %)) (.offer queue %) (drop-event tracer)) left)
      (change tracer assoc :abandoned true))))

(defn end-now
  "Ends the trace, and does not wait for its sink."
  [^Tracer tracer]
  (unless-ended tracer (end tracer :stopped)))

(defn stop
  "Ends the trace. Waits until its events are told, at most a second; those that are left are dropped."
  [^Tracer tracer]
  (end-now tracer)
  (when-not (or (:abandoned (state tracer)) (Waits/await ^Latch (.-done tracer) WaitReason/CALLBACK tracer (long patience)))
    (abandon tracer))
  (let [{:keys [events dropped end]} (state tracer)]
    {:events (count events), :dropped dropped, :reason (:reason end)}))
