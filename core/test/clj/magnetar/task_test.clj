(ns magnetar.task-test
  "Tasks, streams of them, and their supervisors, beyond the scenarios of Elixir."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.otp.servers :as servers]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope.context :as context]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collected? collecting eventually limit-ms with-failures]]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks]
   [magnetar.task.work :as work])
  (:import
   (clojure.lang ExceptionInfo)
   (java.lang.ref WeakReference)
   (magnetar.kernel.process Pid$Ended ProcessTable)))

(set! *warn-on-reflection* true)

(def ^:private reports (atom []))

(use-fixtures :each
  (fn [f]
    (collecting reports (fn [] (with-failures [_] (scenarios/leaving-nobody #(actor/with-process {:trap-exit true} (f))))))))

(defn- forever [] (receive ::never nil))

(defn- thrown [f]
  (try
    (f)
    :no-error
    (catch Exception e e)))

(defn- why [f]
  (let [e (thrown f)]
    (if (instance? ExceptionInfo e) (:reason (ex-data e)) e)))

(defn- refused [f]
  (let [e (thrown f)]
    [(:magnetar/reason (ex-data e)) (ex-message e)]))

(defn- message []
  (receive x x (after limit-ms :late)))

(defn- ended
  "The task, once its process has ended."
  [{:keys [pid] :as task}]
  (is (eventually (not (actor/alive? pid))))
  task)

;; ---- one task

(deftest ^{:spec ["C104"]} a-task-answers-once
  (let [t (task/async + 1 2)]
    (is (= 3 (task/await t)))
    (is (= :timeout (why #(task/await t {:timeout 0}))))
    (doseq [again [#(task/yield t) #(task/yield t {:timeout 0 :else :none}) #(task/await-many [t]) #(task/await-many [t] {:else :late})]]
      (is (= :magnetar/task-failed (:magnetar/reason (ex-data (thrown again)))) "at once, and not as a time-out"))
    (is (= [:exit :noproc] (task/shutdown t)))))

(deftest ^{:spec ["C104"]} an-answer-that-comes-too-late-is-dropped
  (let [t (task/async #(receive :go 7))]
    (is (= :timeout (why #(task/await t {:timeout 1}))))
    (! (:pid t) :go)
    (is (= [:EXIT (:pid t) :normal] (message)))
    (is (= [] (actor/flush)))))

(deftest ^{:spec ["C104"]} a-task-that-is-polled-keeps-its-value
  (let [slow (task/async #(receive :go 7))
        quick (ended (task/async inc 1))]
    (is (= :notyet (task/await slow {:timeout 0 :else :notyet})))
    (is (= :notyet (task/await-many [quick slow (task/completed 3)] {:timeout 0 :else :notyet})))
    (is (= :notyet (task/await-many [quick slow] {:timeout 1 :else :notyet})) "the values were put back")
    (is (= [:ok 2] (task/yield quick)))
    (! (:pid slow) :go)
    (is (= 7 (task/await slow)))
    (is (= :magnetar/task-failed (:magnetar/reason (ex-data (thrown #(task/await slow {:timeout 0 :else :notyet}))))))))

(deftest ^{:spec ["C104"]} only-the-owner-may-wait-for-a-task
  (let [me (self)
        t (task/async forever)]
    (doseq [[word f] {"await" task/await, "yield" task/yield, "shutdown" task/shutdown, "ignore" task/ignore
                      "await-many" #(task/await-many [%]), "yield-many" #(task/yield-many [%])}]
      (actor/spawn #(! me (refused (fn [] (f t)))))
      (let [[reason sentence] (message)]
        (is (= :magnetar/not-the-owner reason))
        (is (str/starts-with? sentence (str "`" word "`")))
        (is (str/includes? sentence "task_test.clj:") "the task is named by its line")))))

(deftest values-that-look-like-nothing-are-values
  (is (= [nil false []] (task/await-many (mapv (fn [v] (task/async (constantly v))) [nil false []]))))
  (is (= [:ok nil] (task/yield (task/async (constantly nil))))))

(deftest a-task-takes-its-arguments-and-may-be-made-by-a-function-that-is-passed-on
  (is (= [2 3 4] (task/await-many (mapv #(apply task/async* [inc %]) [1 2 3]))))
  (is (= [2 3 4] (task/await-many (mapv (partial task/async* inc) [1 2 3])))))

(def ^:dynamic *setting* :root)
(context/defcontext colour :none)

(deftest a-task-sees-context-and-bindings-of-its-owner
  (binding [*setting* :bound]
    (is (= [:bound :red] (context/context* {colour :red} #(task/await (task/async (fn [] [*setting* @colour]))))))))

(deftest ^{:spec ["C105"]} the-error-of-a-task-names-its-line-and-says-what-it-waits-for
  (let [t (task/async forever)
        _ (is (eventually (scenarios/waits? (:pid t))))
        late (thrown #(task/await t {:timeout 10}))]
    (is (re-find #"The task \S*task_test.clj:\d+, .* has not ended in time, after 10 ms. It waits for message" (ex-message late)))
    (is (= [:timeout t] ((juxt :reason :task) (ex-data late)))))
  (let [t (task/async #(throw (ex-info "no" {:a 1})))
        dead (thrown #(task/await t))]
    (is (= {:type 'clojure.lang.ExceptionInfo :message "no" :data {:a 1}} (first (:reason (ex-data dead)))))
    (is (= [:crash (:pid t)] ((juxt :event :pid) (first @reports))))
    (is (re-find #"task_test" (first (second (:reason (ex-data dead))))) "the frames begin in the program")))

(deftest ^{:spec ["C105"]} who-dies-of-a-failed-await-has-the-call-in-its-reason
  (let [[reason [module operation [_ timeout]]] (scenarios/reason-of #(task/await (task/async forever) {:timeout 5}))]
    (is (= [:timeout 'magnetar.task :await 5] [reason module operation timeout]))))

(deftest ^{:spec ["C105"]} a-linked-task-takes-its-owner-along-for-its-own-reason-however-it-waits
  (dotimes [_ 20]
    (is (= :boom (scenarios/reason-of #(task/await (task/async actor/exit :boom)))))
    (is (= :boom (scenarios/reason-of #(task/yield (task/async actor/exit :boom)))))
    (is (= :boom (scenarios/reason-of #(try (task/await (task/async actor/exit :boom)) (catch Exception _ :caught)))))
    (is (= :boom (scenarios/reason-of #(task/await-many [(task/async forever) (task/async actor/exit :boom)]))))
    (is (= :boom (scenarios/reason-of #(into [] (task/async-stream [1 2] (fn [n] (if (= 1 n) (forever) (actor/exit :boom))) {:max-concurrency 2})))))))

(deftest ^{:spec ["C105"]} the-death-of-the-owner-ends-its-tasks
  (let [me (self)
        owner (actor/spawn (fn [] (! me (task/async forever)) (forever)))
        t (message)]
    (actor/exit owner :kill)
    (ended t)))

(deftest a-task-that-exits-normally-gave-no-value
  (is (= :normal (why #(task/await (task/async actor/exit :normal)))))
  (is (= [:exit :normal] (task/yield (task/async actor/exit :normal)))))

(deftest ^{:spec ["C107"]} shutdown-gives-what-came-before-it
  (is (= [:ok 1] (task/shutdown (ended (task/async inc 0)))))
  (is (= [:exit :x] (task/shutdown (ended (task/async actor/exit :x)))))
  (testing "a task that clears up"
    (let [me (self)
          t (task/async #(do (actor/flag :trap-exit true) (! me :ready) (receive [:EXIT _ why] [:cleared why])))]
      (receive :ready nil)
      (is (= [:ok [:cleared :shutdown]] (task/shutdown t)))))
  (testing "one that does not listen"
    (let [me (self)
          t (task/async #(do (actor/flag :trap-exit true) (! me :ready) (forever)))]
      (receive :ready nil)
      (is (= [:exit :killed] (task/shutdown t {:shutdown 10})))
      (is (not (actor/alive? (:pid t))))))
  (let [t (task/async forever)]
    (is (nil? (task/shutdown t {:shutdown :brutal-kill})))
    (is (not (actor/alive? (:pid t))))))

(deftest ^{:spec ["C107"]} who-shuts-a-task-down-does-not-die-of-it
  (is (= [:done nil] (scenarios/reason-of #(actor/exit [:done (task/shutdown (task/async forever))])))))

(deftest a-task-that-is-ignored-goes-on
  (let [t (task/async #(receive :go :value))]
    (is (nil? (task/ignore t)))
    (is (actor/alive? (:pid t)))
    (! (:pid t) :go)
    (ended t)
    (is (= [] (actor/flush)) "neither an answer nor an exit"))
  (is (= [:ok 1] (task/ignore (ended (task/async inc 0))))))

(deftest a-task-that-was-completed-when-it-was-made
  (is (= 3 (task/await (task/completed 3))))
  (is (= [:ok nil] (task/yield (task/completed nil))))
  (is (= [:ok 3] (task/shutdown (task/completed 3)))))

(deftest who-started-a-task-is-known-in-it
  (let [me (self)]
    (is (= [me] (task/await (task/async task/callers))))
    (is (= [true me] (task/await (task/async #(let [inner (task/await (task/async task/callers))] [(= (self) (first inner)) (second inner)])))))
    (is (= me (first (task/await (task/async proc-lib/ancestors)))))
    (is (= [] (task/callers)))))

(deftest a-task-of-which-nobody-waits-for-anything
  (let [me (self)]
    (is (= :ok (first (task/start #(! me :one)))))
    (is (= :one (message)))
    (let [[_ pid] (task/start-link #(actor/exit :two))]
      (is (= [:EXIT pid :two] (message))))
    (let [s (servers/supervisor {:children [{:id :once :start [task/start-link* #(! me :three)] :restart :temporary}]})]
      (is (eventually (= [] (sup/which-children s)))))))

(deftest an-answer-may-be-taken-by-a-server-that-does-not-wait
  (let [me (self)
        [_ s] (tasks/start-link)
        server {:init (fn [_] [:ok {}])
                :handle-call (fn [f _ tasks] (let [t (tasks/async-nolink s f)] [:reply (:ref t) (assoc tasks (:ref t) t)]))
                :handle-cast (fn [_ tasks] [:noreply tasks])
                :handle-info (fn [message tasks]
                               (let [ref (if (= :DOWN (first message)) (second message) (first message))]
                                 (! me [:told (contains? tasks ref) (last message)])
                                 [:noreply (dissoc tasks ref)]))}
        [_ pid] (gs/start-link server nil)]
    (gs/call pid (fn [] 42))
    (is (= [true 42] (receive [:told known value] [known value])))
    (gs/call pid (fn [] (actor/exit :boom)))
    (is (= [true :boom] (receive [:told known value] [known value])))))

;; ---- many

(deftest of-many-tasks-the-first-that-dies-ends-the-wait
  (let [slow (task/async forever)]
    (is (= :no (why #(task/await-many [slow (task/async actor/exit :no)]))))
    (is (actor/alive? (:pid slow)))
    (is (= :timeout (why #(task/await-many [(task/async inc 1) (task/async forever)] {:timeout 10})))))
  (is (= [] (task/await-many []))))

(deftest the-outcomes-of-many-tasks-come-with-their-tasks
  (let [ts [(task/async inc 1) (task/async actor/exit :no) (task/async forever)]
        outcomes (task/yield-many ts {:timeout 1000})]
    (is (= ts (map first outcomes)))
    (is (= [[:ok 2] [:exit :no] nil] (map second outcomes)))
    (is (= [nil] (map second (task/yield-many [(ts 2)] {:timeout 0 :on-timeout :kill-task}))))
    (is (not (actor/alive? (:pid (ts 2)))))
    (let [t (task/async forever)]
      (is (= 1 (count (keep second (task/yield-many [t (task/async inc 1)] {:limit 1})))))
      (task/yield-many [t] {:timeout 0 :on-timeout :ignore})
      (is (actor/alive? (:pid t))))))

(deftest an-answer-is-found-behind-a-full-mailbox
  (dotimes [n 20000] (! (self) n))
  (is (= (range 200) (map #(task/await (task/async identity %)) (range 200))))
  (is (= 200 (count (into [] (task/async-stream (range 200) inc)))))
  (is (= 20000 (count (remove vector? (actor/flush))))))

;; ---- streams

(deftest ^{:spec ["C106"]} a-stream-is-lazy-and-takes-no-more-than-it-can-run
  (let [taken (atom 0)
        source (iterate (fn [n] (swap! taken inc) (inc n)) 0)
        stream (task/async-stream source identity {:max-concurrency 3})]
    (is (= 0 @taken))
    (is (= 2 (count (into [] (take 2) (task/async-stream source identity {:max-concurrency 3 :ordered false})))))
    (is (<= @taken 5) "in order it would go on behind one that is slow")
    (is (= [0 1 2 3 4 5 6 7 8 9] (into [] (comp (map second) (take 10)) stream)) "each reduction is one of its own")
    (is (= [] (actor/flush)))))

(deftest ^{:spec ["C106"]} a-stream-that-is-left-ends-its-tasks
  (let [pids (atom #{})
        run (fn [n] (swap! pids conj (self)) (if (zero? n) n (forever)))]
    (is (= [[:ok 0]] (into [] (take 1) (task/async-stream (range) run {:max-concurrency 4}))))
    (is (eventually (not-any? actor/alive? @pids)))
    (is (= "stop" (ex-message (thrown #(run! (fn [_] (throw (ex-info "stop" {}))) (task/async-stream (range) run {:max-concurrency 4}))))))
    (is (eventually (not-any? actor/alive? @pids)))
    (is (= :timeout (why #(into [] (task/async-stream [0 1 2] run {:timeout 100 :max-concurrency 4})))))
    (is (eventually (not-any? actor/alive? @pids)))
    (is (= [] (actor/flush)))))

(deftest ^{:spec ["C106"]} the-death-of-who-reduces-ends-the-tasks-of-a-stream
  (let [pids (atom #{})
        owner (actor/spawn #(into [] (task/async-stream (range 3) (fn [_] (swap! pids conj (self)) (forever)) {:max-concurrency 3})))]
    (is (eventually (= 3 (count @pids))))
    (actor/exit owner :kill)
    (is (eventually (not-any? actor/alive? @pids)))))

(deftest ^{:spec ["C106"]} a-task-of-a-stream-that-dies-is-a-result-where-exits-are-trapped
  (let [run #(case (int %) 1 (actor/exit :boom) 2 (throw (ex-info "no" {})) %)]
    (is (= [[:ok 0] [:exit :boom] [:exit "no"] [:ok 3]]
           (into [] (map (fn [[how x]] [how (if (vector? x) (:message (first x)) x)])) (task/async-stream (range 4) run {:max-concurrency 1}))))
    (is (= [[:ok 0] [:exit [1 :boom]]] (into [] (task/async-stream [0 1] run {:zip-input-on-exit true}))))
    (is (= [] (actor/flush)) "no message of a link stays")))

(deftest a-stream-over-a-source-without-end-keeps-nothing-of-what-is-behind
  (let [references (atom [])
        element (fn [] (let [x (Object.)]
                         (when (< (count @references) 3) (swap! references conj (WeakReference. x)))
                         x))
        seen (volatile! 0)]
    (run! (fn [_] (when (= 300 (vswap! seen inc)) (is (every? collected? @references))))
          (task/async-stream (take 400 (repeatedly element)) (constantly nil) {:max-concurrency 2}))
    (is (= 400 @seen))))

(deftest many-tasks-at-once
  (is (= (range 2000) (task/await-many (mapv #(task/async identity %) (range 2000)))))
  (is (= 5000 (count (into [] (task/async-stream (range 5000) inc {:max-concurrency 1000}))))))

(deftest a-stream-may-be-reduced-in-every-way
  (let [stream (task/async-stream [1 2 3] inc)]
    (is (= [[:ok 2] [:ok 3] [:ok 4]] (vec stream)))
    (is (= 9 (transduce (map second) + stream)))
    (is (= #{[:ok 2] [:ok 3] [:ok 4]} (set stream)))
    (is (= [2 3 4] (into [] (eduction (map second) stream))))
    (is (= [[:ok 2] [:ok 3]] (reduce (fn [a b] (if (= [:ok 4] b) (reduced a) (if (vector? (first a)) (conj a b) [a b]))) stream)))
    (is (= [] (into [] (task/async-stream [] inc)) (into [] (task/async-stream nil inc))))
    (is (re-find #"#<async-stream task .*task_test.clj:\d+>" (pr-str stream)))))

;; ---- supervisors

(deftest ^{:spec ["C108"]} a-supervised-task-is-a-child-of-its-supervisor
  (let [[_ s] (tasks/start-link {:name :tasks})
        t (tasks/async-nolink :tasks forever)]
    (is (= [(:pid t)] (tasks/children :tasks)))
    (is (= [:error :not-found] (tasks/terminate-child s (self))))
    (is (= :ok (tasks/terminate-child :tasks (:pid t))))
    (is (= [:exit :shutdown] (task/yield t)))
    (let [linked (tasks/async :tasks forever)]
      (is (= [(self) s] (sort-by #(not= (self) %) (actor/process-info (:pid linked) :links))))
      (actor/exit s :shutdown)
      (is (= :shutdown (why #(task/await linked)))))))

(deftest ^{:spec ["C108"]} who-starts-a-supervised-task-is-known-in-it
  (tasks/start-link {:name :tasks})
  (is (= [[(self)] :tasks] (task/await (tasks/async :tasks (fn [] [(task/callers) (first (proc-lib/ancestors))]))))))

(deftest ^{:spec ["C108"]} a-supervised-task-sees-the-context-of-its-caller-over-that-of-its-supervisor
  (context/context* {colour :green} #(tasks/start-link {:name :tasks}))
  (is (= :green (task/await (tasks/async :tasks (fn [] @colour)))))
  (is (= :red (context/context* {colour :red} #(task/await (tasks/async :tasks (fn [] @colour)))))))

(deftest ^{:spec ["C108"]} a-supervisor-takes-no-more-tasks-than-it-may
  (let [[_ s] (tasks/start-link {:max-children 1})
        t (tasks/async-nolink s forever)]
    (is (= [:error :max-children] (tasks/start-child s forever)))
    (is (= :magnetar/too-many-tasks (first (refused #(tasks/async s forever)))))
    (task/shutdown t)
    (is (eventually (= [] (tasks/children s))))
    (is (= [[:ok 2] [:ok 3]] (into [] (tasks/async-stream-nolink s [1 2] inc {:max-concurrency 1}))))))

(deftest a-supervised-process-may-be-started-again
  (let [me (self)
        [_ s] (tasks/start-link)]
    (is (= :ok (first (tasks/start-child s #(do (! me (self)) (receive :crash (actor/exit :boom))) {:restart :transient}))))
    (let [first-pid (message)]
      (! first-pid :crash)
      (let [second-pid (message)]
        (is (not= first-pid second-pid))
        (is (= [second-pid] (tasks/children s)))))))

(deftest a-supervised-process-that-is-not-awaited-knows-its-callers
  (let [me (self)
        [_ s] (tasks/start-link {:name :tasks})]
    (tasks/start-child s (fn []
                           (let [child (self)]
                             (! me [child (task/callers) (proc-lib/ancestors)])
                             (tasks/start-child s #(! me [child (task/callers) (proc-lib/ancestors)])))))
    (let [[child callers ancestors] (message)]
      (is (= [[me] [:tasks me]] [callers ancestors]))
      (is (= [child [child me] [:tasks me]] (message))))))

(deftest a-task-that-is-started-again-is-no-child-with-a-pid-meanwhile
  (let [[_ s] (tasks/start-link {:intensity 1000000000})
        [_ pid] (sup/start-child s (let [tries (atom 0)]
                                     {:start [#(if (= 1 (swap! tries inc)) (actor/spawn-link forever) [:error :no])]}))]
    (is (= [pid] (tasks/children s)))
    (actor/exit pid :kill)
    (is (eventually (= [] (tasks/children s))))
    (is (= :ok (tasks/terminate-child s pid)))
    (is (= [:error :not-found] (tasks/terminate-child s pid)))))

(deftest the-supervisor-ends-a-task-as-its-shutdown-says
  (let [me (self)
        stubborn (fn [] (actor/flag :trap-exit true) (! me :ready) (receive ::never nil))]
    (doseq [start [#(tasks/async % stubborn {:shutdown :brutal-kill})
                   #(tasks/async-nolink % stubborn {:shutdown :brutal-kill})
                   #(apply tasks/async-nolink* [% stubborn {:shutdown 0}])]]
      (let [[_ s] (tasks/start-link)
            {:keys [ref]} (start s)]
        (is (= :ready (receive :ready :ready)))
        (actor/exit s :shutdown)
        (is (= :killed (receive [:DOWN ref :process _ why] why)))
        (is (= :shutdown (receive [:EXIT s why] why)) "its report of the killed child has been made by then")
        (actor/flush)))))

(deftest an-unlinked-task-with-options-leaves-its-owner-alone
  (let [[_ s] (tasks/start-link)]
    (actor/flag :trap-exit false)
    (is (= [:exit :boom] (task/yield (tasks/async-nolink s #(actor/exit :boom) {:shutdown 10}))))
    (is (= 0 (task/await (tasks/async s + {}))))
    (is (= [[:ok 2]] (into [] (tasks/async-stream s [1] inc {:shutdown 10}))))))

(deftest a-stream-without-links-gives-deaths-as-results
  (let [[_ s] (tasks/start-link)]
    (actor/flag :trap-exit false)
    (is (= [[:ok 1] [:exit :boom] [:ok 3]]
           (into [] (tasks/async-stream-nolink s [1 2 3] #(if (= 2 %) (actor/exit :boom) %)))))))

(deftest a-supervised-task-ends-whose-owner-dies-before-it-has-told-it-to-go
  (let [[_ s] (tasks/start-link)
        me (self)
        owner (actor/spawn #(sup/start-child s {:start [proc-lib/spawn-link* (work/child-body "async" (fn [] (! me :ran)) nil)]
                                                :restart :temporary}))
        [how pid] (actor/join owner)]
    (is (= :ok how))
    (is (eventually (not (actor/alive? pid))))
    (is (= [:shutdown] (take 1 (.reason ^Pid$Ended (ProcessTable/join pid 0)))))
    (is (eventually (= [] (tasks/children s))))
    (is (= [] (actor/flush)))))

;; ---- misuse

(deftest ^{:spec ["C83"]} misuse-of-tasks-is-answered-with-its-remedy
  (let [t (task/async inc 1)]
    (doseq [[reason part f] [[:magnetar/not-a-function "(async fetch url)" #(task/async 1)]
                             [:magnetar/not-a-task "this is 17" #(task/await 17)]
                             [:magnetar/bad-duration "timeout" #(task/await t {:timeout -1})]
                             [:magnetar/bad-duration "timeout" #(task/await t {:timeout nil})]
                             [:magnetar/unknown-option ":time-out" #(task/await t {:time-out 1})]
                             [:magnetar/bad-options "map" #(task/await t 100)]
                             [:magnetar/not-tasks "this is 1" #(task/await-many 1)]
                             [:magnetar/not-a-task "nil" #(task/await-many [nil])]
                             [:magnetar/bad-option ":brutal-kill; this is :brutal" #(task/shutdown t {:shutdown :brutal})]
                             [:magnetar/bad-option ":on-timeout" #(task/yield-many [(task/async forever)] {:timeout 0 :on-timeout :kill})]
                             [:magnetar/bad-option ":on-timeout" #(task/async-stream [1] inc {:on-timeout :kill})]
                             [:magnetar/bad-option ":max-concurrency" #(task/async-stream [1] inc {:max-concurrency 0})]
                             [:magnetar/not-a-function "function" #(task/async-stream [1] nil)]
                             [:magnetar/not-a-collection "collection" #(task/async-stream inc [1])]
                             [:magnetar/not-a-seq "(into [] stream)" #(first (task/async-stream [1] inc))]
                             [:magnetar/unknown-option ":max-childs" #(tasks/start-link {:max-childs 1})]
                             [:magnetar/unknown-option ":timeout" #(tasks/start-child :tasks inc {:timeout 1})]
                             [:magnetar/unknown-option ":shutdwn" #(tasks/async :tasks forever {:shutdwn 1})]
                             [:magnetar/bad-option "`async`: :shutdown is" #(tasks/async :tasks forever {:shutdown -1})]
                             [:magnetar/bad-option "`start-child`: :shutdown is" #(tasks/start-child :tasks inc {:shutdown :never})]
                             [:magnetar/bad-option "`async-stream`: :shutdown is" #(tasks/async-stream :tasks [1] inc {:shutdown nil})]
                             [:magnetar/bad-option ":ordered is true or false; this is 5" #(task/async-stream [1] inc {:ordered 5})]
                             [:magnetar/bad-option ":zip-input-on-exit is true" #(task/async-stream [1] inc {:zip-input-on-exit 1})]
                             [:magnetar/call-failed ":noproc" #(tasks/async :no-such forever)]]]
      (let [[why sentence] (refused f)]
        (is (= reason why))
        (is (str/includes? (str sentence) part))))))

(deftest tasks-outside-of-processes-are-refused
  (let [outside (fn [f] (deref (future (refused f)) limit-ms :late))]
    (doseq [f [#(task/async inc 1) #(into [] (task/async-stream [1] inc)) #(task/completed 1)]]
      (is (= :magnetar/no-process (first (outside f)))))))

(deftest ^{:spec ["C104"]} a-task-that-was-awaited-is-refused-at-once-the-second-time
  (let [task (task/async + 1 2)]
    (is (= 3 (task/await task)))
    (is (thrown-with-msg? clojure.lang.ExceptionInfo #"was awaited before, shut down or given up" (task/await task {:timeout :infinity})))))
