(ns tickets.tickets-test
  "The node that has the office is killed, suspended and cut off: another one takes over, and no number is sold twice."
  {:slow true
   :limit 300000
   :wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [tickets.main :as main]
   [tickets.report :as report])
  (:import
   (java.io StringWriter)))

(set! *warn-on-reflection* true)

(defn- struck
  "The summary after the fault has struck the node with the office, and if another node had it then."
  [fault]
  (let [moved (promise)
        summary (main/with-nodes
                  (fn [world]
                    (let [before (main/office world)]
                      (main/strike world before fault)
                      (deliver moved (not= before (main/office world))))))]
    [summary @moved]))

(deftest another-node-takes-over
  (doseq [fault (keys main/faults)]
    (let [printed (StringWriter.)
          [summary moved?] (binding [*out* printed] (struck fault))]
      (is (report/good? summary) (str fault "\n" printed))
      (is moved? (str fault "\n" printed)))))
