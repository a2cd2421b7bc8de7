(ns magnetar.hot-upgrade-test
  "Upgrades of trees of servers: what is migrated, what is taken back, and who dies meanwhile."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.actor-support :as processes]
   [magnetar.gen-server :as gs]
   [magnetar.hot :as hot]
   [magnetar.hot-support :as code]
   [magnetar.inspect :as inspect]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.pool :as pool]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [eventually value-of with-hook]]
   [magnetar.sys :as sys])
  (:import
   (clojure.lang ExceptionInfo)
   (java.time Duration)))

(set! *warn-on-reflection* true)

(use-fixtures :each
  (fn [f]
    (with-hook [:report (fn [_])]
      (scenarios/leaving-nobody f))))

(defn- error-of [f]
  (try (f) nil (catch Exception e e)))

(defn- counter-path [ns version]
  (apply code/write (code/folder) ns (code/counter ns version)))

(defn- counter-namespace
  "A namespace of version 1 of a counter."
  []
  (let [ns (code/new-name "counter")]
    (hot/load (counter-path ns 1))
    ns))

(defn- child
  ([ns id] (child ns id nil))
  ([ns id hosting]
   {:id id :start [gs/start-link ns 5 {:name id :hosting hosting}]}))

(defn- tree
  "A supervisor of these children."
  [& children]
  (let [up (promise)]
    (actor/spawn #(do (actor/flag :trap-exit true)
                      (deliver up (second (sup/start-link {:intensity 100 :children children})))
                      (receive ::never nil)))
    (value-of up)))

