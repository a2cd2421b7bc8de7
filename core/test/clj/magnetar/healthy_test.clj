(ns magnetar.healthy-test
  "Healthy busy programs, all in one JVM, of which nothing is blamed. JAVA_OPTS=-Dmagnetar.looks=N to look more often."
  {:slow true}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.async :as a]
   [magnetar.hangs :as hangs]
   [magnetar.inspect :as inspect]
   [magnetar.support :refer [eventually with-hook]]))

(set! *warn-on-reflection* true)

(def ^:private looks (Long/getLong "magnetar.looks" 8))

;; A look takes a second for `why-stuck`, and as long as some full collections for `leaks`.
(def ^:private limit (+ 60000 (* 5000 (long looks))))

(def ^:private programs
  (mapv #(str "healthy_" %) (range 1 12)))

(def ^:private stuck-program "call_cycle_plain")

(defn- silently
  "Calls f without the reports of the processes that crash on purpose."
  [f]
  (with-hook [:failure (fn [_] nil)]
    (with-hook [:report (fn [_] nil)]
      (f))))

(defn- with-programs
  "Calls f while these programs run."
  [programs f]
  (let [stops (mapv hangs/start programs)]
    (try
      (f)
      (finally (run! #(%) stops)))))

(use-fixtures :once
              (fn [f]
                (silently #(with-programs programs f))))

(defn- findings []
  {:deadlocks (inspect/deadlocks)
   :why-stuck (inspect/why-stuck)
   :leaks (inspect/leaks)})

(defn- texts [findings]
  (update-vals findings (partial mapv :text)))

(def ^:private nothing
  {:deadlocks [] :why-stuck [] :leaks []})

(deftest ^{:spec ["C33"] :limit limit} healthy-programs-are-not-blamed
  (dotimes [n looks]
    (testing n
      (is (= nothing (texts (findings)))))))

(defn- lose-a-go-block []
  (let [ch (a/chan)]
    (a/go (a/<! ch))))

(deftest ^{:limit limit} what-is-stuck-beside-them-is-named-and-nothing-else
  (with-programs [stuck-program]
    (fn []
      (is (eventually (and (seq (inspect/deadlocks)) (seq (inspect/why-stuck)))))
      (dotimes [n (max 1 (quot looks 5))]
        (lose-a-go-block)
        (testing n
          (let [{:keys [deadlocks why-stuck leaks]} (texts (findings))
                all (concat deadlocks why-stuck leaks)]
            (is (= [1 1] (map count [deadlocks why-stuck])) all)
            (is (>= 1 (count leaks)) "a collection by the JVM itself may have taken it away")
            (is (every? #(str/includes? % stuck-program) (concat deadlocks why-stuck)) all)
            (is (every? #(str/includes? % "healthy_test.clj") leaks) all)
            (is (not-any? #(re-find #"healthy_\d" %) all) all)))))))
