(ns magnetar.kernel.mutants-test
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.mutants :as mutants]))

(defn- complaint [root mutant]
  (try (mutants/mutated (io/file root "kernel/src/java") mutant) nil
       (catch clojure.lang.ExceptionInfo e (ex-message e))))

;; `bin/magnetar proofs` compiles and runs them.
(deftest each-mutant-still-finds-its-text-in-the-kernel
  (let [root (System/getProperty "magnetar.home")
        all (mutants/mutants root)]
    (is (<= 30 (count all)))
    (is (= [] (keep #(complaint root %) all)))))

(deftest each-mutant-names-a-check-that-exists
  (let [root (System/getProperty "magnetar.home")
        checks (slurp (io/file root "kernel/test/java/magnetar/check/Main.java"))]
    (doseq [{:keys [name check]} (mutants/mutants root)]
      (is (.contains ^String checks (str "Map.entry(\"" check "\"")) name))))
