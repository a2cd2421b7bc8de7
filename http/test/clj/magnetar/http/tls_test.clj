(ns magnetar.http.tls-test
  "Servers with TLS: what a handler sees, certificates that are renewed or refused, and clients that do not do their part."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.dev.certificates :as certificates]
   [magnetar.http :as http]
   [magnetar.http.support :refer [client connect eventually fetch limit-ms read-rest request request-text send-text tls value-of with-failures with-server]]
   [magnetar.http.tls :as http-tls]
   [magnetar.impl.runtime]
   [magnetar.net.contexts :as contexts]
   [magnetar.scope :as scope])
  (:import
   (java.io File IOException)
   (java.net Socket)
   (java.net.http HttpClient HttpResponse HttpResponse$BodyHandlers)
   (java.nio.file Files StandardCopyOption)
   (java.nio.file.attribute FileAttribute)
   (java.security.cert Certificate CertificateFactory X509Certificate)
   (java.util HashMap)
   (javax.net.ssl SSLHandshakeException SSLPeerUnverifiedException SSLSession)))

(set! *warn-on-reflection* true)

(defn- ok [_]
  {:status 200 :headers {} :body "ok"})

(defn- subject [^X509Certificate certificate]
  (some-> certificate .getSubjectX500Principal .getName))

(deftest a-handler-sees-tls-and-the-certificate-of-the-client
  (doseq [[version protocol] [[1 "HTTP/1.1"] [2 "HTTP/2.0"]]
          [certificate shown] [[nil "nil"] ["client" "\"CN=client\""]]]
    (testing (str protocol " " certificate)
      (with-server [server (fn [{:keys [scheme protocol server-name ssl-client-cert]}]
                             {:status 200 :body (pr-str [scheme protocol server-name (subject ssl-client-cert)])})
                    {:tls (tls "server" {:verify :verify-peer :cacertfile (certificates/path "ca.pem")})}]
        (is (= [200 (str "[:https " (pr-str protocol) " \"127.0.0.1\" " shown "]")]
               (take 2 (fetch (client version certificate) server "/"))))))))

(defn- session
  "A session whose (peer) gives the certificates of the other side, or throws."
  ^SSLSession [peer]
  (let [values (HashMap.)]
    (reify SSLSession
      (getValue [_ name] (.get values name))
      (putValue [_ name value] (.put values name value))
      (getPeerCertificates [_] (into-array Certificate (peer))))))

