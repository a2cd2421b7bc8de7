(ns crawler.server
  "A web site on loopback, to crawl at will: a folder of HTML with the latency of a real network, beside pages
  that fail in every way a page can.

  Latency is drawn from a seed and the path, so a page takes equally long for each client."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (com.sun.net.httpserver Headers HttpExchange HttpHandler HttpServer)
   (java.io File)
   (java.net InetAddress InetSocketAddress URI)
   (java.util.concurrent CountDownLatch Executors)
   (java.util.concurrent.atomic AtomicLong)
   (java.util.function LongBinaryOperator)))

(set! *warn-on-reflection* true)

;; The JDK's server keeps 200 idle connections and delays small packets unless told otherwise before it starts.
(System/setProperty "sun.net.httpserver.maxIdleConnections" "4000")
(System/setProperty "sun.net.httpserver.nodelay" "true")

(defn- respond
  "Answers `exchange` with `status`, `headers` and the bytes or text `body`."
  [^HttpExchange exchange status headers body]
  (let [^bytes bytes (if (string? body) (.getBytes ^String body "UTF-8") body)
        ^Headers answer (.getResponseHeaders exchange)]
    (doseq [[k v] headers]
      (.set answer k v))
    (.sendResponseHeaders exchange status (if (zero? (alength bytes)) -1 (alength bytes)))
    (when (pos? (alength bytes))
      (.write (.getResponseBody exchange) bytes))))

(def ^:private html {"Content-Type" "text/html; charset=utf-8"})

(defn- redirect [exchange location]
  (respond exchange 302 {"Location" location} ""))

(defn- stream
  "Answers `exchange` with `chunk`, `n` times, waiting `pause` ms before each."
  [^HttpExchange exchange ^String chunk n pause]
  (.set (.getResponseHeaders exchange) "Content-Type" "text/html")
  (.sendResponseHeaders exchange 200 0)
  (let [out (.getResponseBody exchange)]
    (dotimes [_ n]
      (Thread/sleep (long pause))
      (.write out (.getBytes chunk))
      (.flush out))))

;; Pages that fail.

(def ^:private blank-megabyte (apply str (repeat 1000000 " ")))

(def ^:private unruly-page
  "<title>Unruly</title><p><b><a href=' a b.html '>blank<a href='/trouble/%zz'>percent</i><table><a href=http://[>bad")

(def troubles
  "From the name of a page under /trouble/ to a function of exchange and server that answers it."
  {"broken"   (fn [exchange _] (respond exchange 500 html "<h1>Broken</h1>"))
   "slow"     (fn [exchange _] (Thread/sleep 1500) (respond exchange 200 html "<h1>At last</h1>"))
   "silent"   (fn [_ {:keys [^CountDownLatch stopped]}] (.await stopped))
   "trickle"  (fn [exchange _] (stream exchange "." 1000000 100))
   "huge"     (fn [exchange _] (stream exchange blank-megabyte 100 0))
   "round"    (fn [exchange _] (redirect exchange "/trouble/about"))
   "about"    (fn [exchange _] (redirect exchange "/trouble/round"))
   "endless"  (fn [^HttpExchange exchange _]
                (redirect exchange (str "/trouble/endless?" (inc (parse-long (or (.getQuery (.getRequestURI exchange)) "0"))))))
   "nowhere"  (fn [exchange _] (respond exchange 302 {} ""))
   "away"     (fn [exchange _] (redirect exchange "http://elsewhere.invalid/"))
   "picture"  (fn [exchange _] (respond exchange 200 {"Content-Type" "image/png"} "not really"))
   "empty"    (fn [exchange _] (respond exchange 200 html ""))
   "unruly"   (fn [exchange _] (respond exchange 200 html unruly-page))})

(def demo-troubles
  "The ones the demo's index links to, one of them to a page that is not there."
  ["broken" "missing" "slow" "silent" "trickle" "huge" "round" "picture" "empty" "unruly"])

;; Pages that work.

(defn pages
  "Returns the paths of all HTML files below `folder`, relative to it."
  [^File folder]
  (for [^File file (file-seq folder)
        :when (and (.isFile file) (str/ends-with? (.getName file) ".html"))]
    (str (.relativize (.toPath folder) (.toPath file)))))

(defn- encoded
  "Returns `path` as it must be written in an address."
  [path]
  (.toASCIIString (URI. nil nil path nil)))

(defn- link
  "Returns a list item that leads to `path`."
  [path]
  (str "<li><a href=\"" (encoded path) "\">" (encoded path) "</a>"))

