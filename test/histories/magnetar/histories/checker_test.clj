(ns magnetar.histories.checker-test
  "Small histories whose verdicts are known: what a checker must not let pass."
  (:require
   [clojure.data.json :as json]
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.record :as record]))

(set! *warn-on-reflection* true)

(defn- told
  "A history of operations one after the other, each an input and what the client was told."
  [model & operations]
  (let [history (record/history model)]
    (doseq [[input output] (partition 2 operations)]
      (record/operate history 0 input (constantly output)))
    (record/finished history model)))

(def ^:private write {:f "write" :value 1})

(def ^:private read-it {:f "read"})

(defn- change [& members]
  {:f "change" :values members})

(def ^:private look {:f "look"})

(def ^:private own {:f "look-at-own"})

(deftest what-could-have-happened-is-let-pass
  (is (= (repeat 9 :ok)
         (checker/verdicts
           [(told "register" write {} read-it {:value 1} {:f "cas" :expected 1 :value 2} {:done true} read-it {:value 2})
            (told "register" write nil read-it {:value 0} read-it {:value 1})
            (told "register" write nil read-it {:value 0})
            (told "counter" {:f "add" :value 2} {:value 2} read-it {:value 2})
            (told "set" {:f "add" :value 1} {} {:f "add" :value 2} {} {:f "remove" :value 1} {} read-it {:values [2]})
            (told "name" {:f "register" :key "n" :value 1} {:done true} {:f "register" :key "n" :value 2} {:done false}
                  {:f "register" :key "m" :value 2} {:done true})
            (told "name" {:f "register" :value 1} {:done true} {:f "die" :value 1} nil {:f "register" :value 2} {:done true})
            (told "group" (change 1) {} (change 1 12) {} look {:values []} look {:values [1]} look {:values []} look {:values [1 12]})
            (told "group" (change 1 1) {} own {:values [1 1]} (change) nil own {:values [1 1]} own {:values []})]))))

(deftest what-could-not-have-happened-is-found
  (is (= (repeat 12 :illegal)
         (checker/verdicts
           [(told "register" write {} read-it {:value 0}) ; a stale read, or a lost write
            (told "register" write nil read-it {:value 1} read-it {:value 0})
            (told "register" write {} {:f "cas" :expected 0 :value 2} {:done true})
            (told "counter" {:f "add" :value 1} {:value 1} {:f "add" :value 1} {:value 1})
            (told "set" {:f "add" :value 1} {} {:f "add" :value 2} {} read-it {:values [2]})
            (told "name" {:f "register" :value 1} {:done true} {:f "register" :value 2} {:done true})
            (told "name" {:f "register" :value 1} {:done true} {:f "whereis"} {:value 2})
            (told "group" (change 1) {} (change 1 12) {} look {:values [1 12]} look {:values [1]}) ; older than before
            (told "group" (change 1) {} (change 12) {} look {:values [1 12]}) ; never so
            (told "group" (change 1 12) {} look {:values [1]})
            (told "group" look {:values [1]} (change 1) {})
            (told "group" (change 1) {} own {:values []})]))))

(deftest only-histories-with-another-verdict-than-expected-are-kept
  (let [histories [(told "register" write {} read-it {:value 0})]
        verdicts (checker/verdicts histories)
        path (checker/keep-wrong histories "of-a-test" [:ok] verdicts)]
    (try
      (is (= verdicts [(keyword (get (json/read-str (checker/judge (slurp path))) "verdict"))]))
      (finally (io/delete-file path)))
    (is (nil? (checker/keep-wrong histories "of-a-test" [:illegal] verdicts)))
    (is (not (.exists (io/file path))))))

(deftest a-history-that-cannot-be-read-is-told
  (is (thrown-with-msg? clojure.lang.ExceptionInfo #"the checker has failed: histories: the model set has no function \"write\""
                        (checker/verdicts [(told "set" write {})])))
  (is (thrown-with-msg? clojure.lang.ExceptionInfo #"there is no model \"queue\"" (checker/verdicts [(told "queue" write {})]))))
