(ns magnetar.reports-test
  "What is reported of a failure, when, and how it reads."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.text :as text]
   [magnetar.scope.context :as context :refer [defcontext]]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [with-err with-hook]]
   [magnetar.trace :as trace])
  (:import
   (magnetar.kernel.channel Channel)
   (magnetar.kernel.report Failures)))

(set! *warn-on-reflection* true)

(defn- taken [ch]
  (channel/take ch {:timeout 10000 :else ::late}))

(defn- at-report
  "What (look) says when the failure hook is called while (f) runs."
  [look f]
  (let [seen (promise)]
    (with-hook [:failure (fn [_] (deliver seen (look)))]
      (f)
      (deref seen 10000 ::late))))

;; ---- when

(deftest a-go-block-reports-its-failure-before-its-channel-closes
  (are [start] (= false (let [out (promise)]
                          (at-report #(channel/closed? @out)
                                     #(do (deliver out (start (fn [] @out (throw (ex-info "boom" {})))))
                                          (is (nil? (taken @out)))))))
    (fn [body] (a/go (body)))
    (fn [body] (a/thread (body)))
    (fn [body] (a/io-thread (body)))))

(deftest a-last-put-that-fails-is-reported-before-its-channel-closes
  (let [^Channel c (a/chan 1 (map inc) (fn [e] (throw (ex-info "no number" {} e))))]
    (is (= false (at-report #(channel/closed? c) #(.finish c :x))))
    (is (channel/closed? c))
    (is (nil? (taken c)))))

(deftest a-process-reports-its-failure-before-its-death-is-known
  (let [pid (promise)
        down (promise)]
    (is (= [true :not-yet]
           (at-report #(vector (actor/alive? @pid) (deref down 0 :not-yet))
                      #(actor/with-process {}
                         (let [[started ref] (actor/spawn-monitor (fn [] @pid (throw (ex-info "boom" {}))))]
                           (deliver pid started)
                           (actor/receive [:DOWN ref :process _ why] (deliver down why)))))))))

(deftest a-failing-hook-keeps-no-process-from-dying
  (with-err
    (fn [printed]
      (with-hook [:failure (fn [_] (throw (ex-info "the hook" {})))]
        (is (= "boom" (actor/with-process {}
                        (let [[_ ref] (actor/spawn-monitor #(throw (ex-info "boom" {})))]
                          (actor/receive [:DOWN ref :process _ [{:message m} _]] m))))))
      (is (str/includes? (printed) ", in a hook of failures: clojure.lang.ExceptionInfo: the hook")))))

(defn- with-reports
  "The value of (f), and the events that were reported when it had its value."
  [f]
  (let [events (atom [])]
    (with-hook [:report #(swap! events conj %)]
      (let [value (f)]
        [value @events]))))

(deftest a-server-that-answers-and-stops-reports-its-crash-before-the-answer
  (let [behaviour {:init (fn [s] [:ok s])
                   :handle-call (fn [_ _ s] [:stop :broken :answer s])
                   :handle-cast (fn [_ s] [:noreply s])}
        [_ pid] (gs/start behaviour 1)
        [value events] (with-reports #(gs/call pid :end))]
    (is (= :answer value))
    (is (= [[:crash :broken]] (map (juxt :event :reason) events)))))

(deftest a-handler-that-fails-is-reported-before-its-supervisor-knows
  (let [behaviour {:init (fn [s] [:ok s])
                   :handle-event (fn [_ _] (throw (ex-info "boom" {})))
                   :handle-call (fn [_ s] [:ok s s])}
        [_ manager] (ge/start)
        [value events] (with-reports
                         #(actor/with-process {}
                            (ge/add-sup-handler manager behaviour nil)
                            (ge/notify manager :event)
                            (actor/receive [:gen-event-EXIT _ [:EXIT [{:message m} _]]] m
                                           (actor/after 10000 :late))))]
    (is (= "boom" value))
    (is (= [:handler-removed] (map :event events)))))

;; ---- how long

(defn- dig [n] (inc (long (dig n))))

(declare pong)
(defn- ping [n] (inc (long (pong n))))
(defn- pong [n] (inc (long (ping n))))

(defn- described [f]
  (Failures/describe "a test" (try (f) (catch Throwable e e))))

(deftest an-endless-recursion-is-a-few-lines
  (are [f folded] (let [text (described f)]
                    (and (re-find folded text)
                         (re-find #"^Uncaught in a test: java.lang.StackOverflowError\n" text)
                         (< (count (str/split-lines text)) 30)))
    #(dig 1) #"at magnetar.reports-test/dig \(reports_test.clj:\d+\)\n    \(the line above, \d+ times more\)"
    #(ping 1) #"reports-test/p[io]ng .*\n.*reports-test/p[io]ng .*\n    \(the 2 lines above, \d+ times more\)"))

(deftest frames-that-differ-are-all-there
  (let [frames (into-array StackTraceElement (map #(StackTraceElement. (str "my.app$f" %) "invoke" "app.clj" %) [1 1 2 3 2 3 4]))
        e (doto (Exception. "x") (.setStackTrace frames))]
    (is (= "Uncaught in a test: java.lang.Exception: x\n    at my.app/f1 (app.clj:1)\n    at my.app/f1 (app.clj:1)\n    at my.app/f2 (app.clj:2)\n    at my.app/f3 (app.clj:3)\n    at my.app/f2 (app.clj:2)\n    at my.app/f3 (app.clj:3)\n    at my.app/f4 (app.clj:4)"
           (described #(throw e))))))

(deftest what-goes-on-is-warned-of-and-not-called-uncaught
  (with-err
    (fn [printed]
      (Failures/notice "go my/app.clj:3" (Thread/currentThread) (ex-info "The go my/app.clj:3 has held its carrier for 100 ms: let it wait." {:held-ms 100}))
      (is (re-find #"^Warning: The go my/app.clj:3 has held its carrier for 100 ms: let it wait.\n    at magnetar.reports-test/fn" (printed)))
      (is (not (re-find #"Uncaught|ExceptionInfo" (printed)))))))

;; ---- labels

(defn- listen [port] (actor/receive port nil))

(defn- label [pid]
  (:label (actor/process-info pid)))

(deftest a-process-whose-line-is-unknown-is-named-after-its-function
  (are [named start] (= named (actor/with-process {} (let [started (start)
                                                           pid (if (vector? started) (first started) started)]
                                                       (label pid))))
    "spawn magnetar.reports-test/listen" #(apply actor/spawn* listen [80])
    "spawn-link magnetar.reports-test/listen" #(apply actor/spawn-link* listen [80])
    "spawn-monitor magnetar.reports-test/listen" #(apply actor/spawn-monitor* [listen 80])
    "spawn magnetar.reports-test/listen" #(apply actor/spawn-opt* [#'listen 80 {}])
    "spawn-link magnetar.reports-test/listen" #(proc-lib/spawn-link* listen 80)
    "spawn magnetar.reports-test/fn" #(apply actor/spawn* [(fn [] (actor/receive :never nil))])
    "spawn" #(apply actor/spawn* [(partial listen 80)])))

(deftest a-child-that-is-spawned-is-named-after-its-function
  (actor/with-process {:trap-exit true}
    (let [[_ supervisor] (sup/start-link {:children [{:id :listener :start [actor/spawn-link* listen 80]}]})]
      (is (= ["spawn-link magnetar.reports-test/listen"] (map (comp label :pid) (sup/which-children supervisor)))))))

;; ---- the crash report

(defn- crash-text
  "The text of the crash report of a server with this state whose cast fails of what (error) makes."
  [state error]
  (let [behaviour {:init (fn [s] [:ok s])
                   :handle-call (fn [_ _ s] [:reply s s])
                   :handle-cast (fn [_ _] (throw (error)))}
        [_ pid] (gs/start behaviour state {:name ::books})
        [_ [event]] (with-reports #(actor/with-process {}
                                     (let [ref (actor/monitor pid)]
                                       (gs/cast pid [:close 2026])
                                       (actor/receive [:DOWN ref :process _ _] nil))))]
    (text/event (dissoc event :level))))

(defn- masked [text]
  (-> text
      (str/replace #"0\.\d+\.\d+" "PID")
      (str/replace #"\.clj:\d+" ".clj:LINE")))

(deftest ^{:spec ["C80"]} a-crash-report-says-first-what-crashed-why-and-where-and-last-the-state
  (is (= (str "Server :magnetar.reports-test/books crashed: the books are wrong (ExceptionInfo) at magnetar.reports-test/fn (reports_test.clj:LINE)\n"
              "    at magnetar.reports-test/fn (reports_test.clj:LINE)\n"
              "    at magnetar.reports-test/crash-text/fn (reports_test.clj:LINE)\n"
              "  data: {:year 2026}\n"
              "  caused by: no money\n"
              "  last message: cast [:close 2026]\n"
              "  process: #magnetar/pid \"PID :magnetar.reports-test/books\"\n"
              "  callback module: (a map of magnetar.reports-test)\n"
              "  started by: #magnetar/pid \"PID main\"\n"
              "  state: {:open true}")
         (masked (crash-text {:open true} #(ex-info "the books are wrong" {:year 2026} (Exception. "no money")))))))

(defcontext request-id)
(defcontext card)

(defn- crash-event
  "The report of a server that crashes by a cast of this context."
  [pairs]
  (let [[_ pid] (gs/start {:init (fn [s] [:ok s]), :handle-call (fn [_ _ s] [:reply s s]), :handle-cast (fn [_ _] (throw (ex-info "no" {})))} 0)
        [_ [event]] (with-reports #(actor/with-process {}
                                     (let [ref (actor/monitor pid)]
                                       (context/context* pairs (fn [] (gs/cast pid :x)))
                                       (actor/receive [:DOWN ref :process _ _] nil))))]
    event))

(deftest a-crash-report-has-the-context-values-that-the-server-had
  (let [event (crash-event {request-id "r-17", card "4242"})]
    (is (= {`request-id "r-17", `card "4242"} (:context event)))
    (is (str/includes? (text/event (dissoc event :level)) "\n  context: magnetar.reports-test/request-id r-17, magnetar.reports-test/card 4242\n")))
  (testing "as the program's redaction leaves them"
    (inspect/redact-with (fn [x] (if (contains? x `card) (assoc x `card "..") x)))
    (try
      (is (= {`request-id "r-17", `card ".."} (:context (crash-event {request-id "r-17", card "4242"}))))
      (finally (inspect/redact-with nil))))
  (testing "and nothing is said of a context if there is none, or only one of the library"
    (is (not (contains? (crash-event {}) :context)))
    (is (not (contains? (trace/with-verbose 1 (crash-event {})) :context)))))

(defn- chain
  "An error with these errors as its causes, the last of them the root."
  [& makers]
  (reduce (fn [cause make] (make cause)) nil (reverse makers)))

(defn- info [message]
  #(if % (ex-info message {} %) (ex-info message {})))

(defn- causes-told [error]
  (keep #(second (re-find #"^  caused by: (.*)" %)) (str/split-lines (crash-text 1 (constantly error)))))

(deftest a-crash-report-tells-the-causes-down-to-the-root
  (is (= ["inner" "root (java.lang.Exception)"]
         (causes-told (chain (info "outer") (info "inner") (fn [_] (Exception. "root"))))))
  (is (= ["java.lang.NullPointerException"] (causes-told (chain (info "outer") (fn [_] (NullPointerException.))))))
  (testing "also where the middle of a long chain is left out"
    (is (= ["1" "2" "3" "root"] (causes-told (apply chain (map info ["outer" "1" "2" "3" "4" "5" "root"]))))))
  (testing "or the chain leads back to itself"
    (let [a (RuntimeException. "a")
          b (RuntimeException. "b" a)]
      (.initCause a b)
      (is (= ["a" "b (java.lang.RuntimeException)"] (causes-told (ex-info "outer" {} a)))))))

(deftest ^{:spec ["C80"]} of-a-crash-report-only-the-state-is-clipped
  (let [text (crash-text (vec (repeat 300 (apply str (repeat 100 "x")))) #(ex-info "the books are wrong" {:year 2026}))
        lines (str/split-lines text)]
    (is (re-find #"^Server :magnetar.reports-test/books crashed: the books are wrong " (first lines)))
    (is (some #{"  last message: cast [:close 2026]"} lines))
    (is (re-find #"^  state: .*\.\.\.$" (last lines)))
    (is (< (count text) 2500))
    (is (< (count lines) 40))))

(deftest a-crash-report-ends-also-if-its-parts-do-not
  (are [event] (< (count (text/event (merge {:event :crash :pid 1 :name :x :callback-module "b"} event))) 6000)
    {:reason (range)}
    {:reason [:bad (map inc (range))] :state (repeat :x)}
    {:reason :x :state {:a (iterate inc 1)} :last-message (cycle [1 2])}))

(deftest a-state-machine-shows-state-and-data-last
  (let [behaviour {:init (fn [_] [:ok :locked {:code 7}])
                   :callback-mode :handle-event-function
                   :handle-event (fn [_ _ _ _] (throw (ex-info "stuck" {})))}
        [_ pid] (statem/start behaviour nil {:name ::door})
        [_ [event]] (with-reports #(actor/with-process {}
                                     (let [ref (actor/monitor pid)]
                                       (statem/cast pid :push)
                                       (actor/receive [:DOWN ref :process _ _] nil))))
        lines (str/split-lines (text/event event))]
    (is (re-find #"^State machine :magnetar.reports-test/door crashed: stuck \(ExceptionInfo\) at " (first lines)))
    (is (= ["  data: {:code 7}" "  state: :locked"] (take-last 2 lines)))))

(deftest other-events-are-a-sentence-with-their-parts-behind
  (are [said event] (= said (text/event event))
    "Child :a of :s terminated: boom (ArithmeticException) at my/f (f.clj:1) (pid 7)"
    {:event :child-terminated :supervisor :s :child :a :pid 7 :reason [{:type 'java.lang.ArithmeticException :message "boom"} ["my/f (f.clj:1)"]]}
    "Child terminated: (magnetar.gen-server/call :x :get 5000) failed: no answer came in time (:timeout) (child :a)"
    {:event :child-terminated :child :a :reason [:timeout ['magnetar.gen-server :call [:x :get 5000]]]}
    "Not started: the port is taken"
    {:event :not-started :message "the port is taken"}
    "Unexpected message (callback-module (a map), message [:tick 1])"
    {:event :unexpected-message :callback-module "(a map)" :message [:tick 1]}))
