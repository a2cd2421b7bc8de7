(ns magnetar.cluster.spawn-test
  "Processes that a node starts on another one: the context that they have, and what is left when the caller waits no longer."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.simulated :refer [start]]
   [magnetar.scope :as scope]
   [magnetar.scope.context :as context]
   [magnetar.test :as mt])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(context/defcontext user "nobody")

(defn- tell-user [to]
  (! to [:user @user]))

(defn- wait-for-end []
  (receive :end nil))

(defn- on-two-nodes
  "What f returns as a process of the node a, when it is connected with b."
  [f]
  (let [net (mt/network {:latency [10 20]})]
    (run! #(start net % {:spawnable #{#'tell-user #'wait-for-end}}) [:a :b])
    (mt/wait-until #(mt/on-node :a (fn [] (seq (cluster/nodes)))) {:timeout 60000})
    (mt/on-node :a #(actor/with-process {:trap-exit true} (f)))))

(deftest a-process-has-the-context-values-of-its-caller
  (is (= ["ada" "nobody"]
         (mt/simulate {:seed 1}
           (on-two-nodes (fn []
                           (let [ask #(do (cluster/spawn "b@sim" #'tell-user [(self)])
                                          (receive [:user x] x))]
                             [(context/with-context [user "ada"] (ask)) (ask)])))))))

(defn- given-up
  "What a spawn has returned, or :late, and a while after it the next message and the links of its caller."
  [limit]
  (let [got (try
              (scope/with-scope [_ {:deadline limit}]
                (cluster/spawn "b@sim" #'wait-for-end [] {:link true :monitor true}))
              (catch ExceptionInfo _ :late))]
    (scope/sleep 1000)
    [got (receive x x (after 0 :nothing)) (actor/process-info (self) :links)]))

(deftest a-spawn-that-takes-too-long-leaves-nothing
  (doseq [limit [15 30 60]]
    (let [[got left links] (mt/simulate {:seed 1} (on-two-nodes #(given-up limit)))]
      (if (= :late got)
        (is (= [:nothing []] [left links]))
        (is (= [:nothing 1] [left (count links)]))))))
