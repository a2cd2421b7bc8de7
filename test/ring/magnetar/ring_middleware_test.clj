(ns magnetar.ring-middleware-test
  "Middleware of Debian's Ring 1.8.2 around handlers of magnetar.http. The launcher fetches it."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.channel :as channel]
   [magnetar.http :as http]
   [magnetar.impl.runtime]
   [ring.core.protocols :as protocols]
   [ring.middleware.content-type :refer [wrap-content-type]]
   [ring.middleware.cookies :refer [wrap-cookies]]
   [ring.middleware.file :refer [wrap-file]]
   [ring.middleware.flash :refer [wrap-flash]]
   [ring.middleware.head :refer [wrap-head]]
   [ring.middleware.keyword-params :refer [wrap-keyword-params]]
   [ring.middleware.multipart-params :refer [wrap-multipart-params]]
   [ring.middleware.multipart-params.byte-array :refer [byte-array-store]]
   [ring.middleware.nested-params :refer [wrap-nested-params]]
   [ring.middleware.not-modified :refer [wrap-not-modified]]
   [ring.middleware.params :refer [wrap-params]]
   [ring.middleware.resource :refer [wrap-resource]]
   [ring.middleware.session :refer [wrap-session]]
   [ring.middleware.session.cookie :refer [cookie-store]]
   [ring.util.response :as response])
  (:import
   (java.io OutputStream)
   (java.net URI)
   (java.net.http HttpClient HttpClient$Version HttpRequest HttpRequest$BodyPublishers HttpRequest$Builder HttpResponse HttpResponse$BodyHandlers)))

(set! *warn-on-reflection* true)

(defn- server* [handler options f]
  (let [server (http/start handler (merge {:port 0 :host "127.0.0.1"} options))]
    (try
      (f server)
      (finally (http/stop server {:timeout 0})))))

