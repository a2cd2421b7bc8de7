(ns magnetar.otp.table-test
  "The table of scenarios in Erlang and Elixir, and the proof that each scenario can fail there; for ours, see magnetar.otp.altered-test."
  {:limit 600000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :as t :refer [deftest is testing]]
   [magnetar.dev.processes :as processes]
   [magnetar.otp.elixir :as elixir]
   [magnetar.otp.erl :as erl]
   [magnetar.otp.scenarios :as scenarios]))

(set! *warn-on-reflection* true)

(def ^:private on-erlang
  (delay (erl/run (erl/scenarios))))

(defn- check-on-erlang [{:keys [id says] :as scenario}]
  (testing (str id " in Erlang: " says)
    (is (= (erl/expected scenario) (get @on-erlang id :nothing)))))

(def ^:private notice
  (delay (println "  lane of Erlang: skipped, there is no `erl` on the PATH (Debian: apt-get install erlang-base)")))

(defn- with-erlang [f]
  (cond
    (not (erl/wanted?)) nil
    (erl/available?) (f)
    :else @notice))

(def ^:private on-elixir
  (delay (elixir/run (elixir/scenarios))))

(defn- check-on-elixir [{:keys [id says expect]}]
  (testing (str id " in Elixir: " says)
    (is (= expect (get @on-elixir id :nothing)))))

(def ^:private elixir-notice
  (delay (println "  lane of Elixir: skipped, there is no `elixir` on the PATH (Debian: apt-get install elixir)")))

(defn- with-elixir [f]
  (cond
    (not (erl/wanted?)) nil
    (erl/available? "elixir") (f)
    :else @elixir-notice))

(deftest elixir-shows-what-the-table-says
  (with-elixir
    #(do
       (when-not (every? (set (keys @on-elixir)) (map :id (elixir/scenarios)))
         (println (:text @on-elixir)))
       (run! check-on-elixir (elixir/scenarios)))))

(deftest erlang-shows-what-the-table-says
  (with-erlang
    #(do
       (when-not (every? (set (keys @on-erlang)) (map :id (erl/scenarios)))
         (println (:text @on-erlang)))
       (run! check-on-erlang (erl/scenarios)))))

;; ---- altered expectations

(defn- altered-leaf [leaf]
  (cond
    (boolean? leaf) (not leaf)
    (number? leaf) (inc leaf)
    :else :altered))

(defn altered
  "The expectations that differ from this one in one place each: a leaf is another one, or an empty vector is not empty."
  [expectation]
  (cond
    (= [] expectation) [[:altered]]
    (vector? expectation) (for [i (range (count expectation))
                                other (altered (nth expectation i))]
                            (assoc expectation i other))
    :else [(altered-leaf expectation)]))

(defn- outcomes
  "The types of what a test reports."
  [f]
  (let [reports (atom [])]
    (binding [t/report #(swap! reports conj (:type %))]
      (f))
    @reports))

(defn stays-green
  "The expectations that `check` does not fail."
  [check expectations]
  (remove #(= [:fail] (outcomes (fn [] (check %)))) expectations))

(deftest expectations-are-altered-in-each-place
  (is (= [[2 [:a]] [1 [:altered]]] (altered [1 [:a]])))
  (is (= [[[:altered]]] [(altered [])]))
  (is (= [:altered] (altered nil)))
  (is (= [false] (altered true))))

(deftest each-scenario-fails-in-erlang-when-its-expectation-is-altered
  (with-erlang
    #(doseq [{:keys [id] :as scenario} (erl/scenarios)]
       (is (= [] (vec (stays-green (fn [other] (check-on-erlang (assoc scenario :erl-expect other))) (altered (erl/expected scenario)))))
           id))))

(deftest each-scenario-fails-in-elixir-when-its-expectation-is-altered
  (with-elixir
    #(doseq [{:keys [id expect] :as scenario} (elixir/scenarios)]
       (is (= [] (vec (stays-green (fn [other] (check-on-elixir (assoc scenario :expect other))) (altered expect)))) id))))

;; ---- the table itself

(deftest an-erl-that-is-missing-is-missed
  (let [folder (str (processes/temporary-folder))]
    (is (not (erl/available? "erl" (str folder ":/nowhere"))))
    (.setExecutable (io/file (processes/write folder "erl" "")) true)
    (is (erl/available? "erl" (str "/nowhere:" folder)))))

(defn- claimed []
  (let [ids (str/split-lines (slurp (io/file (System/getProperty "magnetar.home") "core/test/resources/conformance/otp-ids.txt")))]
    (filter #(#{"SPN" "LNK" "MON" "REG" "RCV" "ORD" "TMR" "ALI" "PRC" "PLB" "SUP" "GS" "SYS" "DYN" "GSM" "GE" "RGY" "TSK" "AGT" "HOT" "APP"}
              (first (str/split % #"-")))
            ids)))

(deftest the-table-has-each-scenario-of-the-processes-once
  (is (= (sort (claimed)) (sort (map :id (scenarios/table))))))

(deftest a-side-that-is-missing-or-different-says-why
  (doseq [{:keys [id erl elixir no-erl differs] :as scenario} (scenarios/table)]
    (is (or erl elixir no-erl) id)
    (is (or differs (not (contains? scenario :erl-expect))) id)))
