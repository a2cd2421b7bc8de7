(ns magnetar.cluster.tasks-test
  "Tasks of a supervisor on another simulated node, and children there of a supervisor on this one."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.tasks :as server]
   [magnetar.cluster.simulated :as simulated :refer [run-on silently start]]
   [magnetar.scope :as scope]
   [magnetar.scope.context :as context]
   [magnetar.supervisor :as sup]
   [magnetar.sys :as sys]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks]
   [magnetar.test :as mt])
  (:import
   (magnetar TimeoutException)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(context/defcontext user "nobody")

(defn- add [x y] (+ (long x) (long y)))

(defn- add-ten [x] (add x 10))

(defn- place [] [(actor/node) @user (count (task/callers))])

(defn- fail [] (throw (ex-info "broken" {:n 1})))

(defn- unwritable [] (Object.))

(defn- endless [] (receive :never nil))

(defn- not-allowed [] :done)

(defn- told [pid]
  (! pid [:from (actor/node) (task/callers)]))

(def ^:private allowed #{#'add #'add-ten #'place #'fail #'unwritable #'endless #'told})

(defn- keep-workers [options]
  (tasks/start-link (merge {:name :workers} options))
  (receive :never nil))

(defn- on-nodes
  "What f returns as a process of the node a, when b has the task supervisor :workers."
  [seed f]
  (silently
    #(mt/simulate {:seed seed}
       (let [net (mt/network {:latency [1 20]})]
         (run! (fn [node] (start net node {:spawnable allowed})) [:a :b])
         (simulated/connected :a :b)
         (run-on :b keep-workers {:max-children 3})
         (mt/wait-until (fn [] (mt/on-node :b (fn [] (some? (actor/whereis :workers))))))
         (mt/on-node :a (fn [] (actor/with-process {:trap-exit true} (f))))))))

(def ^:private there [:workers "b@sim"])

(defn- refused
  "[reason message] of what f throws."
  [f]
  (try
    (f)
    (catch Exception e [(:magnetar/reason (ex-data e)) (ex-message e)])))

(deftest a-task-runs-on-the-node-of-its-supervisor
  (doseq [seed (range 5)]
    (is (= [3 ["b@sim" "ada" 1] [[:ok 11] [:ok 12]] [:ok ["b@sim" "nobody" 1]] 0]
           (on-nodes seed
             (fn []
               [(task/await (tasks/async there #'add {:args [1 2]}))
                (context/with-context [user "ada"]
                  (task/await (tasks/async-nolink there `place)))
                (into [] (tasks/async-stream there [1 2] #'add-ten))
                (task/yield (tasks/async there #'place))
                (count (tasks/children there))]))))))

(deftest what-becomes-of-a-task-there-is-told-as-of-one-here
  (is (= [[:exit ["broken"]] true nil [:exit :killed] []]
         (on-nodes 1
           (fn []
             [(let [[how [error]] (task/yield (tasks/async-nolink there #'fail))] [how [(:message error)]])
              (= :exit (first (task/yield (tasks/async-nolink there #'unwritable))))
              (task/shutdown (tasks/async-nolink there #'endless))
              (let [{:keys [pid] :as task} (tasks/async-nolink there #'endless)]
                (actor/exit pid :kill)
                (task/yield task))
              (tasks/children there)])))))

(deftest a-task-whose-node-is-lost-has-died
  (doseq [seed (range 5)]
    (is (= [[:exit :noconnection] [:EXIT :noconnection] [:exit :noconnection]]
           (on-nodes seed
             (fn []
               (let [linked (tasks/async there #'endless)
                     free (tasks/async-nolink there #'endless)]
                 (mt/crash-node :b)
                 [(task/yield linked {:timeout 60000})
                  (receive [:EXIT _ why] [:EXIT why])
                  (task/shutdown free)])))))))

(deftest a-task-that-is-given-up-sends-nothing
  (is (= [:late true nil :nothing]
         (on-nodes 1
           (fn []
             (let [late (tasks/async-nolink there #'endless)
                   message (try (task/await late {:timeout 100}) (catch TimeoutException e (ex-message e)))]
               [:late
                (str/includes? message "It is on the node b@sim")
                (task/ignore (tasks/async there #'add {:args [1 2]}))
                (do (scope/sleep 1000)
                    (receive x x (after 0 :nothing)))]))))))

(deftest a-task-ends-with-its-owner
  (is (= [1 0]
         (on-nodes 1
           (fn []
             (let [me (self)
                   owner (actor/spawn #(do (tasks/async there #'endless) (! me :started) (receive :never nil)))]
               (receive :started nil)
               [(count (tasks/children there))
                (do (actor/exit owner :kill)
                    (mt/wait-until #(empty? (tasks/children there)))
                    (count (tasks/children there)))]))))))

(deftest a-child-is-started-there
  (is (= [:ok "b@sim" true :ok]
         (on-nodes 1
           (fn []
             (let [[how pid] (tasks/start-child there #'told {:args [(self)]})
                   me (self)]
               [how (receive [:from node [me]] node) (= "b@sim" (actor/node pid))
                (let [[_ pid] (tasks/start-child there #'endless)]
                  (tasks/terminate-child there pid))]))))))

(deftest what-cannot-start-there-is-refused
  (on-nodes 1
    (fn []
      (testing "a closure, of which the supervisor on this node would know what to do"
        (is (= :magnetar/not-a-var (first (refused #(tasks/async there (fn [] 1)))) (first (refused #(tasks/start-child there (fn [] 1)))))))
      (testing "a var that the node does not allow"
        (let [[reason message] (refused #(tasks/async there #'not-allowed))]
          (is (= :magnetar/task-not-started reason))
          (is (str/includes? message "The node b@sim starts no magnetar.cluster.tasks-test/not-allowed for other nodes")))
        (is (= [:error :refused] (let [[how [why]] (tasks/start-child there #'not-allowed)] [how why]))))
      (testing "no supervisor, more than it takes, no node"
        (is (= :magnetar/task-not-started (first (refused #(tasks/async [:nothing "b@sim"] #'place)))))
        (let [started (vec (repeatedly 3 #(tasks/async-nolink there #'endless)))]
          (is (= :magnetar/too-many-tasks (first (refused #(tasks/async there #'place)))))
          (is (= [:error :max-children] (tasks/start-child there #'endless)))
          (run! task/shutdown started))
        (let [[reason message] (refused #(tasks/async [:workers "c@sim"] #'place))]
          (is (= :magnetar/task-not-started reason))
          (is (str/ends-with? message ": The node \"c@sim\" is not connected. Look with `cluster/nodes`.")))
        (is (= [:error :noconnection] (tasks/start-child [:workers "c@sim"] #'place))))
      (testing "a node without the server for tasks"
        (mt/on-node :b #(actor/unregister server/server-name))
        (is (str/includes? (second (refused #(tasks/async there #'place))) "The node \"b@sim\" starts no tasks for other nodes")))
      (testing "arguments that are no list"
        (is (= :magnetar/bad-option (first (refused #(tasks/async there #'add {:args 1})))))))))

;; ---- starts that fail, or come too late

(defn- ended-by-its-start [& _]
  (actor/exit (self) :kill)
  (receive :never nil))

(defn- overflowing [& _]
  (throw (StackOverflowError.)))

(deftest a-start-whose-process-dies-is-refused
  (doseq [start-for [ended-by-its-start overflowing]]
    (with-redefs [tasks/start-for start-for]
      (let [[[reason message] [how [why]]] (on-nodes 1 (fn [] [(refused #(tasks/async there #'place))
                                                               (tasks/start-child there #'place)]))]
        (is (= :magnetar/task-not-started reason))
        (is (str/includes? message "The process that was to start it has died"))
        (is (= [:error :refused] [how why]))))))

(defn- give-up-a-start
  "Waits for the supervisor, which answers nothing, for a while."
  []
  (refused #(scope/with-scope [_ {:deadline 500}]
              (tasks/async there #'endless))))

(deftest a-task-that-starts-too-late-is-ended
  (doseq [seed (range 5)]
    (is (= [:magnetar/deadline [] ["b@sim" "nobody" 1]]
           (on-nodes seed
             (fn []
               (mt/on-node :b #(sys/suspend :workers))
               (let [[reason] (give-up-a-start)]
                 (mt/on-node :b #(sys/resume :workers))
                 (scope/sleep 2000)
                 [reason (tasks/children there) (task/await (tasks/async there #'place))])))))))

;; ---- what a supervisor starts for another node

(defn- keep-supervisor [name spec]
  (sup/start-link spec {:name name})
  (receive :never nil))

(defn- start-worker [& args]
  [:ok (actor/spawn-link* #(receive :never args))])

(deftest a-supervisor-loads-nothing-for-another-node
  (on-nodes 1
    (fn []
      (run-on :b keep-supervisor :app {})
      (run-on :b keep-supervisor :dynamic {:strategy :dynamic})
      (run-on :b keep-supervisor :template {:strategy :simple-one-for-one :children [{:id :x :start [start-worker]}]})
      (mt/wait-until (fn [] (mt/on-node :b (fn [] (every? actor/whereis [:app :dynamic :template])))))
      (doseq [name [:app :dynamic]
              spec ['magnetar.cluster.a-namespace-that-is-not-there ['magnetar.cluster.a-namespace-that-is-not-there 1]]]
        (let [[reason message] (refused #(sup/start-child [name "b@sim"] spec))]
          (is (= :magnetar/bad-child-spec reason))
          (is (str/includes? message "the request is from another node"))))
      (testing "a request that says it is from a process of that node"
        (let [app (mt/on-node :b #(actor/whereis :app))]
          (! [:app "b@sim"] [:magnetar/call [app (actor/make-ref)] [:start-child ['magnetar.registry {:keys :unique :name :forged}]]])
          (is (empty? (sup/which-children [:app "b@sim"])))))
      (testing "arguments of a template, which are data"
        (is (= :ok (first (sup/start-child [:template "b@sim"] ['magnetar.registry 1])))))
      (testing "a namespace that a program of that node names"
        (is (= :ok (mt/on-node :b #(first (sup/start-child :app ['magnetar.registry {:keys :unique :name :carts}])))))))))

;; ---- children of a supervisor on this node that run on other ones

(defn- start-elsewhere
  "Starts a process on the first of the connected nodes."
  []
  [:ok (cluster/spawn (first (cluster/nodes)) #'endless [] {:link true})])

(defn- child-node [supervisor]
  (let [pid (:pid (first (sup/which-children supervisor)))]
    (when (instance? Pid pid) (actor/node pid))))

(deftest a-child-whose-node-is-lost-is-started-again
  (doseq [seed (range 5)]
    (is (= ["b@sim" "c@sim" :ok []]
           (silently
             #(mt/simulate {:seed seed}
                (let [net (mt/network {:latency [1 20]})]
                  (run! (fn [node] (start net node {:spawnable allowed})) [:a :b :c])
                  (simulated/connected :a :b :c)
                  (mt/on-node :a
                    (fn []
                      (actor/with-process {:trap-exit true}
                        (let [[_ supervisor] (sup/start-link {:children [{:id :far :start [start-elsewhere]}]})]
                          [(child-node supervisor)
                           (do
                             (mt/crash-node :b)
                             (mt/wait-until (fn [] (= "c@sim" (child-node supervisor))) {:timeout 60000})
                             (child-node supervisor))
                           (sup/terminate-child supervisor :far)
                           (filterv :pid (sup/which-children supervisor))])))))))))))
