(ns magnetar.net-tls-openssl-test
  "TLS with another implementation on the other side: OpenSSL's command, where the machine has it."
  {:slow true}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.dev.certificates :as certificates]
   [magnetar.impl.runtime]
   [magnetar.net :as net]
   [magnetar.support :refer [limit-ms wait-until]])
  (:import
   (java.io BufferedReader IOException)
   (java.net ServerSocket)))

(set! *warn-on-reflection* true)

(use-fixtures :each (fn [test] (actor/with-process {} (test))))

(def ^:private home "127.0.0.1")

(defn- command [& args]
  (.start (doto (ProcessBuilder. ^java.util.List (into ["openssl"] args)) (.redirectErrorStream true))))

(def ^:private openssl?
  (delay (try
           (= 0 (.waitFor ^Process (command "version")))
           (catch IOException _ false))))

(defn- say [^Process process text]
  (doto (.getOutputStream process)
    (.write (.getBytes ^String text))
    (.flush)))

(defn- await-line
  "Reads what the command writes up to a line with this text; true, or false at the end."
  [^BufferedReader out text]
  (loop []
    (when-some [line (.readLine out)]
      (or (str/includes? line text) (recur)))))

(defn- client-of [l]
  (command "s_client" "-connect" (str home ":" (net/port l)) "-CAfile" (certificates/path "ca.pem") "-verify_return_error"
           "-verify_hostname" "localhost" "-servername" "localhost" "-alpn" "h2"))

(deftest a-client-of-openssl-is-served
  (when @openssl?
    (let [l (net/listen 0 {:host home :packet :line :as :string :active false
                           :tls (assoc (certificates/identity-of "server") :alpn-preferred-protocols ["h2"])})
          ^Process client (client-of l)
          out (BufferedReader. (.inputReader client))
          conn (net/accept l)]
      (net/handshake conn {:timeout limit-ms})
      (is (= [:tlsv1.3 "h2" "localhost"] ((juxt :protocol :alpn :sni-hostname) (net/connection-information conn))))
      (say client "hello\n")
      (is (= "hello\n" (net/recv conn {:timeout limit-ms})))
      (say client "K\n") ; a new key, and the request for one
      (is (await-line out "KEYUPDATE"))
      (say client "with a new key\n")
      (is (= "with a new key\n" (net/recv conn {:timeout limit-ms})))
      (net/send conn "answer\n")
      (is (await-line out "answer"))
      (say client "Q\n")
      (is (nil? (net/recv conn {:timeout limit-ms})))
      (net/close conn)
      (is (= 0 (.waitFor client))))))

(defn- free-port []
  (with-open [socket (ServerSocket. 0)]
    (.getLocalPort socket)))

(defn- server-at
  "The command that sends each line back, reversed, once it listens."
  ^Process [port]
  (let [^Process server (command "s_server" "-accept" (str port) "-cert" (certificates/path "server.pem")
                                 "-key" (certificates/path "server.key") "-rev")]
    (is (await-line (BufferedReader. (.inputReader server)) "ACCEPT"))
    server))

(deftest a-server-of-openssl-is-used
  (when @openssl?
    (let [port (free-port)
          server (server-at port)
          conn (net/connect home port {:packet :line :as :string :active false :timeout limit-ms
                                       :tls {:cacertfile (certificates/path "ca.pem")}})]
      (net/send conn "abc\n")
      (is (= "cba\n" (net/recv conn {:timeout limit-ms})))
      (net/shutdown conn :write)
      (is (nil? (net/recv conn {:timeout limit-ms})))
      (net/close conn)
      (.destroy server)
      (is (wait-until #(not (.isAlive server)))))))
