(ns magnetar.erlang.project-test
  "A project that names magnetar-erlang runs with it, and with its compiled Java."
  {:wakes false
   :limit 120000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.dev.processes :refer [home launcher start temporary-folder write]]))

(set! *warn-on-reflection* true)

(deftest a-project-that-names-the-artifact-has-its-java
  (let [folder (temporary-folder)
        app (write folder "src/app.clj" (str "(ns app (:require [magnetar.actor :as actor] [magnetar.erlang :as erlang]))\n"
                                             "(defn -main []\n"
                                             "  (erlang/start {:name \"till@127.0.0.1\" :cookie \"shop\" :epmd false})\n"
                                             "  (prn (actor/node) (erlang/stop)))\n"))]
    (write folder "deps.edn" (str "{:deps {magnetar/magnetar-erlang {:local/root \"" home "/erlang\"}}}"))
    (let [{:keys [exit out err]} (start {} launcher "run" app)]
      (is (= [0 "\"till@127.0.0.1\" :ok"] [exit out]) err))))
