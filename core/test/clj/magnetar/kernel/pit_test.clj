(ns magnetar.kernel.pit-test
  {:wakes false}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.pit :as pit]))

(def ^:private root (System/getProperty "magnetar.home"))

(defn- element [status class method line mutator description]
  (str "<mutation detected='true' status='" status "' numberOfTestsRun='1'><sourceFile>X.java</sourceFile>"
       "<mutatedClass>magnetar.kernel." class "</mutatedClass><mutatedMethod>" method "</mutatedMethod>"
       "<methodDescription>()V</methodDescription><lineNumber>" line "</lineNumber>"
       "<mutator>org.pitest.mutationtest.engine.gregor.mutators." mutator "</mutator>"
       "<indexes><index>5</index></indexes><blocks><block>0</block></blocks><killingTest/>"
       "<description>" description "</description></mutation>"))

(def ^:private report
  (str "<?xml version='1.0' encoding='UTF-8'?>\n<mutations partial='true'>\n"
       (element "KILLED" "channel.Ring$Fixed" "&lt;init&gt;" 12 "MathMutator" "Replaced integer addition with subtraction")
       "\n"
       (element "SURVIVED" "time.Wheel" "cancel" 130 "returns.BooleanFalseReturnValsMutator"
                "replaced boolean return with false for magnetar/kernel/time/Wheel::cancel")
       "\n</mutations>\n"))

(deftest each-survivor-that-is-listed-names-a-line-of-its-class
  (doseq [{:keys [class at]} (:survivors (pit/sequential root))
          :let [lines (set (map str/trim (str/split-lines (slurp (#'pit/source-file root class)))))]]
    (is (contains? lines at) class)))

(deftest a-report-of-pit-is-read
  (is (= [{:class "channel.Ring" :method "<init>" :line 12 :mutator "MathMutator"
           :mutant "Replaced integer addition with subtraction" :status "KILLED"}
          {:class "time.Wheel" :method "cancel" :line 130 :mutator "BooleanFalseReturnValsMutator"
           :mutant "replaced boolean return with false" :status "SURVIVED"}]
         (pit/mutants report))))

(defn- mutant [status line mutant]
  {:class "time.Wheel" :method "add" :line line :mutator "M" :mutant mutant :at "if (wake) {" :status status})

(def ^:private survivor
  {:class "time.Wheel" :methods ["add"] :at "if (wake) {" :mutants ["removed"] :why "It costs time only."})

(defn- complaints [mutants survivors]
  (map (fn [[title complaint]] (str title (when complaint (str ": " complaint))))
       (pit/findings "time.Wheel" mutants survivors)))

(deftest a-class-without-survivors-has-one-line
  (is (= ["mutants of time.Wheel: 2 of 2 killed"]
         (complaints [(mutant "KILLED" 1 "removed") (mutant "TIMED_OUT" 2 "removed")] []))))

(deftest a-survivor-that-is-listed-is-accepted
  (is (= ["mutants of time.Wheel: 1 of 2 killed"]
         (complaints [(mutant "KILLED" 1 "other") (mutant "SURVIVED" 2 "removed")] [survivor]))))

(deftest a-listed-survivor-may-run-out-of-time
  (is (= ["mutants of time.Wheel: 2 of 2 killed"]
         (complaints [(mutant "KILLED" 1 "other") (mutant "TIMED_OUT" 2 "removed")] [survivor]))))

(deftest a-survivor-that-is-not-listed-is-named
  (let [[found of-class] (complaints [(mutant "KILLED" 1 "other") (mutant "NO_COVERAGE" 2 "removed")] [])]
    (is (str/starts-with? found "mutant of time.Wheel/add, line 2, by M (removed): it survives. Write a test in kernel/pit"))
    (is (str/ends-with? of-class "1 of 2 killed: 1 differ from kernel/mutants/sequential.edn, see above"))))

(deftest of-two-equal-mutants-one-may-be-listed
  (is (= 1 (count (filter #(str/includes? % "it survives.")
                          (complaints [(mutant "KILLED" 1 "other") (mutant "SURVIVED" 2 "removed") (mutant "SURVIVED" 2 "removed")]
                                      [survivor]))))))

(deftest a-listed-survivor-that-is-killed-or-gone-is-named
  (doseq [mutants [[(mutant "KILLED" 2 "removed")] [(mutant "KILLED" 2 "other")]]]
    (is (str/starts-with? (first (complaints mutants [survivor]))
                          "mutant of time.Wheel/add at `if (wake) {` (removed): it does not survive any more"))))

(deftest a-class-without-mutants-or-without-a-kill-fails
  (is (str/includes? (first (complaints [] [])) "PIT made none"))
  (is (str/includes? (last (complaints [(mutant "SURVIVED" 2 "removed")] [survivor])) "no test kills any")))

(deftest a-mutant-that-did-not-run-fails-its-class
  (is (str/ends-with? (last (complaints [(mutant "KILLED" 1 "other") (mutant "RUN_ERROR" 2 "removed")] []))
                      "PIT could not run 1 of them: RUN_ERROR")))

;; `bin/magnetar proofs` runs them.
(deftest each-survivor-has-a-reason-and-a-class-that-is-mutated
  (let [{:keys [classes survivors]} (pit/sequential root)]
    (is (every? #(.exists (io/file root "kernel/src/java/magnetar/kernel" (str (str/replace (:class %) "." "/") ".java"))) classes))
    (is (some :quick classes))
    (doseq [{:keys [class methods at mutants why] :as survivor} survivors]
      (is (contains? (set (map :class classes)) class))
      (is (and (seq methods) (seq mutants) (not (str/blank? at)) (not (str/blank? why))) survivor))))
