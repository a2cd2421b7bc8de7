(ns magnetar.compat.aws-api-test
  "com.cognitect.aws/api, written for core.async, on magnetar-core-async, against a server on loopback."
  (:require
   [clojure.core.async :as a :refer [<!!]]
   [clojure.test :refer [deftest is testing]]
   [cognitect.aws.client.api :as aws]
   [cognitect.aws.client.api.async :as aws-async]
   [cognitect.aws.credentials :as credentials]
   [magnetar.compat.loopback :refer [with-server]]))

(set! *warn-on-reflection* true)

(def ^:private buckets
  "<?xml version=\"1.0\"?>
   <ListAllMyBucketsResult>
     <Owner><ID>1</ID></Owner>
     <Buckets>
       <Bucket><Name>red</Name><CreationDate>2024-01-01T00:00:00.000Z</CreationDate></Bucket>
       <Bucket><Name>blue</Name><CreationDate>2024-01-02T00:00:00.000Z</CreationDate></Bucket>
     </Buckets>
   </ListAllMyBucketsResult>")

(def ^:private no-such-key
  "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>none</Message></Error>")

(defn- storage [{:keys [path]}]
  (case path
    "/" {:status 200, :body buckets, :headers {"Content-Type" "application/xml"}}
    "/red/greeting" {:status 200, :body "hello", :headers {"Content-Type" "text/plain"}}
    {:status 404, :body no-such-key, :headers {"Content-Type" "application/xml"}}))

(defn- client [port http-client]
  (aws/client {:api :s3
               :region "us-east-1"
               :http-client http-client
               :credentials-provider (credentials/basic-credentials-provider
                                       {:access-key-id "key", :secret-access-key "secret"})
               :endpoint-override {:protocol :http, :hostname "localhost", :port port}}))

(def ^:private http-clients '[cognitect.aws.http.java/create cognitect.aws.http.cognitect/create])

(defn- names [response]
  (mapv :Name (:Buckets response)))

(deftest invoke-gives-the-data-of-the-response
  (doseq [http-client http-clients]
    (testing http-client
      (with-server [port storage]
        (let [s3 (client port http-client)]
          (is (= ["red" "blue"] (names (aws/invoke s3 {:op :ListBuckets}))))
          (is (= "hello" (slurp (:Body (aws/invoke s3 {:op :GetObject, :request {:Bucket "red", :Key "greeting"}})))))
          (is (= :cognitect.anomalies/not-found
                 (:cognitect.anomalies/category
                   (aws/invoke s3 {:op :GetObject, :request {:Bucket "red", :Key "other"}})))))))))

(deftest invoke-in-the-background-gives-a-channel
  (with-server [port storage]
    (let [s3 (client port (first http-clients))
          mine (a/chan 1)]
      (is (= ["red" "blue"] (names (<!! (aws-async/invoke s3 {:op :ListBuckets})))))
      (aws-async/invoke s3 {:op :ListBuckets, :ch mine})
      (is (= ["red" "blue"] (names (<!! mine))))
      (is (= (repeat 50 2)
             (map #(count (names (<!! %))) (repeatedly 50 #(aws-async/invoke s3 {:op :ListBuckets}))))))))

(deftest a-busy-service-is-asked-again-after-a-pause
  (let [asked (atom 0)]
    (with-server [port (fn [request]
                         (if (< (long (swap! asked inc)) 3) {:status 503} (storage request)))]
      (is (= ["red" "blue"] (names (aws/invoke (client port (first http-clients)) {:op :ListBuckets, :backoff (constantly 1)}))))
      (is (= 3 @asked)))))

(deftest a-request-that-does-not-fit-is-refused
  (with-server [port storage]
    (let [s3 (client port (first http-clients))]
      (aws/validate-requests s3 true)
      (is (= :cognitect.anomalies/incorrect
             (:cognitect.anomalies/category (aws/invoke s3 {:op :GetObject, :request {:Bucket 1}})))))))
