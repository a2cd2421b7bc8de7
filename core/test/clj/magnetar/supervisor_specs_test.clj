(ns magnetar.supervisor-specs-test
  "What a supervisor is told: keys, numbers, starts, namespaces; and what is said of a wrong one."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.registry :as registry]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting eventually refusal with-failures]]
   [magnetar.sys :as sys]
   [magnetar.task.supervisor :as tasks])
  (:import
   (clojure.lang ExceptionInfo)
   (java.net URLClassLoader)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(def ^:private reports (atom []))

(use-fixtures :each
  (fn [f]
    (collecting reports (fn [] (scenarios/leaving-nobody #(actor/with-process {:trap-exit true} (f)))))))

(defrecord ^:private Spec [id start restrat])

(deftest a-record-is-a-spec-like-any-map
  (is (= {:magnetar/reason :magnetar/bad-child-spec :why :unknown-key :path [:children 0 :restrat]}
         (select-keys (refusal #(sup/start-link {:children [(->Spec :a [gs/start-link {:init identity} 0] :permanent)]}))
                      [:magnetar/reason :why :path]))))

(def ^:private counter
  {:name 'counter
   :init (fn [n] [:ok n])
   :handle-call (fn [_ _ n] [:reply n n])
   :handle-cast (fn [why n] [:stop why n])})

(defn- kid [id & {:as more}]
  (merge {:id id :start [gs/start-link counter 0]} more))

(defn- refusal-of [spec]
  (refusal #(sup/start-link spec)))

(defn- why-at [spec]
  ((juxt :why :path) (refusal-of spec)))

(defn- started [spec]
  (let [[how s] (sup/start-link spec)]
    (is (= :ok how))
    s))

;; ---- keys

(deftest an-unknown-key-of-a-spec-is-refused-with-what-was-meant
  (doseq [[spec at meant] [[{:childs [(kid :a)]} [:childs] :children]
                           [{:strategies :one-for-one} [:strategies] :strategy]
                           [{:intensty 3} [:intensty] :intensity]
                           [{:colour :red} [:colour] nil]
                           [{"children" []} ["children"] :children]
                           [{7 1} [7] nil]
                           [{:children [(kid :a :note "x")]} [:children 0 :note] nil]
                           [{:children [(kid :a :restarts :temporary)]} [:children 0 :restarts] :restart]]]
    (testing (pr-str spec)
      (is (= [:unknown-key at meant] ((juxt :why :path :meant) (refusal-of spec)))))))

(deftest the-sentence-of-an-error-says-what-is-expected
  (is (= "`magnetar.supervisor/start-link`: unknown key at [:childs]: []; expected a key of :strategy, :intensity, :period, :auto-shutdown, :children, :max-children, :extra-arguments, :history. Is :children meant?"
         (:message (refusal-of {:childs []}))))
  (is (= "`magnetar.supervisor/start-link`: invalid restart type at [:children 0 :restart]: :always; expected one of :permanent, :transient, :temporary."
         (:message (refusal-of {:children [(kid :a :restart :always)]})))))

(deftest an-unknown-key-of-a-new-child-is-refused-and-the-others-go-on
  (let [s (started {:children [(kid :a)]})
        refused (refusal #(sup/start-child s (kid :b :note 1)))]
    (is (= [:unknown-key [:note] 1] ((juxt :why :path :value) refused)))
    (is (str/starts-with? (:message refused) "`magnetar.supervisor/start-child`: unknown key at [:note]: 1; expected a key of :id, "))
    (is (= [:a] (mapv :id (sup/which-children s))))))

;; ---- numbers

(deftest numbers-of-a-spec-are-refused-where-they-mean-nothing
  (doseq [[k values] {:intensity [-1 1.5 1/2 "1" nil :infinity 100000000000000000000N]
                      :period [0 -1 "5" nil Double/NaN -0.5 1.0e-9]
                      :history [-1 0.5 "x" nil]}
          value values]
    (testing (pr-str k value)
      (is (= [(keyword (str "invalid-" (name k))) [k]] (why-at {k value})))))
  (doseq [value [-1 1.5 "1" nil]]
    (is (= [:invalid-max-children [:max-children]] (why-at {:strategy :dynamic :max-children value}))))
  (doseq [value [-1 "1" nil :never Double/NaN]]
    (is (= [:invalid-shutdown [:children 0 :shutdown]] (why-at {:children [(kid :a :shutdown value)]})))))

(deftest numbers-of-a-spec-that-mean-something-are-taken
  (doseq [spec [{:intensity 0} {:intensity Long/MAX_VALUE} {:period 0.5} {:period 1/3} {:period :infinity} {:period Long/MAX_VALUE}
                {:period (java.time.Duration/ofSeconds 5)} {:history 0} {:strategy :dynamic :max-children 0}
                {:strategy :dynamic :max-children :infinity} {:children [(kid :a :shutdown 0)]} {:children [(kid :a :shutdown Long/MAX_VALUE)]}]]
    (testing (pr-str spec)
      (gs/stop (started spec)))))

(deftest an-end-by-significant-children-is-refused-where-the-spec-names-none
  (is (= [:bad-combination [:auto-shutdown]]
         (why-at {:strategy :simple-one-for-one :auto-shutdown :any-significant :children [(kid :a)]})))
  (is (= [:invalid-auto-shutdown [:auto-shutdown]] (why-at {:strategy :dynamic :auto-shutdown :all-significant}))))

;; ---- a wrong spec at a prompt

(deftest a-wrong-spec-is-refused-in-the-caller-without-a-process-that-dies
  (doseq [spec [{:childs []} (fn [] {:childs []})]
          :let [[pid ref] (actor/spawn-monitor #(actor/exit [:goes-on (:path (refusal (fn [] (sup/start-link spec))))]))]]
    (is (= [:goes-on [:childs]] (receive [:DOWN ref :process pid why] why)))
    (is (= [] @reports))))

(deftest what-the-function-of-a-spec-returns-is-refused-in-the-caller
  (is (= [:invalid-restart-type [:children 1 :restart] :prmanent]
         ((juxt :why :path :value) (refusal-of (fn [] {:children [(kid :a) (kid :b :restart :prmanent)]})))))
  (let [{:keys [message] :as refused} (refusal-of (fn [] 17))]
    (is (= [:magnetar/bad-supervisor-spec [] 17] ((juxt :magnetar/reason :path :value) refused)))
    (is (str/includes? message "expected a map with :strategy and :children, or :ignore, from the function"))))

(deftest a-supervisor-with-a-wrong-spec-is-a-child-that-does-not-start
  (let [s (started {})]
    (doseq [spec [{:childs []} (fn [] {:childs []})]
            :let [[how [[kind refused] child]] (sup/start-child s {:id :sub :start [sup/start-link spec] :type :supervisor})]]
      (is (= [:error :supervisor-data [:childs] :sub] [how kind (:path refused) (:id child)])))
    (is (= [] (sup/which-children s))))
  (let [[how [_ [_ id [kind refused]]]] (sup/start-link {:children [{:id :sub :start [sup/start-link {:childs []}]}]})]
    (is (= [:error :sub :supervisor-data [:childs]] [how id kind (:path refused)]))))

(deftest a-process-that-gives-a-wrong-spec-ends-for-the-error
  (with-failures [failures]
    (let [[pid ref] (actor/spawn-monitor #(sup/start-link {:childs []}))
          [kind refused] (receive [:DOWN ref :process pid why] why)]
      (is (= [:supervisor-data [:childs]] [kind (:path refused)]))
      (is (= [:magnetar/bad-supervisor-spec] (map #(:magnetar/reason (ex-data (:error %))) @failures))))))

(deftest an-error-of-a-key-without-end-is-said-and-ends
  (let [{:keys [message path]} (refusal-of {(range) 1})]
    (is (str/starts-with? message "`magnetar.supervisor/start-link`: unknown key at [(0 1 2 "))
    (is (= ["(clojure.lang.Iterate)"] path))))

;; ---- checks without a start

(deftest child-specs-are-checked-without-a-start
  (is (= :ok (sup/check-childspecs [])))
  (is (= :ok (sup/check-childspecs [(kid :a) (kid :b :restart :temporary :significant true)])))
  (doseq [[specs why at] [[[(kid :a) (kid :a)] :duplicate-child-name [1 :id]]
                          [[(kid :a :restart :prmanent)] :invalid-restart-type [0 :restart]]
                          [[(kid :a :shutdown -1)] :invalid-shutdown [0 :shutdown]]
                          [[(kid :a :type :wrker)] :invalid-child-type [0 :type]]
                          [[{:id :a}] :missing-start [0]]
                          [[:a] :no-such-namespace [0]]
                          [:not-a-list :invalid-children []]
                          [[(kid :a :significant true)] :bad-combination [0 :significant]]]
          :when (not= [:a] specs)]
    (testing (pr-str specs)
      (let [[how refused] (sup/check-childspecs specs)]
        (is (= [:error why at] [how (:why refused) (:path refused)])))))
  (testing "for a supervisor with this :auto-shutdown"
    (let [significant [(kid :a :restart :transient :significant true)]]
      (is (= :ok (sup/check-childspecs significant :all-significant)))
      (is (= :bad-combination (:why (second (sup/check-childspecs significant :never)))))
      (is (= :invalid-auto-shutdown (:why (second (sup/check-childspecs significant :always))))))))

;; ---- children given by a namespace

(defn- make-ns
  "A namespace with these public vars."
  [sym vars]
  (remove-ns sym)
  (let [ns (create-ns sym)]
    (doseq [[word value] vars]
      (intern ns (with-meta word (if (fn? value) (select-keys (meta value) [:arglists]) {})) value))))

(deftest a-namespace-is-a-child-by-what-it-has
  (make-ns 'magnetar.specs-test.server (update-keys (dissoc counter :name) (comp symbol name)))
  (make-ns 'magnetar.specs-test.starts {'start-link (fn [n] (gs/start-link counter [:started n]))})
  (make-ns 'magnetar.specs-test.says {'child-spec (fn [n] {:id [:said n] :restart :temporary :start [gs/start-link counter n]})})
  (try
    (let [s (started {:children ['magnetar.specs-test.server ['magnetar.specs-test.starts 5] ['magnetar.specs-test.says 7]]})
          kids (sup/which-children s)]
      (is (= '[magnetar.specs-test.server magnetar.specs-test.starts [:said 7]] (mapv :id kids)))
      (is (= [nil [:started 5] 7] (mapv #(gs/call (:pid %) :get) kids)))
      (is (= [:permanent :permanent :temporary] (mapv :restart kids)))
      (testing "when it is added"
        (is (= :ok (first (sup/start-child s (sup/child-spec ['magnetar.specs-test.server 1] {:id :other})))))
        (let [d (started {:strategy :dynamic})
              [_ pid] (sup/start-child d ['magnetar.specs-test.server 3])]
          (is (= 3 (gs/call pid :get))))))
    (finally (run! remove-ns '[magnetar.specs-test.server magnetar.specs-test.starts magnetar.specs-test.says]))))

(deftest the-spec-of-a-namespace-is-data-with-keys-of-ones-own
  (is (= {:id :carts :start [#'registry/start-link {:keys :unique}] :restart :transient :type :supervisor}
         (sup/child-spec ['magnetar.registry {:keys :unique}] {:id :carts :restart :transient})))
  (is (= {:id 'magnetar.task.supervisor :start [#'tasks/start-link] :type :supervisor} (sup/child-spec 'magnetar.task.supervisor)))
  (is (= {:id 'magnetar.supervisor :start [#'sup/start-link {:strategy :dynamic}] :type :supervisor}
         (sup/child-spec ['magnetar.supervisor {:strategy :dynamic}])))
  (is (= [:carts :supervisor] ((juxt :id :type) (sup/child-spec ['magnetar.registry {:keys :unique :name :carts}]))) "two registries differ by their names")
  (is (= :temporary (:restart (sup/child-spec ['magnetar.task inc]))))
  (is (= {:id :a :start [inc]} (sup/child-spec {:id :b :start [inc]} {:id :a})))
  (is (thrown-with-msg? IllegalArgumentException #"`magnetar.supervisor/child-spec` does not know :idd; .* Is :id meant\?" (sup/child-spec {:id :b :start [inc]} {:idd 1})))
  (doseq [x [5 "text" ['a 1 2] 'magnetar.no-such-thing 'clojure.string]]
    (testing (pr-str x)
      (is (= :magnetar/bad-child-spec (:magnetar/reason (try (sup/child-spec x) (catch IllegalArgumentException e (ex-data e)))))))))

(defn- with-broken
  "Calls f while the namespace magnetar.specs-broken, which does not compile, can be found."
  [f]
  (let [folder (Files/createTempDirectory "specs" (make-array FileAttribute 0))
        thread (Thread/currentThread)
        before (.getContextClassLoader thread)
        file (io/file (.toFile folder) "magnetar" "specs_broken.clj")]
    (io/make-parents file)
    (spit file "(ns magnetar.specs-broken)\n\n(defn child-spec [_] (no-such-function 1))\n")
    (.setContextClassLoader thread (URLClassLoader. (into-array [(.toURL (.toUri folder))]) before))
    (try
      (f)
      (finally (.setContextClassLoader thread before)))))

(defn- says [{:keys [why message]} expected & parts]
  (is (= expected why))
  (doseq [part parts]
    (is (str/includes? message part))))

(deftest a-child-spec-that-throws-is-an-error-and-the-supervisor-lives-on
  (make-ns 'magnetar.specs-test.throws {'child-spec (fn [_] (throw (ex-info "bad config" {})))})
  (try
    (let [child ['magnetar.specs-test.throws 1]
          static (started {:children [(kid :a)]})]
      (doseq [s [static (started {:strategy :dynamic})]
              :let [refused (refusal #(sup/start-child s child))]]
        (says refused :child-spec-failed "(magnetar.specs-test.throws/child-spec 1)" "bad config (ExceptionInfo)")
        (is (actor/alive? s)))
      (is (= [:a] (mapv :id (sup/which-children static))))
      (is (= [:children 0] (:path (refusal-of {:children [child]}))))
      (says (second (sup/check-childspecs [child])) :child-spec-failed "bad config"))
    (finally (remove-ns 'magnetar.specs-test.throws))))

(deftest a-namespace-that-does-not-load-is-an-error-each-time-it-is-used
  (with-broken
    (fn []
      (let [child 'magnetar.specs-broken
            s (started {:children [(kid :a)]})]
        (dotimes [_ 2]
          (says (refusal #(sup/start-child s child)) :namespace-does-not-load "no-such-function" "specs_broken.clj:3")
          (says (refusal-of {:children [child]}) :namespace-does-not-load "no-such-function")
          (says (second (sup/check-childspecs [child])) :namespace-does-not-load "no-such-function"))
        (is (= [:a] (mapv :id (sup/which-children s))))))))

(deftest a-child-spec-is-asked-once-where-the-supervisor-is-started
  (let [asked (atom [])]
    (make-ns 'magnetar.specs-test.counts {'child-spec (fn [n] (swap! asked conj (self)) {:id n :start [gs/start-link counter n]})})
    (try
      (let [s (started {:children [['magnetar.specs-test.counts 1]]})]
        (is (= [(self)] @asked))
        (gs/stop s))
      (testing "and in the supervisor if its spec is a function"
        (reset! asked [])
        (let [s (started (fn [] {:children [['magnetar.specs-test.counts 1]]}))]
          (is (= [s] @asked))))
      (finally (remove-ns 'magnetar.specs-test.counts)))))

;; ---- starts

(deftest a-start-that-does-not-link-its-process-is-refused
  (let [[how [_ [what id [why pid]]]] (sup/start-link {:children [(kid :a :start [gs/start counter 0])]})]
    (is (= [:error :failed-to-start-child :a :not-linked] [how what id why]))
    (is (eventually (not (actor/alive? pid)))))
  (testing "and a process of another one lives on"
    (let [[_ other] (gs/start counter 0)
          s (started {})]
      (is (= :not-linked (ffirst (second (sup/start-child s (kid :a :start [(fn [] [:ok other])]))))))
      (is (actor/alive? other)))))

(deftest a-start-with-a-wrong-number-of-arguments-names-the-child-and-what-the-start-takes
  (let [s (started {})
        [_ [[{:keys [type message]}] spec]] (sup/start-child s {:id :page :start [registry/start-link 1 2]})]
    (is (= 'clojure.lang.ArityException type))
    (is (str/includes? message "the child :page is started by [magnetar.registry/start-link 1 2]. It takes [options]. It is defined at "))
    (is (= :page (:id spec)))))

(deftest an-error-inside-of-a-start-is-not-taken-for-its-number-of-arguments
  (let [s (started {})
        [_ [[{:keys [message]}]]] (sup/start-child s {:id :page :start [(fn [] ((fn [_] nil) 1 2))]})]
    (is (not (str/includes? message "is started by")))))

(deftest the-spec-of-a-child-that-does-not-start-can-be-read
  (let [s (started {})
        refuses (assoc counter :init (fn [_] [:stop :no]))
        [how [why {:keys [start] :as spec}]] (sup/start-child s (kid :a :start [gs/start-link refuses {:size 3}]))]
    (is (= [:error :no :a] [how why (:id spec)]))
    (is (= '[magnetar.gen-server/start-link counter {:size 3}] start))))

;; ---- restarts

(deftest a-restart-loop-ends-with-why
  (let [s (started {:intensity 1 :children [(kid :a)]})
        end #(let [pid (:pid (first (sup/which-children s)))] (gs/cast pid :no-database))]
    (end)
    (is (eventually (= 1 (count (sup/history s)))))
    (end)
    (is (= :shutdown (receive [:EXIT s why] why)))
    (is (= {:reason :no-database :intensity 1 :period-ms 5000 :child :a}
           (select-keys (first (filter #(= :too-many-restarts (:event %)) @reports)) [:reason :intensity :period-ms :child])))))

(deftest a-child-that-came-up-again-keeps-no-reason-of-a-start-that-failed
  (let [fails (atom [false true false])
        start #(let [[fail?] (first (swap-vals! fails subvec 1))] (if fail? [:error :not-yet] (gs/start-link counter 0)))
        s (started {:intensity 9 :children [{:id :a :start [start]}]})]
    (actor/exit (:pid (first (sup/which-children s))) :kill)
    (is (eventually (and (= [] @fails) (instance? Pid (:pid (first (sup/which-children s)))))))
    (is (not (contains? (get-in (sys/get-state s) [:kids :a]) :why)))))

(defn- looping
  "A supervisor with a child that starts once, and its pid: once that has died the start is tried again and again."
  [spec]
  (let [tries (atom 0)
        start (fn [& _] (if (= 1 (swap! tries inc)) (gs/start-link counter 0) [:error :not-again]))
        simple? (= :simple-one-for-one (:strategy spec))
        s (started (merge {:intensity 1000000000 :period 1} spec (when simple? {:children [(kid :t :start [start])]})))
        [_ pid] (sup/start-child s (if simple? [] (kid :a :start [start])))]
    (actor/exit pid :kill)
    (is (eventually (= [:restarting] (mapv :pid (sup/which-children s)))))
    [s pid tries]))

(deftest a-child-in-a-restart-loop-is-stopped-by-its-last-pid
  (doseq [strategy [:simple-one-for-one :dynamic]]
    (testing strategy
      (let [[s pid tries] (looping {:strategy strategy})]
        (is (= {:specs 1 :active 0 :supervisors 0 :workers 1} (sup/count-children s)))
        (is (= [:ok {:id nil :pid :restarting :type :worker :restart :permanent}] (sup/which-child s pid)))
        (is (= :ok (sup/terminate-child s pid)))
        (is (= [] (sup/which-children s)))
        (let [n @tries]
          (is (= [] (sup/which-children s)))
          (is (= n @tries)))))))

(deftest a-pid-that-is-dead-is-terminated-already-where-children-are-made-by-a-template
  (let [s (started {:strategy :simple-one-for-one :children [(kid :t :restart :temporary)]})
        [_ pid] (sup/start-child s [])]
    (is (= :ok (sup/terminate-child s pid) (sup/terminate-child s pid)))
    (is (= [:error :not-found] (sup/terminate-child s (self))))))

(deftest a-child-that-is-being-restarted-is-already-present
  (let [[s] (looping {})]
    (is (= [:error :already-present] (sup/start-child s (kid :a))))
    (is (= [:error :restarting] (sup/restart-child s :a) (sup/delete-child s :a)))
    (is (= :ok (sup/terminate-child s :a)))
    (is (= [[:a nil]] (mapv (juxt :id :pid) (sup/which-children s))))))

(deftest children-without-ids-are-shown-without-ids
  (doseq [[spec x] [[{:strategy :dynamic} (kid :a)]
                    [{:strategy :simple-one-for-one :children [(kid :t)]} []]]]
    (let [s (started spec)
          [_ pid] (sup/start-child s x)]
      (is (= [{:id nil :pid pid :type :worker :restart :permanent}] (sup/which-children s)))
      (is (= [:ok {:id nil :pid pid :type :worker :restart :permanent}] (sup/which-child s pid)))
      (is (= [:error :not-found] (sup/which-child s (self)))))))

(deftest a-value-without-end-is-an-error
  (doseq [[why spec] {:invalid-strategy {:strategy (range)}
                      :invalid-period {:period (range)}
                      :invalid-id {:children [{:id (range) :start [list]}]}
                      :invalid-start {:children [{:id 1 :start (range)}]}
                      :invalid-shutdown {:children [{:id 1 :start [list] :shutdown (range)}]}}
          :let [[how [_ refused]] (magnetar.supervisor.specs/supervisor spec)]]
    (is (= [:error why] [how (:why refused)]))))
