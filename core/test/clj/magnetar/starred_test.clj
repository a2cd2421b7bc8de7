(ns magnetar.starred-test
  "What starts something is a macro over a function with a star: the macro knows its line, and `with-redefs` of the function reaches it."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.actor-support :as processes]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.fold :as fold]
   [magnetar.impl.fibers :as fibers]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope :refer [with-scope]]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [value-of]]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks]
   [magnetar.timer :as timer])
  (:import
   (java.util.concurrent.atomic AtomicInteger)))

(set! *warn-on-reflection* true)

(def ^:private options {:some :option})

;; ---- with-redefs

(defmacro ^:private stubbed
  "From each starred function to what a stub of it gets by the call beside it, which was compiled before."
  [& rows]
  (into {} (for [[starred call] (partition 2 rows)]
             [`(var ~starred) `(with-redefs [~starred vector] ~call)])))

(defn- arguments-of-stubs []
  (stubbed
    actor/spawn* (actor/spawn inc 1 2)
    actor/spawn-link* (actor/spawn-link inc)
    actor/spawn-monitor* (actor/spawn-monitor inc 1)
    actor/spawn-opt* (actor/spawn-opt inc 1 options)
    proc-lib/spawn* (proc-lib/spawn inc 1)
    proc-lib/spawn-link* (proc-lib/spawn-link inc 1 2)
    scope/fork* (scope/fork :scope inc 1)
    scope/daemon* (scope/daemon :scope inc)
    scope/go* (update (scope/go :scope (inc 1)) 1 #(%))
    task/async* (task/async inc 1)
    task/start* (task/start inc 1)
    task/start-link* (task/start-link inc 1)
    task/async-stream* (task/async-stream [1] inc options)
    tasks/async* (tasks/async :tasks inc)
    tasks/async-nolink* (tasks/async-nolink :tasks inc options)
    tasks/start-child* (tasks/start-child :tasks inc options)
    tasks/async-stream* (tasks/async-stream :tasks [1] inc)
    tasks/async-stream-nolink* (tasks/async-stream-nolink :tasks [1] inc options)
    timer/apply-after* (timer/apply-after 500 inc 1)
    timer/apply-interval* (timer/apply-interval 500 inc)
    timer/apply-repeatedly* (timer/apply-repeatedly 500 inc 1)
    fold/fold* (fold/fold + [1])
    fold/transduce* (fold/transduce identity + + [1] options)
    fold/pmap* (fold/pmap inc [1])
    fold/pmap-unordered* (fold/pmap-unordered inc [1] options)
    fold/pkeep* (fold/pkeep inc [1])
    fold/pfor-each* (fold/pfor-each inc [1] options)))

(deftest a-stub-of-the-starred-function-gets-the-arguments-of-the-macro
  (is (= {#'actor/spawn* [inc 1 2]
          #'actor/spawn-link* [inc]
          #'actor/spawn-monitor* [inc 1]
          #'actor/spawn-opt* [inc 1 options]
          #'proc-lib/spawn* [inc 1]
          #'proc-lib/spawn-link* [inc 1 2]
          #'scope/fork* [:scope inc 1]
          #'scope/daemon* [:scope inc]
          #'scope/go* [:scope 2]
          #'task/async* [inc 1]
          #'task/start* [inc 1]
          #'task/start-link* [inc 1]
          #'task/async-stream* [[1] inc options]
          #'tasks/async* [:tasks inc]
          #'tasks/async-nolink* [:tasks inc options]
          #'tasks/start-child* [:tasks inc options]
          #'tasks/async-stream* [:tasks [1] inc]
          #'tasks/async-stream-nolink* [:tasks [1] inc options]
          #'timer/apply-after* [500 inc 1]
          #'timer/apply-interval* [500 inc]
          #'timer/apply-repeatedly* [500 inc 1]
          #'fold/fold* [+ [1]]
          #'fold/transduce* [identity + + [1] options]
          #'fold/pmap* [inc [1]]
          #'fold/pmap-unordered* [inc [1] options]
          #'fold/pkeep* [inc [1]]
          #'fold/pfor-each* [inc [1] options]}
         (arguments-of-stubs))))

(defn- starred
  "The starred functions of the library."
  []
  (for [ns '[magnetar.actor magnetar.proc-lib magnetar.scope magnetar.task magnetar.task.supervisor magnetar.timer magnetar.fold]
        [_ v] (ns-publics ns)
        :when (and (::fibers/at (meta @v)) (not (#{#'actor/with-process* #'scope/with-cancel*} v)))] ; their macros have a body
    v))

(defn- macro-of [v]
  (let [{:keys [name ns]} (meta v)]
    (ns-resolve ns (symbol (str/replace (str name) #"\*$" "")))))

(defn- with-a-function
  "The argument vector of a macro, with a function in the place of a body."
  [arglist]
  (if (= 'body (peek arglist)) (conj (pop (pop arglist)) 'f) arglist))

(deftest all-starred-functions-are-tested-here
  (is (= (set (starred)) (set (keys (arguments-of-stubs)))))
  (doseq [v (starred)]
    (testing v
      (is (:macro (meta (macro-of v))))
      (is (= (:arglists (meta v)) (map with-a-function (:arglists (meta (macro-of v)))))))))

(deftest the-documentation-of-a-macro-names-its-function
  (doseq [v (starred)
          :let [words (str/replace (:doc (meta (macro-of v))) #"\s+" " ")]]
    (testing v
      (is (str/includes? words (str "`" (:name (meta v)) "`, the function: it can be mapped and applied, and `with-redefs` of it reaches every call."))))))

(deftest a-stub-of-thread-call-gets-the-body-of-thread-and-io-thread
  (let [body #(update % 0 (fn [f] (f)))]
    (is (= [[2 :mixed] [3 :io]] (with-redefs [a/thread-call vector]
                                  [(body (a/thread (inc 1))) (body (a/io-thread (inc 2)))])))))

(deftest a-stub-may-call-what-it-stands-for
  (let [spawn actor/spawn*
        seen (atom [])]
    (is (= [:value 3] (with-redefs [actor/spawn* (fn [& args] (swap! seen conj args) (apply spawn args))]
                        (processes/outcome (actor/spawn + 1 2)))))
    (is (= [[+ 1 2]] @seen))))

(deftest arguments-are-evaluated-once-and-in-order
  (let [seen (atom [])
        note #(do (swap! seen conj %2) %1)]
    (is (= [:value 2] (processes/outcome (actor/spawn (note + :f) (note 1 :first) (note 1 :second)))))
    (is (= [:f :first :second] @seen))))

(deftest a-macro-is-no-value-and-no-start-of-a-child
  (is (thrown-with-msg? Exception #"Can't take value of a macro"
                        (try (eval '(map magnetar.actor/spawn [inc]))
                             (catch clojure.lang.Compiler$CompilerException e (throw (ex-cause e))))))
  (doseq [start [[#'actor/spawn-link inc] #'actor/spawn-link]
          :let [error (try (sup/start-link {:children [{:id :x :start start}]}) (catch Exception e e))]]
    (is (= :invalid-start (:why (ex-data error))))
    (is (str/ends-with? (ex-message error)
                        "expected a function: `magnetar.actor/spawn-link` is a macro, write `magnetar.actor/spawn-link*`."))))

(deftest a-stub-of-with-process-is-called-too
  (is (= :stub (with-redefs [actor/with-process* (fn [_ _] :stub)] (actor/with-process {} :real)))))

(deftest a-starred-function-is-mapped-and-applied
  (is (= [1 2] (mapv actor/join (map actor/spawn* [(constantly 1) (constantly 2)]))))
  (is (= 3 (actor/join (apply actor/spawn-opt* [+ 1 2 {:bindings :none}]))))
  (is (= [1 2] (with-scope [s] (mapv deref (mapv (partial scope/fork* s) [(constantly 1) (constantly 2)])))))
  (is (= [2 3] (actor/with-process {} (task/await-many (mapv #(apply task/async* [inc %]) [1 2])))))
  (is (= [[2 3] [3 4]] (map (partial fold/pmap* inc) [[1 2] [2 3]])))
  (is (= [1 5] (map (partial apply fold/transduce* identity) [[+ [1]] [+ + [2 3] {:chunk 1}]]))))

;; ---- the line

(defmacro ^:private here
  "The line of this form, as a site ends with it."
  []
  (str " " *file* ":" (:line (meta &form))))

(defn- label [pid]
  (:label (actor/process-info pid)))

(defn- forever []
  (receive ::never nil))

(defn- thread-name [& _]
  (.getName (Thread/currentThread)))

(defn- names-of
  "The names of the threads that call the function that is handed to f. At its nth call this thread waits for another one to call it."
  [n f]
  (let [names (atom #{})
        caller (Thread/currentThread)
        own (atom 0)
        called (promise)]
    (f (fn [& _]
         (swap! names conj (thread-name))
         (if (= caller (Thread/currentThread))
           (when (= n (swap! own inc)) (value-of called))
           (deliver called true))
         0))
    @names))

(deftest a-process-has-the-line-of-its-macro
  (actor/with-process {}
    (are [site pid] (= site (label pid))
      (str "spawn" (here)) (actor/spawn forever)
      (str "spawn-link" (here)) (actor/spawn-link forever)
      (str "spawn-monitor" (here)) (first (actor/spawn-monitor forever))
      (str "spawn" (here)) (actor/spawn-opt forever {:link true})
      (str "spawn" (here)) (proc-lib/spawn forever)
      (str "spawn-link" (here)) (proc-lib/spawn-link forever)
      (str "task" (here)) (:pid (task/async forever))
      (str "task" (here)) (second (task/start forever))
      (str "task" (here)) (second (task/start-link forever)))))

(deftest a-task-of-a-supervisor-has-the-line-of-its-macro
  (actor/with-process {}
    (let [[_ s] (tasks/start-link)]
      (are [site pid] (= site (label pid))
        (str "task" (here)) (:pid (tasks/async s forever))
        (str "task" (here)) (:pid (tasks/async-nolink s forever))
        (str "task" (here)) (second (tasks/start-child s forever)))
      (is (= [[:ok (str "task" (here))]] (into [] (tasks/async-stream-nolink s [1] (fn [_] (label (actor/self))))))))))

(deftest a-fiber-has-the-line-of-its-macro
  (with-scope [s]
    (is (= (str "fork" (here)) @(scope/fork s thread-name)))
    (is (= (str "daemon" (here)) @(scope/daemon s thread-name)))
    (is (= (str "scope/go" (here)) (channel/take (scope/go s (thread-name)))))
    (is (= "scope/go magnetar.starred-test/thread-name" (channel/take (scope/go* s thread-name)))))
  (is (= [(str "pmap" (here))] (fold/pmap thread-name [1])))
  (is (= [(str "pmap-unordered" (here))] (fold/pmap-unordered thread-name [1])))
  (is (= [(str "pkeep" (here))] (fold/pkeep thread-name [1])))
  (is (= #{(str "pfor-each" (here))} (names-of 1 #(fold/pfor-each % [1]))))
  (is (contains? (names-of 5000 #(fold/fold + % (vec (range 10000)))) (str "fold" (here))))
  (is (contains? (names-of 50 #(fold/transduce (map %) + + (range 100) {:chunk 1})) (str "transduce" (here)))))

(deftest a-timer-has-the-line-of-its-macro
  (actor/with-process {}
    (let [me (actor/self)
          tell (fn [] (actor/! me (label (actor/self))))
          timers [(timer/apply-interval 1 tell) (timer/apply-repeatedly 1 tell)] line (here)]
      (is (= (str "apply-interval" line) (receive (x :guard #(str/starts-with? % "apply-interval")) x)))
      (is (= (str "apply-repeatedly" line) (receive (x :guard #(str/starts-with? % "apply-repeatedly")) x)))
      (run! timer/cancel timers))))

(deftest within-another-macro-the-line-is-that-of-the-program
  (is (= (str "spawn" (here)) (-> forever actor/spawn label))))

(deftest a-starred-function-names-what-it-starts-after-the-function
  (is (= "spawn magnetar.starred-test/forever" (label (actor/spawn* forever))))
  (is (= "spawn" (label (actor/spawn* (comp identity forever)))) "which has no name")
  (is (= ["pmap magnetar.starred-test/thread-name"] (fold/pmap* thread-name [1]))))

;; ---- options last

(defn- refused [f]
  (let [[reason sentence] (processes/misuse f)]
    (is (= :magnetar/bad-options reason))
    sentence))

(deftest spawn-opt-refuses-options-that-come-first
  (doseq [call [#(actor/spawn-opt {:name :x} forever)
                #(actor/spawn-opt {:name :x} forever {:state 1})
                #(actor/spawn-opt forever)
                #(apply actor/spawn-opt* [{:link true} forever 1])]]
    (is (str/starts-with? (refused call) "`spawn-opt` takes the map of its options last, as in (spawn-opt serve state {:name :server}); this is ["))))

(deftest folds-refuse-options-that-come-first
  (doseq [[sentence call] {"`fold/pmap` takes the map of its options last, as in (fold/pmap f coll {:parallelism 8})"
                           #(fold/pmap {:parallelism 8} inc [1])
                           "`fold/pkeep` takes the map of its options last" #(fold/pkeep {:parallelism 8} inc {1 2})
                           "`fold/pfor-each` takes the map of its options last" #(apply fold/pfor-each* [{:chunk 8} #'inc [1]])
                           "`fold/pmap-unordered` takes the map of its options last" #(fold/pmap-unordered {} inc [1])
                           "`fold/transduce` takes the map of its options last, behind two functions" #(fold/transduce {:chunk 1} identity + [1])}]
    (is (str/starts-with? (refused call) sentence))))

(deftest a-transduce-whose-options-come-first-is-refused
  (is (str/includes? (refused #(fold/transduce {:parallelism 4} identity + + [1])) "the first argument is {:parallelism 4}")))

(deftest pmap-takes-one-collection
  (doseq [call [#(fold/pmap + [1] [2]) #(fold/pmap + [1] [2] [3]) #(fold/pmap {:parallelism 2} + [1] [2])]]
    (is (re-find #"takes one collection, then a map of options.*For several collections write \(fold/pmap \(fn \[\[a b\]\] \.\.\) \(map vector as bs\)\)|its options last"
                 (refused call))))
  (is (= [3] (fold/pmap (fn [[a b]] (+ a b)) (map vector [1] [2]))))
  (is (= [1 nil] (fold/pmap {:a 1} [:a :b]) (fold/pmap {:a 1} [:a :b] {:chunk 1})) "a map is a function too"))

(deftest a-task-of-a-supervisor-takes-a-function-and-options
  (doseq [[operation call] {"async" #(tasks/async :tasks inc 1)
                            "async-nolink" #(tasks/async-nolink :tasks + 1 2)
                            "start-child" #(apply tasks/start-child* [:tasks {:restart :transient} forever])}]
    (is (str/starts-with? (refused call) (str "`" operation "` takes a function, then options, as in (" operation
                                              " :tasks #(fetch url) {:shutdown 1000})"))))
  (testing "async-opt is gone"
    (is (= [:magnetar/removed (str "`async-opt` was removed: write (tasks/async supervisor #(f x) options), or `async-nolink` "
                                   "instead of {:link false}.")]
           (processes/misuse #(tasks/async-opt :tasks {:link false} inc 1))))))

(deftest tasks-that-are-started-take-arguments
  (actor/with-process {}
    (let [n (AtomicInteger.)
          [_ pid] (task/start (fn [a b] (.addAndGet n (int (+ a b)))) 1 2)]
      (actor/join pid)
      (is (= 3 (.get n))))))
