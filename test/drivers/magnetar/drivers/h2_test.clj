(ns magnetar.drivers.h2-test
  "H2 in the program itself, on fibers."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.drivers.servers :as servers]
   [magnetar.drivers.support :refer [as-cancelled cancelled-in eventually execute many parked-in? ping-pong value with-fibers]]
   [magnetar.scope :as scope])
  (:import
   (java.sql Connection DriverManager)))

(set! *warn-on-reflection* true)

(defn- connect ^Connection [url]
  (DriverManager/getConnection url "sa" ""))

(defn- with-row-lock
  "Calls f with the URL of a database in memory, and with the connection that has locked its only row."
  [f]
  (let [url (str "jdbc:h2:mem:" (random-uuid) ";LOCK_TIMEOUT=60000")]
    (with-open [holder (connect url)]
      (execute holder "create table items (id int primary key, stock int)")
      (execute holder "insert into items values (7, 0)")
      (.setAutoCommit holder false)
      (execute holder "update items set stock = 100")
      (f url holder))))

(def ^:private take-one "update items set stock = stock - 1")

(defn- calls?
  "Is a method whose full name begins like this on the stack of the thread that was promised?"
  [method thread]
  (and (realized? thread)
       (some #(str/starts-with? (str (.getClassName ^StackTraceElement %) "." (.getMethodName ^StackTraceElement %)) method)
             (.getStackTrace ^Thread @thread))))

(defn- waits-for-lock? [thread]
  (and (calls? "org.h2.mvstore.tx.Transaction" thread) (parked-in? "org.h2" @thread)))

(deftest fibers-that-wait-for-a-row-hold-no-carrier
  (with-row-lock
    (fn [url ^Connection holder]
      (with-fibers many
                   #(with-open [connection (connect url)] (execute connection take-one))
                   (fn [threads]
                     (is (eventually (every? #(parked-in? "org.h2" %) threads)))
                     (is (= 1000 (ping-pong)))
                     (.commit holder)))
      (is (= (- 100 (long many)) (value holder "select stock from items"))))))

(deftest an-interrupt-ends-the-wait-for-a-row-and-keeps-the-connection
  (with-row-lock
    (fn [url _]
      (with-open [connection (connect url)]
        (let [thread (promise)]
          (is (= :cancelled (:status (cancelled-in #(waits-for-lock? thread)
                                                   (fn []
                                                     (deliver thread (Thread/currentThread))
                                                     (as-cancelled #(execute connection take-one)))))))
          (is (= 0 (value connection "select stock from items"))))))))

(defn- count-gently [^Connection connection thread]
  (with-open [statement (.createStatement connection)]
    (scope/with-cancel #(.cancel statement)
      (deliver thread (Thread/currentThread))
      (.executeQuery statement "select count(*) from system_range(1, 100000000) where mod(x, 3) = 7"))))

(deftest a-cancelled-query-keeps-its-connection
  (with-row-lock
    (fn [url _]
      (with-open [connection (connect url)]
        (let [thread (promise)]
          (is (= :cancelled (:status (cancelled-in #(calls? "org.h2.table.TableFilter.next" thread)
                                                   #(count-gently connection thread)))))
          (is (= 0 (value connection "select stock from items"))))))))

(def ^:private sum-sql "select sum(length(note)) from notes")

(defn- with-file
  "Calls f with the URL of a database in a file, which H2 reads again for each query. `prefix` names a file system of H2."
  [prefix f]
  (let [folder (servers/new-folder)
        url (str "jdbc:h2:" prefix folder "/notes;CACHE_SIZE=0")]
    (try
      (with-open [connection (connect url)]
        (execute connection "create table notes (note varchar) as select space(500) from system_range(1, 20000)"))
      (f url)
      (finally (servers/delete-folder folder)))))

(defn- read-when-cancelled
  "How a query ends that reads the file in a fork that was cancelled before."
  [connection]
  (scope/with-scope [s]
    (let [started (promise)
          f (scope/fork s (fn []
                            (deliver started true)
                            (while (not (.isInterrupted (Thread/currentThread))) (Thread/onSpinWait))
                            (try
                              (value connection sum-sql)
                              (catch java.sql.SQLException _ :refused))))]
      @started
      (scope/cancel f)
      (scope/join f))))

(deftest an-interrupt-that-meets-a-read-of-the-file-ends-the-database-for-all
  (with-file ""
    (fn [url]
      (with-open [connection (connect url)
                  other (connect url)]
        (is (= :refused (read-when-cancelled connection)))
        (is (thrown-with-msg? java.sql.SQLException #"Reading from file .* failed" (value other sum-sql))))
      (with-open [connection (connect url)]
        (is (= 10000000 (long (value connection sum-sql))) "all connections were closed, and the database opened again")))))

(deftest an-interrupt-does-not-meet-the-file-with-the-prefix-async
  (with-file "async:"
    (fn [url]
      (with-open [connection (connect url)]
        (is (= 10000000 (long (read-when-cancelled connection))))
        (is (= 10000000 (long (value connection sum-sql))))))))
