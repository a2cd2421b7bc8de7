(ns magnetar.etf-random-test
  "Values at random come back, and what is left of a part of a term is refused. See etf-fuzz-test for what is altered."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [clojure.test.check :as tc]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [magnetar.etf :as etf]
   [magnetar.etf-support :refer [erlang-values plain same? values]])
  (:import
   (java.util Arrays)))

(set! *warn-on-reflection* true)

(defn- holds [n property]
  (let [result (tc/quick-check n property :max-size 60)]
    (is (:pass? result) (str "seed " (:seed result) ", smallest " (pr-str (:smallest (:shrunk result)))))))

;; Twenty at a time: a check of one value takes longer to set up than to do.
(defn- of-all [generator property]
  (prop/for-all [values (gen/vector generator 20)]
    (every? property values)))

(deftest values-come-back
  (holds 500 (of-all values #(same? % (etf/decode (etf/encode %))))))

(deftest values-of-plain-erlang-come-back
  (let [out (etf/encoder plain)
        in (etf/decoder plain)]
    (holds 250 (of-all erlang-values #(same? % (etf/decode in (etf/encode out %)))))))

(deftest what-plain-erlang-sends-is-read-by-every-codec
  (let [reserved? (fn [x] (some #(and (vector? %) (= :$clj (first %))) (tree-seq coll? seq x)))]
    (holds 100 (of-all erlang-values #(or (reserved? %) (same? % (etf/decode (etf/encode plain %))))))))

(deftest a-part-of-a-term-is-refused
  (holds 100 (of-all values (fn [value]
                              (let [bytes (etf/encode value)
                                    n (rand-int (alength bytes))]
                                (try (etf/decode (Arrays/copyOf bytes (int n))) false
                                     (catch clojure.lang.ExceptionInfo e (= :magnetar/bad-term (:magnetar/reason (ex-data e))))))))))
