(ns magnetar.otp-repairs-test
  "What OTP does at the edges of servers: processes that continue, addresses without a process, options that are wrong."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! after continue receive self]]
   [magnetar.actor-support :as processes]
   [magnetar.agent :as agent]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.resilience :as resilience]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting limit-ms refusal]]
   [magnetar.sys :as sys]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as task-supervisor]
   [magnetar.timer :as timer])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar TimeoutException)))

(set! *warn-on-reflection* true)

(def ^:private reports (atom []))

(use-fixtures :each
  (fn [f]
    (collecting reports (fn [] (scenarios/leaving-nobody #(actor/with-process {} (f)))))))

(defn- why [f]
  (try
    (f)
    :no-error
    (catch ExceptionInfo e (:reason (ex-data e)))))

(defn- end-of [ref]
  (receive
    [:DOWN ref :process _ reason] reason
    (after limit-ms :late)))

(defn- message []
  (receive
    x x
    (after limit-ms :late)))

(def ^:private script
  {:init (fn [s] [:ok s])
   :handle-call (fn [f from s] (f from s))
   :handle-cast (fn [f s] (f s))})

(defn- server
  ([] (server script))
  ([behaviour] (second (gs/start behaviour :st))))

;; ---- continue

(defn- counting [to n]
  (if (= 3 n)
    (do (! to [:counted n])
        (receive :boom (actor/exit :boom)))
    (continue counting to (inc (long n)))))

(deftest a-process-of-proc-lib-continues-and-its-crash-is-still-reported
  (doseq [spawn [proc-lib/spawn* #(proc-lib/spawn-link counting %2 %3)]]
    (reset! reports [])
    (actor/flag :trap-exit true)
    (let [pid (spawn counting (self) 0)
          ref (actor/monitor pid)]
      (is (= [:counted 3] (message)))
      (is (= [] @reports))
      (! pid :boom)
      (is (= :boom (end-of ref)))
      (is (= [[:crash pid :boom]] (map (juxt :event :pid :reason) @reports)))
      (actor/flush))))

(deftest a-process-that-starts-in-step-may-continue-before-it-is-ready
  (is (= [:ok 7] (proc-lib/start (fn [] (continue (fn [] (proc-lib/init-ack [:ok 7]))))))))

(deftest a-start-in-step-that-no-process-waits-for-is-refused-by-the-name-of-the-function
  (doseq [[operation f] {"init-ack" #(proc-lib/init-ack :ok), "init-fail" #(proc-lib/init-fail :no :normal)}]
    (is (= (str "`" operation "` was called where no process waits for it: call it once, in a process that proc-lib/start has started.")
           (:message (refusal f))))))

(deftest the-value-of-a-task-that-continues-is-that-of-what-it-continues-with
  (is (= 5 (task/await (task/async (fn [] (continue (fn [n] (continue + n 2)) 3))))))
  (let [[_ supervisor] (task-supervisor/start-link)]
    (is (= 3 (task/await (task-supervisor/async supervisor (fn [] (continue + 1 2))))))))

(deftest a-task-of-which-nobody-waits-and-a-scope-as-a-child-continue
  (let [me (self)]
    (task/start (fn [] (continue ! me :of-a-task)))
    (is (= :of-a-task (message)))
    (sup/start-scope-link (fn [s] (scope/fork s #(scope/sleep 100000)) (continue ! me :of-a-scope)))
    (is (= :of-a-scope (message)))
    (is (= [] @reports))))

(deftest a-callback-that-continues-makes-its-process-something-else
  (let [me (self)]
    (doseq [options [{} {:hosting :activated}]]
      (let [[_ pid] (gs/start script 0 options)]
        (gs/send-request pid (fn [_ _] (continue ! me [:gone pid])))
        (is (= [:gone pid] (receive [:gone p] [:gone p] (after limit-ms :late))))))
    (let [pid (server)]
      (future (actor/with-process {} (try (sys/replace-state pid (fn [_] (continue ! me :of-sys))) (catch Exception _))))
      (is (= :of-sys (receive :of-sys :of-sys (after limit-ms :late)))))
    (is (= [] @reports))))

(deftest a-call-under-a-policy-that-continues-is-no-failure
  (let [me (self)
        [_ process] (resilience/start-breaker {:failure-threshold 1})
        policy (resilience/circuit-breaker {:failure-threshold 1 :fail-on Throwable})
        attempts (atom 0)]
    (doseq [call [#(resilience/call (resilience/circuit-breaker process) %)
                  #(resilience/call policy %)
                  #(resilience/call (resilience/retry {:retry-on Throwable :backoff (constantly 0)}) %)]]
      (actor/spawn (fn [] (call (fn [] (swap! attempts inc) (continue ! me :continued)))))
      (is (= :continued (message))))
    (is (= 3 @attempts))
    (is (= [:closed 0] ((juxt :state :failures) @(resilience/circuit-breaker process))))
    (is (= [:closed 0] ((juxt :state :failures) @policy)))))

(deftest the-start-of-a-child-that-continues-is-no-failed-start
  (actor/flag :trap-exit true)
  (let [me (self)
        [_ supervisor] (sup/start-link {:children []})]
    (is (= :normal (why #(sup/start-child supervisor {:id :child :start [(fn [] (continue ! me :continued))]}))))
    (is (= :continued (receive :continued :continued (after limit-ms :late))))
    (actor/flush)))

;; ---- callbacks

(deftest a-missing-handle-continue-is-undef-when-it-is-called
  (let [[_ pid] (gs/start {:name ::short :init (fn [s] [:ok s]) :handle-cast (fn [x s] [:noreply s [:continue x]])} 0)
        ref (actor/monitor pid)]
    (gs/cast pid :later)
    (let [[how what sentence] (end-of ref)]
      (is (= [:undef :handle-continue] [how (second what)]))
      (is (str/includes? sentence "[:continue :later]")))))

;; ---- stop

(deftest a-stop-whose-timeout-is-wrong-leaves-the-server-alone
  (let [machine {:callback-mode :handle-event-function
                 :init (fn [_] [:ok :st nil])
                 :handle-event (fn [_ _ _ _] :keep-state-and-data)}]
    (doseq [[pid stop] [[(server) gs/stop]
                        [(second (statem/start machine nil)) statem/stop]
                        [(second (ge/start)) ge/stop]
                        [(second (agent/start (constantly 0))) agent/stop]
                        [(server) proc-lib/stop]]
            timeout ["soon" -1 nil]]
      (let [[reason sentence] (processes/misuse #(stop pid :normal {:timeout timeout}))]
        (is (= :magnetar/bad-duration reason))
        (is (not (str/includes? sentence "(after"))))
      (is (= :running (:status (sys/get-status pid)))))
    (is (= [] (actor/flush)))))

(deftest a-stop-takes-every-address-of-a-server
  (gs/start script 0 {:name ::stopped})
  (is (= :ok (proc-lib/stop [::stopped (actor/node)])))
  (gs/start script 0 {:name ::stopped})
  (is (= :ok (gs/stop [::stopped (actor/node)])))
  (doseq [stop [gs/stop statem/stop ge/stop proc-lib/stop agent/stop]
          [address reason] {nil :noproc
                            ::nobody :noproc
                            [::nobody (actor/node)] :noproc
                            [:global ::nobody] :noproc
                            [::there "a@b"] [:nodedown "a@b"]}]
    (is (= reason (why #(stop address)))))
  (is (= :magnetar/bad-address (first (processes/misuse #(proc-lib/stop "text"))))))

;; ---- addresses without a process

(deftest a-message-to-a-name-of-a-node-that-no-process-has-is-dropped
  (is (= :m (! [::nobody (actor/node)] :m)))
  (is (= :m (! [::nobody "a@b"] :m)))
  (is (= :m (dosync (! [::nobody "a@b"] :m))))
  (actor/send-after 0 [::nobody "a@b"] :m)
  (testing "and a name alone, as in Erlang, is an error"
    (is (= :magnetar/no-such-name (first (processes/misuse #(! ::nobody :m)))))))

(deftest there-is-no-server-at-nil
  (is (= :noproc (why #(gs/call nil :x))))
  (is (= :noproc (why #(statem/call nil :x))))
  (is (= :noproc (why #(ge/sync-notify nil :x))))
  (is (= :noproc (why #(sys/get-state nil))))
  (is (= :noproc (why #(agent/get nil identity))))
  (is (= :ok (gs/cast nil :x)))
  (is (= [:error [:noproc nil]] (gs/receive-response (gs/send-request nil :x))))
  (is (= :noproc (end-of (actor/monitor nil)))))

(deftest a-monitor-of-a-name-on-another-node-has-no-connection
  (let [ref (actor/monitor [::there "a@b"])]
    (is (= [:DOWN ref :process [::there "a@b"] :noconnection] (message)))
    (is (false? (actor/demonitor ref {:info true}))))
  (let [ref (actor/monitor [::there "a@b"] {:tag :gone})]
    (is (= [:gone ref :process [::there "a@b"] :noconnection] (message))))
  (is (= [:error [:noconnection [::there "a@b"]]] (gs/receive-response (gs/send-request [::there "a@b"] :x))))
  (is (= [:error [:noproc [::there (actor/node)]]] (gs/receive-response (gs/send-request [::there (actor/node)] :x))))
  (is (= [] (actor/flush))))

(deftest a-call-to-another-node-says-that-it-is-down
  (is (= [:nodedown "a@b"] (why #(gs/call [::there "a@b"] :x)))))

(deftest the-nodes-of-a-multi-call-and-an-abcast-may-be-left-out
  (gs/start script 0 {:name ::everywhere})
  (is (= :abcast (gs/abcast ::everywhere (fn [n] [:noreply (inc (long n))]))))
  (is (= [[[(actor/node) 1]] []] (gs/multi-call ::everywhere (fn [_ n] [:reply n n]))))
  (gs/stop ::everywhere))

;; ---- starts

(deftest the-spawn-opt-of-a-start-links-and-cannot-monitor
  (doseq [start [#(gs/start script 0 %)
                 #(proc-lib/start (fn [] (proc-lib/init-ack [:ok (self)]) (receive :never nil)) %)]]
    (let [[_ pid] (start {:spawn-opt {:link true}})]
      (is (some #{pid} (actor/process-info (self) :links)))
      (actor/unlink pid)
      (actor/exit pid :kill))
    (let [[reason sentence] (processes/misuse #(start {:spawn-opt {:monitor true}}))]
      (is (= :magnetar/bad-options reason))
      (is (str/includes? sentence "start-monitor"))))
  (is (= :magnetar/bad-options (first (processes/misuse #(proc-lib/start (fn []) {:spawn-opt 5}))))))

(deftest the-name-of-an-enter-loop-is-one-that-the-process-has
  (letfn [(entered [register name]
            (let [[_ ref] (actor/spawn-monitor (fn []
                                                 (when register (actor/register register (self)))
                                                 (gs/enter-loop script 0 {:name name})))]
              ref))]
    (is (= :process-not-registered (end-of (entered nil ::armitage))))
    (is (= :process-not-registered (end-of (entered ::case ::armitage))))
    (is (= :process-not-registered-globally (end-of (entered nil [:global ::armitage]))))
    (let [ref (entered ::armitage ::armitage)]
      (is (= 0 (loop [] (or (try (sys/get-state ::armitage) (catch ExceptionInfo _)) (recur)))))
      (gs/stop ::armitage)
      (is (= :normal (end-of ref))))
    (is (= :process-not-registered
           (end-of (second (actor/spawn-monitor #(statem/enter-loop {:callback-mode :handle-event-function
                                                                     :init (fn [_] [:ok :st nil])
                                                                     :handle-event (fn [_ _ _ _] :keep-state-and-data)}
                                                                    :st nil {:name ::armitage}))))))))

;; ---- callbacks that are not there

(deftest a-server-without-a-callback-starts-and-fails-when-it-is-asked-for-it
  (doseq [[word ask shown] [[:handle-cast #(gs/cast % [:add 5]) "the cast [:add 5]"]
                            [:handle-call #(gs/send-request % [:add 5]) "the call [:add 5] of #magnetar/pid"]]]
    (reset! reports [])
    (let [pid (server (assoc (dissoc script word) :name :minimal))
          ref (actor/monitor pid)]
      (ask pid)
      (let [[how what sentence] (end-of ref)]
        (is (= [:undef [:minimal word]] [how what]))
        (is (str/includes? sentence (str "The callback module :minimal has no " (name word))))
        (is (str/includes? sentence shown)))
      (is (= [:crash] (map :event @reports)))
      (actor/flush))))

(deftest a-callback-that-is-defined-later-is-called
  (let [ns (create-ns (gensym "magnetar.otp-repairs-test.behaviour"))]
    (intern ns 'init (fn [s] [:ok s]))
    (intern ns 'handle-call (fn [_ _ s] [:reply s s]))
    (let [pid (server (ns-name ns))]
      (intern ns 'handle-cast (fn [x _] [:noreply x]))
      (gs/cast pid :cast)
      (is (= :cast (gs/call pid :get)))
      (gs/stop pid))))

(deftest a-callback-that-is-no-function-is-named-with-what-it-is
  (doseq [word [:init :handle-call :handle-cast]]
    (is (re-find (re-pattern (str "^The " (name word) " of the callback module \\(a map.*\\) is no function: it is 5\\.5\\."))
                 (second (processes/misuse #(gs/start (assoc script word 5.5) 0))))))
  (is (str/includes? (second (processes/misuse #(gs/start (assoc script :init nil) 0))) "is no function: it is nil.")))

;; ---- replies

(deftest a-reply-to-a-tag-that-is-no-alias-goes-to-the-process
  (let [me (self)
        ref (actor/make-ref)
        pid (server)]
    (gs/reply [me ref] :by-hand)
    (is (= [ref :by-hand] (message)))
    (gs/reply [me :tag] :by-keyword)
    (is (= [:tag :by-keyword] (message)))
    (! pid [:magnetar/call [me ref] (fn [_ s] [:reply [:asked s] s])])
    (is (= [ref [:asked :st]] (message)))
    (testing "one to an alias that was closed is dropped"
      (let [alias (actor/make-alias)]
        (actor/unalias alias)
        (gs/reply [me alias] :late)
        (is (= [] (actor/flush)))))
    (testing "and one to a call that was given up"
      (let [from (promise)]
        (is (= :timeout (why #(gs/call pid (fn [f s] (deliver from f) [:noreply s]) {:timeout 1}))))
        (gs/reply (vec @from) :late)
        (is (= [] (actor/flush)))))))

;; ---- exits

(deftest the-reason-of-a-caught-exit-is-data
  (is (= :no-funds (try (actor/exit :no-funds) (catch Throwable e (actor/exit-reason e)))))
  (is (= :noproc (first (try (gs/call nil :x) (catch Throwable e (actor/exit-reason e))))))
  (is (= "x" (:message (first (try (throw (Exception. "x")) (catch Throwable e (actor/exit-reason e)))))))
  (is (= :magnetar/not-an-error (first (processes/misuse #(actor/exit-reason :x))))))

(deftest timers-end-processes-by-name
  (doseq [[f reason] [[#(timer/exit-after 0 % :late) :late] [#(timer/kill-after 0 %) :killed]]
          address [::named [::named (actor/node)]]]
    (let [pid (actor/spawn-opt #(receive :never nil) {:name ::named})
          ref (actor/monitor pid)]
      (f address)
      (is (= reason (end-of ref)))))
  (is (= :magnetar/not-a-pid (first (processes/misuse #(timer/kill-after 0 "text"))))))

;; ---- state machines

(defn- entering [on-enter]
  (let [me (self)]
    {:callback-mode [:handle-event-function :state-enter]
     :init (fn [_] [:ok :a 0])
     :handle-event (fn [type content state n]
                     (cond
                       (= :enter type) (do (! me [:enter content state n]) (on-enter state n))
                       (= :pop content) [:keep-state-and-data :pop-callback-module]
                       :else [:next-state content n]))}))

(deftest a-state-that-is-repeated-while-it-is-entered-hears-of-the-same-old-state
  (let [[_ pid] (statem/start (entering (fn [state n] (if (and (= :b state) (< (long n) 2)) [:repeat-state (inc (long n))] :keep-state-and-data))) nil)]
    (statem/cast pid :b)
    (is (= [[:enter :a :a 0] [:enter :a :b 0] [:enter :a :b 1] [:enter :a :b 2]] (vec (repeatedly 4 message))))
    (statem/stop pid)))

(deftest a-callback-module-popped-too-often-is-a-bad-action
  (let [[_ pid] (statem/start (entering (fn [_ _] :keep-state-and-data)) nil)
        ref (actor/monitor pid)]
    (statem/cast pid :pop)
    (let [[how action sentence] (end-of ref)]
      (is (= [:bad-action-from-state-function :pop-callback-module] [how action]))
      (is (str/includes? sentence "pop as often as you push")))))

;; ---- handlers of events

(defn- handler [to]
  {:name ::handler
   :init (fn [_] [:ok nil])
   :handle-event (fn [_ s] [:ok s])
   :terminate (fn [why _] (! to [:left why]))})

(deftest the-supervisor-of-a-handler-does-not-end-with-a-manager-that-is-not-its-child
  (let [[_ manager] (ge/start)
        me (self)]
    (ge/add-sup-handler manager (handler me) nil)
    (is (= :ok (ge/stop manager :shutdown)))
    (is (= [[:left :stop] [:gen-event-EXIT ::handler :shutdown]] [(message) (message)]))
    (is (= [] (actor/process-info me :links)))
    (is (= [] (actor/flush)))))

(deftest the-parent-of-a-manager-hears-of-its-end-by-the-link
  (actor/flag :trap-exit true)
  (let [[_ manager] (ge/start-link)]
    (ge/add-sup-handler manager (handler (self)) nil)
    (is (= :ok (ge/stop manager :shutdown)))
    (is (= [[:left :stop] [:gen-event-EXIT ::handler :shutdown] [:EXIT manager :shutdown]]
           [(message) (message) (message)]))))

;; ---- options that are looked at before anything is done

(deftest many-outcomes-are-not-asked-for-with-a-wrong-option
  (let [task (task/async (constantly 1))]
    (is (= :magnetar/bad-option (first (processes/misuse #(task/yield-many [task] {:on-timeout :kill})))))
    (is (= 1 (task/await task))))
  (is (= :magnetar/bad-duration (first (processes/misuse #(gs/multi-call [(actor/node)] ::nobody :x {:timeout "x"}))))))

;; ---- callbacks that do not take what they are called with

(defn- says
  "What the reason of an error says."
  [[error _]]
  (:message error error))

(deftest a-callback-of-another-arity-is-named-with-its-behaviour-and-what-it-is-called-with
  (let [short-init (assoc script :name 'short-init :init (fn [] [:ok 0]))
        [_ why] (gs/start short-init 0)]
    (is (re-find #"^Wrong number of args \(1\) .*: the callback init of short-init is called with \[argument\]\.$" (says why))))
  (let [[pid ref] (actor/spawn-monitor #(let [[_ pid] (gs/start-link (assoc script :name 'short-cast :handle-cast (fn [_] 0)) 0)]
                                          (gs/cast pid 1)
                                          (receive :never pid)))]
    (is pid)
    (is (re-find #"the callback handle-cast of short-cast is called with \[message state\]\.$" (says (end-of ref)))))
  (let [machine {:name 'short-state :init (fn [_] [:ok :off 0]) :callback-mode :state-functions :states {:off (fn [_ _] 0)}}
        [_ pid] (statem/start machine 0)
        ref (actor/monitor pid)]
    (statem/cast pid :push)
    (is (re-find #"the callback :off of short-state is called with \[type content data\]\.$" (says (end-of ref)))))
  (let [[_ manager] (ge/start)
        [_ why] (ge/add-handler manager {:name 'short-handler :init (fn [] 0) :handle-event (fn [_ s] [:ok s])} 0)]
    (is (re-find #"the callback init of short-handler is called with \[argument\]\.$" (says why)))))

(deftest another-wrong-call-within-a-callback-is-left-as-it-is
  (let [helper (fn [_] 0)
        behaviour (assoc script :name 'wrong-helper :init (fn [_] (helper)))
        [_ why] (gs/start behaviour 0)]
    (is (re-find #"^Wrong number of args \(0\) passed to: \S+$" (says why)))))

;; ---- messages that only begin as requests, as another node may send them

(def ^:private patient
  {:init (fn [s] [:ok s])
   :handle-call (fn [request [caller] s] (if (= :who request) [:reply caller s] [:reply request s]))
   :handle-cast (fn [_ s] [:noreply s])})

(def ^:private machine
  {:init (fn [n] [:ok :on n])
   :callback-mode :state-functions
   :states {:on (fn [type content _] (if (vector? type) [:keep-state-and-data [:reply (second type) content]] :keep-state-and-data))}})

(def ^:private malformed
  [[] [:magnetar/call] [:magnetar/call 1] [:magnetar/call :x :y] [:magnetar/call [:x 1] :y] [:magnetar/call [nil nil] :y] [:magnetar/call [1] :y]
   [:magnetar/call [:x 1] :y :z] [:magnetar/call [:x 1] [:add-handler :h 1 :x]] [:magnetar/call [:x 1] [:swap-handler :h 1 :h 1 :x]]
   [:magnetar/call [:x 1] [:start-child 7]] [:magnetar/call ["x" "y"] 7] [:magnetar/cast] [:magnetar/cast 1 2] [:magnetar/cast [:x]]
   [:magnetar/system] [:magnetar/system 1 2] [:magnetar/system [:x 1] 42] [:magnetar/system [:x 1] [:get-state]] [:magnetar/system nil nil]
   [:magnetar/system [:x 1] [:log -1]] [:magnetar/system [:x 1] [:log :x]] [:magnetar/system [:x 1] [:statistics :x]] [:magnetar/system [:x 1] [:what]]
   [:magnetar/system [:x 1] [:magnetar/erlang [:debug :remove]]] [:magnetar/system [:x 1] [:magnetar/erlang []]]
   [:magnetar/system [:x 1] [:replace-state 7]] [:magnetar/system [:x 1] [:install]] [:EXIT] [:EXIT 1 2] [:DOWN]])

(deftest messages-that-only-begin-as-requests-end-no-server
  (doseq [[asks start] {#(gs/call % :still) #(gs/start patient 0)
                        #(statem/call % :still) #(statem/start machine 0)
                        #(do (ge/which-handlers %) :still) #(ge/start)
                        #(do (sup/which-children %) :still) (fn [] (sup/start-link {:children []}))}]
    (let [[_ pid] (start)]
      (doseq [bad malformed]
        (! pid bad)
        (is (= :still (asks pid)) bad))
      (sys/log pid true)
      (run! #(! pid %) malformed)
      (is (= :still (asks pid)) "while it keeps a log")
      (gs/stop pid))))

(deftest a-late-call-is-worded-beside-malformed-requests
  (let [[_ pid] (gs/start patient 0)]
    (sys/suspend pid)
    (run! #(! pid %) [[:magnetar/call :x :y] [:magnetar/call [1] :y]])
    (is (re-find #"yours is number 3" (ex-message (is (thrown? TimeoutException (gs/call pid :still {:timeout 0}))))))
    (sys/resume pid)
    (gs/stop pid)))

(deftest an-answer-goes-to-a-process-or-nowhere
  (let [[_ pid] (gs/start patient 0)
        ref (actor/make-ref)]
    (! pid [:magnetar/call [(self) :tag] :who])
    (is (= [:tag (self)] (message)) "as a process of Erlang asks")
    (! pid [:magnetar/call [(self) ref] :who])
    (is (= [ref (self)] (message)))
    (! pid [:magnetar/call [:nobody-there ref] :who])
    (is (= :still (gs/call pid :still)))
    (gs/stop pid)))
