(ns magnetar.net-tls-test
  "TLS over the loopback: the same connections as plain ones, trust, certificates that are renewed, attackers, and what is refused."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [after receive self spawn]]
   [magnetar.dev.certificates :as certificates]
   [magnetar.impl.runtime]
   [magnetar.net :as net]
   [magnetar.net-support :refer [as-stream home in-process next-message refused thrown]]
   [magnetar.net.alerts :as alerts]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually limit-ms message-of with-failures]])
  (:import
   (java.io InputStream)
   (java.net ServerSocket Socket)
   (java.security.cert X509Certificate)
   (java.util.concurrent CompletableFuture)
   (javax.net.ssl SSLContext SSLException)
   (magnetar TimeoutException)
   (magnetar.net.connection Connection)
   (magnetar.net.tls Tls)))

(set! *warn-on-reflection* true)

(use-fixtures :each in-process)

(defn- served-by [name]
  (certificates/identity-of name))

(defn- trusting [& [options]]
  (merge {:cacertfile (certificates/path "ca.pem")} options))

(defn- listener [& [tls options]]
  (net/listen 0 (merge {:host home :tls (merge (served-by "server") tls)} options)))

(defn- connect [l & [tls options]]
  (net/connect home (net/port l) (merge {:tls (trusting tls)} options)))

(defn- accepting
  "[outcome-of-f value]: calls f with what the listener accepts, in another process, while (g) runs here."
  [l options f g]
  (let [me (self)]
    (spawn #(let [conn (net/accept l options)]
              (actor/! me [::accepted (thrown (fn [] (f conn)))])
              (receive :end nil)))
    (let [value (thrown g)]
      [(receive [::accepted outcome] outcome (after limit-ms :late)) value])))

(defn- pair
  "[client served]: two connections of this process with each other, after the handshake. Both have the options."
  [& [options client-tls]]
  (let [l (listener)
        me (self)
        served (promise)
        acceptor (spawn #(let [conn (net/accept l {:active false})]
                           (net/handshake conn)
                           (net/controlling-process conn me)
                           (deliver served conn)))
        client (connect l client-tls options)
        served (deref served limit-ms :late)]
    (actor/join acceptor)
    (net/close l)
    (net/set-options served (merge {:active :once} options))
    [client served]))

;; ---- the same as plain connections

(deftest a-stream-is-read-packet-by-packet-and-ends-with-nil
  (doseq [version [:tlsv1.3 :tlsv1.2]]
    (let [[client served] (pair as-stream {:versions [version]})]
      (is (nil? (net/send client "one\ntwo\nhalf")))
      (is (= ["one\n" "two\n"] [(net/recv served) (net/recv served)]))
      (net/send served "answer\n")
      (is (= "answer\n" (net/recv client)))
      (net/send client " a line\ncut")
      (net/close client)
      (is (= "half a line\n" (net/recv served)))
      (is (= [nil nil] [(net/recv served) (net/recv served)])))))

(deftest after-the-end-of-the-stream-the-other-direction-works
  (let [[client served] (pair as-stream)]
    (net/send client "question\n")
    (net/shutdown client :write)
    (is (= ["question\n" nil] [(net/recv served) (net/recv served)]))
    (net/send served "answer\n")
    (is (= "answer\n" (net/recv client)))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send client "late\n")))))
    (net/shutdown client :both)
    (is (nil? (net/recv client)))))

(deftest a-close-loses-nothing-that-was-sent
  (dotimes [_ 5]
    (let [[client served] (pair {:active false :packet 4 :max-packet 200000})]
      (net/send client (byte-array 200000)) ; the client has read nothing, not even the tickets of TLS 1.3
      (net/close client)
      (is (= 200000 (alength ^bytes (net/recv served))))
      (is (nil? (net/recv served))))))

(deftest with-tls-1-2-the-end-of-the-stream-ends-both-directions
  (let [[client served] (pair as-stream {:versions [:tlsv1.2]})]
    (net/send client "question\n")
    (net/shutdown client :write)
    (is (= ["question\n" nil] [(net/recv served) (net/recv served)]))
    (is (= [:magnetar/connection-lost :closed] (take 2 (refused (net/send served "answer\n")))))
    (is (nil? (net/recv client)))))

