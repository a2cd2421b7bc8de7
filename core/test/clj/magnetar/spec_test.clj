(ns magnetar.spec-test
  "Each clause of SPEC.md names a test that proves it and that cites it, and no test cites a clause that does not exist."
  {:wakes false}
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
  (->> (mapcat #(file-seq (io/file home %)) ["core/test/clj" "cluster/test/clj" "test-kit/test/clj" "test/context-propagation"])
       (filter #(str/ends-with? (.getName ^File %) "_test.clj"))
       (map slurp)))

(defn- cited []
  (set (for [source (test-sources)
             [_ list] (re-seq #":spec \[([^\]]+)\]" source)
             [_ clause] (re-seq #"\"([^\"]+)\"" list)]
         clause)))

;; --- the tests that the clauses name

(defn- citations
  "The pairs of a clause and a test that cites it, in this source."
  [source]
  (let [[_ namespace] (re-find #"\(ns\s+(?:\^\S+\s+)*magnetar\.(\S+)" source)]
    (for [[_ list test] (re-seq #":spec \[([^\]]+)\][^{}]*\}\s+(?:\^\S+\s+)*([^\s()\[\]]+)" source)
          [_ clause] (re-seq #"\"([^\"]+)\"" list)]
      [clause (str namespace "/" test)])))

(defn- named
  "The pairs of a clause and a test that it names."
  []
  (for [[_ clause text] (re-seq #"(?s)- \*\*([A-Z]+\d+)\*\* (.*?)(?=\n- |\n\n|$)" (slurp (io/file home "SPEC.md")))
        [_ test] (re-seq #"`([a-z0-9.-]+-test/[^`]+)`" text)]
    [clause test]))

(deftest each-clause-names-a-test-that-cites-it
  (is (= [] (remove (set (map first (named))) (clauses))))
  (is (= #{} (set/difference (set (named)) (set (mapcat citations (test-sources)))))))

(deftest the-clauses-are-numbered-in-order-and-no-number-twice
  (is (apply < (map #(parse-long (subs % 1)) (clauses)))))

(deftest each-clause-is-cited-by-a-test
  (is (= [] (remove (cited) (clauses)))))

(deftest no-test-cites-a-clause-that-does-not-exist
  (is (= #{} (set/difference (cited) (set (clauses))))))
