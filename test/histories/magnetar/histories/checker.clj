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

(defn verdicts
  "A verdict for each of the histories, in their order: :ok, :illegal, or :unknown if it would take too long to know."
  [histories]
  (let [{:keys [exit out err]} (shell/sh program :in (lines (map json/write-str histories)))]
    (when-not (zero? exit)
      (throw (ex-info (str "the checker has failed: " err) {:exit exit})))
    (mapv #(keyword (get (json/read-str %) "verdict")) (str/split-lines out))))
