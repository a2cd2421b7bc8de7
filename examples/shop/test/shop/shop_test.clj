(ns shop.shop-test
  "The shop, driven over HTTP."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.java.jdbc :as jdbc]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.application :as application]
   [magnetar.http :as http]
   [magnetar.supervisor :as sup]
   [magnetar.telemetry :as telemetry]
   [shop.db :as db]
   [shop.jobs :as jobs]
   [shop.orders :as orders]
   [shop.outside :as outside]
   [shop.progress :as progress]
   [shop.router :as router]
   [shop.support :as support :refer [get-page json-of messages order request url with-shop]])
  (:import
   (com.zaxxer.hikari HikariDataSource HikariPoolMXBean)
   (java.io BufferedReader)
   (java.net Socket)
   (java.util.concurrent CountDownLatch)))

(set! *warn-on-reflection* true)

(def ^:private all-steps
  ["The order is accepted." "The payment has arrived." "The parcel is packed." "The parcel is on its way."])

(deftest an-order-takes-its-steps-while-its-progress-is-streamed
  (with-shop {}
    (let [{:keys [id] :as placed} (order "tea")]
      (is (= {:id 1 :article "tea" :quantity 1 :cents 650 :state "accepted"} placed))
      (is (= all-steps (messages (url (str "/orders/" id "/events")))))
      (is (= "done" (:state (json-of (get-page (url "/orders/1"))))))
      (is (= [(assoc placed :state "done")] (json-of (get-page (url "/orders")))))
      (testing "and is counted"
        (let [{:keys [body]} (get-page (url "/metrics"))]
          (are [line] (str/includes? body line)
            "shop_orders{state=\"done\"} 1\n"
            "shop_jobs{state=\"dead\"} 0\n"
            "shop_calls_total{outcome=\"done\",step=\"mail\"} 1\n"
            "# TYPE magnetar_processes_live gauge\n"))))))

(deftest an-idempotency-key-places-one-order
  (with-shop {}
    (let [answers (mapv deref (mapv (fn [_] (future (request (url "/orders") "POST" "{\"article\": \"cup\"}" "k1"))) (range 8)))]
      (is (= {201 1, 200 7} (frequencies (map :status answers))))
      (is (apply = (map (comp :id json-of) answers)))
      (is (= 1 (count (json-of (get-page (url "/orders"))))))
      (is (= 422 (:status (request (url "/orders") "POST" "{\"article\": \"tea\"}" "k1")))))))

(deftest what-is-wrong-is-said-in-a-sentence
  (with-shop {}
    (are [status sentence method path body] (= [status sentence]
                                               ((juxt :status (comp :error json-of)) (request (url path) method body)))
      400 "The body is not JSON." "POST" "/orders" "{"
      400 "The body is not JSON." "POST" "/orders" ""
      400 "The body is not JSON." "POST" "/orders" "{} {}"
      400 "The body is nested too deep." "POST" "/orders" (apply str (repeat 4000 "["))
      400 "The body has to be a JSON object, as {\"article\": \"tea\"}." "POST" "/orders" "[1]"
      413 "The body has more than 4096 bytes." "POST" "/orders" (apply str (repeat 4097 " "))
      422 "There is no article \"car\"; /articles lists them." "POST" "/orders" "{\"article\": \"car\"}"
      422 "There is no article {\"a\":1}; /articles lists them." "POST" "/orders" "{\"article\": {\"a\": 1}}"
      422 "There is no article null; /articles lists them." "POST" "/orders" "{}"
      422 "The quantity has to be a whole number from 1 to 100." "POST" "/orders" "{\"article\": \"tea\", \"quantity\": \"2\"}"
      422 "The quantity has to be a whole number from 1 to 100." "POST" "/orders" "{\"article\": \"tea\", \"quantity\": null}"
      422 "The quantity has to be a whole number from 1 to 100." "POST" "/orders" "{\"article\": \"tea\", \"quantity\": 0}"
      404 "There is no order 7." "GET" "/orders/7" nil
      404 "There is no order seven." "GET" "/orders/seven/events" nil
      404 "There is no such page." "GET" "/order" nil
      405 "This path takes GET, POST." "DELETE" "/orders" nil)
    (is (= "GET, POST" (get-in (request (url "/orders") "DELETE" nil) [:headers "allow"])))))

