(ns magnetar.cluster.group-nodes-test
  "Groups over JGroups, on three JVMs of which one is killed."
  {:slow true
   :wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.nodes :as nodes :refer [on]]
   [magnetar.cluster.support :as support]
   [magnetar.pg :as pg]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(defn- options [name peers]
  {:name name :cookie support/cookie :peers peers :detect {:after 8000 :every 2000}})

(defn- counts
  "A form whose value is how many members of the group each node has, when (good? value) is true of it."
  [good?]
  (list 'mt/wait-until
        (list 'fn [] (list 'let ['n '(frequencies (map magnetar.actor/node (magnetar.pg/members :workers)))]
                           (list 'when (list good? 'n) 'n)))
        {:timeout support/limit-ms}))

(defn- idle-members
  "A form that lets n new processes join."
  [n]
  (list 'magnetar.pg/join :workers (list 'vec (list 'repeatedly n '#(spawn (fn [] (receive :never nil)))))))

(defn- start-there [child name address n]
  (on child '(require 'magnetar.cluster 'magnetar.pg))
  (is (= :ok (on child (list 'first (list 'magnetar.cluster/start (options name [address]))))))
  (on child (idle-members n)))

(defn- here-when [expected]
  (mt/wait-until #(= expected (frequencies (map actor/node (pg/members :workers)))) {:timeout support/limit-ms :else nil}))

(defn- run-killed [b c]
  (let [address (cluster/address)]
    (start-there b "b@test" address 2)
    (start-there c "c@test" address 3)
    (is (here-when {"b@test" 2 "c@test" 3}))
    (is (= {"b@test" 2 "c@test" 3} (on b (counts '#(= 5 (reduce + (vals %)))))))
    (let [[ref _] (pg/monitor :workers)]
      (nodes/end c)
      (is (= 3 (count (receive [ref :leave :workers gone] gone))))
      (is (= ["b@test"] (distinct (map actor/node (pg/members :workers)))))
      (is (= {"b@test" 2} (on b (counts '#(= 2 (reduce + (vals %)))))))
      (pg/demonitor ref))))

(deftest members-of-a-killed-node-leave
  (let [[b c :as children] [(nodes/jvm) (nodes/jvm)]]
    (try
      (actor/with-process {}
        (is (= :ok (first (cluster/start (options "a@test" [])))))
        (try
          (run-killed b c)
          (finally (cluster/stop))))
      (finally (run! nodes/end children)))))
