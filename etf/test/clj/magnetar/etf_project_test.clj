(ns magnetar.etf-project-test
  "A project that names magnetar-etf runs with it, and with its compiled Java."
  {:wakes false
   :limit 120000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.dev.processes :refer [home launcher start temporary-folder write]]))

(set! *warn-on-reflection* true)

(deftest a-project-that-names-the-artifact-has-its-java
  (let [folder (temporary-folder)
        app (write folder "src/app.clj" (str "(ns app (:require [magnetar.etf :as etf]))\n"
                                             "(defn -main [] (prn (etf/decode (etf/encode #{:ok}))))\n"))]
    (write folder "deps.edn" (str "{:deps {magnetar/magnetar-etf {:local/root \"" home "/etf\"}}}"))
    (let [{:keys [exit out err]} (start {} launcher "run" app)]
      (is (= [0 "#{:ok}"] [exit out]) err))))
