(ns magnetar.faults.shop-test
  "The example shop, whose database writes each commit to its file, and what is done to it. One test has a PostgreSQL that goes away."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.drivers.servers :as servers]
   [magnetar.faults.client :as client]
   [magnetar.faults.disk :as disk]
   [magnetar.faults.fault :as fault :refer [withstand withstand-flood]]
   [magnetar.faults.server :as server]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

;; ---- a client that remembers what was acknowledged

(def ^:private shop (atom nil))
(def ^:private folder (atom nil))
(def ^:private acknowledged "Ids of orders." (atom #{}))

(defn- order-text [k & headers]
  (str (apply client/get-text "POST" "/orders" "Content-Length: 17" (str "Idempotency-Key: " k) headers) "{\"article\":\"tea\"}"))

(defn- place-order
  "The id of a new order; another answer as it is."
  [socket k]
  (client/send-all socket (order-text k))
  (let [[status body :as answer] (client/read-response socket)]
    (or (when (= 201 status)
          (some-> (re-find #"\"id\":(\d+)" body) second parse-long))
        answer)))

(defn- place [socket _]
  (let [id (place-order socket (random-uuid))]
    (if (int? id)
      (boolean (swap! acknowledged conj id))
      [:got id])))

(defn- lost
  "The ids of which the shop at the port has no order."
  [port ids]
  (with-open [socket (client/connect port)]
    (let [found (fn [ids]
                  (client/send-all socket (apply str (map #(client/get-text "GET" (str "/orders/" %)) ids)))
                  (zipmap ids (repeatedly (count ids) #(first (client/read-response socket)))))
          there (into {} (map found) (partition-all 20 ids))]
      (remove #(= 200 (there %)) ids))))

(defn- start-on [database]
  (server/start "shop" "--port" "0" "--db" database "--slow" "20" "--flaky" "0.1" "--max-queue" "100000"))

(defn- start [folder]
  (start-on (str "jdbc:h2:async:" folder "/shop")))

(use-fixtures :once (fault/with-server-on-disk "The example shop" shop folder start place))

;; ---- clients

(deftest slow-orders
  (let [head (client/get-text "POST" "/orders" "Content-Length: 4000")
        answers (withstand @shop "100 clients send an order a byte at a time" "408 after the 30 s of its `:request-timeout`" nil
                           (fn [port at-peak]
                             (let [looked (delay (future (at-peak 100)))]
                               (client/dribble port 100 head "x" #(do @looked false)))))]
    ;; a byte that arrives after the end resets the connection, and a client may not see its answer then
    (is (= #{"HTTP/1.1 408"} (set (remove #{""} (map #(if (string? %) (subs % 0 (min 12 (count %))) %) (keys answers)))))
        (pr-str answers))))

(deftest connects-and-resets
  (let [texts [(constantly "") order-text #(str/replace (order-text %) "tea\"}" "")
               (fn [_] (client/get-text "GET" "/orders/1/events")) (fn [_] (client/get-text "GET" "/orders"))]]
    (withstand-flood @shop "1,000 connections are reset, at five places of an order, a page and a stream" "ends them; an order is there or not" nil
      (fn [port]
        (client/in-parallel 1000 (fn [i]
                                   (doto (client/connect port)
                                     (client/send-all ((texts (rem (long i) 5)) (str "reset-" i)))
                                     (client/reset))))))))

(deftest garbage
  (let [answers (withstand-flood @shop "200 bodies of garbage, and too long ones" "400 or 413" nil
                  (fn [port]
                    (client/in-parallel 200 (fn [i]
                                              (let [n (if (even? (long i)) 3000 100000)]
                                                (client/exchange port (str (client/get-text "POST" "/orders" (str "Content-Length: " n) "Connection: close")
                                                                           (String. (client/garbage i n) "ISO-8859-1"))))))))]
    (is (every? (fn [[text end]] (or (re-find #"^HTTP/1.1 4(00|13) " text) (= ["" :reset] [text end]))) answers)
        (pr-str (distinct (map (fn [[text end]] [(subs text 0 (min 60 (count text))) end]) answers))))))

(deftest nothing-acknowledged-is-lost-by-kill-9
  (server/kill @shop)
  (fault/with-port (start @folder) #(is (= [] (lost % @acknowledged))))
  (fault/print-row "then SIGKILL, and a start" "takes up its jobs" (str "all " (count @acknowledged) " acknowledged orders are there")))

;; ---- SIGTERM under load

(defn- order-until-ended
  "Places orders until the shop takes no more: the ids of the acknowledged ones, and the last answer. The atom counts the orders."
  [port total]
  (loop [ids []]
    (let [answer (try
                   (with-open [socket (client/connect port)] (place-order socket (random-uuid)))
                   (catch java.net.ConnectException _ :refused)
                   (catch java.io.IOException _ :reset))]
      (if (int? answer)
        (do (swap! total inc)
            (recur (conj ids answer)))
        [ids (if (vector? answer) (first answer) answer)]))))

(deftest sigterm-under-load
  (disk/with-folder
    (fn [folder]
      (let [total (atom 0)
            {:keys [took clients]} (fault/terminate-under-load (start folder) {:n 20 :busy? #(<= 60 (long @total)) :most-ms 20000}
                                     (fn [port _] (order-until-ended port total)))
            ids (mapcat first clients)
            ends (map second clients)]
        (fault/with-port (start folder) #(is (= [] (lost % ids))))
        (is (every? #{:refused :reset 503} ends) (str/join "\n" (distinct ends)))
        (fault/print-row "SIGTERM while 20 clients place orders" (str "ends jobs and requests under way, with exit code 0 after " took " ms")
                         (str "all " (count ids) " acknowledged orders are there after a start; the clients' next orders: "
                              (fault/in-words ends)))))))

;; ---- a database that goes away

(defn- see-page [socket _]
  (client/send-all socket (client/get-text "GET" "/"))
  (let [[status page :as answer] (client/read-response socket)]
    (or (and (= 200 status) (str/includes? page "</html>"))
        [:got answer])))

(defn- page [port path]
  (first (client/exchange port (client/get-text "GET" path "Connection: close"))))

(defn- jobs-have-ended? [port]
  (let [metrics (page port "/metrics")]
    (every? #(str/includes? metrics (str "shop_jobs{state=\"" % "\"} 0\n")) ["ready" "running"])))

(defn- place-some
  "The ids of 20 new orders."
  [port]
  (with-open [socket (client/connect port)]
    (vec (repeatedly 20 #(place-order socket (random-uuid))))))

(defn- answers-to-orders
  "The answers to 20 orders that come at once."
  [port]
  (client/in-parallel 20 (fn [_] (first (client/exchange port (order-text (random-uuid) "Connection: close"))))))

(defn- without-database
  "Lets the database crash and start again; returns what the shop answers meanwhile, and whether it is there afterwards."
  [{:keys [crash start-again]} port at-peak]
  (crash)
  (let [begin (System/nanoTime)
        asked (future (answers-to-orders port))
        _ (at-peak)
        orders @asked
        took (quot (- (System/nanoTime) begin) 1000000)
        metrics (page port "/metrics")]
    (start-again)
    {:orders orders
     :took took
     :metrics metrics
     :back? (mt/wait-until #(str/starts-with? (page port "/health") "HTTP/1.1 200 ") {:timeout 30000 :else false})}))

(defn- withstand-crash
  "Checks what the shop answers while its database has crashed; returns the ids of orders that were placed before."
  [running database]
  (let [ids (atom [])
        {:keys [orders took metrics back?]}
        (withstand running "PostgreSQL crashes, and starts again" "shows its page; orders get 503 until the database is there" nil
                   (fn [port at-peak]
                     (reset! ids (place-some port))
                     (without-database database port at-peak)))]
    (is (every? #(re-find #"(?s)^HTTP/1.1 503 .*\r\n(?i)retry-after: 2\r\n" %) orders) (first orders))
    (is (str/includes? metrics "shop_database_up 0\n"))
    (is back?)
    (fault/print-row "20 orders come meanwhile" (str "503 with `Retry-After`, the last one after " took " ms")
                     "the metrics say `shop_database_up 0`")
    @ids))

(defn- on-crashing-database [{:keys [url] :as database}]
  (let [{:keys [port] :as running} (fault/warmed-up (start-on url) see-page)]
    (try
      (let [ids (into (withstand-crash running database) (place-some port))]
        (is (mt/wait-until #(jobs-have-ended? port) {:timeout 60000 :else false}))
        (is (= [] (lost port ids)))
        (fault/print-row "then its jobs" "claims them again, when the lease of a claim is over"
                         (str "all " (count ids) " acknowledged orders are there, and have ended")))
      (finally (server/kill running)))))

(if @servers/postgres?
  (deftest a-database-that-goes-away
    (let [{:keys [stop] :as database} (servers/start-postgres)]
      (try
        (on-crashing-database database)
        (finally (stop)))))
  (println "A database that goes away is not tested here: it needs PostgreSQL, of Debian's package postgresql."))
