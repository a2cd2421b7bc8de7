(ns magnetar.drivers.postgres-test
  "PostgreSQL on fibers: pgjdbc by itself, with HikariCP and with java.jdbc."
  (:require
   [clojure.java.jdbc :as jdbc]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.drivers.servers :as servers]
   [magnetar.drivers.support :refer [cancelled-in eventually execute many parked-in? ping-pong value why-stuck with-fibers]]
   [magnetar.http :as http]
   [magnetar.scope :as scope :refer [fork with-scope]])
  (:import
   (com.zaxxer.hikari HikariConfig HikariDataSource)
   (java.net Socket)
   (java.sql Connection DriverManager PreparedStatement)
   (javax.sql DataSource)
   (org.postgresql PGConnection)))

(set! *warn-on-reflection* true)

(def ^:private ^:dynamic *url* nil)

(use-fixtures :once
  (fn [f]
    (let [{:keys [url stop]} (servers/start-postgres)]
      (try
        (binding [*url* url] (f))
        (finally (stop))))))

(defn- connect ^Connection []
  (DriverManager/getConnection *url*))

(defn- open-pool
  (^HikariDataSource [] (open-pool 1 ""))
  (^HikariDataSource [size settings]
   (HikariDataSource.
     (doto (HikariConfig.)
       (.setPoolName "orders")
       (.setJdbcUrl (str *url* settings))
       (.setMaximumPoolSize size)))))

(defn- pid
  "The number of the server's process for the next connection of the pool."
  [^DataSource pool]
  (with-open [connection (.getConnection pool)]
    (value connection "select pg_backend_pid()")))

(defn- waiting
  "How many queries wait for a lock, as another connection sees it."
  [connection]
  (value connection "select count(*) from pg_stat_activity where wait_event = 'advisory'"))

(defn- runs?
  "Does the server still run a query of this process?"
  [connection pid]
  (pos? (long (value connection (str "select count(*) from pg_stat_activity where state = 'active' and pid = " pid)))))

(defn- with-lock
  "Calls f with a connection that holds the lock for which `wait-for-lock` waits."
  [f]
  (with-open [holder (connect)]
    (value holder "select pg_advisory_lock(7)")
    (f holder)))

(def ^:private lock-sql "select pg_advisory_xact_lock(7)")

(defn- wait-for-lock [connection]
  (execute connection lock-sql))

(defn- wait-gently [^Connection connection]
  (with-open [statement (.createStatement connection)]
    (scope/with-cancel #(.cancel statement)
      (.execute statement lock-sql))))

(defn- cancel-waiting
  "Cancels work that waits for the lock."
  [holder work]
  (cancelled-in #(= 1 (waiting holder)) work))

(deftest fibers-that-wait-for-a-query-hold-no-carrier
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool many "")]
        (with-fibers many
                     #(with-open [connection (.getConnection pool)] (wait-for-lock connection))
                     (fn [threads]
                       (is (eventually (= many (waiting holder))))
                       (is (eventually (every? #(parked-in? "org.postgresql" %) threads)))
                       (is (= 1000 (ping-pong)))
                       (value holder "select pg_advisory_unlock(7)")))))))

(deftest a-cancelled-query-closes-its-connection-and-the-pool-opens-another
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool)]
        (let [before (pid pool)
              {:keys [status]} (cancel-waiting holder #(with-open [c (.getConnection pool)] (wait-for-lock c)))]
          (is (= :cancelled status))
          (is (not= before (pid pool)))
          (testing "the server goes on with the query"
            (is (runs? holder before)))
          (value holder "select pg_advisory_unlock(7)")
          (is (eventually (not (runs? holder before)))))))))

(deftest the-server-ends-the-query-of-a-closed-connection-if-it-is-told-to-look
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool 1 "&options=-c%20client_connection_check_interval=100")]
        (let [before (pid pool)]
          (cancel-waiting holder #(with-open [c (.getConnection pool)] (wait-for-lock c)))
          (is (eventually (not (runs? holder before)))))))))

(deftest with-cancel-keeps-the-connection-in-the-pool
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool)]
        (let [before (pid pool)
              {:keys [status error]} (cancel-waiting holder #(with-open [c (.getConnection pool)] (wait-gently c)))]
          (is (= :cancelled status) (str error))
          (is (= before (pid pool)))
          (is (not (runs? holder before))))))))

(defn- ask
  "A socket that has sent a GET to the server."
  ^Socket [server]
  (let [socket (Socket. "127.0.0.1" (int (http/port server)))]
    (.write (.getOutputStream socket) (.getBytes "GET /orders HTTP/1.1\r\nHost: shop.test\r\n\r\n"))
    socket))