(deftest a-session-is-asked-once-for-the-certificate-of-its-client
  (let [calls (atom 0)
        certificate (first (with-open [in (io/input-stream (certificates/path "client.pem"))]
                             (.generateCertificates (CertificateFactory/getInstance "X.509") in)))
        none (session #(do (swap! calls inc) (throw (SSLPeerUnverifiedException. "none"))))
        one (session #(do (swap! calls inc) [certificate]))]
    (is (= [nil nil certificate certificate] (mapv http-tls/certificate-of [none none one one])))
    (is (= 2 @calls))))

(deftest http-2-may-be-turned-off
  (with-server [server (fn [{:keys [protocol]}] {:status 200 :body protocol}) {:tls (tls "server") :http2 false}]
    (is (= "HTTP/1.1" (second (fetch (client 2) server "/"))))))

(defn- handshake-fails? [client server]
  (try
    (fetch client server "/")
    false
    (catch SSLHandshakeException _ true)))

(deftest a-client-that-does-not-accept-the-server-harms-no-other
  (with-failures [failures]
    (doseq [name ["other-host" "unknown" "expired"]]
      (with-server [server ok {:tls (tls name)}]
        (is (handshake-fails? (client 1) server))
        (is (eventually (zero? (long (:connections (http/status server))))))))
    (is (= [] @failures))))

(deftest a-client-without-a-certificate-is-refused-where-one-is-demanded
  (with-server [server ok {:tls (tls "server" {:verify :verify-peer :fail-if-no-peer-cert true :cacertfile (certificates/path "ca.pem")})}]
    (is (thrown? IOException (fetch (client 1) server "/")))
    (is (= [200 "ok"] (take 2 (fetch (client 1 "client") server "/"))))))

;; ---- renewal

(defn- copy-identity
  "Puts the files of a certificate under the name \"current\"."
  [folder name]
  (doseq [ending [".key" ".pem"]]
    (let [fresh (io/file folder (str "fresh" ending))]
      (io/copy (io/file (certificates/path (str name ending))) fresh)
      (Files/move (.toPath fresh) (.toPath (io/file folder (str "current" ending)))
                  (into-array [StandardCopyOption/ATOMIC_MOVE StandardCopyOption/REPLACE_EXISTING])))))

(defn- certificate-of [server]
  (let [^HttpResponse response (.send ^HttpClient (client 1) (request server "GET" "/" nil) (HttpResponse$BodyHandlers/ofString))]
    (subject (first (.getPeerCertificates ^javax.net.ssl.SSLSession (.get (.sslSession response)))))))

(deftest a-certificate-is-renewed-without-a-restart
  (let [^File folder (.toFile (Files/createTempDirectory "magnetar-http" (make-array FileAttribute 0)))
        current #(str (io/file folder (str "current" %)))]
    (try
      (copy-identity folder "server")
      (with-server [server ok {:tls {:certfile (current ".pem") :keyfile (current ".key")}}]
        (is (= "CN=server" (certificate-of server)))
        (copy-identity folder "renewed")
        (is (eventually (= "CN=renewed" (certificate-of server)))))
      (finally (run! io/delete-file (reverse (file-seq folder)))))))

;; Jetty asks for the engine of a connection on one of its few platform threads.
(deftest a-file-system-that-hangs-holds-up-no-connection
  (let [client (client 1)
        looked (promise)
        go (promise)]
    (with-redefs [contexts/context (fn [_] (deliver looked true) (value-of go))]
      (with-server [server ok {:tls (tls "server")}]
        (value-of looked)
        (is (= 200 (first (fetch client server "/"))))
        (deliver go true)))))

;; ---- clients that do not do their part

(deftest a-client-without-tls-is-closed
  (with-failures [failures]
    (with-server [server ok {:tls (tls "server")}]
      (with-open [socket (connect server)]
        (send-text socket (request-text "GET" "/"))
        (is (not= :late (read-rest socket))))
      (is (= 200 (first (fetch (client 1) server "/")))))
    (is (= [] @failures))))

(deftest a-handshake-that-takes-too-long-is-ended
  (with-server [server ok {:tls (tls "server" {:handshake-timeout 200})}]
    (with-open [socket (connect server)]
      (is (not= :late (read-rest socket))))))

(deftest a-client-of-tls-that-leaves-cancels-its-handler
  (let [began (promise)
        ended (promise)]
    (with-failures [failures]
      (with-server [server (fn [_]
                             (deliver began true)
                             (try (scope/sleep 100000) (finally (deliver ended true)))) {:tls (tls "server")}]
        (let [context (contexts/context (contexts/of-client {:verify :verify-peer :cacertfile (certificates/path "ca.pem")}))
              ^Socket socket (.createSocket (.getSocketFactory context) "127.0.0.1" (int (http/port server)))]
          (.setSoTimeout socket limit-ms)
          (send-text socket (request-text "GET" "/"))
          (value-of began)
          (.close socket))
        (is (true? (value-of ended))))
      (is (= [] @failures)))))

;; ---- misuse

(defn- refused [f]
  (try
    [:done (f)]
    (catch Exception e [(:magnetar/reason (ex-data e)) (ex-message e)])))

(deftest what-is-wrong-with-tls-is-said-in-a-sentence
  (are [id words options] (let [[id* message] (refused #(http/start ok {:port 0 :tls options}))]
                            (and (= id id*) (str/includes? message words)))
    :magnetar/bad-tls-file ":certfile \"none.pem\": there is no such file." {:certfile "none.pem"}
    :magnetar/bad-option "`:tls` needs the certificate of the server" {}
    :magnetar/bad-option "`:tls` needs the certificate of the server" true
    :magnetar/bad-options "takes its options as a map; this is 7." 7
    :magnetar/unknown-option "Is :certfile meant?" {:certfil "a.pem"}
    :magnetar/bad-option "the server offers HTTP/2" {:certfile "a.pem" :alpn-preferred-protocols ["h2"]}))

(deftest a-process-does-not-start-with-a-bad-certificate
  (actor/with-process {:trap-exit true}
    (let [[word why] (http/start-link ok {:port 0 :tls {:certfile "none.pem"}})]
      (is (= [:error :magnetar/bad-tls-file] [word (:magnetar/reason why)])))))
