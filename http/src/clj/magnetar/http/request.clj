(ns magnetar.http.request
  "Ring's map of a request."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.http.tls :as tls]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang PersistentArrayMap)
   (java.io InputStream)
   (java.util Locale)
   (org.eclipse.jetty.http HttpField HttpHeader HttpURI)
   (org.eclipse.jetty.server ConnectionMetaData Request)))

(set! *warn-on-reflection* true)

(defn parts
  "The parts of a header that are separated by commas, or nil."
  [text]
  (some-> text str/trim (str/split #"\s*,\s*")))

(defn- separator [name]
  (if (= "cookie" name) ";" ","))

(defn- headers
  "The headers with names in lower case. Several values of one name are joined."
  [^Request request]
  (persistent!
    (reduce (fn [m ^HttpField field]
              (let [name (.getLowerCaseName field)
                    value (or (.getValue field) "")
                    before (get m name)]
                (assoc! m name (if before (str before (separator name) value) value))))
            (transient {}) (.getHeaders request))))

(defn- without-brackets
  "The address of a client, an IPv6 address without the brackets that belong to a URI."
  [^String address]
  (if (and address (str/starts-with? address "["))
    (subs address 1 (dec (count address)))
    address))

(defn- path [^HttpURI uri]
  (let [path (.getPath uri)]
    (if (or (nil? path) (= "" path)) "/" path)))

(defn charset
  "The charset that a Content-Type names, or nil."
  [content-type]
  (when (and content-type (str/includes? content-type ";"))
    (second (re-find #"(?i);\s*charset=\s*\"?([^\s;\"]+)" content-type))))

(def ^:private usual-methods
  {"GET" :get "HEAD" :head "POST" :post "PUT" :put "DELETE" :delete "OPTIONS" :options "PATCH" :patch})

(defn method
  "The method, as :get."
  [^Request request]
  (let [name (.getMethod request)]
    (or (usual-methods name)
        (keyword (.toLowerCase name Locale/ROOT)))))

(defn body?
  "False if the request is known to have no body."
  [^Request request]
  (let [fields (.getHeaders request)
        length (.getLongField fields HttpHeader/CONTENT_LENGTH)]
    (cond
      (pos? length) true
      (zero? length) false
      (.contains fields HttpHeader/TRANSFER_ENCODING) true
      (= 1 (quot (.getVersion (.getHttpVersion (.getConnectionMetaData request))) 10)) false ; HTTP/1: no length, no body
      :else true)))

(defn- small-map
  "The map of these keys and values, which is searched in place of being hashed: a literal or `assoc` of more than eight keys would hash it."
  [keys-and-values]
  (PersistentArrayMap. (to-array keys-and-values)))

(defn ring-map
  "The map of the request, with this stream as its body and this scope."
  [^Request request ^InputStream body scope]
  (let [uri (.getHttpURI request)
        headers (headers request)
        content-type (get headers "content-type")
        length (some-> (get headers "content-length") parse-long)
        ^ConnectionMetaData connection (.getConnectionMetaData request)
        secure? (tls/secure? (.getEndPoint (.getConnection connection)))
        encoding (charset content-type)]
    (small-map
      (cond-> [:uri (path uri)
               :request-method (method request)
               :headers headers
               :query-string (.getQuery uri)
               :body body
               :scheme (if secure? :https :http)
               :server-port (Request/getServerPort request)
               :server-name (Request/getServerName request)
               :remote-addr (without-brackets (Request/getRemoteAddr request))
               :protocol (.asString (.getHttpVersion connection))
               :ssl-client-cert (when secure? (tls/client-certificate (.getEndPoint (.getConnection connection))))
               :magnetar.http/scope scope]
        content-type (conj :content-type content-type)
        length (conj :content-length length)
        encoding (conj :character-encoding encoding)))))
