(ns ^:slow magnetar.kernel-faults-test
  "Faults planted in the kernel itself: the simulator finds each."
  {:limit 300000}
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.dev.faults :as faults]
   [magnetar.hunted :as hunted]
   [magnetar.seeded-bugs :as seeded-bugs]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(use-fixtures :once seeded-bugs/without-reports)

(def ^:private programs
  {"messages" hunted/messages
   "selects" hunted/selects
   "monitors" hunted/monitors
   "pair-order" hunted/pair-order
   "named-monitor" hunted/named-monitor
   "named-link" hunted/named-link
   "early-kill" hunted/early-kill})

(defn- search
  "What the simulator says of the program, after so many runs or as many as it asks for."
  [program runs]
  (mt/check* (merge {:runs runs :report identity} (hunted/options program)) (programs program)))

(deftest each-fault-planted-in-the-kernel-is-found-within-six-choices
  (doseq [{:keys [fault] hunters :programs} (faults/faults (System/getProperty "magnetar.home"))
          hunter hunters]
    (testing (str fault ", by " hunter)
      (let [{:keys [failure schedule]} (seeded-bugs/with-defect fault #(search hunter 1000))]
        (is (contains? #{:deadlock :property} (:kind failure)))
        (is (<= (count schedule) 6))))))

(deftest the-same-programs-find-nothing-in-the-sound-kernel
  (doseq [program (keys programs)]
    (testing program
      (is (:passed (search program 300))))))
