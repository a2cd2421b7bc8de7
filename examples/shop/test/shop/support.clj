(ns shop.support
  "A shop in this JVM for a test, and a client of it."
  (:require
   [clojure.data.json :as json]
   [magnetar.application :as application]
   [magnetar.http :as http]
   [magnetar.report :as report]
   [shop.app :as app]
   [shop.db :as db])
  (:import
   (java.net URI)
   (java.net.http HttpClient HttpRequest HttpRequest$BodyPublishers HttpResponse HttpResponse$BodyHandlers)
   (java.sql SQLTransientConnectionException)
   (javax.sql DataSource)))

(set! *warn-on-reflection* true)

(defn memory
  "The address of a new database in memory."
  []
  (str "jdbc:h2:mem:shop-" (random-uuid) ";DB_CLOSE_DELAY=-1"))

(defn start
  "Starts a shop on a free port, whose outside services are quick and do not fail; returns :ok or [:error why]."
  [options]
  (application/load (app/application (merge {:port 0 :db (memory) :flaky 0.0 :slow 0 :tell (fn [_])} options)))
  (application/start :shop))

(defn stop
  "Stops the shop."
  []
  (application/stop :shop)
  (application/unload :shop))

(defn call-with-shop
  "Calls f while a shop with the options runs."
  [options f]
  (let [outcome (start options)]
    (try
      (when (not= :ok outcome)
        (throw (ex-info "The shop does not start." {:why outcome})))
      (f)
      (finally (stop)))))

(defmacro with-shop
  "Runs body while a shop with the options runs."
  [options & body]
  `(call-with-shop ~options (fn [] ~@body)))

(defn- hooked [kind f]
  (let [seen (atom [])
        hook (report/add-hook kind #(swap! seen conj %))]
    (try
      (f)
      @seen
      (finally (report/remove-hook kind hook)))))

(defn failures-of
  "Calls f; returns the failures that are reported meanwhile."
  [f]
  (hooked :failure f))

(defn reports-of
  "Calls f; returns what processes of OTP report meanwhile."
  [f]
  (hooked :report f))

(defn open-with-switch
  "A function that opens the database, for the option :open. While the atom is false it cannot be reached."
  [up?]
  (fn [url]
    (let [{:keys [^DataSource datasource]} (db/open url)]
      {:datasource (reify
                     DataSource
                     (getConnection [_]
                       (if @up?
                         (.getConnection datasource)
                         (throw (SQLTransientConnectionException. "down"))))

                     java.io.Closeable
                     (close [_] (.close ^java.io.Closeable datasource)))})))

;; ---- the client

(def ^:private ^HttpClient client (HttpClient/newHttpClient))

(defn url
  "The address of a path of the shop."
  ([path] (url (http/port :shop/web) path))
  ([port path] (str "http://127.0.0.1:" port path)))

(defn- answer [^HttpResponse response]
  {:status (.statusCode response)
   :headers (into {} (map (fn [[k vs]] [k (first vs)])) (.map (.headers response)))
   :body (.body response)})

(defn- send-request [address method body headers]
  (let [builder (HttpRequest/newBuilder (URI/create address))]
    (.method builder method (if body (HttpRequest$BodyPublishers/ofString body) (HttpRequest$BodyPublishers/noBody)))
    (doseq [[k v] headers]
      (.header builder k v))
    (answer (.send client (.build builder) (HttpResponse$BodyHandlers/ofString)))))

(defn get-page
  "The answer to a GET, as {:status :headers :body}."
  ([address] (get-page address nil))
  ([address headers] (send-request address "GET" nil headers)))

(defn request
  "The answer to a request with a text as its body, and perhaps an Idempotency-Key."
  ([address method body] (request address method body nil))
  ([address method body k] (send-request address method body (when k {"Idempotency-Key" k}))))

(defn json-of
  "The JSON of an answer."
  [{:keys [body]}]
  (json/read-str body :key-fn keyword))

(defn order
  "Orders the article; returns the order."
  ([article] (order (url "/orders") article nil))
  ([address article k] (json-of (request address "POST" (json/write-str {:article article}) k))))

(defn messages
  "Waits until the order has ended; returns the messages of its progress."
  [address]
  (map #(:message (json/read-str (second %) :key-fn keyword)) (re-seq #"(?m)^data: (.*)$" (slurp address))))
