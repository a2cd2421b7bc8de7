(ns magnetar.telemetry-test
  "Listeners of events: what they hear, and that they harm nothing. Metrics and events of the flight recorder."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope :refer [with-scope]]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting eventually failures-of message-of refusal taken value-of]]
   [magnetar.telemetry :as telemetry]
   [magnetar.test :as mt])
  (:import
   (java.util.concurrent CountDownLatch)
   (magnetar.impl.otp Instruments)
   (magnetar.kernel.report Telemetry)))

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

(deftest a-call-is-told-with-its-behaviour-its-time-and-its-error
  (collecting (atom [])
    (fn []
      (hearing {:events #{:call}}
        (fn [heard]
          (let [pid (start)]
            (gs/call pid :get)
            (let [event (without-date (taken heard))]
              (is (= {:event :call, :function 'magnetar.gen-server/call, :to pid, :behaviour "counter"} (dissoc event :by :took-ms)))
              (is (< 0.0 (:took-ms event)))
              (is (string? (:by event))))
            (let [error (try (gs/call pid :fail) (catch Exception e e))]
              (is (identical? error (:error (taken heard)))))
            (is (nil? (:behaviour (do (try (gs/call pid :get) (catch Exception _)) (taken heard)))))))))))

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
  (collecting (atom [])
    (fn []
      (hearing {:events #{:mailbox-high-water}}
        (fn [heard]
          (let [pid (spawn #(receive :stop nil))]
            (dotimes [_ 50000] (! pid :order))
            (let [event (without-date (taken heard))]
              (is (= [:mailbox-high-water pid] [(:event event) (:pid event)]))
              (is (<= 50000 (long (:messages event)))))
            (! pid :stop)
            (actor/join pid)))))))

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

(deftest a-slow-listener-loses-events-and-the-program-goes-on
  (let [stuck (CountDownLatch. 1)
        listener (telemetry/add-listener (fn [_] (.await stuck)) {:events #{:dead-letter}})
        gone (spawn (fn []))]
    (try
      (actor/join gone)
      (dotimes [_ 10100] (! gone :hello))
      (let [{:keys [queued dropped]} (first (filter #(= listener (:listener %)) (telemetry/listeners)))]
        (is (= 10000 queued))
        (is (<= 99 (long dropped) 100))) ; the listener holds one, or will
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
        listener (telemetry/add-listener #(swap! heard conj %))]
    (is (and (Telemetry/isOn) (Instruments/isOn)))
    (telemetry/remove-listener listener)
    (is (not (or (Telemetry/isOn) (Instruments/isOn))))
    (is (= [] (telemetry/listeners)))
    (let [before (count @heard)]
      (actor/join (spawn (fn [])))
      (is (= before (count @heard))))))

(deftest a-listener-that-is-added-again-gets-the-new-options
  (hearing {:events #{:spawn}}
    (fn [_]
      (let [[{:keys [listener]}] (telemetry/listeners)]
        (telemetry/add-listener listener {:events #{:exit}})
        (is (= [#{:exit}] (map :events (telemetry/listeners))))))))

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
