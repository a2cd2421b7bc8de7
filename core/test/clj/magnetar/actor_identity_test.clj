(ns magnetar.actor-identity-test
  "Who a process is, what travels with spawn, how pids and references are written, and what a process says when it dies of an error."
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self spawn spawn-opt with-process]]
   [magnetar.actor-support :refer [idle outcome reason]]
   [magnetar.async :as a]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.scope.context :as context :refer [defcontext with-context]]
   [magnetar.support :refer [eventually value-of with-failures]])
  (:import
   (java.io StringWriter)))

(set! *warn-on-reflection* true)

;; ---- self is not inherited

(defn- self-or-not []
  (try
    (self)
    :a-pid
    (catch IllegalStateException _ :refused)
    (catch IllegalArgumentException _ :refused)))

(defn- in-timer
  "What f gives in the callback of a take that a timer lets happen; never on this thread, where the time may be over already."
  [f]
  (let [answer (promise)]
    (a/take! (a/timeout 1) (fn [_] (deliver answer (f))) false)
    (value-of answer)))

(deftest ^{:spec ["C70"]} what-a-process-starts-is-not-the-process
  (with-process {}
    (is (= :a-pid (self-or-not)))
    (are [how answer] (= :refused answer)
      "fork" (scope/with-scope [s] (scope/join (scope/fork s self-or-not)))
      "go" (a/<!! (a/go (self-or-not)))
      "thread" (a/<!! (a/thread (self-or-not)))
      "future" @(future (self-or-not))
      "offload" (scope/offload self-or-not)
      "put! callback" (let [answer (promise) ch (a/chan)]
                        (a/put! ch 1 (fn [_] (deliver answer (self-or-not))))
                        (a/<!! (a/go (a/<! ch)))
                        (value-of answer))
      "timer" (in-timer self-or-not))))

