(ns magnetar.cluster.leak-test
  "Nodes that join and leave leave no thread and no descriptor behind."
  {:slow true
   :wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.cluster.leaks :refer [eventually-empty more objects sockets threads]]
   [magnetar.cluster.support :refer [await-view leave limit-ms node place refused-connection with-refusals]]))

(set! *warn-on-reflection* true)

(defn- join-and-leave [{:keys [address] :as anchor} n]
  (dotimes [_ n]
    (let [b (node "b" :peers [address])]
      (await-view b ["a" "b"])
      (leave b)
      (await-view anchor ["a"]))))

(def ^:private times-joined 100)

(deftest joining-and-leaving-leaves-nothing-behind
  (with-refusals
    (let [warm (node "a")]
      (join-and-leave warm 2)
      (leave warm))
    (is (= [] (eventually-empty threads)))
    (let [before (sockets)
          before-objects (objects)
          a (node "a")]
      (is (seq (threads)) "a dump shows threads of the cluster")
      (is (< before (sockets)))
      (join-and-leave a times-joined)
      (dotimes [_ 20]
        (refused-connection (:address a)))
      (leave a)
      (is (= [] (eventually-empty threads)))
      (is (= [] (eventually-empty #(when (< before (sockets)) [(sockets)]))))
      (is (= [] (eventually-empty #(more before-objects)))))))

(deftest a-join-that-fails-leaves-nothing-behind
  (let [a (node "a")
        before (sockets)]
    (dotimes [_ 5]
      (is (thrown? java.io.IOException (node "b" :port (.getPort (place (:address a)))))))
    (is (= [] (eventually-empty #(when (< before (sockets)) [(sockets)]))))
    (leave a)
    (is (= [] (eventually-empty threads)))))

(deftest a-join-that-is-interrupted-leaves-nothing-behind
  (let [ended (promise)
        thread (Thread/startVirtualThread #(deliver ended (try (node "a" :discover 3000) (catch InterruptedException _ :interrupted))))]
    (loop [] (when (empty? (threads)) (recur)))
    (.interrupt thread)
    (is (= :interrupted (deref ended limit-ms :waits)))
    (is (= [] (eventually-empty threads)))))
