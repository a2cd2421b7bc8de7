(ns magnetar.kernel.faults-test
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.child :as child]
   [magnetar.dev.faults :as faults]))

(def ^:private root (System/getProperty "magnetar.home"))

(deftest each-fault-point-has-something-that-finds-it-and-stands-once
  (is (= (sort (map :fault (faults/faults root)))
         (sort (faults/in-source root))))
  (is (every? (some-fn :checks :programs :test) (faults/faults root))))

(defn- seam-calls
  "What the kernel asks of a simulation, outside of the simulator."
  []
  (->> (child/java-files (io/file root "kernel/src/java"))
       (remove #(re-find #"/sim/|/Simulated\.java$" (str %)))
       (mapcat #(re-seq #"Simulated\.[a-zA-Z]+\(" (slurp %)))))

;; Before there were fault points there were 98 calls, counted in the same way at 9307ab8. The ties to other nodes have added six fault points
;; and fifteen calls.
(deftest there-are-few
  (is (<= (count (faults/in-source root)) 46))
  (is (<= (+ (count (faults/in-source root)) (count (seam-calls))) 119)))

;; `bin/magnetar proofs` runs them.
(deftest each-check-named-exists
  (let [checks (slurp (io/file root "kernel/test/java/magnetar/check/Main.java"))]
    (doseq [{:keys [fault] names :checks} (faults/faults root)
            name names]
      (is (.contains ^String checks (str "Map.entry(\"" name "\"")) fault))))
