(ns magnetar.found-in-supervisors-test
  "Bugs of supervisors and servers that the simulator has found, each as a program that shows it."
  (:require
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.seeded-bugs :as seeded-bugs]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.test :as mt]))

(use-fixtures :once seeded-bugs/without-reports)

(defn- deaf
  "A process that does not end of :shutdown."
  []
  (actor/flag :trap-exit true)
  (loop [] (receive [:EXIT _ :shutdown] (recur) [:EXIT _ why] (actor/exit why))))

;; Its link was removed before it was told to end, so it did not learn of the death.
(deftest a-child-that-is-being-stopped-does-not-outlive-its-supervisor
  (doseq [spec [{:children [{:id :deaf :start [actor/spawn-link* deaf] :shutdown 1000}]}
                {:strategy :simple-one-for-one :children [{:id :deaf :start [actor/spawn-link* deaf] :shutdown 1000}]}]]
    (is (= :killed
           (mt/simulate {}
             (actor/with-process {:trap-exit true}
               (let [[_ app] (sup/start-link spec)
                     pid (or (:pid (first (sup/which-children app))) (second (sup/start-child app [])))
                     ref (actor/monitor pid)]
                 (scope/sleep 1)
                 (actor/exit app :shutdown)
                 (scope/sleep 500)
                 (actor/exit app :kill)
                 (receive [:DOWN ref _ _ why] why (after 5000 :orphan)))))))))

(defn- waits-for-word []
  (receive [:end why] (actor/exit why)))

(defn- failing-once-with
  "A start that gives a process, but the second time does f and fails."
  [f]
  (let [starts (volatile! 0)]
    (fn []
      (if (= 2 (vswap! starts inc))
        (do (f) [:error :no])
        (actor/spawn-link waits-for-word)))))

(defn- pid-of [app id]
  (some #(when (= id (:id %)) (:pid %)) (sup/which-children app)))

(defn- end-and-wait [pid why]
  (let [ref (actor/monitor pid)]
    (! pid [:end why])
    (receive [:DOWN ref _ _ _] nil)))

;; As Erlang does it: with auto_shutdown all_significant, a child that is to be started again counts.
(deftest a-significant-child-whose-start-is-tried-again-keeps-its-supervisor-alive
  (is (= [[:a true] [:b false]]
         (mt/simulate {}
           (actor/with-process {:trap-exit true}
             (let [b (volatile! nil)
                   kid (fn [id f] {:id id :start [f] :restart :transient :significant true})
                   [_ app] (sup/start-link {:auto-shutdown :all-significant :intensity 5
                                            :children [(kid :a (failing-once-with #(end-and-wait @b :normal)))
                                                       (kid :b #(vreset! b (actor/spawn-link waits-for-word)))]})]
               (! (pid-of app :a) [:end :boom])
               (scope/sleep 10)
               (mapv (fn [{:keys [id pid]}] [id (some? pid)]) (sup/which-children app))))))))

(defn- start-by-turns
  "A start that gives what each f gives in turn, then the last one."
  [& fs]
  (let [left (volatile! fs)]
    (fn []
      (let [f (first @left)]
        (when (next @left) (vswap! left rest))
        (f)))))

;; Two starts of a one-for-all failed. If another process terminated the first child meanwhile, the other stayed :restarting.
(deftest of-a-group-that-does-not-come-up-one-child-is-tried-again-and-the-others-are-down
  (is (= [[:a nil] [:b nil]]
         (mt/simulate {}
           (actor/with-process {:trap-exit true}
             (let [up #(actor/spawn-link waits-for-word)
                   no (constantly [:error :no])
                   app-of (volatile! nil)
                   asks #(do (gs/send-request @app-of [:terminate-child :a]) [:error :no])
                   [_ app] (sup/start-link {:strategy :one-for-all :intensity 10
                                            :children [{:id :a :start [(start-by-turns up up asks no)]}
                                                       {:id :b :start [(start-by-turns up no no)]}]})]
               (vreset! app-of app)
               (! (pid-of app :b) [:end :boom])
               (scope/sleep 10)
               (mapv (juxt :id :pid) (sup/which-children app))))))))

;; The history of a supervisor showed the real date, and last words of another simulation whose process had the same pid.
(deftest the-history-of-a-supervisor-is-the-same-in-each-run
  (let [history (fn [words]
                  (mt/simulate {}
                    (actor/with-process {:trap-exit true}
                      (let [server {:init (fn [_] [:ok words]), :handle-call (fn [_ _ s] [:reply s s]), :handle-cast (fn [why s] (if words [:stop why s] (actor/exit (self) :kill)))}
                            [_ app] (sup/start-link {:children [{:id :a :start [gs/start-link server nil]}]})]
                        (scope/sleep 5)
                        (gs/cast (pid-of app :a) :boom)
                        (scope/sleep 5)
                        (mapv #(dissoc % :pid) (sup/history app))))))]
    (is (= [{:at #inst "1970-01-01T00:00:00.005-00:00" :id :a :restart :permanent :reason :boom :last-message [:magnetar/cast :boom] :state [1]}]
           (history [1])
           (history [1])))
    (is (= [{:at #inst "1970-01-01T00:00:00.005-00:00" :id :a :restart :permanent :reason :killed}]
           (history nil)))))

;; The JDK submits a runnable thread again that was asked for its stack; the simulation ran it twice.
(deftest a-call-that-times-out-while-its-server-could-run-does-not-break-the-simulation
  (is (:passed (mt/check {:runs 300}
                 (let [busy (a/chan 10)
                       [_ server] (gs/start {:init (fn [_] [:ok nil])
                                             :handle-call (fn [_ _ s] (dotimes [_ 5] (a/offer! busy 1)) [:reply :answer s])
                                             :handle-cast (fn [_ s] [:noreply s])}
                                            nil)
                       other (a/go (gs/call server :other))
                       answer (try (gs/call server :question {:timeout 0}) (catch clojure.lang.ExceptionInfo e (:reason (ex-data e))))]
                   (a/<! other)
                   (gs/stop server)
                   (contains? #{:answer :timeout} answer))))))
