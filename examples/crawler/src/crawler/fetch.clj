(ns crawler.fetch
  "One page over HTTP, in plain blocking code: an address goes in, an outcome comes out.

  An outcome is a map with `:url`, `:depth`, `:outcome` (`:ok`, or the name of what went wrong), and what
  is known besides: `:status`, `:final-url`, `:content-type`, `:body`, `:detail`. `fetch` never throws and
  never hangs: each address gets exactly one outcome."
  (:require
   [clojure.string :as str]
   [crawler.body :as body]
   [crawler.url :as url])
  (:import
   (java.io EOFException IOException)
   (java.net ConnectException NoRouteToHostException SocketException URI UnknownHostException)
   (java.net.http HttpClient HttpClient$Redirect HttpClient$Version HttpConnectTimeoutException HttpHeaders HttpRequest HttpResponse HttpTimeoutException)
   (java.nio.channels ClosedChannelException UnresolvedAddressException)
   (java.time Duration)
   (java.util.concurrent Executors TimeoutException)
   (javax.net.ssl SSLException)))

(set! *warn-on-reflection* true)

(def reasons
  "Every name an outcome can have besides `:ok` and `:http-NNN`, and what it means."
  {:bad-url            "the address cannot be understood"
   :unknown-host       "no such host"
   :unreachable        "no connection could be made"
   :tls-error          "no secure connection could be made"
   :connection-lost    "the connection ended before the answer did"
   :no-answer          "no answer in time"
   :body-timeout       "the answer began but did not end in time"
   :protocol-error     "the answer is not HTTP"
   :too-large          "the page is larger than we read"
   :not-html           "not an HTML page"
   :empty              "a page with nothing in it"
   :unparsable         "the page cannot be parsed"
   :redirect-loop      "redirected in a circle"
   :too-many-redirects "redirected too often"
   :bad-redirect       "redirected to nowhere"
   :redirected-away    "redirected to a host we do not crawl"
   :cancelled          "not fetched: the crawl was cancelled"
   :crashed            "the crawler itself failed: a defect"})

(def default-limits
  {:max-bytes 5000000, :timeout 10000, :max-redirects 10})

;; The client.

(defn- http-client
  "Returns a JDK client that runs its own errands on virtual threads and leaves redirects to us."
  ^HttpClient [timeout]
  (-> (HttpClient/newBuilder)
      (.version HttpClient$Version/HTTP_1_1)
      (.followRedirects HttpClient$Redirect/NEVER)
      (.connectTimeout (Duration/ofMillis timeout))
      (.executor (Executors/newVirtualThreadPerTaskExecutor))
      .build))

(defn client
  "Returns a client with `limits` (see `default-limits`); `hosts` is the set of hosts it may be redirected to,
  nil for any. Release it with `shut-down`."
  ([] (client nil))
  ([{:keys [hosts] :as limits}]
   (let [limits (merge default-limits limits)]
     {:http (http-client (:timeout limits)), :limits limits, :hosts hosts, :closed (promise)})))

(defn shut-down
  "Ends all fetches under way, with outcome `:cancelled`, and refuses later ones the same way."
  [{:keys [^HttpClient http closed]}]
  (deliver closed true)
  (.shutdownNow http))

;; One exchange.

(defn- header [^HttpHeaders headers ^String header-name]
  (.orElse (.firstValue headers header-name) nil))

