(ns magnetar.actor-inspect-test
  "Processes, their mailboxes and dead letters as data; and the fixtures of magnetar.test."
  (:require
   [clojure.test :as t :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive spawn spawn-opt with-process]]
   [magnetar.actor-support :refer [idle reason waits?]]
   [magnetar.global :as global]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.support :refer [eventually]]
   [magnetar.test :as test]))

(set! *warn-on-reflection* true)

(defn- info-of [pid]
  (first (filter (comp #{pid} :pid) (inspect/processes))))

(deftest ^{:spec ["C82"]} processes-are-listed-in-order-with-what-each-does
  (with-process {:name ::guest}
    (let [a (spawn-opt #(receive ::never nil) {:name ::a})
          b (idle)]
      (is (waits? a))
      (is (waits? b))
      (let [pids (map :pid (inspect/processes))]
        (is (vector? (inspect/processes)))
        (is (= (sort pids) pids))
        (is (= [(actor/self) a b] (filter #{a b (actor/self)} pids))))
      (is (= {:label (str ::a) :registered-name ::a :status :waiting :waits-for "message" :message-queue-len 0 :links []}
             (select-keys (info-of a) [:label :registered-name :status :waits-for :message-queue-len :links])))
      (is (= :running (:status (info-of (actor/self)))))
      (run! #(actor/exit % :kill) [a b])
      (is (= [nil nil] [(info-of a) (info-of b)])))))

(deftest ^{:spec ["C82"]} a-message-to-the-dead-is-a-dead-letter-with-its-line
  (let [pid (spawn (fn []))]
    (is (= :normal (reason pid)))
    (is (eventually ; ten a second are kept
          (let [before (:count (inspect/dead-letters))
                message [::letter (rand-int 1000000000)]]
            (is (= message (! pid message)))
            (is (< (long before) (long (:count (inspect/dead-letters)))))
            (when-some [letter (first (filter (comp #{(pr-str message)} :message) (:last (inspect/dead-letters))))]
              (is (= (str pid) (:to letter)))
              (is (= (.getName (Thread/currentThread)) (:from letter)))
              (is (re-find #"actor_inspect_test.clj:\d+" (:line letter)))
              true))))))

;; ---- fixtures

(defn- reports-of
  "What is reported to clojure.test while f is called."
  [f]
  (let [reports (atom [])]
    (binding [t/report #(swap! reports conj %)
              t/*report-counters* nil]
      (f))
    @reports))

(deftest in-a-process-makes-a-test-a-process
  (let [seen (atom nil)]
    (is (= [] (reports-of (fn []
                            (test/in-a-process #(do (! (actor/self) :x)
                                                    (reset! seen (receive :x (actor/self)))))))))
    (is (not (actor/alive? @seen)))))

(deftest in-a-process-says-that-a-linked-child-has-crashed
  (let [[{:keys [type message actual]} & more]
        (reports-of (fn []
                      (test/in-a-process #(do (actor/spawn-link (fn [] (actor/exit :crash)))
                                              (receive ::never nil)))))]
    (is (empty? more))
    (is (= [:error "The process of the test has exited." :crash] [type message (:reason (ex-data actual))]))))

(deftest without-leaks-is-silent-where-nothing-is-left
  (is (= [] (reports-of (fn [] (test/without-leaks #(reason (spawn (fn [])))))))))

(deftest without-leaks-does-not-count-what-the-library-keeps
  (is (= [] (reports-of (fn [] (test/without-leaks #(let [pid (idle)]
                                                      (global/register-name ::leader pid)
                                                      (actor/exit pid :kill)
                                                      (reason pid))))))))

(deftest ^{:limit 30000} without-leaks-names-what-a-test-leaves-behind
  (let [left (atom nil)
        [processes fibers & more] (with-redefs-fn {#'test/patience-ms 300}
                                    (fn [] (reports-of (fn [] (test/without-leaks #(reset! left (idle)))))))]
    (is (empty? more))
    (is (= [:fail "The test leaves 1 processes behind: end what it has started." [@left]]
           ((juxt :type :message :actual) processes)))
    (testing "and what its fiber waits for"
      (is (re-find #"^spawn .*actor_support.clj:\d+, which waits for message$" (first (:actual fibers)))))
    (actor/exit @left :kill)))
