(ns magnetar.histories.checker
  "Lets Porcupine judge histories: could the operations have happened one after the other, each between its call and its return?

  The program is built by `bin/magnetar test --histories`, from test/histories/porcupine."
  (:require
   [clojure.data.json :as json]
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

(def ^:private program
  (str (io/file (System/getProperty "magnetar.histories"))))

(defn- lines [xs]
  (str/join (map #(str % "\n") xs)))

(defn judge
  "What the program says of a text that has a history on each line."
  [text]
  (let [{:keys [exit out err]} (shell/sh program :in text)]
    (when-not (zero? exit)
      (throw (ex-info (str "the checker has failed: " err) {:exit exit})))
    out))

(defn verdicts
  "A verdict for each of the histories, in their order: :ok, :illegal, or :unknown if it would take too long to know."
  [histories]
  (mapv #(keyword (get (json/read-str %) "verdict")) (str/split-lines (judge (lines (map json/write-str histories))))))

(defn wrong
  "The names of the histories with another verdict than :ok, in their order."
  [histories]
  (into [] (keep (fn [[history verdict]] (when (not= :ok verdict) (:name history)))) (map vector histories (verdicts histories))))

(defn keep-wrong
  "Writes the histories to a file beside the checker, and returns its path. If their verdicts are as expected, it returns nil."
  [histories seed expected verdicts]
  (when (not= expected verdicts)
    (let [file (io/file (.getParentFile (io/file program)) (str "run-" seed ".json"))]
      (spit file (lines (map json/write-str histories)))
      (str file))))
