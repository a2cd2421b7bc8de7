(ns shop.shop-test
  "The shop, driven over HTTP."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.java.jdbc :as jdbc]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.application :as application]
   [shop.db :as db]
   [shop.jobs :as jobs]
   [shop.orders :as orders]
   [shop.router :as router]
   [shop.support :as support :refer [get-page json-of messages order request url with-shop]])
  (:import
   (java.io BufferedReader)
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
      422 "There is no article \"car\"; /articles lists them." "POST" "/orders" "{\"article\": \"car\"}"
      422 "There is no article nil; /articles lists them." "POST" "/orders" "{}"
      422 "The quantity has to be a whole number from 1 to 100." "POST" "/orders" "{\"article\": \"tea\", \"quantity\": 0}"
      404 "There is no order 7." "GET" "/orders/7" nil
      404 "There is no order seven." "GET" "/orders/seven/events" nil
      404 "There is no such page." "GET" "/order" nil
      405 "This path has another method." "DELETE" "/orders" nil)
    (is (= "GET, POST" (get-in (request (url "/orders") "DELETE" nil) [:headers "allow"])))))

(deftest a-service-that-fails-is-called-again
  (with-redefs [jobs/backoff (constantly 0)]
    (let [calls (atom 0)]
      (with-shop {:outside (fn [_ _] (when (< (swap! calls inc) 3) (throw (ex-info "No answer." {}))))}
        (order "honey")
        (is (= (into ["The order is accepted." "No answer. The payment is tried again." "No answer. The payment is tried again."]
                     (rest all-steps))
               (messages (url "/orders/1/events"))))))))

(deftest a-job-that-fails-too-often-is-dead-and-its-order-has-failed
  (with-redefs [jobs/backoff (constantly 0)]
    (with-shop {:outside (fn [_ _] (throw (ex-info "No answer." {})))}
      (order "honey")
      (is (= "No answer. The payment was given up after 6 attempts." (last (messages (url "/orders/1/events")))))
      (is (= "failed" (:state (json-of (get-page (url "/orders/1"))))))
      (is (str/includes? (:body (get-page (url "/metrics"))) "shop_jobs{state=\"dead\"} 1\n")))))

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
    (is (contains? #{"paid" "packed" "done"} (:state (orders/by-id {:connection-uri db-url} 1))))
    (is (= [] (jdbc/query {:connection-uri db-url} ["select id from jobs where state = 'running'"])))))

;; ---- the queue, the router

(deftest a-job-is-claimed-once-and-an-old-claim-settles-nothing
  (let [db {:connection-uri (support/memory)}]
    (db/create-tables db)
    (orders/place db "k" "tea" 1)
    (let [first-claim (jobs/claim db)]
      (is (= {:order_id 1 :step "payment" :attempts 1} (select-keys first-claim [:order_id :step :attempts])))
      (is (nil? (jobs/claim db)))
      (testing "after a kill it is taken back"
        (jobs/take-back db)
        (let [second-claim (jobs/claim db)]
          (is (= 2 (:attempts second-claim)))
          (orders/step-done db first-claim)
          (is (= "accepted" (:state (orders/by-id db 1))))
          (orders/step-done db second-claim)
          (is (= "paid" (:state (orders/by-id db 1))))))
      (testing "or when its lease is over"
        (let [{:keys [id]} (jobs/claim db)]
          (jdbc/update! db :jobs {:due 0} ["id = ?" id])
          (is (= [id 2] ((juxt :id :attempts) (jobs/claim db)))))))))

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