(deftest a-client-of-http-that-leaves-during-a-query-gives-its-connection-back
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool)]
        (let [before (pid pool)
              server (http/start (fn [_]
                                   (with-open [connection (.getConnection pool)]
                                     (wait-gently connection)
                                     {:status 200}))
                                 {:port 0 :host "127.0.0.1" :request-timeout 1000000})]
          (try
            (with-open [_ (ask server)]
              (is (eventually (= 1 (waiting holder)))))
            (is (eventually (zero? (.getActiveConnections (.getHikariPoolMXBean pool)))))
            (is (= before (pid pool)))
            (is (not (runs? holder before)))
            (is (eventually (= {:running 0 :waiting 0} (select-keys (http/status server) [:running :waiting]))))
            (finally (http/stop server {:timeout 0}))))))))

(defn- roll-back [^Connection connection ^Throwable t]
  (try
    (scope/shield
      (with-scope [_ {:deadline 20000}]
        (.rollback connection)))
    (catch Exception e (.addSuppressed t e))))

(defn- order-and-wait
  "Inserts a row, waits for the lock, and rolls back if it does not get it."
  [^DataSource pool]
  (with-open [connection (.getConnection pool)]
    (.setAutoCommit connection false)
    (try
      (with-open [statement (.createStatement connection)]
        (scope/with-cancel #(.cancel statement)
          (execute connection "insert into orders values (1)")
          (.execute statement lock-sql)
          (.commit connection)))
      (catch Throwable t
        (roll-back connection t)
        (throw t)))))

(deftest a-rollback-in-a-shield-keeps-the-connection
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool)]
        (execute holder "create table orders (id int)")
        (let [before (pid pool)
              {:keys [status]} (cancel-waiting holder #(order-and-wait pool))]
          (is (= :cancelled status))
          (is (= before (pid pool)))
          (is (zero? (long (value holder "select count(*) from orders"))))
          (is (zero? (long (value holder "select count(*) from pg_locks where relation = 'orders'::regclass")))))
        (execute holder "drop table orders")))))

(deftest a-cancellation-that-comes-during-a-shield-keeps-the-connection
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool)]
        (let [before (pid pool)]
          (with-scope [s]
            (let [f (fork s #(with-open [c (.getConnection pool)]
                               (scope/shield (wait-for-lock c))))]
              (is (eventually (= 1 (waiting holder))))
              (scope/cancel f)
              (value holder "select pg_advisory_unlock(7)")
              (scope/join f)))
          (is (= before (pid pool))))))))

(deftest the-exception-of-a-cancelled-query-is-the-cause-of-the-cancellation
  (with-lock
    (fn [holder]
      (with-open [connection (connect)]
        (let [{:keys [status error]} (cancel-waiting holder #(wait-gently connection))]
          (is (= :cancelled status))
          (is (= "ERROR: canceling statement due to user request" (ex-message (ex-cause error)))))))))

(deftest a-connection-without-a-pool-is-closed-or-kept
  (with-lock
    (fn [holder]
      (with-open [broken (connect)
                  kept (connect)]
        (cancel-waiting holder #(wait-for-lock broken))
        (is (.isClosed broken))
        (value holder "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'advisory'")
        (is (eventually (zero? (long (waiting holder)))))
        (let [before (value kept "select pg_backend_pid()")]
          (cancel-waiting holder #(wait-gently kept))
          (is (= before (value kept "select pg_backend_pid()"))))))))

(deftest java-jdbc-cancels-a-prepared-statement
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool)]
        (let [before (pid pool)]
          (is (= :cancelled
                 (:status (cancel-waiting holder
                            (fn []
                              (jdbc/with-db-connection [db {:datasource pool}]
                                (with-open [^PreparedStatement statement (jdbc/prepare-statement (jdbc/get-connection db) lock-sql)]
                                  (scope/with-cancel #(.cancel statement)
                                    (jdbc/query db [statement])))))))))
          (is (= before (pid pool))))))))

(defn- transact [^DataSource pool]
  (with-open [connection (.getConnection pool)]
    (scope/with-cancel #(.cancelQuery ^PGConnection (.unwrap connection PGConnection))
      (jdbc/with-db-transaction [db {:connection connection}]
        (jdbc/execute! db ["create table sent (id int)"])
        (jdbc/query db [lock-sql])))))

(deftest java-jdbc-rolls-back-before-the-interrupt-in-a-with-cancel-around-the-transaction
  (with-lock
    (fn [holder]
      (with-open [pool (open-pool)]
        (let [before (pid pool)]
          (is (= :cancelled (:status (cancel-waiting holder #(transact pool)))))
          (is (= before (pid pool)))
          (is (nil? (value holder "select to_regclass('sent')"))))))))

(deftest a-wait-for-a-connection-of-the-pool-is-explained
  (with-open [pool (open-pool)
              _ (.getConnection pool)]
    (let [waits? #(= 1 (.getThreadsAwaitingConnection (.getHikariPoolMXBean pool)))
          text (why-stuck waits? #(.close (.getConnection pool)))]
      (is (re-find #"^fork \S+ waits at postgres_test.clj:\d+ for a connection of the pool \"orders\", whose connection is held by a thread that is not known\.$"
                   text)))))