(deftest a-process-that-a-fork-starts-is-itself
  (with-process {}
    (let [child (scope/with-scope [s] (scope/join (scope/fork s #(spawn self))))]
      (is (= [:value child] (outcome child))))))

(deftest with-process-nests-and-the-inner-one-is-who-it-says
  (with-process {}
    (let [outer (self)
          inner (with-process {} (! outer :from-inner) (self))]
      (is (not= outer inner))
      (is (= outer (self)))
      (is (not (actor/alive? inner)))
      (is (= [:from-inner] (actor/flush))))))

;; ---- what travels

(defcontext tenant :nobody)

(def ^:dynamic *level* :root)

(deftest ^{:spec ["C71"]} context-and-bindings-travel-with-spawn
  (with-context [tenant :acme]
    (binding [*level* :deep]
      (let [seen (fn [& _] [@tenant *level*])]
        (are [expected pid] (= [:value expected] (outcome pid))
          [:acme :deep] (spawn seen)
          [:acme :deep] (spawn seen 1 2)
          [:acme :deep] (spawn-opt seen {})
          [:acme :root] (spawn-opt seen {:bindings :none})
          [:nobody :deep] (spawn-opt seen {:context :none})
          [:other :deep] (spawn-opt seen {:context {tenant :other}})
          [:other :root] (spawn-opt seen {:context {tenant :other} :bindings :none :platform-thread true}))))))

(deftest ^{:spec ["C71"]} a-process-prints-to-its-spawners-out
  (let [out (StringWriter.)]
    (binding [*out* out]
      (is (= :normal (reason (spawn #(do (print "hello") (flush)))))))
    (is (= "hello" (str out)))))

(deftest what-a-process-binds-does-not-reach-its-spawner
  (with-context [tenant :acme]
    (is (= [:value :inner] (outcome (spawn #(with-context [tenant :inner] @tenant)))))
    (is (= :acme @tenant))))

;; ---- pids and references as text

(deftest ^{:spec ["C79"]} pids-and-references-print-and-are-read-back-equal
  (let [pid (spawn-opt #(receive ::never nil) {:name ::printed})
        plain (idle)
        ref (actor/make-ref)]
    (is (re-matches #"#magnetar/pid \"0\.\d+\.\d+ :magnetar.actor-identity-test/printed\"" (pr-str pid)))
    (is (re-matches #"#magnetar/pid \"0\.\d+\.\d+ spawn .*actor_support.clj:\d+\"" (pr-str plain)))
    (is (re-matches #"#magnetar/ref \"\d+\.\d+\"" (pr-str ref)))
    (doseq [x [pid plain ref]
            read-it [read-string #(edn/read-string {:readers actor/readers} %)]]
      (is (= x (read-it (pr-str x))))
      (is (= (hash x) (hash (read-it (pr-str x)))))
      (is (= {x 1} {(read-it (pr-str x)) 1})))
    (testing "the code reader gives a value that compiles"
      (is (= pid (eval (read-string (pr-str pid))))))
    (testing "that of a living process is the pid itself, so that nobody is looked for at each send"
      (is (identical? pid (read-string (pr-str pid)))))
    (testing "one that was read is an address"
      (let [again (edn/read-string {:readers actor/readers} (pr-str pid))]
        (is (true? (actor/alive? again)))
        (is (= :hello (! again :hello)))
        (is (= 1 (actor/process-info pid :message-queue-len)))
        (actor/exit again :kill)
        (is (= :killed (reason pid)))
        (is (false? (actor/alive? again)))))
    (actor/exit plain :kill)))

(deftest ^{:spec ["C79"]} a-pid-of-another-incarnation-is-dead
  (let [live (idle)
        text (str/replace (pr-str live) #"\.\d+ " ".12345 ")
        other (read-string text)]
    (is (not= live other))
    (is (= text (pr-str other)))
    (is (false? (actor/alive? other)))
    (is (nil? (actor/process-info other)))
    (is (= :x (! other :x)))
    (is (true? (actor/exit other :kill)))
    (is (= :noproc (reason other)))
    (with-process {}
      (let [ref (actor/monitor other)]
        (is (= :noproc (receive [:DOWN ref :process _ why] why (after 20000 :late))))))
    (is (actor/alive? live))
    (actor/exit live :kill)))

(deftest what-is-no-pid-does-not-read-as-one
  (are [sentence text] (= sentence (try (edn/read-string {:readers actor/readers} text) (catch Exception e (ex-message e))))
    "A pid reads as in #magnetar/pid \"0.17.1699 name\"; this is \"x\"." "#magnetar/pid \"x\""
    "A pid reads as in #magnetar/pid \"0.17.1699 name\"; this is 17." "#magnetar/pid 17"
    "A reference reads as in #magnetar/ref \"1042.1699\"; this is \"1\"." "#magnetar/ref \"1\""))

;; ---- what is reported

(defn- gone?
  "True once no fiber has this name: the report of a failure comes after the death, and is the last that a fiber does."
  [pattern]
  (eventually (not-any? #(re-find pattern (:name %)) (inspect/fibers))))

(defn- reported
  "The failures that are reported when a process does f."
  [f]
  (with-failures [failures]
    (reason (spawn-opt f {:name ::failing}))
    (is (gone? #"failing"))
    @failures))

(deftest ^{:spec ["C80"]} a-process-that-dies-of-an-error-is-reported-once-with-its-name
  (let [[{:keys [site error]} & more] (reported #(throw (ex-info "broken" {:part 7})))]
    (is (empty? more))
    (is (re-matches #"process 0\.\d+\.\d+ :magnetar.actor-identity-test/failing, spawn .*actor_identity_test.clj:\d+" site))
    (is (= ["broken" {:part 7}] [(ex-message error) (ex-data error)]))))

(deftest ^{:spec ["C80"]} a-process-without-a-name-is-reported-with-the-line-that-spawned-it
  (with-failures [failures]
    (reason (spawn #(/ 1 0)))
    (is (gone? #"^spawn .*actor_identity_test"))
    (is (= 1 (count @failures)))
    (is (re-find #"^process 0\.\d+\.\d+ spawn .*actor_identity_test.clj:\d+$" (:site (first @failures))))))

(deftest ^{:spec ["C80"]} a-linked-crash-is-reported-once-by-whoever-crashed
  (with-failures [failures]
    (let [parent (spawn #(do (actor/spawn-link (fn [] (/ 1 0))) (receive ::never nil)))
          [{:keys [type message]} frames] (reason parent)]
      (is (= '[java.lang.ArithmeticException "Divide by zero"] [type message]))
      (is (re-find #"actor-identity-test/.*actor_identity_test.clj:\d+" (first frames)))
      (is (gone? #"^spawn.* .*actor_identity_test"))
      (is (= 1 (count @failures))))))

(deftest ^{:spec ["C80"]} exits-are-never-reported
  (are [why] (= [] (reported #(actor/exit why)))
    :normal :shutdown {:shutdown :upgrade} [:shutdown 1] :cancelled :boom))

(deftest ^{:spec ["C80"]} a-process-whose-thread-is-cancelled-has-the-reason-cancelled-and-is-not-reported
  (with-failures [failures]
    (let [pid (promise)]
      (scope/with-scope [s]
        (scope/daemon s #(with-process {} (deliver pid (self)) (receive ::never nil)))
        (value-of pid))
      (is (= :cancelled (reason @pid)))
      (is (= [] @failures)))))

(deftest ^{:spec ["C80"]} reasons-are-bounded-data
  (let [endless (iterate inc 0)
        [{:keys [data message]}] (with-failures [_]
                                   (reason (spawn #(throw (ex-info (apply str (repeat 5000 "x"))
                                                                   {:endless endless :state (atom 1) :bytes (byte-array 3)})))))]
    (is (>= 1100 (count message)))
    (is (string? (:endless data)))
    (is (string? (:state data)))
    (is (= data (edn/read-string (pr-str data))))))