(defn- html?
  "True when `headers` announce HTML, or announce nothing at all."
  [headers]
  (let [content-type (header headers "content-type")]
    (or (str/blank? content-type)
        (boolean (re-find #"(?i)^\s*(text/html|application/xhtml\+xml)\b" content-type)))))

(defn- encoding
  "Returns the name of the encoding that makes a body unreadable to us, or nil. We ask for a plain body."
  [headers]
  (when-let [encoding (header headers "content-encoding")]
    (when-not (contains? #{"" "identity"} (str/lower-case (str/trim encoding)))
      encoding)))

(defn- worth-reading? [status headers]
  (and (= 200 status) (html? headers) (not (encoding headers))))

(defn- exchange
  "Sends one GET and blocks until the answer's body is here, or its absence is decided."
  ^HttpResponse [{:keys [^HttpClient http limits]} address]
  (let [request (-> (HttpRequest/newBuilder (URI. address))
                    (.timeout (Duration/ofMillis (:timeout limits)))
                    (.header "User-Agent" "magnetar-example-crawler")
                    (.header "Accept" "text/html,application/xhtml+xml")
                    .build)]
    (.send http request (body/handler worth-reading? limits))))

;; From answer to outcome.

(defn- page
  "Returns the outcome of a final `response`: an HTML page's `:body`, or why it has no body."
  [^HttpResponse response]
  (let [status  (.statusCode response)
        headers (.headers response)
        ^bytes body (.body response)]
    (cond
      (not= 200 status)      {:outcome (keyword (str "http-" status))}
      (not (html? headers))  {:outcome :not-html, :detail (header headers "content-type")}
      (encoding headers)     {:outcome :unparsable, :detail (str "encoded as " (encoding headers))}
      (zero? (alength body)) {:outcome :empty}
      :else                  {:outcome :ok, :body body, :content-type (header headers "content-type")})))

(defn- redirect?
  [^HttpResponse response]
  (contains? #{301 302 303 307 308} (.statusCode response)))

(defn- refuse-redirect
  "Returns why the redirect `target` cannot be followed after `trail`, or nil when it can."
  [{:keys [limits hosts]} trail {:keys [url] :as target}]
  (cond
    (nil? url)                                  {:outcome :bad-redirect, :detail (:bad target (:ignored target))}
    (some #{url} trail)                         {:outcome :redirect-loop, :detail url}
    (> (count trail) (:max-redirects limits))   {:outcome :too-many-redirects, :detail url}
    (and hosts (not (contains? hosts (url/host url)))) {:outcome :redirected-away, :detail url}))

(defn- follow
  "Fetches the last address of `trail` and whatever it redirects to; returns the outcome."
  [client trail]
  (let [address  (peek trail)
        response (exchange client address)
        found    {:status (.statusCode response), :final-url address}]
    (if (redirect? response)
      (let [target (url/resolve-link address (or (header (.headers response) "location") "http://"))]
        (or (some->> (refuse-redirect client trail target) (merge found))
            (recur client (conj trail (:url target)))))
      (merge found (page response)))))

;; From exception to outcome.

(def ^:private names-of-failures
  "The first class that matches anything in the chain of causes names the failure. (The JDK's client throws an
  IllegalArgumentException for some headers it cannot read.)"
  [[HttpConnectTimeoutException :unreachable]
   [HttpTimeoutException :no-answer]
   [TimeoutException :body-timeout]
   [UnresolvedAddressException :unknown-host]
   [UnknownHostException :unknown-host]
   [ConnectException :unreachable]
   [NoRouteToHostException :unreachable]
   [SSLException :tls-error]
   [EOFException :connection-lost]
   [SocketException :connection-lost]
   [ClosedChannelException :connection-lost]
   [IOException :protocol-error]
   [IllegalArgumentException :protocol-error]
   [Throwable :crashed]])

(defn- name-of [causes]
  (or (some (comp :reason ex-data) causes)
      (some (fn [[kind reason]] (when (some #(instance? kind %) causes) reason)) names-of-failures)))

(defn- failure
  "Returns the outcome of a fetch that threw `exception`."
  [{:keys [closed]} ^Throwable exception]
  (let [causes (take-while some? (iterate ex-cause exception))]
    (if (realized? closed)
      {:outcome :cancelled}
      {:outcome (name-of causes), :detail (some ex-message causes)})))

(defn fetch
  "Returns the outcome of fetching `job` (a map with `:url`), added to `job`. Blocks until it is known, at most
  the client's `:timeout` per redirect for the answer and once more for the page. Never throws.

  Example: (fetch (client) {:url \"http://localhost:8000/\"}) => {:url .. :outcome :ok :status 200 :body ..}"
  [{:keys [closed] :as client} {:keys [url bad why] :as job}]
  (merge job
         (cond
           bad                {:outcome :bad-url, :detail why}
           (realized? closed) {:outcome :cancelled}
           :else              (try
                                (follow client [url])
                                (catch Throwable e
                                  (failure client e))))))