(deftest a-service-that-fails-is-called-again
  (with-redefs [jobs/backoff (constantly 0)]
    (let [calls (atom 0)]
      (with-shop {:outside (fn [_ _] (when (< (swap! calls inc) 3) (throw (ex-info "No answer." {}))))}
        (order "honey")
        (is (= (into ["The order is accepted." "No answer. The payment is tried again." "No answer. The payment is tried again."]
                     (rest all-steps))
               (messages (url "/orders/1/events"))))))))

(deftest a-service-that-fails-without-a-word-has-failed
  (with-redefs [jobs/backoff (constantly 0)]
    (doseq [failure [(RuntimeException.) (AssertionError.)]]
      (let [calls (atom 0)]
        (with-shop {:outside (fn [_ _] (when (= 1 (swap! calls inc)) (throw failure)))}
          (order "honey")
          (is (= (str "The service failed with " (.getName (class failure)) ". The payment is tried again.")
                 (second (messages (url "/orders/1/events")))))
          (is (= 4 @calls)))))))

(deftest an-order-that-is-given-up-is-refunded
  (with-redefs [jobs/backoff (constantly 0)]
    (doseq [broken ["payment" "packing" "mail"]]
      (let [calls (atom [])]
        (with-shop {:outside (fn [_ {:keys [step]}]
                               (swap! calls conj step)
                               (when (= broken step)
                                 (throw (ex-info "No answer." {}))))}
          (order "honey")
          (is (= [(str "No answer. The " broken " was given up after 6 attempts. What was paid is returned.")
                  "What was paid has been returned."]
                 (take-last 2 (messages (url "/orders/1/events")))))
          (is (= "refunded" (:state (json-of (get-page (url "/orders/1"))))))
          (is (= [broken "refund"] (take-last 2 @calls)))
          (is (= [[broken "dead" 6 "No answer."]]
                 (map (juxt :step :state :attempts :last_error) (json-of (get-page (url "/jobs")))))))))))

(deftest a-refund-that-fails-too-often-is-left-to-a-person-and-shown
  (with-redefs [jobs/backoff (constantly 0)]
    (with-shop {:outside (fn [_ _] (throw (ex-info "No answer." {})))}
      (order "honey")
      (is (= "No answer. The refund was given up after 6 attempts. The shop will write to you."
             (last (messages (url "/orders/1/events")))))
      (is (= "failed" (:state (json-of (get-page (url "/orders/1"))))))
      (is (= ["payment" "refund"] (map :step (json-of (get-page (url "/jobs"))))))
      (is (str/includes? (:body (get-page (url "/metrics"))) "shop_jobs{state=\"dead\"} 2\n")))))

(deftest a-payment-that-comes-after-its-refund-has-no-effect
  (let [db {:connection-uri (support/memory)}
        call (fn [order-id step] (outside/call {:db db :flaky 0.0 :slow 0} {:order_id order-id :step step}))]
    (db/create-tables db)
    (is (= [true true false] (map call [1 2 1] ["payment" "refund" "payment"])) "a call that is repeated has one effect")
    (is (false? (call 2 "payment")))))

(deftest the-queue-is-bounded
  (let [release (CountDownLatch. 1)]
    (with-shop {:max-queue 2 :outside (fn [_ _] (.await release))}
      (is (= [201 201] (for [k ["a" "b"]] (:status (request (url "/orders") "POST" "{\"article\": \"tea\"}" k)))))
      (let [{:keys [status headers] :as answer} (request (url "/orders") "POST" "{\"article\": \"tea\"}" "c")]
        (is (= [503 "2" "Too many orders wait."] [status (headers "retry-after") (:error (json-of answer))])))
      (is (= 200 (:status (request (url "/orders") "POST" "{\"article\": \"tea\"}" "a"))) "an order that was placed is found")
      (.countDown release))))

