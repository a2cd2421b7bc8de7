(ns magnetar.faults.http-test
  "A server of `magnetar.http` with its limits on, and what is done to it."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.dev.certificates :as certificates]
   [magnetar.faults.client :as client]
   [magnetar.faults.fault :as fault :refer [withstand withstand-flood]]
   [magnetar.faults.server :as server]
   [magnetar.net :as net]))

(set! *warn-on-reflection* true)

(def ^:private web (atom nil))

(defn- start []
  (let [{:keys [certfile keyfile]} (certificates/identity-of "server")
        running (fault/warmed-up (server/start "http" certfile keyfile) client/hello)]
    (assoc running :tls-port (server/port running "tls-port"))))

(use-fixtures :once (fault/with-server "An HTTP server" web start))

(defn- statuses
  "How often the answers have each status; other answers as they are."
  [answers]
  (frequencies (map #(or (some-> (re-find #"^HTTP/1.1 (\d+)" %) second parse-long) %) answers)))

(defn- status [text]
  (ffirst (statuses [text])))

(defn- said
  "The statuses of the answers to slow clients. A byte that arrives after the end resets the connection: then a client may not see its answer."
  [answers]
  (disj (set (map status (keys answers))) ""))

(deftest slow-loris
  (let [answers (withstand @web "slow-loris: 200 clients send a head a byte at a time" "408 after the 2 s of its `:header-timeout`" nil
                           (fn [port at-peak]
                             (let [looked (delay (future (at-peak 200)))]
                               (client/dribble port 200 "GET /hello HTTP/1.1\r\nHost: test\r\nX-Slow: " "x" #(do @looked false)))))]
    (is (= #{408} (said answers)))))

(deftest slow-bodies
  (let [head (client/get-text "POST" "/echo" "Content-Length: 100000")
        answers (withstand @web "200 clients send a body a byte at a time" "408 after the 4 s of its `:request-timeout`" nil
                           (fn [port at-peak]
                             (let [looked (delay (future (at-peak 200)))]
                               (client/dribble port 200 head "x" #(do @looked false)))))]
    (is (= #{408} (said answers)))))

(deftest half-closed-sockets
  (let [answers (withstand-flood @web "200 clients shut their sending side and read" "answers a short request, then closes" nil
                  (fn [port]
                    (client/in-parallel 200 (fn [_] (client/half-close port (client/get-text "GET" "/hello"))))))]
    (is (= {200 200} (statuses (map first answers))))
    (is (= #{:closed} (set (map second answers))))))

(deftest connects-and-resets
  (let [texts ["" "GET /he" (client/get-text "GET" "/hello") (client/get-text "GET" "/work")
               (str (client/get-text "POST" "/echo" "Content-Length: 9") "half")]]
    (withstand-flood @web "2,000 connections are reset, at five places of a request" "ends them" nil
      (fn [port]
        (client/in-parallel 2000 (fn [i] (doto (client/connect port)
                                           (client/send-all (texts (rem (long i) 5)))
                                           (client/reset))))))))

(defn- long-text [n]
  (apply str (repeat n "x")))

(deftest oversized-heads-and-bodies
  (let [mega (long-text 1048576)
        texts [(str "GET /" mega " HTTP/1.1\r\nHost: test\r\n\r\n")
               (client/get-text "GET" "/hello" (str "X-Long: " mega))
               (str (client/get-text "POST" "/echo" "Content-Length: 8388608") mega mega)
               (client/get-text "POST" "/echo" "Content-Length: 99999999999999")]
        answers (withstand-flood @web "200 lines, headers and bodies of 1 MiB and more" "414, 431 or 413, then closes" nil
                                 (fn [port]
                                   (client/in-parallel 200 #(client/exchange port (texts (rem (long %) 4))))))]
    ;; the client may be reset while it still sends, before it reads the answer
    (is (every? #(or (= ["" :reset] %) (#{413 414 431} (status (first %)))) answers)
        (pr-str (distinct (map (fn [[text end]] [(subs text 0 (min 60 (count text))) end]) answers))))
    (is (= #{413} (set (map (comp status first) (take-nth 4 (drop 3 answers))))))))

(deftest garbage
  (let [answers (withstand-flood @web "200 clients send 32 KiB of random bytes, and one sends a TLS handshake" "400, then closes" nil
                  (fn [port]
                    (conj (client/in-parallel 200 #(client/exchange port (client/garbage % 32768)))
                          (client/exchange port client/client-hello))))]
    (is (every? #(or (= ["" :reset] %) (= 400 (status (first %)))) answers)
        (pr-str (distinct (map (fn [[text end]] [(subs text 0 (min 60 (count text))) end]) answers))))))

(defn- get-with-tls
  "What the server at the port answers to a client of TLS that checks its certificate."
  [port]
  (with-open [^java.io.Closeable conn (net/connect "127.0.0.1" port {:active false :as :string :tls {:cacertfile (certificates/path "ca.pem")}})]
    (net/send conn (client/get-text "GET" "/hello" "Connection: close"))
    (apply str (take-while some? (repeatedly #(net/recv conn {:timeout client/limit-ms}))))))

(deftest garbage-where-tls-is-spoken
  (let [texts [(client/garbage 1 1000) (client/bytes-of (client/get-text "GET" "/hello")) client/client-hello (byte-array 0)]
        port-of-tls (:tls-port @web)
        ends (withstand-flood @web "200 clients send garbage, plain HTTP, half a handshake or nothing to the port of TLS"
               "closes, at the latest after the 2 s of its `:handshake-timeout`" nil
               (fn [_]
                 (client/in-parallel 200 #(second (client/exchange port-of-tls (texts (rem (long %) 4)))))))]
    (is (= #{} (disj (set ends) :closed :reset)))
    (is (= 200 (status (get-with-tls port-of-tls))) "TLS goes on")))

(defn- deaf-to
  "n clients that never read what the path answers."
  [n fault path does]
  (is (= :cut
         (withstand @web fault does {:most-held (* 96 1048576)}
                    (fn [port at-peak]
                      (let [clients (vec (repeatedly n #(client/open-deaf port (client/get-text "GET" path))))]
                        (at-peak n)
                        (let [cut? (fault/cut @web)]
                          (client/close-all clients)
                          (if cut? :cut :open))))))))

(deftest clients-that-never-read
  (deaf-to 100 "100 clients ask for 1.2 GiB each and never read" "/download" "cuts each after the 2 s of its `:idle-timeout`")
  (deaf-to 100 "100 clients open an endless stream of events and never read" "/events" "cuts each after the 2 s of its `:idle-timeout`"))

;; ---- SIGTERM under load

(defn- ask-until-closed
  "Asks for /work one time after the other: the statuses of the answers, and how it ended, :closed or :reset or :refused.
  A request counts as accepted once a byte of its answer has come, or if its connection was closed instead of an answer."
  [port]
  (loop [answers []]
    (let [answer (try
                   (with-open [socket (client/connect port)]
                     (client/send-all socket (client/get-text "GET" "/work"))
                     (let [[status body] (client/read-response socket)]
                       (if status [status body] :none)))
                   (catch java.net.ConnectException _ :refused)
                   (catch java.io.IOException _ :reset))]
      (if (= [200 "done"] answer)
        (recur (conj answers answer))
        (conj answers answer)))))

(deftest sigterm-under-load
  (let [running (server/start "http")
        {:keys [took clients]} (fault/terminate-under-load running {:n 50 :busy? #(<= 40 (long (:fibers (server/held running)))) :most-ms 10000}
                                 (fn [port _] (ask-until-closed port)))
        answered #(count (filter #{[200 "done"]} %))
        ends (map peek clients)]
    (fault/print-row "SIGTERM while 50 clients wait for answers" (str "answers them, then takes no more; ends with exit code 0 after " took " ms")
                     (str (apply + (map answered clients)) " answers; the clients' next requests: " (fault/in-words ends)))
    (is (every? #(<= 1 (long (answered %))) clients) "what was asked before is answered")
    (is (every? #(or (#{:refused :reset} %) (and (vector? %) (= 503 (first %)))) ends) (str/join "\n" (distinct ends)))))
