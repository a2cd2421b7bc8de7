(ns magnetar.compat.http-client-test
  "com.cognitect/http-client, written for core.async, on magnetar-core-async."
  (:require
   [clojure.core.async :as a :refer [<! <!! alt! go]]
   [clojure.test :refer [deftest is use-fixtures]]
   [cognitect.http-client :as http]
   [magnetar.compat.loopback :as loopback :refer [with-server]])
  (:import
   (java.util.concurrent CountDownLatch TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private ^:dynamic *client* nil)

(defn- with-client [config f]
  (let [client (http/create config)]
    (try
      (binding [*client* client] (f))
      (finally (http/stop client)))))

(use-fixtures :each #(with-client {} %))

(defn- request [port path & {:as more}]
  (merge {:scheme :http, :server-name "localhost", :server-port port, :uri path, :request-method :get} more))

(defn- echo [{:keys [path body]}]
  {:status 200, :body (str path " " body), :headers {"X-Kind" "echo"}})

(deftest a-response-comes-on-the-channel
  (with-server [port echo]
    (let [response (<!! (http/submit *client* (request port "/a" :request-method :post :body (loopback/buffer "hello"))))]
      (is (= 200 (:status response)))
      (is (= "echo" (get-in response [:headers "x-kind"])))
      (is (= "/a hello" (loopback/text (:body response)))))))

(deftest a-channel-of-the-program-takes-the-responses-through-its-transducer
  (with-server [port echo]
    (let [texts (a/chan 10 (map (comp loopback/text :body)))]
      (doseq [path ["/1" "/2" "/3"]]
        (http/submit *client* (request port path) texts))
      (is (= #{"/1 " "/2 " "/3 "} (<!! (a/into #{} (a/take 3 texts))))))))

(deftest two-hundred-go-blocks-each-wait-for-a-response
  (with-server [port echo]
    (with-client {:pending-ops-limit 1000}
      (fn []
        (let [client *client*
              answers (mapv #(go (:status (<! (http/submit client (request port (str "/" %)))))) (range 200))]
          (is (= {200 200} (frequencies (map <!! answers)))))))))

(deftest a-go-block-chooses-between-a-response-and-a-time-limit
  (let [late (CountDownLatch. 1)]
    (with-server [port (fn [_] (.await late 30 TimeUnit/SECONDS) {:status 200})]
      (let [response (http/submit *client* (request port "/slow"))]
        (is (= :late (<!! (go (alt! response ([r] (:status r)) (a/timeout 20) :late)))))
        (.countDown late)
        (is (= 200 (:status (<!! response))))))))

(deftest failures-come-as-anomalies
  (let [response (<!! (http/submit *client* (request (loopback/refused-port) "/")))]
    (is (= :cognitect.anomalies/unavailable (:cognitect.anomalies/category response)))))

(deftest beyond-its-limit-the-client-says-that-it-is-busy
  (let [late (CountDownLatch. 1)]
    (with-server [port (fn [_] (.await late 30 TimeUnit/SECONDS) {:status 200})]
      (with-client {:pending-ops-limit 20}
        (fn []
          (let [slow (vec (repeatedly 20 #(http/submit *client* (request port "/slow"))))]
            (is (= :cognitect.anomalies/busy
                   (:cognitect.anomalies/category (<!! (http/submit *client* (request port "/"))))))
            (.countDown late)
            (is (= {200 20} (frequencies (map (comp :status <!!) slow))))))))))
