(ns magnetar.erlang.page-test
  "The examples of the guide's page give what it says."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.dev.guide :as guide]))

(deftest each-example-of-the-page-gives-what-it-says
  (is (pos? (long (guide/run-page "docs/guide/erlang.md")))))
