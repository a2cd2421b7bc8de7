(ns magnetar.cluster.registry-nodes-test
  "A registry of all nodes, and a task of another node, over JGroups, on two JVMs of which one is killed."
  {:slow true
   :wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.nodes :as nodes :refer [on]]
   [magnetar.cluster.simulated :as simulated]
   [magnetar.cluster.support :as support]
   [magnetar.registry :as registry]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(defn- options [name peers]
  {:name name :cookie support/cookie :peers peers :detect {:after 8000 :every 2000}})

(def ^:private services
  "A form that starts the registry :bus with an entry, and the task supervisor :workers."
  '(spawn (fn []
            (magnetar.registry/start-link {:keys :duplicate :name :bus :nodes :all})
            (magnetar.task.supervisor/start-link {:name :workers})
            (magnetar.registry/register :bus :orders {:node (magnetar.actor/node)})
            (receive :never nil))))

(def ^:private on-both
  "A form whose value is the nodes of the values under the key, when there are two."
  '(mt/wait-until #(let [all (when (magnetar.actor/whereis :bus) (magnetar.registry/lookup :bus :orders))]
                     (when (= 2 (count all)) (set (map (comp :node second) all))))
                  {:timeout support/limit-ms}))

(defn- start-there [child address]
  (on child '(require 'magnetar.cluster 'magnetar.registry 'magnetar.task.supervisor))
  (on child '(defn twice [x] (* 2 x)))
  (is (= :ok (on child (list 'first (list 'magnetar.cluster/start (assoc (options "b@test" [address])
                                                                         :spawnable #{'(var twice) '(var idle)}))))))
  (on child (list 'do services :started)))

(defn- run-killed [b]
  (start-there b (cluster/address))
  (registry/start-link {:keys :duplicate :name :bus :nodes :all})
  (registry/register :bus :orders {:node (actor/node)})
  (is (= #{"a@test" "b@test"} (on b on-both)))
  (is (mt/wait-until #(= 2 (count (registry/lookup :bus :orders))) {:timeout support/limit-ms}))
  (is (= 42 (task/await (tasks/async [:workers "b@test"] 'magnetar.cluster.nodes/twice {:args [21]}))))
  (let [idle (tasks/async-nolink [:workers "b@test"] 'magnetar.cluster.nodes/idle)]
    (nodes/end b)
    (is (= [:exit :noconnection] (task/yield idle {:timeout support/limit-ms})))
    (is (= ["a@test"] (map (comp :node second) (registry/lookup :bus :orders))))))

(deftest entries-and-tasks-of-a-killed-node-end
  (let [b (nodes/jvm)]
    (try
      (simulated/silently
        #(actor/with-process {}
           (is (= :ok (first (cluster/start (options "a@test" [])))))
           (try
             (run-killed b)
             (finally (cluster/stop)))))
      (finally (nodes/end b)))))
