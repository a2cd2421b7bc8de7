(ns magnetar.actor-endless-test
  "Exit reasons, addresses and names that have no end, are huge, or do not print: each operation comes to its end all the same."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor :refer [! exit receive spawn]]
   [magnetar.actor-support :refer [idle misuse]]
   [magnetar.channel :as channel]
   [magnetar.inspect :as inspect]
   [magnetar.support :refer [eventually limit-ms with-failures]])
  (:import
   (magnetar.kernel.fiber Cancelled Exit)))

(set! *warn-on-reflection* true)

(defn- endless []
  (map inc (range)))

(defn- unspeakable []
  (reify Object
    (toString [_] (throw (IllegalStateException. "not to be printed")))
    (hashCode [_] (throw (IllegalStateException. "not to be hashed")))))

(defn- down-of
  "The reason in the :DOWN of a process after f was called with its pid; :late if none comes."
  [pid f]
  (actor/with-process {}
    (let [ref (actor/monitor pid)]
      (f pid)
      (receive
        [:DOWN ref :process _ reason] reason
        (after limit-ms :late)))))

(deftest ^{:spec ["C80"]} a-process-dies-of-a-reason-without-an-end
  (let [reason (endless)]
    (testing "of its own"
      (is (true? (identical? reason (down-of (spawn #(receive :now (exit reason))) #(! % :now))))))
    (testing "by a signal"
      (is (true? (identical? reason (down-of (idle) #(exit % reason)))))
      (is (= (range 3) (take 3 (down-of (idle) #(exit % (range)))))))
    (testing "linked"
      (let [of-two (spawn (fn []
                            (receive :now nil)
                            (actor/spawn-link #(exit reason))
                            (receive :never nil)))]
        (is (true? (identical? reason (down-of of-two #(! % :now)))))))))

(deftest a-reason-that-does-not-print-is-the-reason-all-the-same
  (let [reason (unspeakable)]
    (is (true? (identical? reason (down-of (spawn #(receive :now (exit reason))) #(! % :now)))))
    (is (true? (identical? reason (down-of (idle) #(exit % reason)))))))

(deftest a-huge-reason-is-not-printed-by-a-death
  (let [printed (atom 0)
        reason (vec (repeatedly 100 #(reify Object (toString [_] (swap! printed inc) "x"))))]
    (is (true? (identical? reason (down-of (idle) #(exit % reason)))))
    (is (true? (identical? reason (down-of (spawn #(receive :now (exit reason))) #(! % :now)))))
    (is (zero? @printed))))

(deftest the-message-of-an-exit-or-a-cancellation-is-bounded
  (are [start error] (str/starts-with? (ex-message error) start)
    "exit: :boom" (Exit. :boom)
    "exit: \"(clojure.lang.LazySeq)" (Exit. (endless))
    "exit: \"(magnetar.actor_endless_test$unspeakable" (Exit. (unspeakable))
    "cancelled: \"(clojure.lang.LazySeq)" (Cancelled. (endless)))
  (is (= "cancelled" (ex-message (Cancelled. nil))))
  (is (> 1100 (count (ex-message (Exit. (vec (range 3000000))))))))

(deftest join-names-the-beginning-of-a-reason-without-an-end
  (let [pid (spawn #(exit (endless)))
        error (try (actor/join pid {:timeout limit-ms}) (catch clojure.lang.ExceptionInfo e e))]
    (is (str/includes? (ex-message error) "has exited: (1 ...)"))
    (is (= [1 2] (take 2 (:reason (ex-data error)))))))

(deftest what-is-no-address-is-refused-without-its-hash
  (doseq [to [(range) (endless) (unspeakable)]]
    (is (= :magnetar/no-such-name (first (misuse #(! to :m)))))
    (is (= :magnetar/no-such-name (first (misuse #(actor/send-after 1 to :m)))))
    (is (= :magnetar/bad-name (first (misuse #(actor/spawn-opt idle {:name to})))))
    (is (keyword? (first (misuse #(actor/register to (actor/with-process {} (actor/self)))))))
    (is (keyword? (first (misuse #(actor/whereis to)))))
    (is (keyword? (first (misuse #(actor/join to)))))
    (is (keyword? (first (misuse #(exit to :kill)))))))

(deftest a-sentence-about-a-value-without-an-end-shows-its-beginning
  (are [f] (re-find #"\(0 1 2 3 4 5 6 7 \.\.\.\)" (second (misuse f)))
    #(actor/join (range))
    #(inspect/mailbox (range))
    #(inspect/fiber-info (range))
    #(channel/take (range))
    #(channel/chan {:size (range)})))

(deftest the-report-of-a-failure-with-data-without-an-end-is-written
  (with-failures [failures]
    (let [reason (down-of (spawn #(receive :now (throw (ex-info "bad" {:all (endless), :odd (unspeakable)})))) #(! % :now))]
      (is (= "bad" (:message (ffirst [reason]))))
      (is (eventually (= 1 (count @failures)))))))
