(ns magnetar.starts-test
  "What each start of api.edn returns: OTP starts an outcome as Erlang's, spawns a pid, tasks a task."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.set :as set]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [self]]
   [magnetar.agent :as agent]
   [magnetar.application :as application]
   [magnetar.breaker :as breaker]
   [magnetar.channel :as channel]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.pool :as pool]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.registry :as registry]
   [magnetar.resilience :as resilience]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting]]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks])
  (:import
   (magnetar.kernel.process Pid Ref)
   (magnetar.task.work Task)))

(set! *warn-on-reflection* true)

(use-fixtures :each
  (fn [f]
    (collecting (atom []) (fn [] (scenarios/leaving-nobody #(actor/with-process {:trap-exit true} (f)))))))

;; ---- what there is to start

(defn- server [outcome]
  {:init (fn [_] outcome) :handle-call (fn [_ _ s] [:reply s s]) :handle-cast (fn [_ s] [:noreply s])})

(defn- machine [outcome]
  {:init (fn [_] outcome) :callback-mode :handle-event-function :handle-event (fn [_ _ _ _] :keep-state-and-data)})

(defn- acking [value]
  (fn []
    (proc-lib/init-ack value)
    (actor/exit :normal)))

(defn- worker []
  (gs/start-link (server [:ok 0]) nil))

(defn- supervisor
  "A supervisor with the child :a, which does not run."
  []
  (let [[_ pid] (sup/start-link {:children [{:id :a :start [worker]}]})]
    (sup/terminate-child pid :a)
    pid))

(defn- ignoring
  "A supervisor with the child :a, whose start ignores."
  []
  (second (sup/start-link {:children [{:id :a :start [(constantly :ignore)]}]})))

(defn- failing
  "A supervisor with the child :a, which does not come up again."
  []
  (let [starts (atom [worker (constantly [:error :no])])
        [_ pid] (sup/start-link {:children [{:id :a :start [#((ffirst (swap-vals! starts subvec 1)))]}]})]
    (sup/terminate-child pid :a)
    pid))

(defn- full
  "A supervisor of tasks that takes none."
  []
  (second (tasks/start-link {:max-children 0})))

(defn- tasks []
  (second (tasks/start-link)))

(defn- app [start]
  {:name :starts-test :start start})

;; ---- the table

(defn- of-servers
  "The starts of a namespace whose servers have a behaviour with an `init`; (behaviour outcome) makes one."
  [ns-name behaviour up]
  (for [[word gives] [["start" :ok-pid] ["start-link" :ok-pid] ["start-monitor" :ok-pid-ref]]
        :let [start (requiring-resolve (symbol (str ns-name) word))]]
    [(symbol start) [gives #(start (behaviour up) nil)
                     :ignore #(start (behaviour :ignore) nil)
                     :error #(start (behaviour [:stop :no]) nil)
                     :error #(start (behaviour up) nil {:name :taken})]]))

(def ^:private starts
  "From the symbol of a start to what it returns, and a call of it that does, several times."
  (into
    {'magnetar.actor/spawn [:pid #(actor/spawn identity 1)]
     'magnetar.actor/spawn-link [:pid #(actor/spawn-link identity 1)]
     'magnetar.actor/spawn-monitor [:pid-ref #(actor/spawn-monitor identity 1)]
     'magnetar.actor/spawn-opt [:pid #(actor/spawn-opt identity 1 {}), :pid-ref #(actor/spawn-opt identity 1 {:monitor true})]
     'magnetar.agent/start [:ok-pid #(agent/start (fn [] 0)), :error #(agent/start (fn [] (actor/exit :no)))]
     'magnetar.agent/start-link [:ok-pid #(agent/start-link (fn [] 0)), :error #(agent/start-link (fn [] (actor/exit :no)))]
     'magnetar.application/start [:ok #(application/start (app {})), :error #(application/start (app (fn [] [:error :no])))]
     'magnetar.application/ensure-started [:ok #(application/ensure-started (app {})), :error #(application/ensure-started (app (fn [] [:error :no])))]
     'magnetar.application/ensure-all-started [:ok-names #(do (application/load (app {})) (application/ensure-all-started :starts-test))
                                               :error #(application/ensure-all-started :nowhere)]
     'magnetar.resilience/start-breaker [:ok-pid #(resilience/start-breaker {}), :error #(resilience/start-breaker {:name :taken})]
     'magnetar.resilience/start-breaker-link [:ok-pid #(resilience/start-breaker-link {}), :error #(resilience/start-breaker-link {:name :taken})]
     'magnetar.breaker/start [:ok-pid #(breaker/start {}), :error #(breaker/start {:name :taken})]
     'magnetar.breaker/start-link [:ok-pid #(breaker/start-link {}), :error #(breaker/start-link {:name :taken})]
     'magnetar.gen-event/start [:ok-pid #(ge/start), :error #(ge/start {:name :taken})]
     'magnetar.gen-event/start-link [:ok-pid #(ge/start-link), :error #(ge/start-link {:name :taken})]
     'magnetar.gen-event/start-monitor [:ok-pid-ref #(ge/start-monitor), :error #(ge/start-monitor {:name :taken})]
     'magnetar.pool/start [:ok-pid #(pool/start {:worker worker :size 1}), :error #(pool/start {:worker (fn [] [:error :no]) :size 1})]
     'magnetar.pool/start-link [:ok-pid #(pool/start-link {:worker worker :size 1})
                                :error #(pool/start-link {:worker (fn [] [:error :no]) :size 1})]
     'magnetar.proc-lib/spawn [:pid #(proc-lib/spawn identity 1)]
     'magnetar.proc-lib/spawn-link [:pid #(proc-lib/spawn-link identity 1)]
     'magnetar.proc-lib/start [:ok-pid #(proc-lib/start (acking [:ok (self)])), :ignore #(proc-lib/start (acking :ignore))
                               :error #(proc-lib/start (fn [] (actor/exit :no)))]
     'magnetar.proc-lib/start-link [:ok-pid #(proc-lib/start-link (acking [:ok (self)])), :ignore #(proc-lib/start-link (acking :ignore))
                                    :error #(proc-lib/start-link (fn [] (actor/exit :no)))]
     'magnetar.registry/start-link [:ok-pid #(registry/start-link {:keys :unique}), :error #(registry/start-link {:keys :unique :name :taken})]
     'magnetar.supervisor/start-link [:ok-pid #(sup/start-link {}), :ignore #(sup/start-link (fn [] :ignore)), :error #(sup/start-link {} {:name :taken})]
     'magnetar.supervisor/start-child [:ok-pid #(sup/start-child (supervisor) {:id :b :start [worker]})
                                       :ok-nil #(sup/start-child (supervisor) {:id :b :start [(constantly :ignore)]}) ; as {ok, undefined}
                                       :error #(sup/start-child (supervisor) {:id :b :start [(constantly [:error :no])]})]
     'magnetar.supervisor/restart-child [:ok-pid #(sup/restart-child (supervisor) :a), :ok-nil #(sup/restart-child (ignoring) :a)
                                         :error #(sup/restart-child (failing) :a)]
     'magnetar.supervisor/start-scope-link [:ok-pid #(sup/start-scope-link (fn [_]))]
     'magnetar.supervisor/start-pipeline-link [:ok-pid #(sup/start-pipeline-link 1 (channel/chan) (map inc) (channel/chan))]
     'magnetar.supervisor/scope-link [:ok-pid #(sup/scope-link (fn [_]))]
     'magnetar.supervisor/pipeline-link [:ok-pid #(sup/pipeline-link 1 (channel/chan) (map inc) (channel/chan))]
     'magnetar.task/start [:ok-pid #(task/start (fn []))]
     'magnetar.task/start-link [:ok-pid #(task/start-link (fn []))]
     'magnetar.task/async [:task #(task/async inc 1)]
     'magnetar.task.supervisor/start-link [:ok-pid #(tasks/start-link), :error #(tasks/start-link {:name :taken})]
     'magnetar.task.supervisor/start-child [:ok-pid #(tasks/start-child (tasks) (fn [])), :error #(tasks/start-child (full) (fn []))]
     'magnetar.task.supervisor/async [:task #(tasks/async (tasks) (fn [] 2))]
     'magnetar.task.supervisor/async-nolink [:task #(tasks/async-nolink (tasks) (fn [] 2))]}
    (concat (of-servers 'magnetar.gen-server server [:ok 0])
            (of-servers 'magnetar.gen-statem machine [:ok :on 0]))))

(def ^:private no-starts
  "Names of api.edn that read like starts and start no process, or more than one; and the starts of magnetar.http, magnetar.cluster and magnetar.erlang, which their own suites test."
  '#{magnetar.cluster/start magnetar.cluster/start-link magnetar.cluster/spawn magnetar.cluster.singleton/start-link magnetar.erlang/start magnetar.erlang/start-link magnetar.erlang/spawn magnetar.http/start magnetar.http/start-link magnetar.inspect/restarts magnetar.otel/start magnetar.telemetry/start-metrics
     magnetar.task.supervisor/async-opt magnetar.actor/start-timer magnetar.inspect/start-watchdog magnetar.task/async-stream magnetar.task.supervisor/async-stream
     magnetar.task.supervisor/async-stream-nolink magnetar.test/restart-storm
     magnetar.test/restart-node magnetar.test/start-node})

;; ---- what an outcome is

(defn- pid? [x]
  (instance? Pid x))

(defn- pid-ref? [x]
  (and (vector? x) (= 2 (count x)) (pid? (nth x 0)) (instance? Ref (nth x 1))))

(defn- kind-of-ok [x]
  (cond
    (pid? x) :ok-pid
    (pid-ref? x) :ok-pid-ref
    (nil? x) :ok-nil
    (and (vector? x) (every? keyword? x)) :ok-names))

(defn- kind-of [outcome]
  (let [[how x] (when (vector? outcome) outcome)]
    (cond
      (keyword? outcome) outcome
      (pid? outcome) :pid
      (pid-ref? outcome) :pid-ref
      (instance? Task outcome) :task
      (= [:ok 2] [how (count outcome)]) (kind-of-ok x)
      (= [:error 2] [how (count outcome)]) :error)))

(deftest each-start-returns-what-its-kind-does
  (actor/register :taken (self))
  (doseq [[sym calls] starts
          [gives f] (partition 2 calls)]
    (testing (str sym " gives " gives)
      (is (= gives (kind-of (f))))
      (run! #(application/stop (:name %)) (application/which-applications))
      (run! #(application/unload (:name %)) (application/loaded-applications)))))

(def ^:private like-a-start
  #"^(re)?start|^spawn|^async|^ensure|.-link$|.-monitor$")

(deftest each-start-of-the-api-is-in-the-table
  (let [api (edn/read-string (slurp (io/file (System/getProperty "magnetar.home") "api.edn")))
        names (for [[ns-name vars] api
                    word (keys vars)
                    :when (and (re-find like-a-start (str word)) (not (re-find #"\*$" (str word))))]
                (symbol (str ns-name) (str word)))]
    (is (= (set/difference (set names) no-starts) (set (keys starts))))))
