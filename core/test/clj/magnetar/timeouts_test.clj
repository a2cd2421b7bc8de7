(ns magnetar.timeouts-test
  "No answer in time is one error for all functions that wait, or the value of :else."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.agent :as agent]
   [magnetar.channel :as channel]
   [magnetar.gen-event :as gen-event]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as gen-statem]
   [magnetar.pool :as pool]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.resilience :as resilience]
   [magnetar.scope :as scope :refer [with-scope]]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [with-failures]]
   [magnetar.sys :as sys]
   [magnetar.task :as task]
   [magnetar.test :as test :refer [with-virtual-clock]])
  (:import
   (java.time Duration Instant)
   (java.util.concurrent CompletableFuture)
   (magnetar TimeoutException)))

(set! *warn-on-reflection* true)

(defn- silent
  "A process that answers nothing."
  []
  (actor/spawn #(receive :never 1)))

(defn- never-ending []
  (task/async #(receive :never 1)))

(defn- start-pool []
  (pool/start {:size 1 :worker #(gs/start-link {:init (fn [_] [:ok nil])} nil)}))

(defn- busy-pool
  "A pool whose only worker is checked out by this process."
  []
  (let [[_ pool] (start-pool)]
    (pool/checkout pool)
    pool))

(def ^:private waits
  "By operation: what it waits for, and a call of it with the options."
  {`channel/put [channel/chan #(channel/put %1 1 %2)]
   `channel/take [channel/chan channel/take]
   `channel/select [#(vector (channel/chan)) channel/select]
   `actor/join [silent actor/join]
   `scope/join [#(CompletableFuture.) scope/join]
   `scope/await-callback [#(fn [_ _]) scope/await-callback]
   `task/await [never-ending task/await]
   `task/yield [never-ending task/yield]
   `gs/call [silent #(gs/call %1 :x %2)]
   `gs/wait-response [silent #(gs/wait-response (gs/send-request %1 :x) %2)]
   `gs/receive-response [silent #(gs/receive-response (gs/send-request %1 :x) %2)]
   `gen-statem/call [silent #(gen-statem/call %1 :x %2)]
   `gen-event/call [silent #(gen-event/call %1 :handler :x %2)]
   `agent/get [silent #(agent/get %1 identity %2)]
   `agent/update [silent #(agent/update %1 identity %2)]
   `agent/get-and-update [silent #(agent/get-and-update %1 identity %2)]
   `sys/get-state [silent sys/get-state]
   `sys/replace-state [silent #(sys/replace-state %1 identity %2)]
   `sys/get-status [silent sys/get-status]
   `sys/suspend [silent sys/suspend]
   `sys/statistics [silent #(sys/statistics %1 :get %2)]
   `pool/checkout [busy-pool pool/checkout]
   `pool/with-worker [busy-pool #(pool/with-worker [_ %1 %2] :worker)]})

(def ^:private ends
  "By name: what waits for an end, and cannot go on with another value instead."
  {`proc-lib/stop proc-lib/stop
   `gs/stop gs/stop
   `gen-statem/stop gen-statem/stop
   `gen-event/stop gen-event/stop
   `agent/stop agent/stop})

(defn- thrown [f]
  (try
    [:value (f)]
    (catch TimeoutException e e)))

(defmacro ^:private in-process [& body]
  `(with-failures [_#]
     (actor/with-process {:trap-exit true} ~@body)))

(deftest the-error-names-operation-target-and-duration
  (in-process
    (doseq [[operation [make wait]] waits
            :let [target (make)
                  error (thrown #(wait target {:timeout 1}))]]
      (testing operation
        (is (instance? TimeoutException error))
        (is (= {:magnetar/reason :magnetar/timeout :operation operation :target target :duration 1}
               (select-keys (ex-data error) [:magnetar/reason :operation :target :duration])))
        (is (re-find #"1 ms" (ex-message error)))
        (is (re-find #"longer :timeout.*\{:else value\}" (ex-message error)) "the remedies")
        (is (str/starts-with? (str (first (.getStackTrace ^Throwable error))) "magnetar.timeouts_test") "raised where the program waits")))))

(deftest else-is-returned-instead
  (in-process
    (doseq [[operation [make wait]] waits
            nothing [:late nil]]
      (testing operation
        (is (= (if (= `channel/select operation) [nothing nil] nothing)
               (wait (make) {:timeout 0 :else nothing})))))))

(defn- documentation
  "The docstrings of the operation and of its namespace."
  [operation]
  (let [v (resolve operation)]
    (str (:doc (meta v)) (:doc (meta (:ns (meta v)))))))

(deftest else-is-documented-where-it-is-taken
  (doseq [operation (keys waits)]
    (testing operation
      (is (re-find #":else|[Ll]ike `|options as `" (documentation operation))))))

(deftest an-answer-that-is-there-is-polled
  (in-process
    (let [ch (channel/chan {:size 1})
          poll {:timeout 0 :else :none}]
      (is (= [true :none 1 :none]
             [(channel/put ch 1 poll) (channel/put ch 2 poll) (channel/take ch poll) (channel/take ch poll)]))
      (is (= 3 (scope/join (CompletableFuture/completedFuture 3) poll)))
      (is (= [:ok 3] (task/yield (task/completed 3) poll))))))

(deftest a-closed-channel-and-a-time-out-are-told-apart
  (let [closed (doto (channel/chan) channel/close)]
    (is (nil? (channel/take closed {:timeout 1})))
    (is (false? (channel/put closed 1 {:timeout 1})))
    (is (instance? TimeoutException (thrown #(channel/take (channel/chan) {:timeout 1}))))))

(deftest a-deadline-is-the-duration
  (let [past (Instant/ofEpochMilli 1)
        error (thrown #(channel/take (channel/chan) {:deadline past}))]
    (is (= past (:duration (ex-data error))))
    (is (= past (:duration (ex-data (thrown #(channel/take (channel/chan) {:timeout 60000 :deadline past}))))))
    (is (= 1 (:duration (ex-data (thrown #(channel/take (channel/chan) {:timeout 1 :deadline (.plusSeconds (Instant/now) 60)}))))))
    (is (re-find #"by 1970-01-01T00:00:00.001Z" (ex-message error))))
  (is (re-find #"within PT0.001S" (ex-message (thrown #(channel/take (channel/chan) {:timeout (Duration/ofMillis 1)}))))))

(deftest a-process-that-does-not-catch-it-ends-for-the-reason-of-gen-server
  (with-failures [_]
    (let [reason-of (fn [f]
                      (let [[_ ref] (actor/spawn-monitor f)]
                        (receive [:DOWN ref :process _ reason] reason)))]
      (actor/with-process {}
        (let [server (silent)]
          (is (= [:timeout ['magnetar.gen-server :call [server :x 1]]] (reason-of #(gs/call server :x {:timeout 1}))))
          (is (= [:timeout ['magnetar.actor :join [server {:timeout 1}]]] (reason-of #(actor/join server {:timeout 1}))))
          (let [[why [module operation [_ options]]] (reason-of #(channel/take (channel/chan) {:timeout 1}))]
            (is (= [:timeout 'magnetar.channel :take {:timeout 1}] [why module operation options]))))))))

(deftest a-stop-has-no-else-and-offers-none
  (in-process
    (doseq [[operation stop] ends
            :let [server (silent)
                  error (thrown #(stop server :normal {:timeout 1}))]]
      (testing operation
        (is (= [operation server] ((juxt :operation :target) (ex-data error))))
        (is (re-find #"longer :timeout" (ex-message error)))
        (is (not (re-find #":else" (ex-message error))))
        (is (thrown-with-msg? IllegalArgumentException #"does not know :else" (stop server :normal {:timeout 1 :else :late})))))))

(deftest a-request-of-the-library-offers-no-answer-later
  (in-process
    (doseq [wait [#(sys/get-state %1 %2) #(agent/get %1 identity %2)]
            :let [message (ex-message (thrown #(wait (silent) {:timeout 1})))]]
      (is (re-find #"The process (has not answered|waits for messages|is ready to run)[,;]" message))
      (is (not (re-find #"`reply`|answers later|The server" message))))
    (is (str/ends-with? (ex-message (thrown #(gs/call (silent) :x {:timeout 1}))) ", or let the server answer later, by `reply`."))))

(defn- exit-of [f]
  (try
    (f)
    (catch Exception e (:magnetar/exit (ex-data e)))))

(deftest the-call-in-an-exit-reason-is-what-the-program-called
  (in-process
    (are [operation args f] (= [:noproc [(symbol (namespace operation)) (keyword (name operation)) args]] (exit-of f))
      `gs/call [:nobody :x 5000] #(gs/call :nobody :x)
      `gs/call [:nobody [:checkout 1] 5000] #(gs/call :nobody [:checkout 1])
      `gen-statem/call [:nobody :x :infinity] #(gen-statem/call :nobody :x)
      `gen-event/call [:nobody 'h :x 5000] #(gen-event/call :nobody 'h :x)
      `gen-event/delete-handler [:nobody 'h 1] #(gen-event/delete-handler :nobody 'h 1)
      `gen-event/sync-notify [:nobody :tick] #(gen-event/sync-notify :nobody :tick)
      `gen-event/which-handlers [:nobody] #(gen-event/which-handlers :nobody)
      `agent/get [:nobody :x 10] #(agent/get :nobody :x {:timeout 10})
      `sys/get-state [:nobody 10] #(sys/get-state :nobody {:timeout 10})
      `sys/change-code [:nobody 1 nil 5000] #(sys/change-code :nobody 1 nil)
      `sup/which-children [:nobody] #(sup/which-children :nobody)
      `sup/terminate-child [:nobody :a] #(sup/terminate-child :nobody :a)
      `pool/checkout [:nobody {:timeout 10}] #(pool/checkout :nobody {:timeout 10})
      `pool/with-worker [:nobody nil] #(pool/with-worker [_ :nobody] 1)
      `pool/status [:nobody] #(pool/status :nobody)
      `proc-lib/stop [:nobody :normal :infinity] #(proc-lib/stop :nobody)
      `gs/stop [:nobody :shutdown 10] #(gs/stop :nobody :shutdown {:timeout 10})
      `gen-statem/stop [:nobody :normal :infinity] #(gen-statem/stop :nobody)
      `gen-event/stop [:nobody :normal :infinity] #(gen-event/stop :nobody)
      `agent/stop [:nobody :normal :infinity] #(agent/stop :nobody))))

(deftest a-policy-throws-it-too
  (let [error (thrown #(resilience/call (resilience/timeout 1) scope/sleep 60000))]
    (is (= `resilience/timeout (:operation (ex-data error))))
    (is (not (re-find #":else" (ex-message error))))))

(defn- with-idle-pool [f]
  (let [[_ pool] (start-pool)]
    [pool #(f pool)]))

(defn- with-breaker [f]
  (let [[_ breaker] (resilience/start-breaker {})]
    [breaker #(f breaker)]))

(defn- returning-a-worker []
  (let [[_ pool] (start-pool)
        worker (pool/checkout pool)]
    [pool #(pool/checkin pool worker)]))

(def ^:private without-timeout
  "By operation: the server that it asks and a call of it, and what the call returns."
  {`pool/status [#(with-idle-pool pool/status) {:size 1 :overflow 0 :workers 1 :free 1 :checked-out 0 :waiting 0}]
   `pool/checkin [returning-a-worker :ok]
   `resilience/call [#(with-breaker (fn [b] (resilience/call (resilience/circuit-breaker b) identity 1))) 1]
   `resilience/circuit-breaker [#(with-breaker (fn [b] (:state @(resilience/circuit-breaker b)))) :closed]
   `resilience/subscribe [#(with-breaker resilience/subscribe) :ok]})

(deftest what-takes-no-timeout-waits-for-a-server-that-is-suspended
  (doseq [[operation [make answer]] without-timeout]
    (testing operation
      (is (= [answer 60000]
             (with-virtual-clock
               (actor/with-process {}
                 (let [[server ask] (make)]
                   (sys/suspend server)
                   (actor/spawn #(do (scope/sleep 60000) (sys/resume server)))
                   [(ask) (test/now)]))))))))

(deftest of-many-tasks-one-that-is-late-is-told
  (in-process
    (let [late (never-ending)
          many #(vector (task/completed 1) late)]
      (is (= :late (task/await-many (many) {:timeout 1 :else :late})))
      (let [late (never-ending)
            error (thrown #(task/await-many [(task/completed 1) late] {:timeout 1}))]
        (is (= [`task/await-many late] ((juxt :operation :target) (ex-data error))))))))

(deftest a-fork-that-is-late-is-left-alone
  (with-scope [s]
    (let [ch (channel/chan)
          fork (scope/fork s channel/take ch)]
      (is (= [`scope/join fork] ((juxt :operation :target) (ex-data (thrown #(scope/join fork {:timeout 1}))))))
      (channel/put ch :value)
      (is (= :value (scope/join fork))))))
