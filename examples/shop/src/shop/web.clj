(ns shop.web
  "The handlers: plain functions of a request that block where they wait."
  (:require
   [clojure.data.json :as json]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.http :as http]
   [shop.db :as db]
   [shop.jobs :as jobs]
   [shop.metrics :as metrics]
   [shop.orders :as orders]
   [shop.progress :as progress]
   [shop.router :as router]
   [shop.workers :as workers])
  (:import
   (java.io InputStream)
   (java.nio.charset StandardCharsets)))

(set! *warn-on-reflection* true)

;; ---- responses

(defn- json-response [status value]
  {:status status
   :headers {"Content-Type" "application/json" "Cache-Control" "no-store"}
   :body (str (json/write-str value :escape-slash false) "\n")})

(defn- error [status sentence]
  (json-response status {:error sentence}))

(defn- refuse
  "Ends the request with this status and sentence."
  [status & words]
  (throw (ex-info (apply str words) {::status status})))

(defn- unavailable [sentence]
  (assoc-in (error 503 sentence) [:headers "Retry-After"] "2"))

;; ---- what a request says

(def ^:private ^:const longest-body "In bytes." 4096)

(defn- text-of [{:keys [body]}]
  (let [bytes (.readNBytes ^InputStream body (inc longest-body))]
    (if (< longest-body (alength bytes))
      (refuse 413 "The body has more than " longest-body " bytes.")
      (String. bytes StandardCharsets/UTF_8))))

(defn- body-of [request]
  (let [text (text-of request)
        value (try
                (json/read-str text :extra-data-fn json/on-extra-throw)
                (catch Exception _ (refuse 400 "The body is not JSON."))
                (catch StackOverflowError _ (refuse 400 "The body is nested too deep.")))]
    (if (map? value)
      value
      (refuse 400 "The body has to be a JSON object, as {\"article\": \"tea\"}."))))

(defn- article-of [{:strs [article]}]
  (if (orders/article article)
    article
    (refuse 422 "There is no article " (json/write-str article) "; /articles lists them.")))

(defn- quantity-of [{:strs [quantity] :or {quantity 1}}]
  (if (and (int? quantity) (<= 1 (long quantity) 100))
    quantity
    (refuse 422 "The quantity has to be a whole number from 1 to 100.")))

(defn- key-of
  "The Idempotency-Key of the request, else one of its own."
  [{{k "idempotency-key"} :headers}]
  (cond
    (str/blank? k) (str (random-uuid))
    (< 200 (count k)) (refuse 400 "The Idempotency-Key has more than 200 characters.")
    :else k))

(defn- order-of [{:keys [db]} {{:keys [id]} :parameters}]
  (or (some->> (parse-long id) (orders/by-id db))
      (refuse 404 "There is no order " id ".")))

;; ---- handlers

(defn- show-page [_ _]
  {:status 200 :headers {"Content-Type" "text/html; charset=utf-8"} :body (slurp (io/resource "shop/page.html"))})

(defn- list-articles [_ _]
  (json-response 200 orders/articles))

(defn- list-orders [{:keys [db]} _]
  (json-response 200 (orders/latest db)))

(defn- placed [status {:keys [id] :as order}]
  (assoc-in (json-response status order) [:headers "Location"] (str "/orders/" id)))

(defn- place-order [{:keys [db max-queue] :as shop} request]
  (let [body (body-of request)
        article (article-of body)
        quantity (quantity-of body)
        [how order] (orders/place db (key-of request) article quantity max-queue)]
    (case how
      :new (do (workers/wake shop)
               (placed 201 order))
      :old (if (= [article quantity] [(:article order) (:quantity order)])
             (placed 200 order)
             (refuse 422 "The Idempotency-Key belongs to another order."))
      :full (unavailable "Too many orders wait."))))

(defn- show-order [shop request]
  (json-response 200 (order-of shop request)))

(defn- follow-order
  "The progress as a stream. 204 tells a browser that has seen all of it to connect no more."
  [{:keys [db] :as shop} {:keys [headers] :as request}]
  (let [{:keys [id state]} (order-of shop request)
        last-id (or (some-> (headers "last-event-id") parse-long) 0)]
    (if (and (orders/ended? state) (empty? (orders/events db id last-id)))
      {:status 204}
      (if-some [ch (progress/start-follower shop id last-id)]
        (http/events ch)
        (unavailable "No more orders can be followed now.")))))

(defn- list-jobs [{:keys [db]} _]
  (json-response 200 (jobs/open-jobs db)))

(defn- show-metrics [shop _]
  {:status 200 :headers {"Content-Type" "text/plain; version=0.0.4; charset=utf-8"} :body (metrics/text shop)})

(defn- show-health [{:keys [db]} _]
  (db/query db ["select 1"])
  (json-response 200 {:database "up"}))

(def ^:private routes
  [[:get [] show-page]
   [:get ["articles"] list-articles]
   [:get ["orders"] list-orders]
   [:post ["orders"] place-order]
   [:get ["orders" :id] show-order]
   [:get ["orders" :id "events"] follow-order]
   [:get ["jobs"] list-jobs]
   [:get ["metrics"] show-metrics]
   [:get ["health"] show-health]])

;; ---- all requests

(defn- not-allowed [methods]
  (assoc-in (error 405 (str "This path takes " methods "."))
            [:headers "Allow"] methods))

(defn- respond [shop request]
  (let [{:keys [handler parameters allowed]} (router/route routes request)]
    (cond
      handler (handler shop (assoc request :parameters parameters))
      allowed (not-allowed (str/upper-case (str/join ", " (map name allowed))))
      :else (error 404 "There is no such page."))))

(defn- respond-or-say-why
  "The response. What is not expected is thrown: the server answers 500, and reports it."
  [shop request]
  (try
    (respond shop request)
    (catch Exception e
      (let [status (::status (ex-data e))]
        (cond
          status (error status (ex-message e))
          (db/gone? e) (unavailable "The database cannot be reached.")
          :else (throw e))))))

(defn- count-response [{:keys [counters]} status]
  (metrics/add counters "shop_http_requests_total" {:status status}))

(defn handler
  "The function of a request, for `http/start-link`."
  [shop]
  (fn [request]
    (let [{:keys [status] :as response} (try
                                          (respond-or-say-why shop request)
                                          (catch Exception e ; a cancellation is not an Exception
                                            (count-response shop 500)
                                            (throw e)))]
      (count-response shop status)
      response)))
