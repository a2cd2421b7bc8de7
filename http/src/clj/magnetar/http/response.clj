(ns magnetar.http.response
  "Checks the map that a handler returned, and writes it."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.channel :as channel]
   [magnetar.http.events :as events]
   [magnetar.http.refusals :as refusals]
   [magnetar.http.request :as request]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang ExceptionInfo ISeq)
   (java.io File FileInputStream InputStream OutputStream)
   (java.nio ByteBuffer)
   (java.nio.charset Charset StandardCharsets)
   (magnetar.http.events Events)
   (org.eclipse.jetty.http HttpFields$Mutable HttpHeader HttpStatus HttpVersion)
   (org.eclipse.jetty.io Content$Sink)
   (org.eclipse.jetty.server Response)
   (org.eclipse.jetty.util Callback)))

(set! *warn-on-reflection* true)

;; ---- checks

(defn- refuse [what value]
  (throw (refusals/bad-response
           (str "The handler returned no response that can be sent: " what "; this is " (arguments/show value) ".") value)))

(def ^:private token #"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

(defn- check-value [name value]
  (when-not (and (string? value) (not (re-find #"[\r\n\u0000]" value)))
    (refuse (str "the value of the header " (arguments/show name) " has to be a string without line breaks") value)))

(defn- check-header [[name value]]
  (when-not (and (string? name) (re-matches token name))
    (refuse "the name of a header has to be a string of the characters that HTTP allows" name))
  (if (string? value)
    (check-value name value)
    (if (sequential? value)
      (run! #(check-value name %) value)
      (refuse (str "the header " (arguments/show name) " has to be a string or a vector of strings") value))))

;; A var of the class path of the program, which may have no Ring.
(def ^:private ring-write
  (delay (try
           (requiring-resolve 'ring.core.protocols/write-body-to-stream)
           (catch java.io.FileNotFoundException _ nil))))

(defn- ring-body? [body]
  (when-some [write @ring-write]
    (satisfies? (var-get (resolve (symbol (namespace (symbol write)) "StreamableResponseBody"))) body)))

(defn- kind
  "What kind of body it is; nil for none that can be written."
  [body]
  (cond
    (nil? body) :empty
    (string? body) :string
    (bytes? body) :bytes
    (instance? ISeq body) :seq
    (instance? InputStream body) :stream
    (instance? File body) :file
    (channel/channel? body) :channel
    (instance? Events body) :events
    (ring-body? body) :ring))

(defn check
  "Refuses what is no response of Ring; returns the kind of its body."
  [{:keys [status headers body] :as response}]
  (when-not (map? response)
    (refuse "it has to be a map with :status, :headers and :body" response))
  (when-not (and (int? status) (<= 200 (long status) 599))
    (refuse ":status has to be a whole number from 200 to 599" status))
  (when-not (or (nil? headers) (map? headers))
    (refuse ":headers has to be a map" headers))
  (run! check-header headers)
  (or (kind body)
      (refuse (str ":body has to be nil, a string, an array of bytes, a seq, a File, an InputStream, a channel, or what "
                   "ring.core.protocols/StreamableResponseBody extends to") body)))

;; ---- the head

(defn- put-header [^HttpFields$Mutable fields [^String name value]]
  (if (string? value)
    (.put fields name ^String value)
    (do (.remove fields name)
        (run! #(.add fields name ^String %) value))))

(defn- write-head [^Response response {:keys [status headers]}]
  (.setStatus response status)
  (let [fields (.getHeaders response)]
    (run! #(put-header fields %) headers)))

(defn- charset-of ^Charset [^Response response]
  (if-some [named (request/charset (.get (.getHeaders response) HttpHeader/CONTENT_TYPE))]
    (Charset/forName named)
    StandardCharsets/UTF_8))

(defn- no-body?
  "True if HTTP forbids a body there."
  [^Response response]
  (or (= "HEAD" (.getMethod (.getRequest response)))
      (contains? #{204 304} (.getStatus response))))

;; ---- bodies

(defn- bytes-of ^bytes [body ^Charset charset]
  (cond
    (bytes? body) body
    (string? body) (.getBytes ^String body charset)
    :else (throw (refusals/bad-response
                   (str "A channel as :body takes strings and arrays of bytes; this is " (arguments/show body) ". The connection is cut.") body))))

(defn- copy [^InputStream in ^OutputStream out]
  (let [buffer (byte-array 16384)]
    (loop []
      (let [n (.read in buffer)]
        (when-not (neg? n)
          (.write out buffer 0 n)
          (recur))))))

(defn- end-channel
  "Closes the channel, and takes what waits to be put, so that its senders go on."
  [ch]
  (channel/close ch)
  (try
    (while (some? (channel/try-take ch)))
    (catch ExceptionInfo _))) ; it was closed for a cause

(defn- write-events
  "Writes the events of the channel until it closes, as `write-channel` does values."
  [^Events events ^OutputStream out]
  (try
    (loop []
      (when-some [event (channel/take (.-ch events) {:timeout (.-heartbeat events) :else ::none})]
        (.write out (bytes-of (if (= ::none event) events/heartbeat (events/text event)) StandardCharsets/UTF_8))
        (.flush out)
        (recur)))
    (finally (end-channel (.-ch events)))))

(defn- write-channel
  "Writes the values of the channel until it closes. Afterwards it is closed however that ended, so that its sender stops."
  [ch ^OutputStream out charset]
  (try
    (loop []
      (when-some [value (channel/take ch)]
        (.write out (bytes-of value charset))
        (.flush out)
        (recur)))
    (finally (end-channel ch))))

(defn- write-stream [kind {:keys [body] :as ring-response} ^OutputStream out charset]
  (case kind
    :seq (doseq [part body]
           (.write out (bytes-of (str part) charset))
           (.flush out))
    :stream (with-open [^InputStream in body] (copy in out))
    :file (with-open [in (FileInputStream. ^File body)] (copy in out))
    :channel (write-channel body out charset)
    :events (write-events body out)
    :ring (@ring-write body ring-response out)))

(defn release-body
  "Closes a body that is not sent."
  [body]
  (cond
    (instance? InputStream body) (.close ^InputStream body)
    (channel/channel? body) (end-channel body)
    (instance? Events body) (end-channel (.-ch ^Events body))))

(defn- known-length [kind ^Response response body ^bytes content]
  (case kind
    (:string :bytes) (alength content)
    :file (.length ^File body)
    nil))

(defn- write-length [^Response response length]
  (let [fields (.getHeaders response)
        given (.get fields HttpHeader/CONTENT_LENGTH)]
    (cond
      (or (nil? length) (= 204 (.getStatus response))) nil
      (nil? given) (.put fields HttpHeader/CONTENT_LENGTH (long length))
      (not= given (str length)) (refuse (str "the body has " length " bytes, and another number stands in its header Content-Length") given))))

(def ^:private most-at-once
  "The most bytes that are handed over without waiting until the client has taken them."
  65536)

(defn- send-in-chunks
  "Lets a body without a length be sent in chunks where HTTP/1.1 would end it by the end of the connection. Then the client could not tell a
  response that was cut from one that is complete."
  [^Response response]
  (let [fields (.getHeaders response)
        version (.getHttpVersion (.getConnectionMetaData (.getRequest response)))]
    (when-not (or (not= HttpVersion/HTTP_1_1 version) (.contains fields HttpHeader/CONTENT_LENGTH))
      (.put fields HttpHeader/TRANSFER_ENCODING "chunked"))))

;; An error of a write to the client is kept under :write-failure of the facts. It is no failure of the program.

(defmacro ^:private to-client [facts & body]
  `(try
     ~@body
     (catch Throwable e#
       (swap! ~facts assoc :write-failure e#)
       (throw e#))))

(defn- stream-to-client ^OutputStream [response facts]
  (let [out (Content$Sink/asOutputStream response)]
    (proxy [OutputStream] []
      (write
        ([x] (to-client facts (if (bytes? x) (.write out ^bytes x) (.write out (int x)))))
        ([^bytes bytes from length] (to-client facts (.write out bytes (int from) (int length)))))
      (flush [] (to-client facts (.flush out)))
      (close [] (to-client facts (.close out))))))

(defn- stream-all [kind ring-response ^Response response facts before-end]
  (let [out (stream-to-client response facts)]
    (send-in-chunks response)
    (write-stream kind ring-response out (charset-of response))
    (before-end)
    (.close out)))

;; `before-end` is called before the last byte of the response is handed over. After that the connection belongs to the next request.
(defn write
  "Writes the response, whose body is of this kind. Ends with a call of the callback; an error is thrown, and the callback is not called."
  [^Response response {:keys [body] :as ring-response} kind facts before-end ^Callback callback]
  (write-head response ring-response)
  (let [content (when (#{:string :bytes} kind) (bytes-of body (charset-of response)))]
    (write-length response (known-length kind response body content))
    (cond
      (or (= :empty kind) (no-body? response))
      (do (release-body body)
          (before-end)
          (.write response true nil callback))

      (and content (<= (alength content) (long most-at-once)))
      (do (before-end)
          (.write response true (ByteBuffer/wrap content) callback))

      content
      (do (to-client facts (Content$Sink/write response false (ByteBuffer/wrap content)))
          (before-end)
          (.write response true nil callback))

      :else
      (do (stream-all kind ring-response response facts before-end)
          (.succeeded callback)))))

(defn write-error
  "Answers with a status, and its name as the text. `close?` also ends the connection."
  [^Response response status headers close? ^Callback callback]
  (.reset response)
  (.setStatus response status)
  (let [fields (.getHeaders response)
        text (str status " " (str/trim (str (HttpStatus/getMessage status))) "\n")]
    (.put fields "Content-Type" "text/plain;charset=utf-8")
    (run! #(put-header fields %) headers)
    (when close?
      (.put fields "Connection" "close"))
    (.write response true (ByteBuffer/wrap (.getBytes text StandardCharsets/UTF_8)) callback)))
