(ns magnetar.drivers.sqlite-test
  "SQLite on fibers: its driver is native code."
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.drivers.servers :as servers]
   [magnetar.drivers.support :refer [cancelled-in eventually execute holds-carrier-in? many parked-in? ping-pong value with-fibers]]
   [magnetar.scope :as scope])
  (:import
   (java.io File)
   (java.sql Connection DriverManager)))

(set! *warn-on-reflection* true)

(defn- connect ^Connection [^File folder]
  (doto (DriverManager/getConnection (str "jdbc:sqlite:" (io/file folder "jobs.db")))
    (execute "pragma busy_timeout = 60000")))

(defn- with-writer
  "Calls f with the folder of a database that a transaction of the writer, the second argument, has locked."
  [f]
  (let [folder (servers/new-folder)]
    (try
      (with-open [writer (connect folder)]
        (execute writer "create table jobs (id int)")
        (execute writer "begin immediate")
        (f folder writer))
      (finally (servers/delete-folder folder)))))

(def ^:private insert "insert into jobs values (1)")

(defn- steps?
  "Is the thread in the native code that runs a statement?"
  [^Thread thread]
  (and (holds-carrier-in? "org.sqlite" thread)
       (= "step" (some-> ^StackTraceElement (first (.getStackTrace thread)) .getMethodName))))

(deftest a-fiber-that-waits-for-a-writer-holds-its-carrier
  (with-writer
    (fn [folder writer]
      (with-fibers 1
                   #(with-open [connection (connect folder)] (execute connection insert))
                   (fn [[thread]]
                     (is (eventually (steps? thread)))
                     (execute writer "commit"))))))

(deftest fibers-that-offload-hold-no-carrier
  (with-writer
    (fn [folder writer]
      (with-fibers many
                   (fn [] (scope/offload #(with-open [connection (connect folder)] (execute connection insert))))
                   (fn [threads]
                     (is (eventually (every? #(parked-in? "magnetar.kernel.scope.Offload" %) threads)))
                     (is (= 1000 (ping-pong)))
                     (execute writer "commit")))
      (is (= many (value writer "select count(*) from jobs"))))))

(def ^:private count-sql
  "with recursive numbers(n) as (select 1 union all select n + 1 from numbers limit 200000000) select count(*) from numbers")

(defn- count-gently [^Connection connection thread]
  (with-open [statement (.createStatement connection)]
    (scope/with-cancel #(.cancel statement)
      (deliver thread (Thread/currentThread))
      (.executeQuery statement count-sql))))

(deftest a-cancelled-query-keeps-its-connection
  (with-writer
    (fn [folder _]
      (with-open [connection (connect folder)]
        (let [thread (promise)]
          (is (= :cancelled (:status (cancelled-in #(and (realized? thread) (steps? @thread))
                                                   (fn [] (scope/offload count-gently connection thread))))))
          (is (= 0 (value connection "select count(*) from jobs"))))))))

(deftest an-interrupt-does-not-end-a-query
  (with-writer
    (fn [folder writer]
      (with-open [connection (connect folder)]
        (scope/with-scope [s]
          (let [thread (promise)
                f (scope/fork s (fn []
                                  (deliver thread (Thread/currentThread))
                                  (execute connection insert)))]
            (is (eventually (and (realized? thread) (steps? @thread))))
            (scope/cancel f)
            (is (steps? @thread))
            (execute writer "commit")
            (is (eventually (not= :running (:status (scope/result f)))))))
        (is (= 1 (value connection "select count(*) from jobs")))))))

(defn- insert-gently [^Connection connection thread called]
  (with-open [statement (.createStatement connection)]
    (scope/with-cancel* #(do (.cancel statement) (deliver called true))
      #(do (deliver thread (Thread/currentThread)) (.execute statement insert))
      {:timeout :infinity})))

(deftest a-wait-for-a-writer-ends-with-the-writer-also-after-cancel
  (with-writer
    (fn [folder writer]
      (with-open [connection (connect folder)]
        (scope/with-scope [s]
          (let [[thread called] (repeatedly promise)
                f (scope/fork s insert-gently connection thread called)]
            (is (eventually (and (realized? thread) (steps? @thread))))
            (scope/cancel f)
            (is (true? @called))
            (is (steps? @thread))
            (execute writer "commit")
            (is (eventually (not= :running (:status (scope/result f)))))
            (is (= (if (= :success (:status (scope/result f))) 1 0)
                   (value connection "select count(*) from jobs"))
                "the row is there if the statement succeeded, and only then")))))))
