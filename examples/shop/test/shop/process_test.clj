(ns shop.process-test
  "The shop as a program: its command line, kill -9, SIGTERM."
  {:slow true}
  (:require
   [clojure.java.io :as io]
   [clojure.java.jdbc :as jdbc]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is]]
   [shop.main :as main]
   [shop.program :as program]
   [shop.support :as support])
  (:import
   (java.net InetAddress ServerSocket)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)))

(set! *warn-on-reflection* true)

(deftest a-wrong-command-line-is-answered-in-a-sentence
  (are [words sentence] (str/includes? (:error (main/plan words)) sentence)
    ["--port" "70000"] "it must be a whole number from 0 to 65535"
    ["--db" "shop.db"] "it must begin with jdbc:h2: or jdbc:postgresql:"
    ["--flaky" "2"]    "it must be a number from 0 to 1"
    ["--workers" "0"]  "it must be a whole number from 1 to 100"
    ["--max-queue" "0"] "it must be a whole number from 1 to 1000000"
    ["--sideways"]     "Unknown option: \"--sideways\""
    ["now"]            "There is no argument \"now\""))

(defn- new-database []
  (str "jdbc:h2:async:" (Files/createTempDirectory "shop" (make-array FileAttribute 0)) "/shop"))

(defn- ids-of [db ks]
  (let [id-of (into {} (map (juxt :idempotency_key :id)) (jdbc/query db ["select id, idempotency_key from orders"]))]
    (map id-of ks)))

(defn- await-ends
  "Waits until each order has ended: the stream of its progress ends then. An id may be free, of a key that was there."
  [port]
  (let [greatest (:id (first (support/json-of (support/get-page (support/url port "/orders")))))]
    (doseq [id (range 1 (inc (long greatest)))]
      (support/get-page (support/url port (str "/orders/" id "/events"))))))

(deftest ^{:limit 400000} each-accepted-order-ends-once-though-the-program-is-killed
  (let [db (new-database)
        options ["--db" db "--slow" "50" "--flaky" "0.3"]
        killed (apply program/start options)
        port (program/port killed)
        placed (future (program/place-orders port "a" 200))]
    (support/order (support/url port "/orders") "tea" "first")
    (slurp (support/url port "/orders/1/events")) ; one order has ended, others are under way
    (program/kill killed)
    (let [accepted @placed
          again (apply program/start options)
          port (program/port again)
          more (program/place-orders port "a" 10)] ; the same keys once more
      (is (<= 1 (count accepted) 200))
      (is (= 10 (count more)))
      (await-ends port)
      (is (= 0 (program/terminate again)) "SIGTERM stops it in order")
      (let [url {:connection-uri db}
            orders (jdbc/query url ["select id, state from orders"])
            ended (jdbc/query url ["select order_id from events where state in ('done', 'refunded', 'failed')"])
            charged (set (map :id (jdbc/query url ["select id from effects"])))]
        (is (every? some? (ids-of url accepted)) "no accepted order is lost")
        (is (every? #{"done" "refunded" "failed"} (map :state orders)))
        (is (= (sort (map :id orders)) (sort (map :order_id ended))) "each has ended once")
        (is (every? #(charged (str "order-" (:id %) "-payment")) (filter #(= "done" (:state %)) orders)))
        (is (every? #(charged (str "order-" (:id %) "-refund")) (filter #(= "refunded" (:state %)) orders)))))))

(deftest ^{:limit 300000} sigterm-under-load-ends-in-order
  (let [db (new-database)
        running (program/start "--db" db "--slow" "300")
        port (program/port running)
        _ (support/order (support/url port "/orders") "tea" "first")
        placed (future (program/place-orders port "b" 100))]
    (with-open [stream (io/reader (support/url port "/orders/1/events"))]
      (is (= 0 (program/terminate running)))
      (is (<= 0 (count @placed) 100))
      (is (str/starts-with? (slurp stream) "id: 1\n") "the stream ends")
      (is (= [] (jdbc/query {:connection-uri db} ["select id from jobs where state = 'running'"]))
          "jobs under way have ended or are in the queue"))))

(deftest ^{:limit 200000} a-shop-that-cannot-start-says-why
  (with-open [socket (ServerSocket. 0 1 (InetAddress/getByName "127.0.0.1"))]
    (let [{:keys [output] :as program} (program/start "--db" (support/memory) "--port" (str (.getLocalPort socket)))
          lines (slurp output)]
      (is (= 1 (program/wait-for program)))
      (is (str/includes? lines "another socket has that port")))))