(defmacro ^:private with-server
  "Runs body with a server of the handler."
  [[server handler options] & body]
  `(server* ~handler ~options (fn [~server] ~@body)))

(def ^:private ^HttpClient client (.build (.version (HttpClient/newBuilder) HttpClient$Version/HTTP_1_1)))

(defn- ask
  "{:status :headers :body} of a request, whose headers are a map. Values of headers are vectors."
  ([server method path] (ask server method path nil nil))
  ([server method path headers ^String body]
   (let [request ^HttpRequest$Builder (HttpRequest/newBuilder (URI. (str "http://127.0.0.1:" (http/port server) path)))]
     (doseq [[name value] headers]
       (.header request name value))
     (.method request method (if body (HttpRequest$BodyPublishers/ofString body) (HttpRequest$BodyPublishers/noBody)))
     (let [^HttpResponse got (.send client (.build request) (HttpResponse$BodyHandlers/ofString))]
       {:status (.statusCode got) :headers (into {} (.map (.headers got))) :body (.body got)}))))

(defn- cookie-of
  "What the client sends back for the cookies that it got."
  [{:keys [headers]}]
  (str/join "; " (map #(first (str/split % #";")) (get headers "set-cookie"))))

(defn- shown [f]
  (fn [request]
    {:status 200 :headers {} :body (pr-str (f request))}))

(deftest parameters-of-the-query-and-of-a-form
  (with-server [server (-> (shown :params) wrap-keyword-params wrap-nested-params wrap-params)]
    (is (= {:drink "tea" :cups ["1" "2"]} (read-string (:body (ask server "GET" "/?drink=tea&cups=1&cups=2")))))
    (is (= {:order {:drink "grüner tee"} :id "7"}
           (read-string (:body (ask server "POST" "/?id=7" {"Content-Type" "application/x-www-form-urlencoded"} "order[drink]=gr%C3%BCner+tee")))))))

(deftest a-form-that-is-too-long-is-answered-by-the-server
  (with-server [server (-> (shown :params) wrap-params) {:max-body 10}]
    (is (= 413 (:status (ask server "POST" "/" {"Content-Type" "application/x-www-form-urlencoded"} "drink=black+tea"))))))

(def ^:private parts
  (str/join "\r\n" ["--frontier" "Content-Disposition: form-data; name=\"drink\"" "" "tea"
                    "--frontier" "Content-Disposition: form-data; name=\"bill\"; filename=\"bill.txt\"" "Content-Type: text/plain" "" "3 EUR"
                    "--frontier--" ""]))

(deftest files-of-a-form
  (let [of (fn [{:keys [multipart-params]}]
             (let [{:strs [drink bill]} multipart-params]
               [drink (:filename bill) (:content-type bill) (if (:bytes bill) (String. ^bytes (:bytes bill)) (slurp (:tempfile bill)))]))]
    (doseq [options [{} {:store (byte-array-store)}]]
      (with-server [server (-> (shown of) (wrap-multipart-params options))]
        (is (= ["tea" "bill.txt" "text/plain" "3 EUR"]
               (read-string (:body (ask server "POST" "/" {"Content-Type" "multipart/form-data; boundary=frontier"} parts)))))))))

(deftest cookies-go-both-ways
  (with-server [server (-> (fn [{:keys [cookies]}]
                             {:status 200 :headers {} :body (pr-str (update-vals cookies :value))
                              :cookies {"drink" {:value "black tea" :path "/" :http-only true :max-age 60} "cups" "2"}})
                           wrap-cookies)]
    (let [{:keys [headers body] :as got} (ask server "GET" "/")]
      (is (= {} (read-string body)))
      (is (= 2 (count (get headers "set-cookie"))))
      (is (some #(str/includes? % "HttpOnly") (get headers "set-cookie")))
      (is (= {"drink" "black tea" "cups" "2"} (read-string (:body (ask server "GET" "/" {"Cookie" (cookie-of got)} nil))))))))

(deftest a-session-is-kept
  (doseq [options [{} {:store (cookie-store {:key (.getBytes "16 bytes of key.")})}]]
    (with-server [server (-> (fn [{:keys [session flash]}]
                               (let [n (inc (:n session 0))]
                                 {:status 200 :headers {} :body (pr-str [n flash]) :session {:n n} :flash (str "visit " n)}))
                             wrap-flash (wrap-session options))]
      (let [one (ask server "GET" "/")
            two (ask server "GET" "/" {"Cookie" (cookie-of one)} nil)]
        (is (= [[1 nil] [2 "visit 1"]] (map (comp read-string :body) [one two])))
        (is (= [1 nil] (read-string (:body (ask server "GET" "/")))))))))

(deftest files-and-resources-are-sent-once
  (doseq [wrap [#(wrap-resource % "public") #(wrap-file % (str (System/getProperty "magnetar.home") "/test/ring/public"))]]
    (with-server [server (-> (fn [_] (response/not-found "not here")) wrap wrap-content-type wrap-not-modified wrap-head)]
      (let [{:keys [status headers body]} (ask server "GET" "/orders.txt")
            [modified] (get headers "last-modified")]
        (is (= [200 ["text/plain"] ["9"] "tea\nmilk\n"] [status (get headers "content-type") (get headers "content-length") body]))
        (is (= [304 ""] ((juxt :status :body) (ask server "GET" "/orders.txt" {"If-Modified-Since" modified} nil))))
        (is (= [200 ""] ((juxt :status :body) (ask server "HEAD" "/orders.txt"))))
        (is (= 400 (:status (ask server "GET" "/../orders.txt")))) ; by Jetty
        (is (= [404 "not here"] ((juxt :status :body) (ask server "GET" "/none"))))))))

(defrecord Greeting [name])

(extend-protocol protocols/StreamableResponseBody
  Greeting
  (write-body-to-stream [greeting _ ^OutputStream out]
    (.write out (.getBytes (str "hello " (:name greeting))))
    (.close out)))

(deftest bodies-are-written-by-rings-protocol
  (let [ch #(doto (channel/chan {:size 2}) (channel/put "a") (channel/put "b") (channel/close))]
    (with-server [server (fn [{:keys [uri]}]
                           (response/content-type
                             (response/response (case uri
                                                  "/ring" (->Greeting "ada")
                                                  "/channel" (ch)
                                                  "/seq" (map str [1 2])
                                                  "/events" (:body (http/events (ch)))))
                             "text/plain"))]
      (testing "by the server"
        (is (= ["hello ada" "ab" "12" "data: a\n\ndata: b\n\n"] (map #(:body (ask server "GET" %)) ["/ring" "/channel" "/seq" "/events"]))))
      (testing "by middleware"
        (doseq [[body text] [[(ch) "ab"] [(:body (http/events (ch))) "data: a\n\ndata: b\n\n"]]
                :let [out (java.io.ByteArrayOutputStream.)]]
          (protocols/write-body-to-stream body {:status 200 :headers {}} out)
          (is (= text (str out))))))))
