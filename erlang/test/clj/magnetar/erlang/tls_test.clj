(ns magnetar.erlang.tls-test
  "A node with TLS, and sides without it or with a certificate that will not do: closed, with one line in the log."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.certificates :as certificates]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.impl.node :as node]
   [magnetar.erlang.scripted :as scripted :refer [dial ended? hello listen port-of-node running send-bytes]]
   [magnetar.impl.runtime]
   [magnetar.net.contexts :as contexts])
  (:import
   (java.io IOException)
   (java.net InetAddress ServerSocket Socket)
   (javax.net.ssl SSLContext SSLSocket)
   (magnetar.erlang.wire Cookie Settings)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(defn- files [certificate]
  (assoc (certificates/identity-of certificate) :cacertfile (certificates/path "ca.pem")))

(defn- context ^SSLContext [certificate]
  (contexts/of-node (if certificate
                      (files certificate)
                      (contexts/context (contexts/source {:cacertfile (certificates/path "ca.pem")})))))

(defn- closed-by-other?
  "Reads and writes with TLS as the client until the node has closed the connection; true then."
  [^SSLContext context]
  (with-open [raw (Socket. (InetAddress/getLoopbackAddress) (int (port-of-node)))
              socket ^SSLSocket (.createSocket (.getSocketFactory context) raw "127.0.0.1" (.getPort raw) false)]
    (.setSoTimeout raw scripted/limit-ms)
    (try
      (.startHandshake socket)
      (neg? (.read (.getInputStream socket)))
      (catch IOException _ true))))

(defn- refused
  "The lines that are logged while f, a function that is true once a connection was closed, runs; without what Java says."
  [f]
  (let [lines (atom [])]
    (running {:tls (files "server")} lines
      (fn []
        (is (true? (f)))
        (is (scripted/eventually #(seq @lines)) "TLS closes the connection before the node hears of it")
        (is (= [] (erlang/nodes)))))
    (mapv #(-> % (str/replace #"/[\d.]+:\d+" "it") (str/replace #"failed: .*" "failed")) @lines)))

(deftest a-side-that-dials-without-a-good-certificate-is-closed
  (let [line ["A node at it is not let in. TLS has failed"]]
    (testing "a plain client"
      (is (= line (refused #(let [peer (dial (port-of-node))]
                              (send-bytes peer (hello other))
                              (ended? peer))))))
    (doseq [certificate [nil "expired" "unknown"]]
      (testing (str "with the certificate " certificate)
        (is (= line (refused #(closed-by-other? (context certificate)))))))))

(defn- serve
  "Answers one connection with TLS as the server, or by f, until the other side has closed it."
  [^ServerSocket server certificate]
  (future
    (with-open [raw (.accept server)]
      (.setSoTimeout raw scripted/limit-ms)
      (if certificate
        (let [socket ^SSLSocket (.createSocket (.getSocketFactory (context certificate)) raw nil (.getPort raw) false)]
          (.setUseClientMode socket false)
          (try
            (.startHandshake socket)
            (neg? (.read (.getInputStream socket)))
            (catch IOException _ true)))
        (do (.read (.getInputStream raw)) true)))))

(deftest a-side-that-is-dialled-and-has-no-good-certificate-is-closed
  (doseq [certificate [nil "expired" "unknown" "other-host"]]
    (testing (str "with the certificate " certificate)
      (with-open [server (listen)]
        (is (= ["The node b@127.0.0.1 is not connected. TLS has failed"]
               (refused #(let [served (serve server certificate)]
                           (is (false? (erlang/connect other {:port (.getLocalPort server)})))
                           @served))))))))

(deftest a-side-that-says-nothing-is-closed-after-the-time-of-a-handshake
  (scripted/logged
    (fn [lines]
      (let [settings (Settings. "m@127.0.0.1" (Cookie/of scripted/cookie) false (InetAddress/getLoopbackAddress) 0 (context "server") false nil 60000 1048576 200)
            _ (node/start {:settings settings :nil-as :nil})
            peer (dial (port-of-node))]
        (is (ended? peer))
        (is (= :ok (erlang/stop)))
        (is (re-find #"It did not answer in time" (first @lines)))))))

(deftest another-address-needs-tls
  (running {:bind "0.0.0.0" :tls (files "server")} (atom [])
    (fn [] (is (str/starts-with? (erlang/address) "0.0.0.0:")))))
