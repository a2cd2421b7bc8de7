(ns magnetar.telemetry-test
  "Listeners of events: what they hear, and that they harm nothing. Metrics and events of the flight recorder."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [with-scope]]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting eventually failures-of message-of refusal taken value-of]]
   [magnetar.telemetry :as telemetry]
   [magnetar.test :as mt])
  (:import
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)
   (java.util.concurrent CountDownLatch)
   (jdk.jfr Recording ValueDescriptor)
   (jdk.jfr.consumer RecordedEvent RecordingFile)
   (magnetar.impl.otp Instruments)
   (magnetar.impl.telemetry Histogram)
   (magnetar.kernel.process LocalProcess ProcessTable)
   (magnetar.kernel.report Telemetry Telemetry$Listener)))

(set! *warn-on-reflection* true)

(def ^:private counter
  {:name "counter"
   :init (fn [n] [:ok n])
   :handle-call (fn [request _ n]
                  (case request
                    :fail (throw (ex-info "no connection" {}))
                    [:reply n n]))
   :handle-cast (fn [m n] [:noreply (+ (long m) (long n))])})

(defn- start []
  (second (gs/start counter 0)))

(defn- hearing
  "Calls f with a channel of the events of these kinds, which a listener puts there; returns its value."
  [options f]
  (let [heard (a/chan 1000)
        listener (telemetry/add-listener #(a/offer! heard %) options)]
    (try
      (f heard)
      (finally (telemetry/remove-listener listener)))))

(defn- next-where
  "The next event that the test accepts; :late if none comes."
  [heard accepts?]
  (loop []
    (let [event (taken heard)]
      (if (or (= :late event) (accepts? event)) event (recur)))))

(defn- without-date [event]
  (is (inst? (:at event)))
  (dissoc event :at))

(deftest the-life-of-a-process-is-told
  (hearing {:events #{:spawn :exit}}
    (fn [heard]
      (let [made (promise)
            parent (spawn #(do (deliver made (spawn (fn [] (receive x (actor/exit x))))) (receive :stop nil)))
            child (value-of made)]
        (is (= {:event :spawn, :pid child, :parent parent} (without-date (next-where heard #(= child (:pid %))))))
        (! child :no-paper)
        (let [event (next-where heard #(= child (:pid %)))]
          (is (= {:event :exit, :pid child, :reason :no-paper} (dissoc (without-date event) :lived-ms)))
          (is (<= 0.0 (:lived-ms event))))
        (actor/exit parent :kill)
        (is (= [:exit :killed] ((juxt :event :reason) (next-where heard #(= parent (:pid %))))))))))

(deftest a-listener-knows-of-a-death-that-a-monitor-has-told
  (hearing {:events #{:exit}}
    (fn [heard]
      (actor/with-process {}
        (dotimes [n 100]
          (let [[pid ref] (actor/spawn-monitor (fn [] (actor/exit [:no n])))]
            (receive [:DOWN ref _ _ _] nil)
            (is (= [:no n] (:reason (next-where heard #(= pid (:pid %))))))))))))

(deftest a-call-is-told-with-its-callback-module-its-time-and-its-error
  (collecting (atom [])
    (fn []
      (hearing {:events #{:call}}
        (fn [heard]
          (let [pid (start)]
            (gs/call pid :get)
            (let [event (without-date (taken heard))]
              (is (= {:event :call, :function 'magnetar.gen-server/call, :to pid, :callback-module "counter"} (dissoc event :by :took-ms)))
              (is (< 0.0 (:took-ms event)))
              (is (string? (:by event))))
            (let [error (try (gs/call pid :fail) (catch Exception e e))]
              (is (identical? error (:error (taken heard)))))
            (is (nil? (:callback-module (do (try (gs/call pid :get) (catch Exception _)) (taken heard)))))))))))

(deftest a-restart-is-told-with-its-reason
  (collecting (atom [])
    (fn []
      (hearing {:events #{:restart}}
        (fn [heard]
          (actor/with-process {:trap-exit true}
            (let [[_ pid] (sup/start-link {:intensity 1 :children [{:id :printer :start [gs/start-link counter 0]}]} {:name :office})
                  child #(:pid (second (sup/which-child :office :printer)))]
              (actor/exit (child) :no-paper)
              (is (= {:event :restart, :supervisor :office, :id :printer, :reason :no-paper} (without-date (taken heard))))
              (actor/exit (child) :no-paper)
              (is (= :shutdown (receive [:EXIT ^:pin pid reason] reason)))
              (is (nil? (a/poll! heard))))))))))

(deftest a-dead-letter-is-told
  (hearing {:events #{:dead-letter}}
    (fn [heard]
      (let [gone (spawn (fn []))]
        (actor/join gone)
        (! gone :hello)
        (is (= {:event :dead-letter, :to gone, :message :hello}
               (dissoc (without-date (next-where heard #(= gone (:to %)))) :by)))))))

(deftest a-mailbox-that-grows-is-told
  (let [reports (atom [])]
    (collecting reports
      (fn []
        (hearing {:events #{:mailbox-high-water}}
          (fn [heard]
            (let [pid (spawn #(receive :stop nil))]
              (dotimes [_ 50000] (! pid :order))
              (let [event (without-date (taken heard))]
                (is (= [:mailbox-high-water pid] [(:event event) (:pid event)]))
                (is (<= 50000 (long (:messages event)))))
              (is (eventually (some #(= [:long-message-queue pid] [(:event %) (:pid %)]) @reports)))
              (! pid :stop)
              (actor/join pid))))))))

(deftest a-wait-on-channels-that-was-long-is-told-at-its-end
  (hearing {:events #{:channel-blocked}, :blocked-for 100}
    (fn [heard]
      (doseq [[operation wait] {:take #(a/<! %), :put #(a/>! % 1), :alts #(a/alts! [%])}]
        (mt/simulate {:seed 1}
          (let [ch (a/chan)]
            (a/go (wait ch))
            (scope/sleep 250)
            (if (= :put operation) (a/<! ch) (a/>! ch 1))))
        (let [event (next-where heard #(re-find #"telemetry_test" (:by %)))]
          (is (= operation (:operation event)))
          (is (<= 249.0 (:waited-ms event) 251.0)))))))

(deftest a-scope-whose-time-is-over-is-told
  (hearing {:events #{:scope-timeout}}
    (fn [heard]
      (try
        (with-scope [_ {:deadline 1}] (scope/sleep 20000))
        (catch Exception _))
      (is (re-find #"telemetry_test\.clj:\d+" (:site (taken heard)))))))

;; ---- no harm

(deftest a-listener-that-throws-is-reported-until-it-has-succeeded
  (failures-of
    (fn [failures]
      (let [heard (a/chan 100)
            tell #(do (spawn (fn [] (actor/exit %))) (taken heard))
            listener (telemetry/add-listener (fn [{:keys [reason]}]
                                               (a/offer! heard reason)
                                               (when (= :bad reason) (throw (ex-info "no disk" {}))))
                                             {:events #{:exit}})]
        (try
          (run! tell [:bad :bad :good :bad])
          (is (eventually (= ["no disk" "no disk"] (map message-of @failures))))
          (finally (telemetry/remove-listener listener)))))))

(defn- shown [listener]
  (first (filter #(= listener (:listener %)) (telemetry/listeners))))

(deftest a-slow-listener-loses-events-and-the-program-goes-on
  (let [holds (promise)
        stuck (CountDownLatch. 1)
        listener (telemetry/add-listener (fn [_] (deliver holds true) (.await stuck)) {:events #{:dead-letter}})
        gone (spawn (fn []))]
    (try
      (actor/join gone)
      (! gone :hello)
      (value-of holds)
      (dotimes [_ 10100] (! gone :hello))
      (is (= 10000 (:queued (shown listener))))
      (is (<= 100 (long (:dropped (shown listener))) 110) "others may lose some messages")
      (finally
        (telemetry/remove-listener listener)
        (.countDown stuck)))))

(deftest what-a-listener-does-makes-no-events
  (let [heard (a/chan 1000)
        pid (start)
        listener (telemetry/add-listener
                   (fn [event]
                     (a/offer! heard event)
                     (when (= :spawn (:event event))
                       (gs/call pid :get)
                       (actor/join (spawn #(gs/call pid :get)))
                       (try
                         (with-scope [_ {:deadline 1}] (scope/sleep 20000))
                         (catch Exception _))
                       (a/offer! heard :done))))
        mine (promise)]
    (try
      (deliver mine (spawn (fn [] (receive :stop nil))))
      (is (= :done (next-where heard #{:done})))
      (! @mine :stop)
      (is (= [:exit @mine] ((juxt :event :pid) (next-where heard #(not= :spawn (:event %))))))
      (finally (telemetry/remove-listener listener)))))

(deftest a-removed-listener-hears-no-more-and-leaves-nothing-on
  (let [heard (atom [])
        listener (telemetry/add-listener #(swap! heard conj (:pid %)))]
    (is (and (Telemetry/isOn) (Instruments/isOn)))
    (hearing {:events #{:exit}}
      (fn [by-another]
        (telemetry/remove-listener listener)
        (let [pid (spawn (fn []))]
          (next-where by-another #(= pid (:pid %)))
          (telemetry/add-listener listener)
          (let [later (spawn (fn []))]
            (is (eventually (some #{later} @heard)))
            (telemetry/remove-listener listener)
            (is (not-any? #{pid} @heard))))))
    (is (not (or (Telemetry/isOn) (Instruments/isOn))))
    (is (= [] (telemetry/listeners)))))

(deftest a-listener-of-restarts-puts-no-message-and-no-call-on-the-longer-way
  (hearing {:events #{:restart}}
    (fn [_]
      (is (= [true false] [(Telemetry/isOn) (Instruments/isOn)])))))

(deftest a-listener-that-is-added-again-gets-the-new-options
  (hearing {:events #{:spawn}}
    (fn [_]
      (let [[{:keys [listener]}] (telemetry/listeners)]
        (telemetry/add-listener listener {:events #{:exit}})
        (is (= [#{:exit}] (map :events (telemetry/listeners)))))))
  (testing "and keeps its thread, and what it has not yet heard"
    (let [stuck (CountDownLatch. 1)
          heard (a/chan 10)
          gone (spawn (fn []))
          listener (fn [{:keys [to message]}]
                     (when (= gone to)
                       (.await stuck)
                       (a/offer! heard [message (Thread/currentThread)])))
          add #(telemetry/add-listener listener {:events %})]
      (try
        (actor/join gone)
        (add #{:dead-letter})
        (run! #(! gone %) [1 2])
        (add #{:dead-letter :spawn})
        (! gone 3)
        (.countDown stuck)
        (let [told (vec (repeatedly 3 #(taken heard)))]
          (is (= [1 2 3] (map first told)))
          (is (= 1 (count (set (map second told))))))
        (finally (telemetry/remove-listener listener))))))

(deftest a-thread-that-is-a-process-for-a-while-is-not-told
  (hearing {:events #{:spawn :exit}}
    (fn [heard]
      (let [pid (start)
            guest (do
                    (gs/call pid :get)
                    (actor/with-process {} (self)))
            after (spawn (fn []))]
        (is (= [[:spawn pid] [:spawn after] [:exit after]]
               (loop [told []]
                 (let [{:keys [event] :as e} (taken heard)
                       told (cond-> told (#{pid guest after} (:pid e)) (conj [event (:pid e)]))]
                   (if (= [:exit after] (peek told)) told (recur told))))))))))

(deftest a-death-is-announced-though-a-listener-has-no-stack
  (failures-of
    (fn [failures]
      (let [asked (promise)
            listener (reify Telemetry$Listener
                       (exited [_ _ reason] ; others may end meanwhile
                         (when (= :no-paper reason)
                           (deliver asked true)
                           (throw (StackOverflowError. "of the test")))))]
        (Telemetry/add listener)
        (try
          (actor/with-process {}
            (let [[_ ref] (actor/spawn-monitor (fn [] (actor/exit :no-paper)))]
              (is (= :no-paper (receive [:DOWN ^:pin ref _ _ reason] reason (after 20000 :late))))))
          (is (= [true ["of the test"]] [(value-of asked) (map message-of @failures)]))
          (finally (Telemetry/remove listener)))))))

(deftest a-mistaken-option-is-refused
  (is (re-find #"Is :spawn meant" (:message (refusal #(telemetry/add-listener prn {:events #{:spwan}})))))
  (is (= :magnetar/bad-option (:magnetar/reason (refusal #(telemetry/add-listener prn {:events #{}})))))
  (is (= :magnetar/bad-duration (:magnetar/reason (refusal #(telemetry/add-listener prn {:blocked-for 0})))))
  (is (some? (refusal #(telemetry/add-listener 7))))
  (is (= [] (telemetry/listeners))))

(deftest a-simulation-runs-the-same-with-a-listener
  (let [run #(mt/simulate {:seed 7}
               (let [order (atom [])
                     pids (mapv (fn [n] (spawn (fn [] (scope/sleep n) (swap! order conj n)))) [3 1 2 1 3])
                     pid (start)]
                 (gs/cast pid 2)
                 (run! actor/join pids)
                 [@order (gs/call pid :get)]))
        plain (run)]
    (hearing nil
      (fn [heard]
        (is (= plain (run)))
        (testing "its times are those of the simulation"
          (is (= 1970 (.getValue (java.time.Year/from (.atZone (.toInstant ^java.util.Date (:at (next-where heard #(= :exit (:event %)))))
                                                               java.time.ZoneOffset/UTC))))))))))

;; ---- metrics

(defn- measured
  "The metrics of what f does."
  [f]
  (telemetry/start-metrics)
  (try
    (f)
    (telemetry/metrics)
    (finally (telemetry/stop-metrics))))

(deftest each-message-of-a-callback-module-is-counted
  (collecting (atom [])
    (fn []
      (let [pid (start)
            other (start)
            numbers (measured (fn []
                                (dotimes [n 3] (gs/call pid n))
                                (run! #(gs/cast other %) [1 2])
                                (gs/call other :get)
                                (actor/with-process {}
                                  (let [ref (actor/monitor pid)]
                                    (try (gs/call pid :fail) (catch Exception _))
                                    (receive [:DOWN ^:pin ref _ _ _] nil)))
                                (actor/with-process {} (let [ref (actor/monitor other)]
                                                         (gs/stop other)
                                                         (receive [:DOWN ^:pin ref _ _ _] nil)))))
            module (get-in numbers [:callback-modules "counter"])]
        (is (= {:messages 7, :calls 5, :casts 2, :infos 0, :failures 1}
               (select-keys module [:messages :calls :casts :infos :failures])))
        (is (= 7 (:count (:handling-ms module))))
        (is (<= 7 (long (:count (:queue-ms module)))))
        (is (<= 1 (long (:peak-mailbox module)) 3))
        (is (<= 1 (long (:crashed (:processes numbers)))))
        (is (every? #(instance? Double %) (vals (dissoc (:queue-ms module) :count))))))))

(def ^:private slow
  {:name "slow"
   :init (fn [_] [:ok nil])
   :handle-cast (fn [ms _] (scope/sleep ms) [:noreply nil])
   :handle-call (fn [_ _ _] [:reply :ok nil])})

(deftest queue-time-and-handling-time-are-told-apart
  (let [numbers (measured (fn []
                            (mt/simulate {:seed 3}
                              (let [[_ pid] (gs/start slow nil)]
                                (run! #(gs/cast pid %) [100 10])
                                (gs/call pid :get)))))
        {:keys [queue-ms handling-ms peak-mailbox]} (get-in numbers [:callback-modules "slow"])]
    (is (= 3 (:count queue-ms) (:count handling-ms)))
    (is (<= 109.0 (:max queue-ms) 111.0))
    (is (<= 95.0 (:p50 queue-ms) 105.0))
    (is (<= 99.0 (:max handling-ms) 101.0))
    (is (<= 9.5 (:p50 handling-ms) 10.5))
    (is (<= 2 (long peak-mailbox) 3))))

(deftest a-process-keeps-nothing-of-the-time-that-a-message-carries
  (measured (fn []
              (let [pid (spawn #(receive _ (.messageContext (LocalProcess/current))))]
                (! pid :hello)
                (is (nil? (actor/join pid)))))))

(deftest what-befalls-the-program-is-counted
  (collecting (atom [])
    (fn []
      (let [numbers (measured
                      (fn []
                        (let [gone (spawn (fn []))]
                          (actor/join gone)
                          (! gone :hello))
                        (actor/with-process {:trap-exit true}
                          (let [[_ pid] (sup/start-link {:intensity 1 :children [{:id :printer :start [gs/start-link counter 0]}]} {})]
                            (dotimes [_ 2]
                              (let [child (:pid (second (sup/which-child pid :printer)))
                                    ref (actor/monitor child)]
                                (actor/exit child :no-paper)
                                (receive [:DOWN ^:pin ref _ _ _] nil)))
                            (receive [:EXIT ^:pin pid _] nil)))
                        (let [pid (spawn #(receive :stop nil))]
                          (dotimes [_ 50000] (! pid :order))
                          (is (eventually (pos? (long (:mailbox-high-waters (telemetry/metrics))))))
                          (! pid :stop))
                        (mt/simulate {:seed 1}
                          (let [ch (a/chan)]
                            (a/go (a/<! ch))
                            (scope/sleep 250)
                            (a/>! ch 1)))
                        (try
                          (with-scope [_ {:deadline 1}] (scope/sleep 20000))
                          (catch Exception _))
                        (is (eventually (pos? (long (:scope-timeouts (telemetry/metrics)))))))) ; the timer's thread counts it
            {:keys [spawned exited crashed live]} (:processes numbers)]
        (is (<= 4 (long exited) (long spawned)))
        (is (<= 2 (long crashed) (long exited)))
        (is (nat-int? live))
        (is (= 1 (:restarts numbers)))
        (is (<= 1 (long (:dead-letters numbers))))
        (is (<= 1 (long (:scope-timeouts numbers))))
        (is (<= 1 (long (:mailbox-high-waters numbers))))
        (is (<= 1 (long (:channels-blocked numbers))))))))

(deftest processes-of-a-simulation-are-not-live-ones-of-the-program
  (let [asked (promise)
        counted (promise)
        from-outside (Thread. (fn [] @asked (deliver counted (ProcessTable/count))))]
    (.start from-outside)
    (mt/simulate {:seed 1}
      (dotimes [_ 1000] (spawn #(scope/sleep 1)))
      (is (= 1000 (ProcessTable/count)))
      (deliver asked true)
      (.join from-outside))
    (is (< (long @counted) 1000))))

(deftest metrics-are-off-until-they-are-started-and-begin-at-zero
  (is (nil? (telemetry/metrics)))
  (is (nil? (telemetry/stop-metrics)))
  (let [pid (start)]
    (dotimes [_ 2]
      (telemetry/start-metrics)
      (gs/call pid :get)
      (telemetry/start-metrics)
      (is (= 1 (:calls (get (:callback-modules (telemetry/stop-metrics)) "counter")))))
    (is (not (or (Telemetry/isOn) (Instruments/isOn))))
    (gs/stop pid)))

(deftest a-thousand-callback-modules-have-numbers-and-the-others-share-theirs
  (let [numbers (measured (fn []
                            (dotimes [n 1003]
                              (let [[_ pid] (gs/start (assoc counter :name (str "counter " n)) 0)]
                                (gs/call pid :get)
                                (gs/stop pid)))))]
    (is (= 1001 (count (:callback-modules numbers))))
    (is (= 3 (:calls (get (:callback-modules numbers) :others))))))

(deftest a-percentile-is-within-a-32nd
  (let [random (java.util.Random. 42)
        values (vec (repeatedly 5000 #(long (Math/pow 10 (* 12 (.nextDouble random))))))
        histogram (Histogram.)
        sorted (vec (sort values))]
    (run! #(.add histogram (long %)) values)
    (let [summary (.summary histogram)]
      (is (= [5000 (peek sorted)] [(.count summary) (.max summary)]))
      (is (< (abs (- (.mean summary) (/ (double (reduce + values)) 5000))) 1.0))
      (doseq [[percent told] {50 (.p50 summary), 90 (.p90 summary), 99 (.p99 summary)}
              :let [exact (double (sorted (dec (quot (* 5000 (long percent)) 100))))]]
        (is (<= (abs (- (long told) exact)) (+ 1.0 (/ exact 32.0)))))))
  (testing "the ends"
    (let [histogram (doto (Histogram.) (.add -1) (.add Long/MAX_VALUE))]
      (is (= [2 0 Long/MAX_VALUE] (let [s (.summary histogram)] [(.count s) (.p50 s) (.max s)]))))
    (is (= [0 0.0 0 0] (let [s (.summary (Histogram.))] [(.count s) (.mean s) (.p99 s) (.max s)])))))

(deftest a-program-sees-nothing-of-metrics
  (let [reports (atom [])]
    (collecting reports
      (fn []
        (measured (fn []
                    (let [pid (start)]
                      (actor/with-process {}
                        (let [ref (actor/monitor pid)]
                          (try (gs/call pid :fail) (catch Exception _))
                          (receive [:DOWN ^:pin ref _ _ _] nil))))))))
    (is (= [:crash] (map :event @reports)))
    (is (not (contains? (first @reports) :context)))))

;; ---- the flight recorder

(defn- reported-nowhere
  "Calls f while failures and the reports of processes of OTP are kept from standard error; returns its value."
  [f]
  (failures-of (fn [_] (collecting (atom []) f))))

(defn- recorded
  "The events that a recording of these events has of what f does, each as a map of its name and the values of its fields."
  [names f]
  (let [file (Files/createTempFile "telemetry" ".jfr" (make-array FileAttribute 0))
        recording (Recording.)]
    (try
      (run! #(.enable recording (str "magnetar." %)) names)
      (.start recording)
      (f)
      (.stop recording)
      (.dump recording file)
      (vec (for [^RecordedEvent event (RecordingFile/readAllEvents file)
                 :let [type (.getEventType event)]
                 :when (.startsWith (.getName type) "magnetar.")]
             (into {:event (.getName type), :millis (.toMillis (.getDuration event))}
                   (for [^ValueDescriptor field (.getFields type)
                         :let [k (.getName field)]
                         :when (not (#{"startTime" "duration" "eventThread" "stackTrace"} k))]
                     [(keyword k) (.getValue event k)]))))
      (finally
        (.close recording)
        (Files/deleteIfExists file)))))

(deftest a-recording-has-the-events-that-it-enables
  (reported-nowhere
    (fn []
      (let [told (recorded ["Spawn" "Exit" "Restart" "Call" "DeadLetter" "ScopeTimeout" "ChannelBlocked"]
                   (fn []
                     (let [pid (start)
                           gone (spawn (fn []))]
                       (gs/call pid :get)
                       (actor/join gone)
                       (actor/with-process {}
                         (let [[_ ref] (actor/spawn-monitor (fn [] (throw (ex-info "no disk" {}))))]
                           (receive [:DOWN ^:pin ref _ _ _] nil)))
                       (! gone [:login "secret"])
                       (hearing {:events #{:scope-timeout}} ; the thread of the timer tells the recorder first, then this listener
                         (fn [heard]
                           (try
                             (with-scope [_ {:deadline 1}] (scope/sleep 20000))
                             (catch Exception _))
                           (is (= :scope-timeout (:event (taken heard))))))
                       (mt/simulate {:seed 1}
                         (let [ch (a/chan)]
                           (a/go (a/<! ch))
                           (scope/sleep 250)
                           (a/>! ch 1)))
                       (actor/with-process {:trap-exit true}
                         (let [[_ office] (sup/start-link {:intensity 1 :children [{:id :printer :start [gs/start-link counter 0]}]} {:name :office})
                               child (:pid (second (sup/which-child :office :printer)))
                               ref (actor/monitor child)]
                           (actor/exit child :no-paper)
                           (receive [:DOWN ^:pin ref _ _ _] nil)
                           (sup/which-child :office :printer)
                           (actor/exit office :shutdown)
                           (receive [:EXIT ^:pin office _] nil))))))
            of (group-by :event told)]
        (is (= #{"magnetar.Spawn" "magnetar.Exit" "magnetar.Restart" "magnetar.Call" "magnetar.DeadLetter" "magnetar.ScopeTimeout"
                 "magnetar.ChannelBlocked"}
               (set (keys of))))
        (is (some #(re-find #"telemetry_test" (str (:label %))) (of "magnetar.Spawn")))
        (is (some #(= ":no-paper" (:reason %)) (of "magnetar.Exit")))
        (is (some #(= "[clojure.lang.ExceptionInfo ..]" (:reason %)) (of "magnetar.Exit")))
        (is (= [{:supervisor ":office", :child ":printer", :reason ":no-paper"}]
               (map #(select-keys % [:supervisor :child :reason]) (of "magnetar.Restart"))))
        (is (some #(= ["magnetar.gen-server/call" "counter" false] ((juxt :function :callbackModule :failed) %)) (of "magnetar.Call")))
        (is (some #(= "[:login ..]" (:message %)) (of "magnetar.DeadLetter")))
        (is (re-find #"telemetry_test" (:site (first (of "magnetar.ScopeTimeout")))))
        (is (some #(= "take" (:operation %)) (of "magnetar.ChannelBlocked")))))))

(deftest a-recording-has-outlines-of-values-and-runs-no-code-of-the-program
  (inspect/redact-with (fn [_] (throw (ex-info "not asked" {}))))
  (try
    (let [gone (spawn (fn []))]
      (actor/join gone)
      (is (= ["nil" ":hello" "[:login ..]" "[[:login] ..]" "[[[]]]" "[]" "java.lang.String" "clojure.lang.ExceptionInfo"]
             (map #(str/replace % "clojure.lang.PersistentVector" "[]")
                  (for [{:keys [to message]} (recorded ["DeadLetter"]
                                               (fn [] (run! #(! gone %) [nil :hello [:login "secret"] [[:login] 1] [[[[1]]]] [] "secret" (ex-info "secret" {})])))
                        :when (= to (second (re-find #"\"(\S+) " (str gone))))]
                    message)))))
    (finally (inspect/redact-with nil))))

(deftest a-recording-has-a-mailbox-that-grows
  (collecting (atom [])
    (fn []
      (let [pid (spawn #(receive :stop nil))
            told (recorded ["MailboxHighWater"]
                   (fn []
                     (hearing {:events #{:mailbox-high-water}}
                       (fn [heard]
                         (dotimes [_ 50000] (! pid :order))
                         (is (= pid (:pid (taken heard))))))))]
        (is (some #(<= 50000 (long (:messages %))) told))
        (! pid :stop)
        (actor/join pid)))))

(deftest without-a-recording-nothing-is-told
  (recorded ["Spawn"] #(is (and (Telemetry/isOn) (not (Instruments/isOn)))))
  (is (not (or (Telemetry/isOn) (Instruments/isOn))))
  (recorded ["Restart"] #(is (and (Telemetry/isOn) (not (Instruments/isOn)))))
  (recorded ["Call"] #(is (and (Instruments/isOn) (not (Telemetry/isOn)))))
  (is (not (or (Telemetry/isOn) (Instruments/isOn)))))
