(ns magnetar.application-test
  "Applications beyond the scenarios of OTP: specs, order, the end."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.application :as application]
   [magnetar.application.controller :as controller]
   [magnetar.application.master :as master]
   [magnetar.application.program :as program]
   [magnetar.gen-server :as gs]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [eventually refusal value-of with-hook]]
   [magnetar.sys :as sys]
   [magnetar.test :as test])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(def ^:private told (atom []))
(def ^:private reports (atom []))

(defn- forget-all []
  (run! #(application/unload (:name %)) (application/loaded-applications)))

(use-fixtures :each
  (fn [f]
    (reset! told [])
    (reset! reports [])
    (with-hook [:report #(swap! reports conj %)]
      (try
        (scenarios/leaving-nobody f)
        (finally
          (forget-all))))))

(defn- tell [& what]
  (swap! told conj (vec what)))

(def ^:private worker
  {:init (fn [id] (actor/flag :trap-exit true) (tell :up id) [:ok id])
   :handle-call (fn [f _ id] [:reply (f) id])
   :handle-cast (fn [why id] [:stop why id])
   :terminate (fn [_ id] (tell :down id))})

(defn- app
  "An application with one worker of its name, registered."
  [name & {:as more}]
  (merge {:name name :start {:intensity 0 :children [{:id name :start [gs/start-link worker name {:name name}]}]}} more))

(defn- load-all [& specs]
  (doseq [spec specs]
    (is (= :ok (application/load spec)))))

(defn- running []
  (mapv :name (application/which-applications)))

;; ---- specs

(defn- refusal-of [spec]
  (let [refused (refusal #(application/load spec))]
    (is (= :magnetar/bad-application-spec (:magnetar/reason refused)))
    (select-keys refused [:why :path :meant])))

(deftest ^{:spec ["C110"]} a-wrong-spec-is-refused-with-where-it-is-wrong-and-what-was-meant
  (is (= {:why :unknown-key :path [:aplications] :meant :applications} (refusal-of {:name :x :aplications []})))
  (is (= {:why :unknown-key :path [:colour] :meant nil} (refusal-of {:name :x :colour :red})))
  (is (= {:why :unknown-key :path [:environment] :meant nil} (refusal-of {:name :x :environment {}})))
  (is (= {:why :invalid-name :path [:name] :meant nil} (refusal-of {:name "x"})))
  (is (= {:why :invalid-start :path [:start] :meant nil} (refusal-of {:name :x :start ['f]})))
  (is (= {:why :invalid-callback :path [:stop] :meant nil} (refusal-of {:name :x :stop :it})))
  (is (= {:why :invalid-name :path [:applications 1] :meant nil} (refusal-of {:name :x :applications [:a "b"]})))
  (is (= {:why :invalid-env :path [:env] :meant nil} (refusal-of {:name :x :env [1]})))
  (is (= {:why :invalid-application-spec :path [] :meant nil} (refusal-of 7)))
  (testing "in an application that is included"
    (is (= {:why :invalid-name :path [:included-applications 0 :name] :meant nil} (refusal-of {:name :x :included-applications [{}]}))))
  (is (not-any? (comp #{:x} :name) (application/loaded-applications))))

(deftest ^{:spec ["C110"]} the-spec-of-the-supervisor-is-checked-where-it-stands
  (let [refused (refusal #(application/start {:name :x :start {:children [{:id :a :start [gs/start-link worker 1] :restart :permenant}]}}))]
    (is (= {:magnetar/reason :magnetar/bad-child-spec :path [:start :children 0 :restart] :value :permenant :meant :permanent}
           (select-keys refused [:magnetar/reason :path :value :meant])))
    (is (= "`magnetar.application/start`: invalid restart type at [:start :children 0 :restart]: :permenant; expected one of :permanent, :transient, :temporary. Is :permanent meant?"
           (:message refused)))))

(deftest an-error-in-a-spec-that-the-start-of-an-application-finds-is-the-error-of-the-start
  (let [[how [[kind refused] [f]]] (application/start {:name :x :start [sup/start-link (fn [] {:childs []})]})]
    (is (= [:error :supervisor-data [:childs] 'magnetar.supervisor/start-link] [how kind (:path refused) f]))
    (is (= [] (running)))))

(deftest what-is-no-application-is-refused-at-once
  (is (thrown-with-msg? IllegalArgumentException #"`stop` wants the name of an application.*this is 7" (application/stop 7)))
  (is (thrown-with-msg? IllegalArgumentException #"`start` wants an application: its spec, .* or its name; this is 7" (application/start 7)))
  (is (thrown-with-msg? IllegalArgumentException #"`run` wants an application: its spec, .* or its name; this is nil" (application/run nil {:exit identity})))
  (is (thrown-with-msg? IllegalArgumentException #"this is :permament\. Is :permanent meant\?" (application/start :x :permament)))
  (is (= [:error [:not-loaded :x]] (application/start :x)))
  (is (= [:error [:not-started :x]] (application/stop :x)))
  (is (= [:error [:not-loaded :x]] (application/unload :x))))

;; ---- order

(deftest ^{:spec ["C111"]} applications-start-in-the-order-of-what-they-need
  (load-all (app :web :applications [:db :cache]) (app :cache :applications [:db]) (app :db))
  (is (= [:ok [:db :cache :web]] (application/ensure-all-started :web)))
  (is (= [[:up :db] [:up :cache] [:up :web]] @told))
  (is (= [:db :cache :web] (running)))
  (is (= [:ok []] (application/ensure-all-started [:web :db]))))

(deftest ^{:spec ["C111"]} a-cycle-is-named
  (load-all (app :a :applications [:b]) (app :b :applications [:c]) (app :c :applications [:b]))
  (let [[_ [kind refused]] (application/ensure-all-started :a)]
    (is (= [:application-spec :cycle [:b :c :b]] [kind (:why refused) (:value refused)]))
    (is (= "cycle at [:c :applications]: [:b :c :b]; expected applications that do not depend on themselves." (:message refused))))
  (is (= [] @told)))

(deftest a-dependency-that-is-not-loaded-is-named-with-what-was-meant
  (load-all (app :web :applications [:databse]) (app :database))
  (let [[_ [_ refused]] (application/ensure-all-started :web)]
    (is (= {:why :unknown-application :path [:web :applications 0] :value :databse :meant :database} (dissoc refused :message)))))

(deftest an-optional-application-that-is-loaded-starts-before
  (load-all (app :web :optional-applications [:metrics]) (app :metrics))
  (is (= [:ok [:metrics :web]] (application/ensure-all-started :web))))

(deftest start-does-not-start-what-an-application-needs
  (load-all (app :web :applications [:db]) (app :db))
  (is (= [:error [:not-started :db]] (application/start :web)))
  (is (= :ok (application/start :db)))
  (is (= :ok (application/start :web))))

(deftest ^{:spec ["C111"]} when-one-does-not-start-those-started-with-it-are-stopped-again
  (load-all (app :db) (app :cache) (app :web :applications [:db :cache] :start [(constantly [:error :no-port])]))
  (application/start :cache)
  (let [[how [name [why _]]] (application/ensure-all-started :web)]
    (is (= [:error :web :no-port] [how name why])))
  (is (= [:cache] (running)))
  (is (= [[:up :cache] [:up :db] [:down :db]] @told)))

;; ---- start and stop

(deftest a-start-may-be-a-function-and-its-state-goes-to-stop
  (application/start {:name :x
                      :start [(fn [n] [:ok (actor/spawn-link #(receive ::never nil)) {:n n}]) 5]
                      :prep-stop (fn [s] (tell :prep-stop s) (assoc s :prepared true))
                      :stop (fn [s] (tell :stop s))})
  (is (= :ok (application/stop :x)))
  (is (= [[:prep-stop {:n 5}] [:stop {:n 5 :prepared true}]] @told)))

(deftest a-callback-that-fails-is-reported-and-stops-nothing-else
  (application/start (app :x :prep-stop (fn [_] (throw (ex-info "no" {}))) :stop (fn [_] (tell :stopped))))
  (is (= :ok (application/stop :x)))
  (is (= [[:up :x] [:down :x] [:stopped]] @told))
  (is (= [[:application-callback-failed :prep-stop]] (map (juxt :event :callback) @reports))))

(deftest an-application-without-a-start-is-a-name
  (is (= :ok (application/start {:name :x :description "only a name" :vsn "1"})))
  (is (= [{:name :x :type :temporary :description "only a name" :vsn "1"}] (application/which-applications)))
  (is (= :ok (application/stop :x))))

(deftest what-a-start-left-behind-when-it-failed-is-gone
  (let [left (atom nil)]
    (application/start {:name :x :start (fn [] (reset! left (actor/spawn-link #(receive ::never nil))) (throw (ex-info "late" {})))})
    (is (= :shutdown (test/await-down @left)))))

(defn- starters
  "How many wait for the application to be up. The controller of the test before may be about to end, since nothing runs."
  [name]
  (try
    (count (get-in (sys/get-state (#'controller/present)) [:apps name :waiting]))
    (catch ExceptionInfo _ 0)))

(deftest two-who-start-the-same-application-are-both-told-when-it-is-up
  (let [go (promise)]
    (application/load (app :x :start [(fn [] @go [:ok (actor/spawn-link #(receive ::never nil))])]))
    (let [starts (doall (repeatedly 2 #(future (application/start :x))))]
      (is (eventually (= 2 (starters :x))))
      (is (not-any? realized? starts))
      (deliver go true)
      (is (= [:ok :ok] (map value-of starts))))))

(deftest an-application-that-is-stopped-while-it-starts-comes-down-in-order
  (let [begun (promise), go (promise)]
    (application/load (app :x :start [(fn [] (deliver begun true) @go (sup/start-link (:start (app :x))))]))
    (let [start (future (application/start :x))
          _ (value-of begun)
          stop (future (application/stop :x))]
      (is (= [:error [:stopped :x]] (value-of start)))
      (deliver go true)
      (is (= :ok (value-of stop)))
      (is (= [[:up :x] [:down :x]] @told)))))

(deftest a-spec-that-is-started-again-is-taken-anew
  (is (= :ok (application/start {:name :x :env {:k 1}})))
  (is (= [:error [:already-started :x]] (application/start {:name :x :env {:k 2}})))
  (application/stop :x)
  (is (= :ok (application/start {:name :x :env {:k 2}})))
  (is (= {:k 2} (application/get-all-env :x))))

(deftest what-was-put-into-an-environment-outlives-the-spec-and-not-the-unload
  (application/put-env :x :k 9)
  (application/load {:name :x :env {:k 1 :j 1}})
  (is (= {:k 9 :j 1} (application/get-all-env :x)))
  (application/unload :x)
  (is (= {} (application/get-all-env :x))))

;; ---- types

(defn- ended-for [type why]
  (let [hooked (atom [])
        pid (promise)]
    (with-hook [:end #(swap! hooked conj (:reason %))]
      (application/start {:name :x :start (fn [] (let [p (actor/spawn-link #(receive ::go (actor/exit why)))] (deliver pid p) p))} type)
      (! @pid ::go)
      (is (eventually (seq (filter #(= :application-ended (:event %)) @reports))))
      (is (eventually (empty? (running))))
      (let [level (:level (first (filter #(= :application-ended (:event %)) @reports)))]
        (when (= :error level) (is (eventually (seq @hooked))))
        (reset! reports [])
        [level (first @hooked)]))))

(deftest ^{:spec ["C112"]} the-type-decides-what-the-end-of-a-tree-means
  (is (= [[:error :normal] [:error :boom]] (mapv #(ended-for :permanent %) [:normal :boom])))
  (is (= [[:warning nil] [:error :boom] [:error :shutdown]] (mapv #(ended-for :transient %) [:normal :boom :shutdown])))
  (is (= [[:warning nil] [:warning nil]] (mapv #(ended-for :temporary %) [:normal :boom]))))

(deftest ^{:spec ["C112"]} without-a-hook-the-end-of-a-permanent-one-stops-all-in-reverse
  (load-all (app :db) (app :cache :applications [:db]) (app :web))
  (application/ensure-all-started [:cache])
  (application/start :web :permanent)
  (gs/cast :web :boom)
  (is (eventually (= [[:down :web] [:down :cache] [:down :db]] (drop 3 @told)))))

(deftest who-belongs-to-an-application
  (application/start (app :x))
  (is (= [:ok :x] (gs/call :x application/get-application)))
  (is (= [:ok :x] (application/get-application (actor/whereis :x))))
  (is (nil? (actor/with-process {} (application/get-application)))))

(deftest the-controller-is-gone-when-nothing-runs
  (application/start (app :x))
  (application/stop :x)
  (is (= [] (application/which-applications)))
  (is (= :ok (application/start (app :x)))))

(deftest applications-live-in-the-simulator
  (is (= [[:ok [:b :a]] [:b :a] :ok]
         (test/simulate {:seed 3}
           (application/load {:name :a :applications [:b] :start {:children [{:id 1 :start [gs/start-link worker :sim]}]}})
           (application/load {:name :b})
           [(application/ensure-all-started :a) (running) (application/stop :a)])))
  (is (= [] (application/loaded-applications))))

;; ---- a start that made no link

(deftest a-start-that-makes-no-link-is-refused-and-leaves-no-process
  (let [[how [why [_ _ sentence]]] (application/start {:name :loose :start [gs/start worker :loose {:name :loose}]})]
    (is (= [:error :bad-return] [how why]))
    (is (re-find #"not linked to the one that called :start" sentence))
    (is (nil? (actor/whereis :loose)))
    (is (= [] (running)))))

;; ---- why a program did not start

(defn- why-not-started
  "The message with which `run` ends for this spec, and the status."
  [spec]
  (let [status (application/run spec {:exit identity})]
    [status (some #(when (= :not-started (:event %)) (:message %)) @reports)]))

(deftest a-program-that-does-not-start-says-the-innermost-reason-in-full
  (let [inner {:children [{:id :db :start [gs/start-link (assoc worker :init (fn [_] (throw (ex-info "no route to the host" {})))) 1]}]}
        [status message] (why-not-started {:name :shop :start {:children [{:id :inner :type :supervisor :start [sup/start-link inner]}]}})]
    (is (= 1 status))
    (is (re-find #"^The application :shop did not start: its child :inner did not start: its child :db did not start: no route to the host \(ExceptionInfo\) at magnetar.application-test\S* \(application_test.clj:\d+\)\. Its start is magnetar.supervisor/start-link\.$"
                 message)
        message)))

(deftest each-way-not-to-start-is-a-sentence
  (doseq [[start pattern] [[[(fn [] [:error :no-port])] #"^The application :late did not start: :no-port\. Its start is magnetar.application-test"]
                           [[(fn [] :nonsense)] #"^The application :late did not start: \(magnetar.application-test\S*\) returned :nonsense\.$"]
                           [[(fn [] (throw (ex-info "oops" {})))] #"^The application :late did not start: \(magnetar.application-test\S*\) threw: oops \(ExceptionInfo\) at "]
                           [(fn [] (gs/start worker :x)) #"the process is not linked to the one that called :start"]
                           [{:children [{:id :a :start [gs/start-link worker 1 2 3 4]}]} #"its child :a did not start: Wrong number of args .*the child :a is started by \[magnetar.gen-server/start-link \(a behaviour\) 1 2 3 4\]"]]]
    (reset! reports [])
    (let [[status message] (why-not-started {:name :late :start start})]
      (is (= 1 status))
      (is (re-find pattern (str message)) message))))

(deftest a-dependency-that-nobody-has-loaded-is-what-was-expected
  (let [[status message] (why-not-started {:name :xx :applications [:yy]})]
    (is (= [1 "unknown application at [:xx :applications 0]: :yy; expected an application that is loaded."] [status message]))))

(deftest a-signal-that-stops-a-program-is-no-warning
  (let [status (future (application/run {:name :shop} {:exit identity}))]
    (is (eventually (= [:shop] (running))))
    (is (= :ok (program/tell [:signal 15 "TERM"])))
    (is (= 0 (value-of status)))
    (is (= [{:event :stopping :level :info :signal "TERM"}] (filterv #(= :stopping (:event %)) @reports)))))

(defn- stragglers []
  (mapcat #(master/stragglers (:master %)) (controller/which)))

(deftest while-a-callback-runs-it-is-what-the-stop-waits-for
  (let [go (promise)]
    (is (= :ok (application/start (app :shop :prep-stop (fn [_] @go)))))
    (let [stopped (future (application/stop :shop))]
      (is (eventually (= [:prep-stop] (map :callback (stragglers)))))
      (deliver go true)
      (is (= :ok (value-of stopped))))))

(deftest a-supervisor-that-hangs-in-a-start-is-named-first
  (let [go (promise)
        spec {:name :shop :start {:children [{:id :db :start [gs/start-link worker :db]}
                                             {:id :slow :start [(fn [] @go :ignore)]}]}}
        started (future (application/start spec))]
    (is (eventually (some #(and (:at %) (not= "message" (:waits-for %))) (stragglers))))
    (is (eventually (re-find #"application-test" (str (:at (first (stragglers)))))))
    (deliver go true)
    (is (= :ok (value-of started)))
    (application/stop :shop)))

(deftest a-shutdown-while-the-program-stops-sets-its-status
  (let [status (future (application/run (app :shop :stop (fn [_] (application/shutdown 3))) {:exit identity}))]
    (is (eventually (= [:shop] (running))))
    (application/shutdown)
    (is (= 3 (value-of status)))))

(deftest an-application-that-ends-when-the-program-was-told-to-is-not-reported
  (let [work (fn [] (application/shutdown))
        status (application/run {:name :import :start [actor/spawn-link* work]} {:exit identity})]
    (is (= 0 status))
    (is (= [] (filterv #(= :application-ended (:event %)) @reports)))))
