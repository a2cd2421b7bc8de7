(ns crawler.fetch-test
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing use-fixtures]]
   [crawler.fetch :as fetch]
   [crawler.nasty :as nasty]
   [crawler.page :as page]
   [crawler.server :as server]))

(def ^:dynamic *server* nil)

(use-fixtures :once
  (fn [run-tests]
    (binding [*server* (server/start {})]
      (try (run-tests) (finally (server/stop *server*))))))

(def ^:private limits
  {:timeout 5000, :max-bytes 100000, :hosts #{"127.0.0.1"}})

(defn- fetch-with [limits address]
  (let [client (fetch/client limits)]
    (try
      (fetch/fetch client {:url address, :depth 0})
      (finally (fetch/shut-down client)))))

(defn- trouble
  ([page] (trouble limits page))
  ([limits page] (fetch-with limits (str (:url *server*) "trouble/" page))))

(defn- answered-with [text]
  (nasty/with-server text #(fetch-with limits %)))

(deftest every-kind-of-trouble-has-its-name
  (are [page outcome] (= outcome (:outcome (trouble page)))
    "broken"  :http-500
    "missing" :http-404
    "huge"    :too-large
    "round"   :redirect-loop
    "endless" :too-many-redirects
    "nowhere" :bad-redirect
    "away"    :redirected-away
    "picture" :not-html
    "empty"   :empty
    "unruly"  :ok))

(deftest a-server-that-takes-too-long-is-left
  (let [hurried (assoc limits :timeout 300)]
    (testing "when it never answers"
      (is (= :no-answer (:outcome (trouble hurried "silent")))))
    (testing "when it never finishes"
      (is (contains? #{:body-timeout :no-answer} (:outcome (trouble hurried "trickle")))))))

(deftest a-page-comes-with-what-is-known-of-it
  (let [{:keys [outcome status final-url body]} (fetch-with limits (:url *server*))]
    (is (= [:ok 200 (:url *server*)] [outcome status final-url]))
    (is (pos? (alength ^bytes body)))))

(deftest hosts-that-do-not-answer
  (are [address outcome] (= outcome (:outcome (fetch-with limits address)))
    (str "http://127.0.0.1:" (nasty/free-port) "/") :unreachable
    "http://no-such-host.invalid/"                  :unknown-host))

(deftest what-is-not-http-is-named
  (are [text] (= :protocol-error (:outcome (answered-with text)))
    "SSH-2.0-OpenSSH_9.6\r\n"
    "HTTP/1.1 two-hundred OK\r\n\r\n"
    "HTTP/1.1 101 Switching Protocols\r\n\r\n"
    "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello"
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello"
    (str "HTTP/1.1 200 OK\r\nX: " (str/join (repeat 500000 "x")) "\r\n\r\n")))

(deftest an-answer-that-breaks-off-is-named
  (are [text] (= :connection-lost (:outcome (answered-with text)))
    ""
    "HTTP/1.1 200 OK\r\nConte"
    "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nonly this"
    "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"))

(deftest a-header-without-a-colon-does-no-harm
  (is (= :ok (:outcome (answered-with "HTTP/1.1 200 OK\r\nno colon here\r\n\r\nhello")))))

(deftest a-redirect-that-leads-nowhere-is-named
  (are [location] (= :bad-redirect (:outcome (answered-with (str "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n" location "\r\n"))))
    ""
    "Location: http://[\r\n"
    "Location: mailto:me@host\r\n"
    "Location: http://host:99999/\r\n"))

(deftest a-page-in-an-encoding-we-did-not-ask-for-is-named
  (let [page (answered-with "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxyz")]
    (is (= [:unparsable "encoded as gzip"] ((juxt :outcome :detail) page)))))

(deftest a-server-without-tls-cannot-be-reached-over-tls
  (nasty/with-server "HTTP/1.1 400 Bad Request\r\n\r\n"
    #(is (= :tls-error (:outcome (fetch-with limits (str/replace % "http:" "https:")))))))

(deftest a-body-without-a-length-ends-with-the-connection
  (is (= "<p>hello" (String. ^bytes (:body (answered-with "HTTP/1.1 200 OK\r\n\r\n<p>hello"))))))

(deftest an-address-nobody-understands-is-not-fetched
  (is (= :bad-url (:outcome (fetch/fetch (fetch/client) {:bad "http://["})))))

(deftest shutting-down-ends-a-fetch-under-way
  (let [client (fetch/client {:timeout 60000})
        fetch  #(fetch/fetch client {:url (str (:url *server*) "trouble/silent")})
        before (server/waiting *server*)
        result (future (fetch))]
    (while (= before (server/waiting *server*))
      (Thread/onSpinWait))
    (fetch/shut-down client)
    (is (= :cancelled (:outcome (deref result 5000 :hangs))))
    (testing "and refuses the next"
      (is (= :cancelled (:outcome (fetch)))))))

(deftest malformed-html-yields-what-a-browser-would-find
  (let [{:keys [outcome found title]} (page/parse (trouble "unruly"))]
    (is (= [:ok "Unruly"] [outcome title]))
    (is (= [(str (:url *server*) "trouble/a%20b.html") (str (:url *server*) "trouble/%25zz") "http://["]
           (map (some-fn :url :bad) found)))))

(deftest a-charset-nobody-knows-is-ignored
  (are [content-type] (= "Ä" (:title (page/parse {:outcome :ok, :final-url "http://host/", :content-type content-type
                                                  :body (.getBytes "<title>Ä</title>" "UTF-8")})))
    "text/html; charset=klingon" "text/html; charset=???" "text/html" nil))
