(ns magnetar.drivers.redis-test
  "Redis on fibers, with Jedis and its pool."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.drivers.servers :as servers]
   [magnetar.drivers.support :refer [as-cancelled cancelled-in eventually many parked-in? ping-pong why-stuck with-fibers]]
   [magnetar.scope :as scope])
  (:import
   (org.apache.commons.pool2.impl GenericObjectPoolConfig)
   (redis.clients.jedis Jedis JedisPool)))

(set! *warn-on-reflection* true)

(def ^:private ^:dynamic *port* nil)

(use-fixtures :once
  (fn [f]
    (let [{:keys [port stop]} (servers/start-redis)]
      (try
        (binding [*port* port] (f))
        (finally (stop))))))

(defn- connect ^Jedis []
  (Jedis. "127.0.0.1" (int *port*)))

(defn- open-pool ^JedisPool [size]
  (JedisPool. (doto (GenericObjectPoolConfig.) (.setMaxTotal size) (.setMaxIdle size)) "127.0.0.1" (int *port*)))

(defn- id
  "The number of the next connection of the pool."
  [^JedisPool pool]
  (with-open [jedis (.getResource pool)]
    (.clientId jedis)))

(defn- waiting
  "How many clients wait for an element of a list."
  [^Jedis jedis]
  (parse-long (second (re-find #"blocked_clients:(\d+)" (.info jedis "clients")))))

(defn- take-job [^Jedis jedis]
  (.blpop jedis 0 ^"[Ljava.lang.String;" (into-array ["jobs"])))

(defn- take-gently [^JedisPool pool]
  (with-open [jedis (.getResource pool)]
    (let [id (.clientId jedis)]
      (scope/with-cancel #(with-open [other (connect)] (.clientUnblock other id))
        (take-job jedis)))))

(deftest fibers-that-wait-for-redis-hold-no-carrier
  (with-open [pool (open-pool many)
              other (connect)]
    (with-fibers many
                 #(with-open [jedis (.getResource pool)] (take-job jedis))
                 (fn [threads]
                   (is (eventually (= many (waiting other))))
                   (is (eventually (every? #(parked-in? "redis.clients.jedis" %) threads)))
                   (is (= 1000 (ping-pong)))
                   (dotimes [_ many] (.rpush other "jobs" ^"[Ljava.lang.String;" (into-array ["job"])))))))

(deftest a-cancelled-command-closes-its-connection-and-the-pool-opens-another
  (with-open [pool (open-pool 1)
              other (connect)]
    (let [before (id pool)]
      (is (= :cancelled
             (:status (cancelled-in #(= 1 (waiting other))
                                    (fn [] (as-cancelled #(with-open [jedis (.getResource pool)] (take-job jedis))))))))
      (is (not= before (id pool)))
      (testing "the server notices at once"
        (is (eventually (zero? (long (waiting other)))))))))

(deftest client-unblock-keeps-the-connection
  (with-open [pool (open-pool 1)
              other (connect)]
    (let [before (id pool)]
      (is (= :success (:status (cancelled-in #(= 1 (waiting other)) #(take-gently pool))))
          "the command returns nil as after its time-out, and the fork ends with that")
      (is (= before (id pool))))))

(deftest a-wait-for-a-connection-of-jedis-pool-is-explained
  (with-open [pool (open-pool 1)
              _ (.getResource pool)]
    (is (re-find #"^fork \S+ waits at Pool.java:\d+ for a connection, or another object, of a pool\.$"
                 (why-stuck #(= 1 (.getNumWaiters pool)) #(.close (.getResource pool)))))))
