(ns start-cache-test
  "The start-up cache is built once, used, and never wins over an edit."
  {:limit 300000}
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.processes :refer [home primed-launcher start write]])
  (:import
   (java.io File)))

(defn- copy-folder [path checkout]
  (start {} "cp" "-R" (str home "/" path) (.getParent (doto (io/file checkout path) io/make-parents))))

(deftest an-edit-wins-over-the-start-up-cache
  (let [checkout (primed-launcher)
        program (write checkout "main.clj" "(require 'magnetar.probe) (print magnetar.probe/answer)")
        launch #(start {} (str checkout "/bin/magnetar") "run" program)
        edit #(write checkout "core/src/clj/magnetar/probe.clj" (str "(ns magnetar.probe) (def answer " % ")"))
        built #(count (filter (fn [file] (= "aot" (.getName ^File file))) (file-seq (io/file checkout ".cache/start"))))]
    (run! #(copy-folder % checkout) ["dev/src" "kernel/src/java" "core/src"])
    (edit 1)
    (is (= "1" (:out (launch))) "the first start builds the cache")
    (is (= 1 (built)))
    (is (= "1" (:out (launch))) "the next one uses it")
    (edit 2)
    (is (= "2" (:out (launch))) "after an edit the sources run")
    (is (= 1 (built)))
    (is (= "2" (:out (launch))) "and the second start renews the cache")
    (is (= 2 (built)))))
