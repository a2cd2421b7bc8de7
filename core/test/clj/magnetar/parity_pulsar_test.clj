(ns magnetar.parity-pulsar-test
  "The page of parity with Pulsar names what exists."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(def ^:private home (System/getProperty "magnetar.home"))

(def ^:private aliases
  '{a magnetar.async, actor magnetar.actor, bits magnetar.bits, channel magnetar.channel, context magnetar.scope.context
    fold magnetar.fold, gs magnetar.gen-server, inspect magnetar.inspect, scope magnetar.scope, sup magnetar.supervisor, test magnetar.test})

(defn- page []
  (slurp (io/file home "docs/parity/pulsar.md")))

(defn- named-vars []
  (for [[_ code] (re-seq #"`([^`\n]+)`" (page))
        [_ alias name] (re-seq #"(?<![\w./-])([a-z]+)/([^\s()\[\]{}`,]+)" code)
        :when (aliases (symbol alias))]
    (symbol (str (aliases (symbol alias))) name)))

(deftest each-name-of-ours-on-the-page-exists
  (is (< 60 (count (set (named-vars)))))
  (is (= [] (remove requiring-resolve (distinct (named-vars))))))

(defn- test-names []
  (set (for [file (file-seq (io/file home "core/test/clj"))
             :when (str/ends-with? (.getName ^File file) "_test.clj")
             [_ name] (re-seq #"(?m)^\((?:deftest (?:\^\{[^}]*\} )?|scenario |ns )([^\s)]+)" (slurp file))]
         name)))

(deftest each-test-that-the-page-cites-exists
  (let [rows (filter #(re-find #"^\|" %) (str/split-lines (first (str/split (page) #"## co\."))))
        cited (for [row rows
                    [_ name] (re-seq #"`([a-z][a-z.>!<-]{20,})`|" (last (str/split row #"\|")))
                    :when name]
                name)
        ids (re-seq #"\b(?:LNK|REG|SPN|MON)-\d+" (str/join (map #(last (str/split % #"\|")) rows)))]
    (is (< 9 (count cited)))
    (is (= [] (remove (test-names) (concat cited ids))))))
