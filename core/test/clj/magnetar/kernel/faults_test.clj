(ns magnetar.kernel.faults-test
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.faults :as faults]))

(def ^:private root (System/getProperty "magnetar.home"))

(deftest each-fault-point-has-something-that-finds-it-and-stands-once
  (is (= (sort (map :fault (faults/faults root)))
         (sort (faults/in-source root))))
  (is (every? (some-fn :checks :programs :test) (faults/faults root))))

(deftest there-are-few
  (is (<= (count (faults/in-source root)) 40)))

;; `bin/magnetar proofs` runs them.
(deftest each-check-named-exists
  (let [checks (slurp (io/file root "kernel/test/java/magnetar/check/Main.java"))]
    (doseq [{:keys [fault] names :checks} (faults/faults root)
            name names]
      (is (.contains ^String checks (str "Map.entry(\"" name "\"")) fault))))
