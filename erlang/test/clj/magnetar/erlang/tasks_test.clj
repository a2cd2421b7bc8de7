(ns magnetar.erlang.tasks-test
  "Tasks of Elixir under a supervisor of this node, and tasks of this node under one of Elixir, as a scripted other side sees them."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.scripted :as scripted :refer [control hang-up join next-control pid quietly reference running]]
   [magnetar.gen-server :as gs]
   [magnetar.supervisor :as sup]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks])
  (:import
   (magnetar.etf ImproperList)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(def ^:private owner (pid other 5))

(def ^:private worker (pid other 6))

(def ^:private alias-ref (reference other 1 2 3))

(defn- meeting [options f]
  (running options (atom [])
    (fn []
      (let [peer (join other)]
        (try
          (actor/with-process {:name :inbox} (f peer))
          (finally (hang-up peer)))))))

(defn- got []
  (receive x x (after scripted/limit-ms :none)))

;; ---- under a supervisor of this node

(def ^:private starter [(keyword other) owner owner])

(defn- next-of
  "The next control message with the number, and its payload. Monitors of tasks come when they will."
  [peer op]
  (let [[[number] :as message] (next-control peer)]
    (if (= op number) message (recur peer op))))

(defn- request [peer supervisor parts]
  (control peer [6 owner (keyword "") supervisor]
           [:$gen_call [owner (ImproperList. (list :alias) alias-ref)] (into [:start_task] parts)]))

(defn- ask
  "The answer of the supervisor to the request for a task."
  [peer supervisor & parts]
  (request peer supervisor parts)
  (second (second (next-of peer 33))))

(defn- ended-with
  "The reason with which the task ends, when f has been called. What f sends to this node comes after the monitor."
  [peer task f]
  (control peer [19 owner task alias-ref])
  (f)
  (second (next-of peer 28)))

(defn- call
  "Lets the task call the function, and send its value to the alias."
  [peer task function & args]
  (control peer [22 owner task] [owner alias-ref alias-ref (list owner) [:clojure.core function (apply list args)]]))

(defn- tasks-begin-and-end [peer]
  (let [start #(ask peer :tasks (list starter :monitor) :temporary 5000)
        [how task] (start)]
    (is (= :ok how))
    (call peer task :inc 1)
    (is (= [alias-ref 2] (second (next-of peer 33))))
    (let [[_ task] (start)]
      (is (= [:undef (list [:clojure.core :dec '(1) ()])] (ended-with peer task #(call peer task :dec 1)))))
    (let [[_ task] (start)]
      (is (= :shutdown (ended-with peer task #(do (is (= [:error :badarg] (ask peer :tasks 1 2 3)) "the monitor is there")
                                                  (gs/stop :tasks))))))))

(deftest a-task-that-elixir-asks-for
  (meeting {:spawnable #{#'inc}}
    (fn [peer]
      (tasks/start-link {:name :tasks})
      (quietly #(tasks-begin-and-end peer)))))

(deftest a-task-ends-with-its-owner
  (meeting {}
    (fn [peer]
      (tasks/start-link {:name :tasks})
      (request peer :tasks [(list starter :monitor) :temporary 5000])
      (let [messages (into {} (map (fn [[[op] :as message]] [op message])) [(next-control peer) (next-control peer)])
            [_ [_ [_ task]]] (messages 33)
            [[_ watcher watched ref]] (messages 19)]
        (is (= [task owner] [watcher watched]))
        (is (= [:shutdown :closed] (ended-with peer task #(control peer [28 owner task ref] :closed)))))
      (gs/stop :tasks))))

(defn tell [x] (! :inbox x))

(deftest a-task-whose-value-is-not-awaited
  (meeting {:spawnable #{#'tell}}
    (fn [peer]
      (tasks/start-link {:name :tasks})
      (is (= :ok (first (ask peer :tasks (list starter (list owner) [:magnetar.erlang.tasks-test :tell '(:hello)]) :transient :brutal_kill))))
      (is (= :hello (got)))
      (gs/stop :tasks))))

(defn crash-when-told []
  (receive :crash (throw (ex-info "This task fails." {}))))

(deftest a-task-that-cannot-be-started-again-is-dropped
  (meeting {:spawnable #{#'crash-when-told}}
    (fn [peer]
      (tasks/start-link {:name :tasks})
      (quietly
        (fn []
          (scripted/failures-of
            (fn [failures]
              (let [work [:magnetar.erlang.tasks-test :crash-when-told ()]]
                (is (= :ok (first (ask peer :tasks (list starter (list owner) work) :transient 5000))))
                (let [[task] (tasks/children :tasks)]
                  (erlang/stop)
                  (! task :crash)
                  (is (scripted/eventually #(= [] (tasks/children :tasks))))
                  (is (scripted/eventually #(= 1 (count @failures))))))))))
      (gs/stop :tasks)
      (erlang/start {:name "m@127.0.0.1" :cookie scripted/cookie :epmd false})))) ; which is stopped after the test

(deftest requests-for-tasks-that-are-refused
  (meeting {}
    (fn [peer]
      (tasks/start-link {:name :tasks :max-children 1})
      (sup/start-link {:children []} {:name :top})
      (doseq [parts [[1 2 3] [] [(list 1 2) nil nil] [(list starter) nil nil] [(list starter :monitor 3) nil nil] [[] :x :y]]]
        (is (= [:error :badarg] (apply ask peer :tasks parts)) parts))
      (tasks/start-child :tasks #(receive :end nil))
      (is (= [:error :max_children] (ask peer :tasks (list starter :monitor) :temporary 5000)))
      (is (= [:error :notsup] (update (ask peer :top (list starter :monitor) :temporary 5000) 1 first)))
      (run! gs/stop [:tasks :top]))))

;; ---- under a supervisor of Elixir

(def ^:private there [:Elixir.Tasks other])

(defn- asked
  "What the supervisor is asked for when a process calls f, which sends its value to :inbox. The answer is this."
  [peer f answer]
  (actor/spawn #(! :inbox [(self) (try (f) (catch Exception e ((some-fn :reason :magnetar/reason) (ex-data e))))]))
  (let [[[_ _ _ ref]] (next-of peer 19)
        [_ [_ [_ of] request]] (next-of peer 6)]
    (control peer [33 owner ref] [of answer])
    request))

(deftest a-task-under-a-supervisor-of-elixir
  (meeting {}
    (fn [peer]
      (let [[word [[node _ me] how] & options] (asked peer #(task/await (tasks/async-nolink there 'Elixir.Prices/refresh {:args ["tea"]})) [:ok worker])
            [[_ watcher watched ref]] (next-of peer 19)
            [_ work] (next-of peer 22)]
        (is (= [:start_task (keyword "m@127.0.0.1") :monitor :temporary 5000] (into [word node how] options)))
        (is (= [me worker] [watcher watched]))
        (is (= [me ref ref (list me) [:Elixir.Prices :refresh '("tea")]] work))
        (control peer [33 worker ref] [ref 12])
        (is (= 12 (peek (got))))))))

(deftest a-child-under-a-supervisor-of-elixir
  (meeting {}
    (fn [peer]
      (let [start #(tasks/start-child there 'Elixir.Prices/refresh {:args ["tea"] :restart :transient :shutdown :brutal-kill})
            [word [_ _ work] & options] (asked peer start [:error :max_children])]
        (is (= [:start_task [:Elixir.Prices :refresh '("tea")] :transient :brutal_kill] (into [word work] options)))
        (is (= [:error :max-children] (peek (got))))))))

(deftest tasks-that-elixir-does-not-start
  (meeting {}
    (fn [peer]
      (let [start #(tasks/async there 'Elixir.Prices/refresh)]
        (asked peer start [:error :max_children])
        (is (= :magnetar/too-many-tasks (peek (got))))
        (asked peer start [:error [:notsup "x"]])
        (is (= [:notsup "x"] (peek (got))))))))
