(ns magnetar.cluster.global-nodes-test
  "Global names on nodes in JVMs of their own, over JGroups."
  {:slow true
   :wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.nodes :as nodes :refer [on]]
   [magnetar.cluster.support :as support]
   [magnetar.gen-server :as gs]
   [magnetar.global :as global]))

(set! *warn-on-reflection* true)

(def ^:private detect
  "Longer than a busy machine holds up an answer."
  {:after 4000 :every 1000})

(defn- start-here []
  (is (= :ok (first (cluster/start {:name "a@test" :cookie support/cookie :detect detect}))))
  (cluster/address))

(defn- start-there [child name address]
  (is (= :ok (on child `(do
                          (require '[magnetar.cluster] '[magnetar.gen-server] '[magnetar.global])
                          (first (cluster/start {:name ~name :cookie ~support/cookie :detect ~detect :peers [~address]})))))))

(defn- until [f]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long support/limit-ms)))]
    (loop []
      (or (f)
          (when (neg? (- (System/nanoTime) deadline))
            (Thread/yield)
            (recur))))))

(defn- idle []
  (spawn (fn [] (receive :never nil))))

(def ^:private server-there
  "Starts a server with a global name, which says on which node it is."
  '(first (magnetar.gen-server/start {:init (fn [_] [:ok nil])
                                      :handle-call (fn [_ _ s] [:reply (magnetar.actor/node) s])}
                                     nil {:name [:global :where]})))

(defn- names-of-three [b c]
  (let [address (start-here)]
    (start-there b "b@test" address)
    (start-there c "c@test" address)
    (is (until #(= ["b@test" "c@test"] (cluster/nodes))))
    (is (= :ok (on b server-there)))
    (is (= "b@test" (gs/call [:global :where] :x) (on c '(magnetar.gen-server/call [:global :where] :x))))
    (is (= :no (global/register-name :where (idle))))
    (is (= :no (on c '(magnetar.global/register-name :where (spawn idle)))))
    (nodes/end b)
    (is (until #(= ["c@test"] (cluster/nodes))))
    (is (until #(nil? (global/whereis-name :where))))
    (is (true? (on c '(mt/wait-until #(nil? (magnetar.global/whereis-name :where)) {:timeout support/limit-ms}))))
    (is (= :yes (global/register-name :where (idle))))
    (is (= "a@test" (on c '(magnetar.actor/node (magnetar.global/whereis-name :where)))))
    (is (= :locked (actor/with-process {} (global/trans [:stock :a] (fn [] :locked)))))))

(deftest names-are-known-on-three-jvms-and-free-when-one-is-killed
  (let [[b c :as children] (vec (repeatedly 2 #(nodes/jvm "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC")))]
    (try
      (support/with-refusals
        (try
          (names-of-three b c)
          (finally
            (global/unregister-name :where)
            (cluster/stop))))
      (finally
        (run! nodes/end children)))))
