(ns magnetar.integrations-test
  "The pages about Integrant, Component and mount: with these where they are on the class path, else with stubs that have their protocol."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.application :as application]
   [magnetar.dev.guide :as guide]
   [magnetar.report :as report]))

(set! *warn-on-reflection* true)

(defn- stand-in? [path]
  (str/includes? (str (io/resource path)) "stubs"))

(defn- run-reported
  "Runs the page; returns how many examples have a result, and what was reported meanwhile."
  [page]
  (let [reports (atom [])
        hook (report/add-hook :report #(swap! reports conj (:event %)))]
    (try
      [(guide/run-page page) @reports]
      (finally (report/remove-hook :report hook)))))

(defn- run-page [page path]
  (testing (str page (when (stand-in? path) ", with a stand-in"))
    (let [[examples reports] (run-reported page)]
      (is (< 2 (long examples)))
      (is (every? #{:child-terminated} reports)))
    (is (= [] (application/which-applications)))
    (run! #(application/unload (:name %)) (application/loaded-applications))))

(deftest beside-integrant
  (run-page "docs/guide/with-integrant.md" "integrant/core.cljc"))

(deftest beside-component
  (run-page "docs/guide/with-component.md" "com/stuartsierra/component.cljc"))

(deftest beside-mount
  (run-page "docs/guide/with-mount.md" "mount/core.cljc"))
