(ns magnetar.dev.runner-test
  "The test runner itself: what it counts, and how a hang ends."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.processes :refer [start temporary-folder write]]
   [magnetar.dev.scenarios :as scenarios]))

(defn- run-suite
  "Runs a suite whose only folder holds `files`, a map of paths to texts, in a JVM of its own: all of it, or the namespaces in `chosen`.
  `options` are the JVM's."
  [files & {:keys [options chosen]}]
  (let [folder (str (temporary-folder))
        counts (str folder "/counts")]
    (doseq [[path text] files] (write folder path text))
    (assoc (apply start {} (concat [(str (System/getProperty "java.home") "/bin/java")] options
                                   ["-cp" (str (System/getProperty "java.class.path") ":" folder)
                                    "clojure.main" "-m" "magnetar.dev.test" "planted" counts folder]
                                   chosen))
           :counts (str/trim (slurp counts)))))

(deftest passed-and-failed-tests-are-counted
  (let [{:keys [exit out counts]} (run-suite {"a_test.clj" "(ns a-test (:require [clojure.test :refer :all])) (deftest good (is true) (is true)) (deftest bad (is (= 1 2)) (is (= 1 3))) (deftest worse (throw (Exception. \"planted\")))"
                                              "b/c_test.clj" "(ns b.c-test (:require [clojure.test :refer :all])) (deftest good (is true))"})]
    (is (= [1 "2 2"] [exit counts]))
    (is (re-find #"planted: 2 passed, 2 failed in " out))
    (is (re-find #"b\.c-test +\d+\.\d s" out))))

(deftest tests-that-are-run-only-by-name-are-left-out-of-the-suite
  (let [files {"a_test.clj" "(ns a-test (:require [clojure.test :refer :all])) (deftest each (is true)) (deftest ^:if-named large (is true))"}]
    (is (= "1 0" (:counts (run-suite files))))
    (is (= "2 0" (:counts (run-suite files {:chosen ["a-test"]}))))))

(deftest tests-in-which-nobody-is-woken-are-left-out-without-hand-off
  (let [files {"a_test.clj" "(ns a-test {:wakes false} (:require [clojure.test :refer :all])) (deftest a (is true))"
               "b_test.clj" "(ns b-test (:require [clojure.test :refer :all])) (deftest b (is true))"}]
    (is (= "1 0" (:counts (run-suite files {:options ["-Dmagnetar.hand-off=false"]}))))
    (is (= "2 0" (:counts (run-suite files))))))

(deftest fixtures-wrap-as-in-clojure-test
  (let [{:keys [exit counts out]}
        (run-suite {"f_test.clj" (str "(ns f-test (:require [clojure.test :refer :all]))"
                                      "(def log (atom []))"
                                      "(use-fixtures :once #(do (swap! log conj :open) (%) (println \"LOG\" (conj @log :shut))))"
                                      "(use-fixtures :each #(do (swap! log conj :each) (%)))"
                                      "(deftest one (is true)) (deftest two (is true))")})]
    (is (= [0 "2 0"] [exit counts]))
    (is (str/includes? out "LOG [:open :each :each :shut]"))))

(deftest a-namespace-that-does-not-load-is-a-failure
  (let [{:keys [exit counts out]} (run-suite {"broken_test.clj" "(ns broken-test)\n(no-such-thing)"})]
    (is (= [1 "0 1"] [exit counts]))
    (is (str/includes? out "FAIL broken-test does not load"))
    (is (str/includes? out "broken_test.clj:2:1"))))

(deftest what-is-printed-on-standard-error-is-a-failure-of-its-test
  (let [form (fn [body] (str "(deftest loud " body " (is true)) (deftest quiet (println \"a word\") (is true))"))
        file (fn [name body] (str "(ns " name " (:require [clojure.test :refer :all]))" body))
        {:keys [exit counts out err]}
        (run-suite {"a_test.clj" (file "a-test" (form "(.println System/err \"by the stream\")"))
                    "b_test.clj" (file "b-test" (form "(binding [*out* *err*] (println \"by the writer\"))"))
                    "c_test.clj" (file "c-test" (form "(.warning (java.util.logging.Logger/getLogger \"x\") \"by a logger\")"))
                    "d_test.clj" (file "d-test" "(.println System/err \"by the namespace\") (deftest quiet (is true))")})]
    (is (= [1 "4 4" ""] [exit counts err]))
    (is (= [["a-test/loud" "by the stream"] ["b-test/loud" "by the writer"] ["c-test/loud" "WARNING: by a logger"] ["d-test (load)" "by the namespace"]]
           (map rest (re-seq #"FAIL (.+) printed on standard error:\n(?:.* invokeStatic\n)?(.+)\n" out))))
    (is (str/includes? out "Capture and assert what is expected: with-failures, collecting or with-err of magnetar.support."))
    (is (str/includes? out "If it is a late report of a-test/quiet, that test must wait for the end of what it ends: see CONTRIBUTING.md."))))

(deftest a-hang-ends-with-the-stacks-of-all-threads-virtual-ones-included
  (let [{:keys [exit counts out]}
        (run-suite {"hang_test.clj" (str "(ns hang-test (:require [clojure.test :refer :all]))"
                                         "(defn wait-in-vain [] @(promise))"
                                         "(deftest good (is true))"
                                         "(deftest ^{:limit 200} stuck (.join (Thread/startVirtualThread wait-in-vain)))")})]
    (is (= [1 "1 1"] [exit counts]))
    (is (str/includes? out "hang_test$wait_in_vain.invoke"))
    (is (str/includes? out "HUNG hang-test/stuck did not end within 200 ms; the stacks of all threads are above."))))

;; ---- scenarios of Erlang

(defn- checkout [page]
  (let [folder (str (temporary-folder))]
    (write folder scenarios/ids-file "SPN-01\nSPN-02\nSUP-01\nSUP-02\n")
    (write folder scenarios/page (str "| SPN-02 | in another table |\n\n## Not carried\n\n| groups | reason |\n|---|---|\n" page))
    folder))

(deftest the-line-about-scenarios-counts-the-groups-that-are-claimed
  (let [folder (checkout "| SUP | comes later |\n")
        file (str folder "/carried")]
    (is (= "scenarios: 0 of 2 carried; missing: SPN-01 SPN-02" (scenarios/line folder [])))
    (scenarios/record folder file ["SPN-02"])
    (scenarios/record folder file ["SPN-01" "SPN-02"])
    (is (= ["scenarios: 2 of 2 carried" "SPN-02" "SPN-01"] (str/split-lines (slurp file))))))
