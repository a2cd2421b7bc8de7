(ns magnetar.loading-test
  "Namespaces that are loaded late."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.impl.loading :as loading]
   [magnetar.support :refer [eventually]]))

(set! *warn-on-reflection* true)

(def go-on
  "The namespace magnetar.loading.late ends when this is delivered."
  (promise))

(defn- loads
  "A platform thread that loads magnetar.loading.user and delivers what it finds, or the failure."
  ^Thread [found]
  (doto (Thread. (fn [] (deliver found (try (loading/value 'magnetar.loading.user/answer) (catch Throwable e e)))))
    .start))

(defn- halted? [^Thread thread]
  (contains? #{Thread$State/WAITING Thread$State/BLOCKED Thread$State/TERMINATED} (.getState thread)))

;; Without the lock the second finds magnetar.loading.late among the loaded ones, but without its var.
(deftest two-that-need-a-namespace-at-once-find-it-whole
  (let [[one other] [(promise) (promise)]
        first-thread (loads one)]
    (is (eventually (and (find-ns 'magnetar.loading.late) (halted? first-thread))))
    (let [second-thread (loads other)]
      (is (eventually (halted? second-thread)))
      (deliver go-on true)
      (is (= [42 42] [(deref one 10000 :late) (deref other 10000 :late)])))))
