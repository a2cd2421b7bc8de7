(ns magnetar.spec-test
  "Each clause of SPEC.md is proved by a test that cites it, and no test cites a clause that does not exist."
  (:require
   [clojure.java.io :as io]
   [clojure.set :as set]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(def ^:private home (System/getProperty "magnetar.home"))

(defn- clauses []
  (map second (re-seq #"(?m)^- \*\*([A-Z]+\d+)\*\* " (slurp (io/file home "SPEC.md")))))

(defn- test-sources []
  (->> (mapcat #(file-seq (io/file home %)) ["core/test/clj" "test-kit/test/clj"])
       (filter #(str/ends-with? (.getName ^File %) "_test.clj"))
       (map slurp)))

(defn- cited []
  (set (for [source (test-sources)
             [_ list] (re-seq #":spec \[([^\]]+)\]" source)
             [_ clause] (re-seq #"\"([^\"]+)\"" list)]
         clause)))

(deftest the-clauses-are-numbered-in-order-and-no-number-twice
  (is (apply < (map #(parse-long (subs % 1)) (clauses)))))

(deftest each-clause-is-cited-by-a-test
  (is (= [] (remove (cited) (clauses)))))

(deftest no-test-cites-a-clause-that-does-not-exist
  (is (= #{} (set/difference (cited) (set (clauses))))))