(defn- map-of
  "Returns a list of links to every page of every mirror, so that a crawler knows at once how much there is."
  [{:keys [folder mirrors]}]
  (str/join (for [n    (range mirrors)
                  page (if folder (cons "index.html" (pages folder)) ["index.html"])]
              (link (str "/m" n "/" page)))))

(defn- entrance
  "Returns the first page: a map of the site, and links to the troubles."
  [server]
  (str "<!doctype html><title>Demo site</title><ul>" (str/join (map #(link (str "/trouble/" %)) demo-troubles)) (map-of server) "</ul>"))

(defn- file-of
  "Returns the readable file that `path` (/mN/..) means below `folder`, nil when there is none inside it."
  [^File folder path]
  (when-let [[_ relative] (re-matches #"/m\d+/(.*)" path)]
    (let [file (io/file folder relative)]
      (when (and (.isFile file)
                 (.startsWith (.normalize (.toPath file)) (.toPath folder)))
        file))))

(defn- content-type [^File file]
  (condp #(str/ends-with? %2 %1) (.getName file)
    ".html" "text/html; charset=utf-8"
    ".css"  "text/css"
    ".js"   "text/javascript"
    "application/octet-stream"))

(defn latency
  "Returns the milliseconds that a server of this `:seed` and `:latency` takes for the page at `path`."
  [{[low high] :latency, :keys [seed]} path]
  (+ low (mod (hash [seed path]) (inc (- high low)))))

(defn- contents
  "Returns an index of all HTML files below `folder`, for folders that have none."
  [^File folder]
  (str "<!doctype html><title>Contents</title><ul>" (str/join (map #(link (str "./" %)) (pages folder))) "</ul>"))

(defn- serve-file
  "Answers `exchange` with the file at `path`, after its latency."
  [exchange {:keys [folder] :as server} path]
  (Thread/sleep (long (latency server path)))
  (if (= "/" path)
    (respond exchange 200 html (entrance server))
    (if-let [^File file (file-of folder path)]
      (respond exchange 200 {"Content-Type" (content-type file)} (java.nio.file.Files/readAllBytes (.toPath file)))
      (if (and folder (re-matches #"/m\d+/index\.html" path))
        (respond exchange 200 html (contents folder))
        (respond exchange 404 html "<h1>Not here</h1>")))))

(defn- answer [^HttpExchange exchange server]
  (let [path        (.getPath (.getRequestURI exchange))
        [_ trouble] (re-matches #"/trouble/(.*)" path)]
    (if-let [misbehave (troubles trouble)]
      (misbehave exchange server)
      (serve-file exchange server path))))

;; The server.

(defn- with-gauge
  "Calls `f` while it counts as a request under way; remembers the highest count."
  [{:keys [^AtomicLong in-flight ^AtomicLong peak]} f]
  (let [now (.incrementAndGet in-flight)]
    (.accumulateAndGet peak now (reify LongBinaryOperator (applyAsLong [_ a b] (max a b))))
    (try (f) (finally (.decrementAndGet in-flight)))))

(defn- handler [server]
  (reify HttpHandler
    (handle [_ exchange]
      (try
        (with-gauge server #(answer exchange server))
        (finally (.close exchange))))))

(defn start
  "Starts to serve `:folder` (a path; nil for none) on a free loopback port. Options: `:latency [low high]` ms,
  `:seed`, `:mirrors` (how many times the folder appears). Returns the server with its `:url`; end it with `stop`."
  [{:keys [folder] :as options}]
  (let [loopback (InetAddress/getLoopbackAddress)
        http     (HttpServer/create (InetSocketAddress. loopback 0) 4096)
        server   (merge {:latency [0 0], :seed 1, :mirrors 1} options
                        {:folder    (when folder (.getCanonicalFile (io/file folder)))
                         :http      http
                         :url       (str "http://127.0.0.1:" (.getPort (.getAddress http)) "/")
                         :in-flight (AtomicLong.), :peak (AtomicLong.), :stopped (CountDownLatch. 1)})]
    (.setExecutor http (Executors/newVirtualThreadPerTaskExecutor))
    (.createContext http "/" (handler server))
    (.start http)
    server))

(defn address
  "Returns the address of the page at `path` (which starts with a slash) on `server`."
  [{:keys [url]} path]
  (str url (subs (encoded path) 1)))

(defn peak
  "Returns the highest number of requests that were under way at once."
  [server]
  (.get ^AtomicLong (:peak server)))

(defn waiting
  "Returns the number of requests under way now."
  [server]
  (.get ^AtomicLong (:in-flight server)))

(defn stop
  "Ends the server and everybody who still waits for it."
  [{:keys [^HttpServer http ^CountDownLatch stopped]}]
  (.countDown stopped)
  (.stop http 0))
