(ns magnetar.telemetry.listeners
  "Listeners of events, each with a queue and a thread of its own.

  The program is never held up: an event goes into the queue, and is dropped and counted if that is full. The thread is no fiber: it also runs while
  fibers occupy all carriers, and a simulation does not see it.

  What a listener itself does, and what it starts and sends, makes no events: its thread has a context value, which travels. Otherwise each event could
  cause the next one for ever."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.otp.instrument :as instrument]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest]
   [magnetar.impl.telemetry :as telemetry]
   [magnetar.impl.trace.events :as events])
  (:import
   (java.util.concurrent ArrayBlockingQueue ConcurrentHashMap)
   (java.util.concurrent.atomic AtomicBoolean AtomicLong)
   (magnetar.impl.otp Instrument)
   (magnetar.kernel.fiber CancellationScope Fiber Propagation)
   (magnetar.kernel.process LocalProcess Traffic Traffic$Observer)
   (magnetar.kernel.scope Scope)))

(set! *warn-on-reflection* true)

(def kinds
  "The events."
  [:spawn :exit :restart :call :dead-letter :mailbox-high-water :channel-blocked :scope-timeout])

(def ^:private longest-queue 10000)

;; `call` is f, and throws nothing.
(deftype Listener [f call events ^long blocked-nanos ^ArrayBlockingQueue queue ^AtomicLong dropped ^AtomicBoolean ended])

(defonce ^:private listeners (atom []))

