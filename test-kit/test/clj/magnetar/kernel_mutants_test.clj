(ns ^:slow magnetar.kernel-mutants-test
  "Defects planted in the kernel itself: the simulator finds each, in a JVM with the defective kernel."
  {:limit 300000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.dev.mutants :as mutants]
   [magnetar.hunted :as hunted]
   [magnetar.test :as mt])
  (:import
   (java.io File)))

(def ^:private source
  (io/file (System/getProperty "magnetar.home") "kernel/src/java"))

(defn- class-path []
  (str/split (System/getProperty "java.class.path") (re-pattern File/pathSeparator)))

(defn- hunt
  "What the program finds in the kernel of these classes, or in the sound one."
  [classes program]
  (str/trim (last (str/split-lines (:out (apply child/run (cond->> (class-path) classes (cons (str classes))) 100
                                                (concat child/opens ["clojure.main" "-m" "magnetar.hunted" program])))))))

(deftest each-defect-planted-in-the-kernel-is-found
  (doseq [{:keys [name program] :as mutant} hunted/mutants]
    (testing name
      (let [classes (#'mutants/compile-mutant source (child/temp-folder "mutant") mutant)]
        (is (re-find #"^found (deadlock|property), choices [0-6]$" (hunt classes program)))))))

(deftest the-same-programs-find-nothing-in-the-sound-kernel
  (doseq [[program-name program] {"messages" hunted/messages
                                  "selects" hunted/selects
                                  "monitors" hunted/monitors
                                  "pair-order" hunted/pair-order
                                  "named-monitor" hunted/named-monitor
                                  "named-link" hunted/named-link
                                  "early-kill" hunted/early-kill}]
    (testing program-name
      (is (:passed (mt/check* (merge {:runs 300} (hunted/options program-name)) program))))))