(defn- waits-for-a-row?
  "Does a transaction of the database wait for another one?"
  [db-url]
  (seq (jdbc/query {:connection-uri db-url} ["select 1 from information_schema.sessions where blocker_id is not null"])))

(deftest orders-at-once-do-not-pass-the-bound
  (let [db-url (support/memory)
        release (CountDownLatch. 1)
        inserting (atom 0)
        add jobs/add
        place #(future (:status (request (url "/orders") "POST" "{\"article\": \"tea\"}" %)))]
    (with-redefs [jobs/add (fn [& args]
                             (swap! inserting inc)
                             (while (not (or (<= 2 (long @inserting)) (waits-for-a-row? db-url)))
                               (Thread/yield))
                             (apply add args))]
      (with-shop {:db db-url :max-queue 1 :outside (fn [_ _] (.await release))}
        (is (= {201 1, 503 1} (frequencies (map deref (mapv place ["a" "b"])))))
        (is (= 1 (count (json-of (get-page (url "/orders"))))) "the refused one is not there")
        (.countDown release)))))

(deftest an-order-that-has-ended-leaves-its-place
  (with-redefs [jobs/backoff (constantly 0)]
    (doseq [broken [#{} #{"mail"} #{"mail" "refund"}]]
      (with-shop {:max-queue 1 :outside (fn [_ {:keys [step]}] (when (broken step) (throw (ex-info "No answer." {}))))}
        (doseq [id [1 2]]
          (is (= id (:id (order "tea"))))
          (messages (url (str "/orders/" id "/events"))))))))

(deftest the-places-of-a-database-that-had-none-are-counted
  (let [db {:connection-uri (support/memory)}]
    (db/create-tables db)
    (orders/place db "k" "tea" 1 10)
    (jdbc/execute! db ["drop table queue"])
    (dotimes [_ 2] (db/create-tables db))
    (is (= [{:id 1 :waiting 1}] (jdbc/query db ["select id, waiting from queue"])))))

(deftest a-stream-that-was-seen-to-its-end-is-not-opened-again
  (with-shop {}
    (order "tea")
    (messages (url "/orders/1/events"))
    (is (= 204 (:status (support/get-page (url "/orders/1/events") {"Last-Event-ID" "4"}))))
    (is (= 200 (:status (support/get-page (url "/orders/1/events") {"Last-Event-ID" "3"}))))))

(deftest a-stream-that-is-not-read-leaves-no-process
  (with-redefs [progress/poll-ms 20]
    (let [release (CountDownLatch. 1)]
      (with-shop {:outside (fn [_ _] (.await release))}
        (order "tea")
        (is (= 200 (:status (request (url "/orders/1/events") "HEAD" nil))))
        (.close (io/input-stream (url "/orders/1/events")))
        (while (seq (sup/which-children :shop/streams))
          (Thread/onSpinWait))
        (.countDown release)))))

(deftest a-stream-that-is-asked-for-during-a-stop-is-refused
  (let [release (CountDownLatch. 1)]
    (with-shop {:outside (fn [_ _] (.await release))}
      (order "tea")
      (actor/unregister :shop/streams) ; as it is while the port is still open
      (is (= [] (support/failures-of
                  #(let [{:keys [status headers] :as answer} (get-page (url "/orders/1/events"))]
                     (is (= [503 "2" "No more orders can be followed now."]
                            [status (headers "retry-after") (:error (json-of answer))]))))))
      (.countDown release))))

(deftest a-handler-that-fails-is-counted
  (with-redefs [orders/latest (fn [_] (throw (IllegalStateException. "a bug")))]
    (with-shop {}
      (let [failures (support/failures-of #(is (= 500 (:status (get-page (url "/orders"))))))]
        (is (= ["a bug"] (map (comp ex-message :error) failures))))
      (is (str/includes? (:body (get-page (url "/metrics"))) "shop_http_requests_total{status=\"500\"} 1\n")))))

(def ^:private long-query "select count(*) from system_range(1, 20000000000) where mod(x, 3) = 7")

(defn- runs?
  "Does the database run the long query?"
  [db-url]
  (seq (jdbc/query {:connection-uri db-url}
                   ["select 1 from information_schema.sessions where executing_statement like '%where mod(x, 3) = 7'"])))

(deftest a-client-that-leaves-ends-its-query-and-the-pool-has-its-connection-back
  (let [db-url (support/memory)
        pool (promise)
        ended (promise)]
    (with-redefs [orders/latest (fn [db]
                                  (let [^HikariPoolMXBean pool @pool]
                                    (try
                                      (db/query db [long-query])
                                      (finally (deliver ended (.getActiveConnections pool))))))]
      (with-shop {:db db-url
                  :workers 0
                  :open #(let [db (db/open %)]
                           (deliver pool (.getHikariPoolMXBean ^HikariDataSource (:datasource db)))
                           db)}
        (is (= [] (support/failures-of
                    #(with-open [socket (Socket. "127.0.0.1" (int (http/port :shop/web)))]
                       (.write (.getOutputStream socket) (.getBytes "GET /orders HTTP/1.1\r\nHost: test\r\n\r\n"))
                       (while (not (runs? db-url))
                         (Thread/onSpinWait))
                       (.setSoLinger socket true 0) ; a reset
                       (.close socket)
                       (is (= 0 (deref ended 60000 :still-runs)))))))
        (is (= 200 (:status (get-page (url "/health")))))))))

(deftest without-its-database-the-shop-asks-to-come-again-and-goes-on-when-it-is-back
  (let [up? (atom true)]
    (with-shop {:open (support/open-with-switch up?)}
      (reset! up? false)
      (let [{:keys [status headers]} (request (url "/orders") "POST" "{\"article\": \"tea\"}")]
        (is (= [503 "2"] [status (headers "retry-after")])))
      (is (= 503 (:status (get-page (url "/health")))))
      (is (str/includes? (:body (get-page (url "/metrics"))) "shop_database_up 0\n"))
      (reset! up? true)
      (is (= 200 (:status (get-page (url "/health")))))
      (order "tea")
      (is (= all-steps (messages (url "/orders/1/events")))))))

(deftest a-stop-ends-the-streams-then-waits-for-the-jobs-under-way
  (let [called (promise)
        release (CountDownLatch. 1)
        db-url (support/memory)]
    (with-shop {:db db-url :outside (fn [_ _] (deliver called true) (.await release))}
      (order "tea")
      (with-open [stream (io/reader (url "/orders/1/events"))]
        (is (= "id: 1" (.readLine ^BufferedReader stream)))
        (is (= true (deref called 20000 :late)))
        (let [stopped (future (application/stop :shop))]
          (is (string? (slurp stream)) "the stream ends while the job runs")
          (is (not (realized? stopped)))
          (.countDown release)
          (is (= :ok (deref stopped 20000 :late))))))
    (is (= "paid" (:state (orders/by-id {:connection-uri db-url} 1))))
    (is (= [] (jdbc/query {:connection-uri db-url} ["select id from jobs where state = 'running'"])))))

(deftest a-stop-lets-no-worker-claim-another-job
  (let [calls (atom 0)
        all-called (promise)
        release (CountDownLatch. 1)]
    (with-shop {:workers 4 :outside (fn [_ _] (when (= 4 (swap! calls inc)) (deliver all-called true)) (.await release))}
      (dotimes [_ 20] (order "tea"))
      (is (= true (deref all-called 20000 :late)))
      (with-open [stream (io/reader (url "/orders/20/events"))]
        (let [stopped (future (application/stop :shop))]
          (slurp stream)
          (.countDown release)
          (is (= :ok (deref stopped 20000 :late))))))
    (is (= 4 @calls))))

(deftest metrics-are-counted-while-the-shop-runs
  (with-shop {}
    (is (some? (telemetry/metrics))))
  (is (nil? (telemetry/metrics)))
  (let [outcome (promise)]
    (support/reports-of #(deliver outcome (support/start {:db "jdbc:h2:file:"})))
    (support/stop)
    (is (str/includes? (pr-str @outcome) "The database jdbc:h2:file: cannot be opened: ")))
  (is (nil? (telemetry/metrics))))

(deftest a-database-that-refuses-its-tables-is-said-in-a-sentence
  (let [url (support/memory)
        db {:connection-uri url}]
    (jdbc/execute! db ["create table jobs (id int)"])
    (is (thrown-with-msg? clojure.lang.ExceptionInfo #"^The database jdbc:h2:mem:shop-[-0-9a-f]+ cannot be opened: " (db/open url)))))

;; ---- the queue, the router

(deftest a-job-is-claimed-once-and-an-old-claim-changes-nothing
  (let [db {:connection-uri (support/memory)}]
    (db/create-tables db)
    (orders/place db "k" "tea" 1 10)
    (let [first-claim (jobs/claim db)]
      (is (= {:order_id 1 :step "payment" :attempts 1} (select-keys first-claim [:order_id :step :attempts])))
      (is (nil? (jobs/claim db)))
      (testing "after a crash it is claimed when its lease is over"
        (jdbc/update! db :jobs {:due 0} [])
        (let [second-claim (jobs/claim db)]
          (is (= 2 (:attempts second-claim)))
          (orders/step-done db first-claim)
          (is (= "accepted" (:state (orders/by-id db 1))))
          (orders/step-done db second-claim)
          (is (= "paid" (:state (orders/by-id db 1))))
          (orders/step-failed db first-claim "Too late.")
          (is (= "paid" (:state (orders/by-id db 1)))))))))

(deftest another-program-on-the-database-leaves-claimed-jobs-alone
  (let [db-url (support/memory)
        db {:connection-uri db-url}
        called (promise)]
    (db/create-tables db)
    (orders/place db "k" "tea" 1 10)
    (jobs/claim db)
    (with-shop {:db db-url :outside (fn [_ {:keys [order_id]}] (deliver called order_id))}
      (order "tea")
      (messages (url "/orders/2/events"))
      (is (= 2 @called))
      (is (= "accepted" (:state (json-of (get-page (url "/orders/1")))))))))

(deftest labels-of-metrics-are-escaped
  (with-redefs [orders/states ["a\"b\\c\n"]]
    (with-shop {}
      (is (str/includes? (:body (get-page (url "/metrics"))) "shop_orders{state=\"a\\\"b\\\\c\\n\"} 0\n")))))

(deftest a-route-is-found-by-its-method-and-path
  (let [routes [[:get [] :home] [:get ["orders" :id] :show] [:delete ["orders" :id] :cancel]]]
    (are [found method uri] (= found (router/route routes {:request-method method :uri uri}))
      {:method :get :handler :home :parameters {}} :get "/"
      {:method :get :handler :show :parameters {:id "7"}} :head "/orders/7"
      {:method :delete :handler :cancel :parameters {:id "7"}} :delete "/orders/7"
      {:allowed [:get :delete]} :put "/orders/7"
      nil :get "/orders/7/items")))

(deftest the-libraries-are-those-that-its-tests-have
  (let [deps #(edn/read-string (slurp (io/file (System/getProperty "magnetar.home") %)))
        own (:deps (deps "examples/shop/deps.edn"))
        {:keys [shop run]} (:aliases (deps "deps.edn"))
        tested (merge (:extra-deps run) (:extra-deps shop))]
    (is (= [] (remove (fn [[lib version]] (or (= "magnetar" (namespace lib)) (= version (tested lib)))) own)))))