(defn- all-get [& names]
  (mapv #(gs/call % :get) names))

;; ---- what is migrated

(deftest ^{:spec ["C134"]} each-server-of-the-tree-changes-its-state-by-the-new-code
  (doseq [hosting [:threaded :activated]]
    (let [ns (counter-namespace)
          inner {:id :inner :start [sup/start-link {:children [(child ns ::b hosting)]}]}
          app (tree (child ns ::a hosting) inner)
          {:keys [loaded processes]} (hot/upgrade app (counter-path ns 2))]
      (is (= [{:namespace ns :from 1 :to 2 :removed []}] loaded))
      (is (= [[::a 1 2] [::b 1 2]] (sort (map (juxt :name :from :to) processes))) "a supervisor counts as one, also if its spec does not say so")
      (is (= [[2 5] [2 5]] (all-get ::a ::b)))
      (is (= {:n 5 :was 1} (sys/get-state ::a)))
      (is (= {ns 2} (actor/process-info (actor/whereis ::a) :code)))
      (is (= :running (:status (sys/get-status app)) (:status (sys/get-status ::a))))
      (gs/stop app :shutdown))))

(deftest a-server-alone-a-collection-and-a-var-are-upgraded-too
  (let [ns (counter-namespace)
        of-var (code/new-name "var")
        forms (fn [n change] [(list 'ns of-var {:version n})
                              (list 'def 'behaviour {:init '(fn [s] [:ok s]) :handle-call (list 'fn '[_ _ s] [:reply [n 's] 's]) :handle-cast '(fn [_ s] [:noreply s])
                                                     :code-change (list 'fn '[old s extra] [:ok change])})])
        _ (apply code/load-forms of-var (forms 1 's))
        [_ one] (gs/start ns 1)
        [_ two] (gs/start (ns-resolve of-var 'behaviour) :s)
        sources [(counter-path ns 2) (apply code/write (code/folder) of-var (forms 2 '[old s extra]))]]
    (is (= [[1 2] [1 2]] (map (juxt :from :to) (:processes (hot/upgrade [one two] sources {:extra :x})))))
    (is (= [[2 1] [2 [1 :s :x]]] (all-get one two)))
    (is (= [[2 2]] (map (juxt :from :to) (:processes (hot/upgrade one (first sources))))) "one server is a tree too")))

(deftest ^{:spec ["C134"]} the-workers-of-a-pool-are-below-it
  (let [ns (counter-namespace)
        app (tree {:id :pool :start [pool/start-link {:name ::pool :size 2 :worker [gs/start-link ns 5]}]})]
    (is (= [[1 2] [1 2]] (map (juxt :from :to) (:processes (hot/upgrade app (counter-path ns 2))))))
    (pool/with-worker [worker ::pool]
      (is (= [2 5] (gs/call worker :get))))
    (gs/stop app :shutdown)))

(deftest ^{:spec ["C134"]} servers-that-are-not-concerned-go-on
  (let [ns (counter-namespace)
        other (counter-namespace)
        app (tree (child ns ::a) (child other ::other))]
    (is (= [::a] (map :name (:processes (hot/upgrade app (counter-path ns 2) {:extra (fn [_] (gs/call ::other :get))})))))
    (is (= [[2 5] [1 5]] (all-get ::a ::other)))))

(deftest a-server-without-code-change-keeps-its-state
  (let [ns (code/new-name "keeps")
        forms #(list (list 'ns ns {:version %}) '(defn init [s] [:ok s]) (list 'defn 'handle-call '[_ _ s] [:reply [% 's] 's]) '(defn handle-cast [_ s] [:noreply s]))]
    (apply code/load-forms ns (forms 1))
    (let [app (tree (child ns ::a))]
      (hot/upgrade app (apply code/write (code/folder) ns (forms 2)))
      (is (= [2 5] (gs/call ::a :get)))
      (is (= {ns 2} (actor/process-info (actor/whereis ::a) :code))))))

(deftest ^{:spec ["C134"]} a-call-made-meanwhile-waits-and-is-answered-by-the-new-code
  (let [ns (counter-namespace)
        app (tree (child ns ::a))
        called (promise)
        answer (promise)]
    (hot/upgrade app (counter-path ns 2)
                 {:extra (fn [_]
                           (future (deliver called true) (deliver answer (gs/call ::a :get)))
                           (value-of called))})
    (is (= [2 5] (value-of answer)))))

;; ---- what is taken back

(def ^:dynamic *data* nil)

(defn- goes-wrong
  "Upgrades a tree of three, the second of which fails with (wrong n); the error."
  [ns app wrong options]
  (let [turn (atom 0)]
    (error-of #(hot/upgrade app (counter-path ns 2) (merge {:extra (fn [n] (when (= 2 (swap! turn inc)) (wrong n)))} options)))))

(deftest ^{:spec ["C135"]} if-one-state-cannot-be-changed-all-states-and-all-code-are-as-before
  (doseq [[what wrong] {"an exception" (fn [_] (throw (ex-info "not this one" {})))
                        "an Error" (fn [_] (throw (AssertionError. "not this one")))
                        "an exit" (fn [_] (actor/exit :boom))}]
    (testing what
      (let [ns (counter-namespace)
            app (tree (child ns ::a) (child ns ::b) (child ns ::c))
            pids (mapv actor/whereis [::a ::b ::c])
            e (goes-wrong ns app wrong nil)]
        (is (= [:magnetar/upgrade-failed ::b "change its code"] ((juxt :magnetar/reason :server :step) (ex-data e))))
        (is (= [[1 5] [1 5] [1 5]] (all-get ::a ::b ::c)))
        (is (= [5 5 5] (mapv sys/get-state pids)))
        (is (= [{ns 1} {ns 1} {ns 1}] (mapv #(actor/process-info % :code) pids)))
        (is (= 1 (hot/version ns)))
        (is (= [::a ::b ::c] (mapv :name (:processes (hot/upgrade app (counter-path ns 2))))) "and the next try may succeed")
        (gs/stop app :shutdown)))))

(deftest the-error-of-an-upgrade-says-who-why-and-what-now
  (let [ns (counter-namespace)
        app (tree (child ns :the-a) (child ns :the-b))]
    (is (= (str "The upgrade was rolled back: code-change of :the-b from version 1 failed: not this one. "
                "All namespaces and all states are as they were before.")
           (ex-message (goes-wrong ns app (fn [_] (throw (ex-info "not this one" {}))) nil))))
    (is (= (str "`upgrade` wants a supervisor or a server that is alive; there is none at :nobody. Start it first, or check the name with `actor/whereis`.")
           (ex-message (error-of #(hot/upgrade :nobody (counter-path ns 2))))))
    (is (= "`magnetar.hot/upgrade` does not know :extr; its options are :extra, :timeout. Is :extra meant?"
           (ex-message (error-of #(hot/upgrade app (counter-path ns 2) {:extr 1})))))
    (is (re-find #"wants a server as a pid, a name" (ex-message (error-of #(hot/upgrade nil (counter-path ns 2))))))))

(deftest ^{:spec ["C135"]} a-source-that-does-not-load-changes-nothing-and-suspends-nobody
  (let [ns (counter-namespace)
        app (tree (child ns ::a))
        e (error-of #(hot/upgrade app (code/write (code/folder) ns (list 'ns ns) '(defn handle-call [_ _ s] (oops)))))]
    (is (= :magnetar/load-failed (:magnetar/reason (ex-data e))))
    (is (= [1 5] (gs/call ::a :get)))
    (is (= :running (:status (sys/get-status app))))))

(deftest ^{:spec ["C135"]} code-that-has-lost-a-callback-is-taken-back
  (let [ns (counter-namespace)
        app (tree (child ns ::a))
        e (error-of #(hot/upgrade app (apply code/write (code/folder) ns (butlast (butlast (code/counter ns 2))))))]
    (is (= (str "The callback module " ns " has no handle-cast, which a server needs; found: handle-call, init.") (ex-message e)))
    (is (= [1 5] (gs/call ::a :get)))
    (is (= 1 (hot/version ns)))))

(deftest source-that-is-being-loaded-cannot-upgrade
  (let [ns (code/new-name "within")
        [_ pid] (gs/start (counter-namespace) 5)]
    (is (re-find #"`upgrade` was called by source that is being loaded: it would wait for the end of that. Call it in a function."
                 (ex-message (error-of #(binding [*data* [pid (counter-path ns 2)]]
                                          (hot/load (code/write (code/folder) ns (list 'ns ns) '(apply magnetar.hot/upgrade magnetar.hot-upgrade-test/*data*))))))))))

(deftest ^{:spec ["C135" "C136"]} a-server-that-does-not-come-to-rest-ends-the-upgrade-and-is-not-left-suspended
  (let [ns (counter-namespace)
        app (tree (child ns ::a) (child ns ::b))
        free (promise)
        in-it (promise)
        busy (future (gs/call ::a (fn [] (deliver in-it true) @free) {:timeout :infinity}))]
    (value-of in-it)
    (let [e (error-of #(hot/upgrade app (counter-path ns 2) {:timeout 1000}))]
      (is (= (str "The server " (pr-str ::a) " did not come to rest within 1000 ms. Let its callbacks be quicker, or give the upgrade a longer :timeout.")
             (ex-message e)))
      (is (= [1 5] (gs/call ::b :get)))
      (deliver free :freed)
      (is (= :freed (value-of busy)))
      (is (= [1 5] (gs/call ::a :get)))
      (is (= :running (:status (sys/get-status ::a)))))))

(deftest a-supervisor-that-is-late-is-named-with-a-remedy-that-an-upgrade-has
  (let [ns (counter-namespace)
        app (tree (child ns ::a))
        free (promise)
        in-it (promise)
        busy (future (sup/start-child app {:id :slow :start [(fn [] (deliver in-it true) @free)]}))]
    (value-of in-it)
    (let [e (error-of #(hot/upgrade app (counter-path ns 2) {:timeout (Duration/ofMillis 20)}))]
      (is (= (str "The server " (pr-str app) " did not tell its children within PT0.02S. Let its callbacks be quicker, or give the upgrade a longer :timeout.")
             (ex-message e)))
      (is (= [app :timeout "tell its children"] ((juxt :server :reason :step) (ex-data e)))))
    (deliver free :ignore)
    (value-of busy)))

(deftest ^{:spec ["C135" "C136"]} a-code-change-that-takes-too-long-is-taken-back-once-it-is-over
  (let [ns (counter-namespace)
        app (tree (child ns ::a) (child ns ::b))
        free (promise)
        e (goes-wrong ns app (fn [_] @free) {:timeout 1500})]
    (is (= [:timeout ::b] ((juxt :reason :server) (ex-data e))))
    (is (= [1 5] (gs/call ::a :get)))
    (deliver free true)
    (is (= [1 5] (gs/call ::b :get)))
    (is (= 5 (sys/get-state ::b)))))

(deftest ^{:spec ["C135"]} what-was-changed-by-hand-before-an-upgrade-is-not-taken-back-with-it
  (let [ns (counter-namespace)
        [_ pid] (gs/start ns 5)]
    (sys/suspend pid)
    (is (= :ok (sys/change-code pid :by-hand nil)))
    (is (= {:n 5 :was :by-hand} (sys/get-state pid)))
    (is (error-of #(hot/upgrade pid (counter-path ns 2) {:extra (fn [_] (throw (ex-info "no" {})))})))
    (is (= {:n 5 :was :by-hand} (sys/get-state pid)))
    (gs/stop pid)))

;; ---- deaths

(deftest ^{:spec ["C136"]} a-server-that-dies-meanwhile-is-started-again-with-the-new-code
  (let [ns (counter-namespace)
        app (tree (child ns ::a) (child ns ::b))
        a (actor/whereis ::a)
        b (actor/whereis ::b)]
    (gs/cast ::b 10)
    (hot/upgrade app (counter-path ns 2) {:extra (fn [n] (when (= 5 n) (actor/exit b :kill)))})
    (is (= a (actor/whereis ::a)))
    (is (eventually (some-> (actor/whereis ::b) (not= b))))
    (is (= [2 5] (gs/call ::a :get)))
    (is (= 2 (first (gs/call ::b :get))))))

(deftest ^{:spec ["C136"]} an-upgrade-goes-on-when-whoever-asked-for-it-dies
  (let [ns (counter-namespace)
        app (tree (child ns ::a))
        path (counter-path ns 2)
        begun (promise)
        free (promise)
        caller (actor/spawn #(hot/upgrade app path {:extra (fn [_] (deliver begun true) @free)}))]
    (value-of begun)
    (actor/exit caller :kill)
    (is (= :killed (processes/reason caller)))
    (deliver free true)
    (is (= [2 5] (gs/call ::a :get)))))

(defn- upgrader
  "The process that does the upgrade, which waits for a server."
  []
  (some #(when (= "hot/upgrade" (:label %)) (:pid %)) (inspect/processes)))

(deftest ^{:spec ["C135" "C136"]} if-the-process-of-the-upgrade-is-killed-all-is-as-before
  (let [ns (counter-namespace)
        app (tree (child ns ::a) (child ns ::b))
        begun (promise)
        free (promise)
        path (counter-path ns 2)
        upgrade (future (error-of #(hot/upgrade app path {:extra (fn [_] (deliver begun true) @free)})))]
    (value-of begun)
    (actor/exit (upgrader) :kill)
    (is (= :killed (:reason (ex-data (value-of upgrade)))))
    (deliver free true)
    (is (= [[1 5] [1 5]] (all-get ::a ::b)))
    (is (= 1 (hot/version ns)))
    (is (= :running (:status (sys/get-status app))))))

(deftest ^{:spec ["C136"]} a-server-cannot-upgrade-itself
  (let [ns (counter-namespace)
        app (tree (child ns ::a))
        path (counter-path ns 2)]
    (is (= "`upgrade` was called in a process of the tree that it has to suspend: call it in another process, with `spawn` for instance."
           (gs/call ::a (fn [] (ex-message (error-of #(hot/upgrade app path)))))
           (gs/call ::a (fn [] (ex-message (error-of #(hot/upgrade ::a path)))))))
    (is (= [1 5] (gs/call ::a :get)))))

(deftest upgrades-at-the-same-time-happen-one-after-the-other
  (let [ns (counter-namespace)
        app (tree (child ns ::a))
        path (counter-path ns 2)
        froms (mapv (fn [_] (future (map (juxt :from :to) (:processes (hot/upgrade app path))))) (range 4))]
    (is (= {[[1 2]] 1, [[2 2]] 3} (frequencies (map value-of froms))))
    (is (= [2 5] (gs/call ::a :get)))))

;; ---- supervisors

(defn- spec-forms [ns version spec]
  [(list 'ns ns {:version version} '(:require [magnetar.gen-server :as gs])) (list 'defn 'spec [] spec)])

(defn- supervisor-of
  "A supervisor whose spec is the var of a namespace that begins as this form; [namespace supervisor (fn [version form] path)]."
  [spec]
  (let [ns (code/new-name "app")
        up (promise)]
    (apply code/load-forms ns (spec-forms ns 1 spec))
    (actor/spawn #(do (actor/flag :trap-exit true)
                      (deliver up (second (sup/start-link (ns-resolve ns 'spec))))
                      (receive ::never nil)))
    [ns (value-of up) (fn [version form] (apply code/write (code/folder) ns (spec-forms ns version form)))]))

(defn- child-form [ns id more]
  (merge {:id id :start ['gs/start-link (list 'quote ns) 5]} more))

(deftest ^{:spec ["C137"]} a-supervisor-takes-its-new-spec
  (let [ns (counter-namespace)
        kid #(child-form ns %1 %2)
        [app pid path] (supervisor-of {:intensity 7 :children [(kid :a nil) (kid :b nil) (kid :t {:restart :temporary})]})
        pids (into {} (map (juxt :id :pid)) (sup/which-children pid))
        _ (gs/stop (:t pids))
        _ (sup/start-child pid {:id :mine :start [gs/start-link ns 5]})
        report (hot/upgrade pid (path 2 {:intensity 3 :children [(kid :c nil) (kid :b {:restart :transient}) (kid :t {:restart :temporary})]}))]
    (is (= {:started [:c] :stopped [:a] :failed []} (select-keys report [:started :stopped :failed])))
    (is (= [[1 2]] (map (juxt :from :to) (:processes report))))
    (is (= [:mine :c :b] (map :id (sup/which-children pid))) "what was added by hand stays, what has ended for good does not come again")
    (is (= (:b pids) (:pid (last (sup/which-children pid)))))
    (is (not (actor/alive? (:a pids))))
    (is (= :transient (:restart (second (sup/get-childspec pid :b)))))
    (is (= 3 (:intensity (sys/get-state pid))))
    (is (= {app 2} (actor/process-info pid :code)))))

(deftest ^{:spec ["C137"]} a-child-that-does-not-start-is-told-and-a-template-is-replaced
  (let [ns (counter-namespace)
        [_ pid path] (supervisor-of {:children []})
        broken {:id :x :start ['(fn [] [:error :broken])]}]
    (is (= [[:x :broken]] (:failed (hot/upgrade pid (path 2 {:children [broken]})))))
    (is (= [:x nil] ((juxt :id :pid) (first (sup/which-children pid)))))
    (let [template #(do {:strategy :simple-one-for-one :children [(assoc (child-form ns :t nil) :shutdown %)]})
          [_ simple path] (supervisor-of (template 10))]
      (sup/start-child simple [])
      (hot/upgrade simple (path 2 (template 20)))
      (is (= 20 (:shutdown (second (sup/get-childspec simple :t)))))
      (is (= 1 (:active (sup/count-children simple)))))))

(deftest ^{:spec ["C135" "C137"]} a-wrong-spec-takes-the-upgrade-back
  (let [ns (counter-namespace)
        spec {:children [(child-form ns :a nil)]}
        [app pid path] (supervisor-of spec)]
    (doseq [[message form] {#"The new spec of the supervisor is wrong: .*:permenant.*Is :permanent meant" {:children [(child-form ns :a {:restart :permenant})]}
                            #"A supervisor of the strategy :one-for-one cannot become one of :dynamic" {:strategy :dynamic}}]
      (is (re-find message (ex-message (error-of #(hot/upgrade pid (path 2 form))))))
      (is (= 1 (hot/version app)))
      (is (= [:a] (map :id (sup/which-children pid)))))))

;; ---- change-code by hand

(deftest change-code-is-there-for-supervisors-too-and-wants-them-suspended
  (let [[_ pid] (supervisor-of {:children []})]
    (is (= [:error :unknown-system-msg] (let [[how [why]] (sys/change-code pid 1 nil)] [how why])))
    (sys/suspend pid)
    (is (= :ok (sys/change-code pid 1 nil)))
    (is (= :ok (sys/resume pid)))
    (is (= [] (sup/which-children pid)))))

(deftest an-error-in-code-change-leaves-the-server-as-it-was
  (let [ns (counter-namespace)
        [_ pid] (gs/start ns 5)]
    (sys/suspend pid)
    (is (= :error (first (sys/change-code pid 1 (fn [_] (throw (AssertionError. "no")))))))
    (is (= 5 (sys/get-state pid)))
    (sys/resume pid)
    (is (= [1 5] (gs/call pid :get)))
    (is (instance? ExceptionInfo (error-of #(sys/replace-state pid (fn [_] (throw (AssertionError. "no")))))))
    (is (= [1 5] (gs/call pid :get)))))