(defn- wanting
  "The listeners that want events of the kind."
  [kind]
  (filterv #(contains? (.-events ^Listener %) kind) @listeners))

;; ---- the thread of a listener

(def ^:private quiet-key 'magnetar.telemetry/quiet)

(defn- quiet-in? [values]
  (contains? values quiet-key))

(defn- quiet?
  "Is this the work of a listener?"
  []
  (quiet-in? (.context (Fiber/current))))

(def ^:private end ::end)

(def ^:private interrupted ::interrupted)

(defn- next-event
  "Waits for the next event; `interrupted` if the listener, or what it has started, interrupts this thread."
  [^Listener listener]
  (try
    (.take ^ArrayBlockingQueue (.-queue listener))
    (catch InterruptedException _ interrupted)))

(defn- hear
  "Gives the events to the listener until it has ended and its queue is empty."
  [^Listener listener]
  (.setContext (Fiber/current) {quiet-key true})
  (loop []
    (let [event (next-event listener)]
      (when-not (identical? end event)
        (when-not (identical? interrupted event)
          ((.-call listener) event))
        (when-not (and (.get ^AtomicBoolean (.-ended listener)) (.isEmpty ^ArrayBlockingQueue (.-queue listener)))
          (recur))))))

(defn- start-thread [listener]
  (.start (doto (Thread. nil #(hear listener) "magnetar-telemetry" 0 false)
            (.setDaemon true))))

;; ---- telling

(defn- offer [^Listener listener event]
  (when-not (.offer ^ArrayBlockingQueue (.-queue listener) event)
    (.incrementAndGet ^AtomicLong (.-dropped listener))))

(defn- tell
  "Tells these listeners of the event."
  [told event]
  (let [event (assoc event :at (environment/date))]
    (run! #(offer % event) told)))

(defmacro ^:private telling
  "Tells the listeners that want it of the event, an expression that is evaluated if there are any."
  [kind event]
  `(when-not (quiet?)
     (when-some [told# (seq (wanting ~kind))]
       (tell told# (assoc ~event :event ~kind)))))

;; When the processes were started that are to be told of as exited.
(defonce ^:private ^ConcurrentHashMap births (ConcurrentHashMap.))

(defn- scope-of-listener? [scope]
  (some-> (.fiber ^CancellationScope scope) .context quiet-in?))

(def ^:private kernel-events
  (telemetry/listener
    {:spawned (fn [pid parent]
                (when (and (seq (wanting :exit)) (not (quiet?)))
                  (.put births pid (clock/now)))
                (telling :spawn {:pid pid, :parent parent}))
     :exited (fn [pid reason]
               (let [birth (.remove births pid)]
                 (telling :exit (cond-> {:pid pid, :reason reason}
                                  birth (assoc :lived-ms (telemetry/ms (- (clock/now) (long birth))))))))
     :restarted (fn [supervisor child reason]
                  (telling :restart {:supervisor supervisor, :id child, :reason reason}))
     :mailbox-grew (fn [pid messages]
                     (telling :mailbox-high-water {:pid pid, :messages messages}))
     :channel-blocked (fn [operation nanos]
                        (when-not (quiet?)
                          (when-some [told (seq (filter #(<= (.-blocked-nanos ^Listener %) (long nanos)) (wanting :channel-blocked)))]
                            (tell told {:event :channel-blocked, :operation (keyword operation), :by (events/by), :waited-ms (telemetry/ms nanos)}))))
     :scope-timed-out (fn [scope]
                        (when-not (scope-of-listener? scope)
                          (telling :scope-timeout {:site (.site ^Scope scope)})))}))

(def ^:private of-servers
  (reify Instrument
    (handles [_ _ _ _] nil)
    (handled [_ _ _ _])
    (calls [_ operation address _]
      (when (and (seq (wanting :call)) (not (quiet?)))
        [operation address (instrument/label-at address) (clock/now)]))
    (called [_ [operation address label begun] error]
      (telling :call (cond-> {:function (if (vector? operation) (first operation) operation), :to address, :callback-module label
                              :by (events/by), :took-ms (telemetry/ms (- (clock/now) (long begun)))}
                       error (assoc :error error))))))

(def ^:private of-messages
  (reify Traffic$Observer
    (loses [_ to message context]
      (try
        (when-not (quiet-in? (Propagation/valuesOf context))
          (telling :dead-letter {:to to, :message message, :by (events/by)}))
        (catch Throwable _)))))

;; ---- adding and removing

;; What is on: the kernel is asked only for what some listener wants.
(defonce ^:private on (atom #{}))

(def ^:private sources
  {:kernel [#(telemetry/add kernel-events) #(telemetry/remove-listener kernel-events) [:spawn :exit :restart :mailbox-high-water :channel-blocked :scope-timeout]]
   :servers [#(instrument/add of-servers) #(instrument/remove-instrument of-servers) [:call]]
   :messages [#(Traffic/add of-messages) #(Traffic/remove of-messages) [:dead-letter]]})

(defn- switch
  "Turns the sources on that are wanted now, and the others off. Called with the lock of `listeners`."
  []
  (doseq [[source [turn-on turn-off kinds]] sources
          :let [wanted? (some #(seq (wanting %)) kinds)]]
    (cond
      (and wanted? (not (@on source))) (do (swap! on conj source) (turn-on))
      (and (not wanted?) (@on source)) (do (swap! on disj source) (turn-off))))
  (when (empty? (wanting :exit))
    (.clear births)))

(defn- end-listener [^Listener listener]
  (.set ^AtomicBoolean (.-ended listener) true)
  (.offer ^ArrayBlockingQueue (.-queue listener) end)) ; if it is full, the thread is awake, and sees that it has ended

(defn- listener-of ^Listener [f]
  (first (filter #(= f (.-f ^Listener %)) @listeners)))

(defn- new-listener [f events blocked]
  (doto (Listener. f (reports/unharmed (fibers/site-of "the listener" f) true f) events blocked (ArrayBlockingQueue. longest-queue) (AtomicLong.)
                   (AtomicBoolean.))
    start-thread))

(defn- with-options
  "The same listener, with its queue and its thread, for other events."
  [^Listener listener events blocked]
  (Listener. (.-f listener) (.-call listener) events blocked (.-queue listener) (.-dropped listener) (.-ended listener)))

(defn- without [f listeners]
  (filterv #(not= f (.-f ^Listener %)) listeners))

(defn- check-kinds [chosen]
  (when-not (or (nil? chosen) (and (coll? chosen) (seq chosen)))
    (arguments/misuse :magnetar/bad-option
                      (str "The :events of `add-listener` is a set of some of " (arguments/show kinds) "; this is " (arguments/show chosen) ".")
                      {:value chosen}))
  (when-some [unknown (first (remove (set kinds) chosen))]
    (arguments/misuse :magnetar/bad-kind
                      (str "`add-listener` knows the :events " (arguments/show kinds) "; this is " (arguments/show unknown) "."
                           (when-some [meant (suggest/closest unknown kinds)] (str " Is " (arguments/show meant) " meant?")))
                      {:kind unknown})))

(defn add
  "Adds the listener, or gives it new options; returns it."
  [f {:keys [events blocked-for] :as options}]
  (arguments/options "add-listener" [:events :blocked-for] options)
  (arguments/function "add-listener" f "(telemetry/add-listener prn)")
  (check-kinds events)
  (let [blocked (arguments/period ":blocked-for" (if (nil? blocked-for) 1000 blocked-for))
        events (set (or events kinds))]
    (locking listeners
      (let [listener (if-some [old (listener-of f)] (with-options old events blocked) (new-listener f events blocked))]
        (swap! listeners #(conj (without f %) listener)))
      (switch))
    f))

(defn remove-listener
  "Removes the listener."
  [f]
  (locking listeners
    (when-some [listener (listener-of f)]
      (swap! listeners #(without f %))
      (end-listener listener))
    (switch)))

(defn shown
  "The listeners as data."
  []
  (mapv (fn [^Listener listener]
          {:listener (.-f listener)
           :events (.-events listener)
           :queued (.size ^ArrayBlockingQueue (.-queue listener))
           :dropped (.get ^AtomicLong (.-dropped listener))})
        @listeners))