(deftest bytes-are-read-by-number-and-packets-by-length
  (let [[client served] (pair {:active false})]
    (net/send client (byte-array (range 10)))
    (is (= [0 1 2] (vec (net/recv served 3))))
    (is (= [3 4 5 6] (vec (net/recv served 4 {:timeout limit-ms}))))
    (is (= [7 8 9] (vec (net/recv served))))
    (doseq [kind [1 2 4]]
      (run! #(net/set-options % {:packet kind}) [client served])
      (net/send served "grüße")
      (is (= "grüße" (String. ^bytes (net/recv client) "UTF-8"))))))

(deftest a-large-packet-arrives-whole
  (doseq [version [:tlsv1.3 :tlsv1.2]]
    (let [[client served] (pair {:active false :packet 4 :max-packet 1000000} {:versions [version]})
          data (byte-array (map unchecked-byte (range 1000000)))]
      (scope/with-scope [s]
        (scope/fork s net/send client data)
        (is (java.util.Arrays/equals data ^bytes (net/recv served)))))))

(deftest a-recv-that-ends-by-time-loses-nothing
  (let [[client served] (pair as-stream)]
    (net/send client "half")
    (is (= :none (net/recv served {:timeout 1 :else :none})))
    (is (thrown? TimeoutException (net/recv served {:timeout 0})))
    (net/send client " a line\n")
    (is (= "half a line\n" (net/recv served {:timeout limit-ms})))))

(deftest what-several-processes-send-does-not-mix
  (let [[client served] (pair {:active false :packet 4 :as :string})
        words (map #(apply str (repeat 40000 %)) "abcdefgh")]
    (doseq [word words]
      (spawn #(net/send client word)))
    (is (= (set words) (set (repeatedly 8 #(net/recv served)))))))

(deftest data-are-messages-in-each-mode
  (let [[client served] (pair {:packet :line :as :string})]
    (net/send client "1\n2\n3\n4\n")
    (is (= [:tcp served "1\n"] (next-message)))
    (net/set-options served {:active 2})
    (is (= [[:tcp served "2\n"] [:tcp served "3\n"] [:tcp-passive served]] (repeatedly 3 next-message)))
    (net/set-options served {:active true})
    (is (= [:tcp served "4\n"] (next-message)))
    (net/set-options client {:active false})
    (net/close client)
    (is (= [:tcp-closed served] (next-message)))))

(deftest messages-do-the-handshake-of-what-was-accepted
  (let [l (listener nil {:packet :line :as :string})
        me (self)]
    (spawn #(let [conn (net/accept l)]
              (receive [:tcp conn line] (net/send conn (str "got " line)))
              (net/set-options conn {:active :once})
              (receive [:tcp-closed conn] (actor/! me :ended))))
    (let [client (connect l nil as-stream)]
      (net/send client "an order\n")
      (is (= "got an order\n" (net/recv client)))
      (net/close client)
      (is (= :ended (next-message))))))

(deftest what-was-accepted-may-send-first
  (let [l (listener nil as-stream)]
    (is (= [[:done nil] [:done "welcome\n"]]
           (accepting l {} #(net/send % "welcome\n") #(net/recv (connect l nil as-stream)))))))

(deftest a-connection-goes-with-its-owner
  (let [[client served] (pair {:active false})
        other (spawn #(receive :end nil))]
    (net/controlling-process served other)
    (actor/exit other :kill)
    (is (nil? (net/recv client)))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send served "late")))))))

;; ---- ends

(deftest a-close-does-not-wait-for-a-thread-that-writes
  (let [[client served] (pair {:active false})
        data (byte-array 1000000)
        sent (atom 0)
        ended (promise)]
    (spawn #(deliver ended (take 2 (refused (while true (net/send client data) (swap! sent inc))))))
    (is (eventually (let [before @sent] (Thread/yield) (and (pos? (long before)) (= before @sent)))))
    (is (nil? (net/close client)))
    (is (= [:magnetar/socket-closed :closed] (deref ended limit-ms :late)))
    ;; A close that comes between two records says the end, else it is missing.
    (is (contains? #{[:magnetar/connection-lost :closed] [:done nil]}
                   (take 2 (refused (while (some? (net/recv served)))))))))

(deftest a-send-that-nobody-reads-ends-by-time-and-closes
  (let [[client] (pair {:active false :send-timeout 50})
        data (byte-array 1000000)]
    (is (= [:magnetar/send-timeout :etimedout] (take 2 (refused (dotimes [_ 100] (net/send client data))))))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send client "late")))))))

(deftest a-close-ends-what-waits
  (let [[client] (pair {:active false})
        outcome (promise)]
    (spawn #(deliver outcome (take 2 (refused (net/recv client)))))
    (net/close client)
    (is (= [:magnetar/socket-closed :closed] (deref outcome limit-ms :late)))))

(defn- relay
  "A port that passes bytes on to the port in both directions, and [port cut]; (cut) ends both streams without a word of TLS."
  [port]
  (let [server (ServerSocket. 0)
        sockets (promise)
        copy (fn [^Socket from ^Socket to]
               (Thread/startVirtualThread #(try (.transferTo (.getInputStream from) (.getOutputStream to)) (catch java.io.IOException _))))]
    (Thread/startVirtualThread
      #(let [client (.accept server)
             peer (Socket. ^String home (int port))]
         (copy client peer)
         (copy peer client)
         (deliver sockets [client peer])))
    [(.getLocalPort server)
     (fn []
       (run! #(.shutdownOutput ^Socket %) @sockets)
       (.close server))]))

(deftest an-end-that-tls-did-not-say-is-an-error
  (let [l (listener nil as-stream)
        [port cut] (relay (net/port l))
        me (self)
        _ (spawn #(let [conn (net/accept l {:active :once})]
                    (receive [:tcp conn line] (net/send conn line))
                    (net/set-options conn {:active :once})
                    (actor/! me [(= [:tcp-error conn :closed] (next-message)) (= [:tcp-closed conn] (next-message))])))
        client (net/connect home port (merge as-stream {:tls (trusting)}))]
    (net/send client "hello\n")
    (is (= "hello\n" (net/recv client)))
    (cut)
    (is (= [:magnetar/connection-lost :closed
            (str "`recv` on " client " failed: the other side ended the stream without the close_notify of TLS, so data may be missing. The "
                 "connection is closed; open a new one.")]
           (refused (net/recv client))))
    (is (= [true true] (next-message)))))

;; ---- trust

(defn- outcomes
  "[server client]: [id reason] of both, each of which sends a line and reads one."
  [server-tls client-tls & [host]]
  (let [l (listener server-tls as-stream)
        talk (fn [conn] (net/send conn "hello\n") (net/recv conn))
        [server client] (accepting l {} talk #(talk (net/connect (or host home) (net/port l) (merge as-stream {:tls client-tls}))))]
    [(vec (take 2 server)) (vec (take 2 client))]))

(def ^:private fine [:done "hello\n"])

(defn- alert [word]
  [:magnetar/tls-failed [:tls-alert word]])

(deftest a-client-checks-the-certificate-and-its-host
  (are [server client outcome] (= outcome (outcomes server client))
    nil (trusting) [fine fine]
    nil {:verify :verify-none} [fine fine]
    nil true [(alert :certificate-unknown) (alert :unknown-ca)]
    nil {} [(alert :certificate-unknown) (alert :unknown-ca)]
    (served-by "unknown") (trusting) [(alert :certificate-unknown) (alert :unknown-ca)]
    (served-by "expired") (trusting) [(alert :certificate-expired) (alert :certificate-expired)]
    (served-by "renewed") (trusting) [fine fine]
    (served-by "other-host") (trusting) [(alert :certificate-unknown) (alert :hostname-check-failed)]
    (served-by "other-host") (trusting {:server-name-indication "other.test"}) [fine fine]
    (served-by "other-host") (trusting {:server-name-indication :disable}) [fine fine]
    (served-by "other-host") {:verify :verify-none} [fine fine])
  (is (= [fine fine] (outcomes nil (trusting) "localhost"))))

(deftest a-server-may-demand-a-certificate-of-the-client
  (let [asking {:verify :verify-peer :cacertfile (certificates/path "ca.pem")}
        demanding (assoc asking :fail-if-no-peer-cert true)]
    (doseq [versions [[:tlsv1.3] [:tlsv1.2]]]
      (are [server client outcome] (= outcome (outcomes (assoc server :versions versions) (trusting client)))
        asking nil [fine fine]
        asking (served-by "client") [fine fine]
        demanding (served-by "client") [fine fine])
      (is (= (alert :certificate-required) (first (outcomes (assoc demanding :versions versions) (trusting)))))
      (is (= (alert :unknown-ca) (first (outcomes (assoc asking :versions versions) (trusting (served-by "unknown")))))))))

(deftest both-sides-need-a-version-and-a-protocol-in-common
  (is (= [(alert :protocol-version) (alert :protocol-version)] (outcomes {:versions [:tlsv1.3]} (trusting {:versions [:tlsv1.2]}))))
  (is (= [(alert :no-application-protocol) (alert :no-application-protocol)]
         (outcomes {:alpn-preferred-protocols ["h2"]} (trusting {:alpn-advertised-protocols ["http/1.1"]})))))

(deftest what-the-other-side-says-and-what-has-no-words-of-its-own-is-told
  (are [text e] (= text (alerts/sentences e))
    "the other side sent the alert :bad-record-mac. Compare the TLS options of both sides."
    (SSLException. "(bad_record_mac) Received fatal alert: bad_record_mac")

    (str "the other side sent the alert :unknown-ca, as it knows no authority that signed the certificate of this side. Give the other side the "
         "certificate of that authority.")
    (SSLException. "(unknown_ca) Received fatal alert: unknown_ca")

    "no such thing. Compare the TLS options of both sides."
    (SSLException. "(internal_error) no such thing."))
  (is (= [[:tls-alert :bad-record-mac] [:tls-alert :internal-error] [:tls-alert :internal-error]]
         (map #(alerts/reason (SSLException. ^String %)) ["Received fatal alert: bad_record_mac" "(internal_error) none" "none"]))))

(defn- names [information]
  (mapv #(str (.getSubjectX500Principal ^X509Certificate %)) (:peer-certificates information)))

(defn- information
  "[server client]: what both know of the connection."
  [server-tls client-tls]
  (let [l (listener server-tls)]
    (map second (accepting l {:active false}
                           net/connection-information
                           #(net/connection-information (connect l client-tls {:active false}))))))

(deftest a-connection-tells-what-was-agreed-on
  (let [[server client] (information {:verify :verify-peer :cacertfile (certificates/path "ca.pem") :alpn-preferred-protocols ["h2" "http/1.1"]}
                                     (assoc (served-by "client") :alpn-advertised-protocols ["http/1.1" "h2"] :server-name-indication "localhost"))]
    (is (= {:protocol :tlsv1.3 :alpn "h2" :sni-hostname "localhost"} (dissoc server :cipher :peer-certificates)
           (dissoc client :cipher :peer-certificates)))
    (is (= ["CN=client" "CN=ca"] (names server)))
    (is (= ["CN=server" "CN=ca"] (names client)))
    (is (str/starts-with? (:cipher client) "TLS_")))
  (let [[server client] (information nil {:versions [:tlsv1.2]})]
    (is (= {:protocol :tlsv1.2 :alpn nil :sni-hostname nil :peer-certificates []} (dissoc server :cipher)))
    (is (= :tlsv1.2 (:protocol client)))))

(deftest a-plain-connection-has-no-information
  (let [l (net/listen 0 {:host home})
        conn (net/connect home (net/port l) {:active false})]
    (is (nil? (net/connection-information conn)))
    (is (= conn (net/handshake conn)))))

(deftest a-server-has-a-certificate-for-each-host
  (let [tls {:sni-hosts {"Other.test" (served-by "other-host")}}]
    (are [name certificate] (= certificate (first (names (second (information tls {:server-name-indication name})))))
      "other.test" "CN=other-host"
      "localhost" "CN=server")))

(deftest a-context-of-the-user-is-used
  (let [[_ _ message] (refused (listener {:context (SSLContext/getDefault)}))]
    (is (= "`:tls` has :context and :certfile: the context has its certificates itself. Leave one of them out." message)))
  (is (= [(alert :handshake-failure) (alert :handshake-failure)]
         (let [l (net/listen 0 (merge as-stream {:host home :tls {:context (SSLContext/getDefault)}}))]
           (mapv #(vec (take 2 %)) (accepting l {} net/recv #(connect l)))))))

;; ---- renewed

(defn- install
  "Makes the files of a certificate the server's."
  [folder name]
  (doseq [kind [".pem" ".key"]]
    (io/copy (io/file (certificates/path (str name kind))) (io/file folder (str "site" kind)))))

(defn- certificate-seen [l]
  (let [[_ [_ seen]] (accepting l {:active false} net/handshake #(first (names (net/connection-information (connect l nil {:active false})))))]
    seen))

(deftest a-certificate-is-renewed-without-a-restart
  (let [folder (io/file (certificates/path "renewal"))
        files {:certfile (str (io/file folder "site.pem")) :keyfile (str (io/file folder "site.key"))}]
    (.mkdirs folder)
    (install folder "server")
    (let [l (listener files)
          me (self)]
      (spawn #(let [conn (net/accept l as-stream)]
                (net/handshake conn)
                (actor/! me :shaken)
                (net/send conn (net/recv conn))
                (receive :end nil)))
      (let [old (connect l nil as-stream)]
        (is (= :shaken (next-message)))
        (install folder "renewed")
        (is (= "CN=renewed" (certificate-seen l)))
        (testing "Garbage is reported once, and the certificate before stays"
          (with-failures [failures]
            (spit (:certfile files) "garbage")
            (is (= ["CN=renewed" "CN=renewed"] (repeatedly 2 #(certificate-seen l))))
            (is (= [[(str "TLS certificates of " (:certfile files) ", which stay as they were")
                     (str ":certfile " (pr-str (:certfile files)) " has no certificate: a PEM file has lines \"-----BEGIN CERTIFICATE-----\". "
                          "Check the path and the format.")]]
                   (mapv (juxt :site message-of) @failures)))))
        (install folder "server")
        (is (= "CN=server" (certificate-seen l)))
        (net/send old "still here\n")
        (is (= "still here\n" (net/recv old)))))))

;; ---- attackers, and clients of other protocols

(deftest a-client-that-says-nothing-holds-nobody-up
  (let [l (listener nil as-stream)
        silent (Socket. ^String home (int (net/port l)))
        conn (net/accept l)]
    (is (= :none (net/recv conn {:timeout 1 :else :none})))
    (is (= [:done "hello\n"] (second (accepting l {} #(net/send % (net/recv %))
                                                #(let [client (connect l nil as-stream)]
                                                   (net/send client "hello\n")
                                                   (net/recv client))))))
    (is (= :none (net/recv conn {:timeout 1 :else :none})))
    (.close silent)))

(deftest a-client-that-says-nothing-ends-by-time
  (let [l (listener {:handshake-timeout 50} as-stream)
        silent (Socket. ^String home (int (net/port l)))
        conn (net/accept l)]
    (is (= [:magnetar/tls-failed :timeout
            (str "`recv` on " conn " failed in TLS: the other side did not do its part within the :handshake-timeout. Check that it speaks TLS on "
                 "this port.")]
           (refused (net/recv conn))))
    (is (= -1 (.read (.getInputStream silent))))
    (.close silent)))

(deftest a-silent-client-is-an-error-in-messages-too
  (let [l (listener {:handshake-timeout 50})
        silent (Socket. ^String home (int (net/port l)))
        conn (net/accept l)]
    (is (= [[:tcp-error conn :timeout] [:tcp-closed conn]] (repeatedly 2 next-message)))
    (.close silent)))

(deftest a-handshake-that-waits-may-be-left-and-called-again
  (let [l (listener)
        silent (Socket. ^String home (int (net/port l)))
        conn (net/accept l {:active false})]
    (is (= :none (net/handshake conn {:timeout 1 :else :none})))
    (is (thrown? TimeoutException (net/handshake conn {:timeout 1})))
    (.close silent)
    (is (= [:magnetar/tls-failed :closed] (take 2 (refused (net/handshake conn)))))))

(deftest a-client-waits-for-a-server-no-longer-than-its-time
  (let [server (ServerSocket. 0)]
    (is (= :none (net/connect home (.getLocalPort server) {:active false :tls true :timeout 20 :else :none})))
    (is (= [:magnetar/tls-failed :timeout]
           (take 2 (refused (net/connect home (.getLocalPort server) {:active false :tls {:handshake-timeout 20}})))))
    (.close server)))

(deftest silent-clients-by-the-hundred-stop-no-other
  (let [total 300
        l (listener nil {:backlog total})
        plain (net/listen 0 (merge as-stream {:host home}))
        silent (doall (repeatedly total #(Socket. ^String home (int (net/port l)))))
        shaking (doall (repeatedly total (fn [] (let [conn (net/accept l {:active false})]
                                                  (spawn #(thrown (fn [] (net/handshake conn))))
                                                  conn))))]
    (is (= [:done (map #(str % "\n") (range 200))]
           (second (accepting plain {} #(dotimes [_ 200] (net/send % (net/recv %)))
                              #(let [client (net/connect home (net/port plain) as-stream)]
                                 (doall (for [n (range 200)]
                                          (do (net/send client (str n "\n")) (net/recv client)))))))))
    (is (= "CN=server" (certificate-seen l)))
    (run! net/close shaking)
    (run! #(.close ^Socket %) silent)))

(deftest a-reset-in-the-handshake-is-an-error
  (let [l (listener)
        socket (Socket. ^String home (int (net/port l)))
        conn (net/accept l {:active false})]
    (.write (.getOutputStream socket) (byte-array [22 3 1]))
    (.setSoLinger socket true 0)
    (.close socket)
    (is (= [:magnetar/tls-failed :econnreset] (take 2 (refused (net/handshake conn)))))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send conn "late")))))))

(deftest who-does-not-speak-tls-is-told-so
  (let [l (listener)
        socket (Socket. ^String home (int (net/port l)))
        conn (net/accept l {:active false})]
    (.write (.getOutputStream socket) (.getBytes "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    (is (= [:magnetar/tls-failed [:tls-alert :unexpected-message]
            (str "`handshake` on " conn " failed in TLS: the other side does not speak TLS. Check the port, and that both sides use :tls.")]
           (refused (net/handshake conn))))
    (testing "The other side gets an alert, and the end"
      (is (= 21 (first (.readAllBytes ^InputStream (.getInputStream socket))))))
    (.close socket))
  (let [plain (net/listen 0 {:host home :active false})
        port (net/port plain)]
    (is (= [:magnetar/tls-failed [:tls-alert :unexpected-message]
            (str "`connect` to " home ":" port " failed in TLS: the other side does not speak TLS. Check the port, and that both sides use :tls.")]
           (second (accepting plain {} #(do (net/recv %) (net/send % "220 welcome\r\n")) #(net/connect home port {:tls true})))))))

(deftest garbage-in-the-handshake-ends-it
  (doseq [bytes [[22 3 1 0 5 1 0 0 1 0] [22 3 3 -1 -1 0 0] [0 0 0 0 0 0 0 0] (repeatedly 2000 #(- (rand-int 256) 128))]]
    (let [l (listener)
          socket (Socket. ^String home (int (net/port l)))
          conn (net/accept l {:active false})]
      (.write (.getOutputStream socket) (byte-array (map unchecked-byte bytes)))
      (.shutdownOutput socket)
      (is (= :magnetar/tls-failed (first (refused (net/handshake conn)))) (pr-str bytes))
      (.close socket))))

;; ---- refused

(defn- written
  "The path of a file with this content."
  [name content]
  (let [file (certificates/path name)]
    (spit file content)
    file))

(deftest files-that-will-not-do-say-so
  (let [{:keys [certfile keyfile]} (served-by "server")
        message (fn [tls] (let [[id _ message] (refused (net/listen 0 {:host home :tls tls}))] [id message]))
        key-file #(written "other.key" (certificates/pem % (byte-array 3)))]
    (are [text tls] (= [:magnetar/bad-tls-file text] (message tls))
      (str ":certfile \"no.pem\": there is no such file. Check the path, which starts at the folder of this program if it is relative.")
      {:certfile "no.pem"}

      (str ":certfile " (pr-str keyfile) " has no certificate: a PEM file has lines \"-----BEGIN CERTIFICATE-----\". Check the path and the format.")
      {:certfile keyfile}

      (str ":keyfile " (pr-str certfile) " has no private key: a PEM file has a line \"-----BEGIN PRIVATE KEY-----\". Check the path and the format.")
      {:certfile certfile}

      (str ":keyfile " (pr-str (certificates/path "unknown.key")) " does not belong to the first certificate in :certfile " (pr-str certfile)
           ". Give both files of one pair; the certificate of the server stands before the authority's.")
      {:certfile certfile :keyfile (certificates/path "unknown.key")})
    (doseq [[label text] {"RSA PRIVATE KEY" "is in the format PKCS#1, and PKCS#8 without a password is wanted. Convert it: openssl pkcs8 -topk8 -nocrypt -in "
                          "EC PRIVATE KEY" "is in the format SEC 1, and PKCS#8 without a password is wanted. Convert it: openssl pkcs8 -topk8 -nocrypt -in "
                          "ENCRYPTED PRIVATE KEY" "is encrypted, and PKCS#8 without a password is wanted. Convert it: openssl pkcs8 -in "}
            :let [file (key-file label)]]
      (is (= [:magnetar/bad-tls-file (str ":keyfile " (pr-str file) ": its key " text file " -out key.pem")]
             (message {:certfile certfile :keyfile file}))))
    (testing "A key that is encrypted in the old way has lines with a header"
      (let [file (written "old.key" "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n")]
        (is (str/includes? (second (message {:certfile certfile :keyfile file})) "openssl pkcs8 -topk8 -nocrypt -in "))))
    (is (str/includes? (second (message {:certfile certfile :keyfile (key-file "PRIVATE KEY")})) " has a private key that cannot be read"))
    (is (str/includes? (second (message {:certfile (written "bad.pem" (certificates/pem "CERTIFICATE" (byte-array 3)))}))
                       " has a certificate that cannot be read"))))

(deftest a-drain-waits-for-the-ends-of-streams
  (let [l (listener)
        me (self)
        acceptor (spawn #(let [conn (net/handshake (net/accept l {:active false}))]
                           (actor/! me [::accepted conn])
                           (receive :end nil)))
        client (connect l nil {:active false})
        served (receive [::accepted conn] conn (after limit-ms :late))]
    (is (= 1 (net/drain l {:timeout 1})))
    (is (true? (.isDone ^CompletableFuture (.-gone ^Tls (.-socket ^Connection served)))))
    (is (nil? (net/recv client)))
    (actor/! acceptor :end)))

(deftest a-context-has-to-be-initialised
  (is (= [:magnetar/bad-option :einval]
         (take 2 (refused (net/connect home 80 {:tls {:context (SSLContext/getInstance "TLS")}}))))))

(deftest misuse-of-options-says-what-to-do
  (let [file (:certfile (served-by "server"))]
    (are [text form] (= text (last (refused form)))
      "`:tls` needs the certificate of the server: give {:certfile \"server.pem\" :keyfile \"server.key\"}."
      (net/listen 0 {:tls true})
      "`:tls` has {:verify :verify-peer}, which needs the certificate of the authority that signs the certificates of clients: give :cacertfile."
      (net/listen 0 {:tls {:certfile file :verify :verify-peer}})
      "`:tls` has :fail-if-no-peer-cert, which needs {:verify :verify-peer}: add it."
      (net/listen 0 {:tls {:certfile file :fail-if-no-peer-cert true}})
      "`:tls` has a :keyfile without its :certfile: add it."
      (net/connect home 80 {:tls {:keyfile "client.key"}})
      "`magnetar.net/connect`: :verify is :verify-peer or :verify-none; this is :none."
      (net/connect home 80 {:tls {:verify :none}})
      "`magnetar.net/connect`: :versions is a vector of :tlsv1.3 and :tlsv1.2, or of one of them; this is [:tlsv1.1]."
      (net/connect home 80 {:tls {:versions [:tlsv1.1]}})
      "`magnetar.net/connect`: :alpn-advertised-protocols is a vector of names of protocols, as in [\"h2\" \"http/1.1\"]; this is [:h2]."
      (net/connect home 80 {:tls {:alpn-advertised-protocols [:h2]}})
      "`magnetar.net/connect`: :server-name-indication is the name of a host, or :disable; this is \"127.0.0.1\"."
      (net/connect home 80 {:tls {:server-name-indication "127.0.0.1"}})
      "`magnetar.net/listen`: :sni-hosts is a map of names of hosts to {:certfile .. :keyfile ..}; this is {\"a b\" {}}."
      (net/listen 0 {:tls {:certfile file :sni-hosts {"a b" {}}}})
      "`magnetar.net/connect`: :context is a javax.net.ssl.SSLContext that was initialised by its `init`; this is :mine."
      (net/connect home 80 {:tls {:context :mine}})
      "`:tls` has :context and {:verify :verify-none}: the context says whom it trusts. Leave one of them out."
      (net/connect home 80 {:tls {:context (SSLContext/getDefault) :verify :verify-none}}))
    (is (= :magnetar/bad-duration (first (refused (net/connect home 80 {:tls {:handshake-timeout 0}})))))
    (is (str/includes? (last (refused (net/listen 0 {:tls {:certfil file}}))) "`:tls` does not know :certfil"))
    (is (str/includes? (last (refused (net/listen 0 {:tls {:certfil file}}))) "Is :certfile meant?"))
    (is (str/includes? (last (refused (net/connect home 80 {:tls {:fail-if-no-peer-cert true}}))) "does not know :fail-if-no-peer-cert"))))
