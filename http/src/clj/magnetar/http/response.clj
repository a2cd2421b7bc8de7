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
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang EnumerationSeq ExceptionInfo IPending ISeq)
   (java.io BufferedOutputStream Closeable File FileInputStream IOException InputStream OutputStream)
   (java.nio ByteBuffer)
   (java.nio.charset Charset StandardCharsets)
   (java.util BitSet)
   (java.util.concurrent.atomic AtomicLong)
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

(def ^:private ^BitSet of-token
  "The characters of HTTP's tokens."
  (let [set (BitSet.)]
    (run! #(.set set (int %)) "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    set))

(defn- token? [^String text]
  (let [n (.length text)]
    (loop [i 0]
      (if (< i n)
        (and (.get of-token (int (.charAt text i))) (recur (inc i)))
        (pos? n)))))

(defn- of-one-line? [^String text]
  (and (neg? (.indexOf text 10)) (neg? (.indexOf text 13)) (neg? (.indexOf text 0))))

(defn- check-value [name value]
  (when-not (and (string? value) (of-one-line? value))
    (refuse (str "the value of the header " (arguments/show name) " has to be a string without line breaks") value)))

(defn- check-header [name value]
  (when-not (and (string? name) (token? name))
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

(def ^:const most-head
  "The most bytes of the headers of a response. Clients refuse more, and Jetty would fail half way."
  16384)

(defn- size-of-header ^long [^String name value]
  (if (string? value)
    (+ 4 (.length name) (.length ^String value)) ; a colon, a space and the end of the line
    (long (transduce (map #(+ 4 (.length name) (.length ^String %))) + 0 value))))

(defn- add-checked
  "The size of some headers and of one more, which is checked."
  [size name value]
  (check-header name value)
  (+ (long size) (size-of-header name value)))

(defn- check-headers [headers]
  (when-not (or (nil? headers) (map? headers))
    (refuse ":headers has to be a map" headers))
  (let [size (long (reduce-kv add-checked 0 headers))]
    (when (< (long most-head) size)
      (refuse (str "its headers have " size " bytes, and " most-head " are allowed") headers))))

(defn check
  "Refuses what is no response of Ring; returns the kind of its body."
  [response]
  (when-not (map? response)
    (refuse "it has to be a map with :status, :headers and :body" response))
  (let [{:keys [status headers body]} response]
    (when-not (and (int? status) (<= 200 (long status) 599))
      (refuse ":status has to be a whole number from 200 to 599" status))
    (check-headers headers)
    (or (kind body)
        (refuse (str ":body has to be nil, a string, an array of bytes, a seq, a File, an InputStream, a channel, or what "
                     "ring.core.protocols/StreamableResponseBody extends to") body))))

;; ---- the head

(defn- put-header
  "The fields with this header, which replaces another one of its name."
  ^HttpFields$Mutable [^HttpFields$Mutable fields ^String name value]
  (if (string? value)
    (.put fields name ^String value)
    (do (.remove fields name)
        (run! #(.add fields name ^String %) value)
        fields)))

(defn- put-headers [fields headers]
  (reduce-kv put-header fields headers))

(defn write-headers
  "Writes the headers of a map."
  [^Response response headers]
  (put-headers (.getHeaders response) headers))

(defn- write-head [^Response response {:keys [status headers]}]
  (.setStatus response status)
  (write-headers response headers))

(defn- charset-named ^Charset [content-type]
  (if-some [named (request/charset content-type)]
    (Charset/forName named)
    StandardCharsets/UTF_8))

(defn- charset-of ^Charset [^Response response]
  (charset-named (.get (.getHeaders response) HttpHeader/CONTENT_TYPE)))

(defn charset-named-by
  "The charset of the text of Ring's response."
  ^Charset [{:keys [headers]}]
  (charset-named (some (fn [[name value]] (when (.equalsIgnoreCase "content-type" name) value)) headers)))

(defn- head? [^Response response]
  (= "HEAD" (.getMethod (.getRequest response))))

(defn- bodiless?
  "True if HTTP forbids a body with this status."
  [status]
  (contains? #{204 304} status))

;; ---- bodies

(defn- bytes-of
  "The bytes of a value of a channel."
  ^bytes [body ^Charset charset]
  (cond
    (bytes? body) body
    (string? body) (.getBytes ^String body charset)
    :else (throw (refusals/bad-response
                   (str "A channel as :body takes strings and arrays of bytes; this is " (arguments/show body) ". The connection is closed.") body))))

;; What sends a body of this kind: `facts` is the atom of the exchange. `left` is an array of one: how many bytes of the Content-Length have not
;; been sent, below 0 without a Content-Length. `since` is the instant at which the client began to be waited for, Long/MAX_VALUE while it is not.
(deftype Sending [^Response response facts ^longs left ^AtomicLong since])

(defn- wrong-length [^long left]
  (refusals/bad-response (str "The body of the response is " (if (neg? left) "longer" (str left " bytes shorter"))
                              " than its header Content-Length says. The connection is closed if a part was sent.") nil))

(defn- count-out
  "Takes n bytes off what the Content-Length announces."
  [^Sending sending ^long n]
  (let [^longs left (.-left sending)
        before (aget left 0)]
    (when-not (neg? before)
      (when (< before n)
        (throw (wrong-length -1)))
      (aset left 0 (- before n)))))

(defn- send-part
  "Hands bytes to the client, and waits until they have gone. An error is kept under :write-failure of the facts."
  [^Sending sending ^bytes bytes from n]
  (when (pos? (long n))
    (count-out sending n)
    (try
      (.set ^AtomicLong (.-since sending) (clock/now))
      (Content$Sink/write (.-response sending) false (ByteBuffer/wrap bytes from n))
      (catch Throwable e
        (swap! (.-facts sending) assoc :write-failure e)
        (throw e))
      (finally (.set ^AtomicLong (.-since sending) Long/MAX_VALUE)))))

(defn- send-all [sending ^bytes bytes]
  (send-part sending bytes 0 (alength bytes)))

(defn- send-stream [sending ^InputStream in]
  (let [buffer (byte-array 16384)]
    (loop []
      (let [n (.read in buffer)]
        (when-not (neg? n)
          (send-part sending buffer 0 n)
          (recur))))))

;; A read of a file holds the carrier of a fiber, and so may a look at its length. `offload` has threads for that.

(def ^:private ^:const part-of-file
  "The most bytes of a file that are read at a time."
  65536)

(defn- length-of-file [^File file]
  (scope/offload #(.length file)))

(defn- read-part
  "Fills the buffer from the file, which is opened first and closed at its end; returns how many bytes it holds. `in` is a volatile of the stream."
  [^File file in ^bytes buffer]
  (let [^FileInputStream stream (or @in (vreset! in (FileInputStream. file)))
        n (.readNBytes stream buffer 0 (alength buffer))]
    (when (< n (alength buffer))
      (.close stream))
    n))

(defn- send-file [^Sending sending ^File file]
  (let [length (aget ^longs (.-left sending) 0)
        buffer (byte-array (min (inc length) (long part-of-file))) ; one more byte, to see the end
        in (volatile! nil)]
    (try
      (loop []
        (let [n (long (scope/offload read-part file in buffer))]
          (send-part sending buffer 0 n)
          (when (= n (alength buffer))
            (recur))))
      (finally (some-> ^FileInputStream @in .close)))))

(defn end-channel
  "Closes the channel, and takes what waits to be put, so that its senders go on."
  [ch]
  (channel/close ch)
  (try
    (scope/shield (while (some? (channel/try-take ch))))
    (catch ExceptionInfo _))) ; it was closed for a cause

(defn each-event
  "Calls (f bytes) for each event, and for each comment between them, until the channel closes."
  [^Events events f]
  (loop []
    (when-some [event (channel/take (.-ch events) {:timeout (.-heartbeat events) :else ::none})]
      (f (bytes-of (if (= ::none event) events/heartbeat (events/text event)) StandardCharsets/UTF_8))
      (recur))))

(defn each-value
  "Calls (f bytes) for each value of the channel until that closes."
  [ch charset f]
  (loop []
    (when-some [value (channel/take ch)]
      (f (bytes-of value charset))
      (recur))))

(defn- network-stream
  "Hands over what is written at once."
  ^OutputStream [sending]
  (proxy [OutputStream] []
    (write
      ([x] (send-part sending (byte-array [(unchecked-byte (int x))]) 0 1))
      ([^bytes bytes from length] (send-part sending bytes from length)))))

(def ^:private ^:const most-buffered
  "The most bytes of a seq or of ring.core.protocols that wait to be sent."
  16384)

(defn- there?
  "False of the rest of a seq that has yet to be computed."
  [parts]
  (or (not (instance? IPending parts)) (realized? parts)))

(defn- send-seq
  "Sends together what is there, and all of it before the next part is computed, which an EnumerationSeq does in
  `rest`. Takes the seq out of the volatile, so that its head is not kept."
  [sending body charset]
  (let [out (BufferedOutputStream. (network-stream sending) most-buffered)]
    (loop [parts (seq (let [parts @body] (vreset! body nil) parts))]
      (when parts
        (.write out (bytes-of (str (first parts)) charset))
        (when (instance? EnumerationSeq parts)
          (.flush out))
        (let [others (rest parts)]
          (when-not (there? others)
            (.flush out))
          (recur (seq others)))))
    (.flush out)))

(defn- check-open [open?]
  (when-not open?
    (throw (IOException. (str "The body of the response was written to after its stream had been closed. The connection is closed; write all of it "
                              "before the close.")))))

(defn- output-stream
  "What ring.core.protocols writes to. A close sends what was written; the end of the response is left to `write`."
  ^OutputStream [sending]
  (let [out (BufferedOutputStream. (network-stream sending) most-buffered)
        open? (volatile! true)]
    (proxy [OutputStream] []
      (write
        ([x]
         (check-open @open?)
         (if (bytes? x)
           (.write out ^bytes x 0 (alength ^bytes x))
           (.write out (int x))))
        ([^bytes bytes from length]
         (check-open @open?)
         (.write out bytes (int from) (int length))))
      (flush []
        (when @open?
          (.flush out)))
      (close []
        (when @open?
          (vreset! open? false)
          (.flush out))))))

(defn- send-ring
  "Lets Ring's protocol write the body. What waits for a flush is dropped if that fails: then the client may still get status 500. A writer
  that the body closes in a `finally` flushes."
  [sending ring-response body]
  (let [out (output-stream sending)]
    (@ring-write body ring-response out)
    (.close out)))

(defn- send-body
  "Sends a body of which the length is not known. `body` is a volatile."
  [sending kind ring-response body charset]
  (case kind
    :seq (send-seq sending body charset)
    :stream (send-stream sending @body)
    :file (send-file sending @body)
    :channel (each-value @body charset #(send-all sending %))
    :events (each-event @body #(send-all sending %))
    :ring (send-ring sending ring-response @body)))

(defn release
  "Lets go of a body, sent or not: closes a stream or what else can be closed, and the channel of one, so that its sender stops."
  [body]
  (cond
    (instance? Closeable body) (.close ^Closeable body)
    (channel/channel? body) (end-channel body)
    (instance? Events body) (end-channel (.-ch ^Events body))))

;; ---- the length

(defn- known-length [kind body ^bytes content]
  (case kind
    :empty 0
    (:string :bytes) (alength content)
    :file (length-of-file body)
    nil))

(defn- given-length
  "The number in the header Content-Length, nil for none."
  [^HttpFields$Mutable fields]
  (let [[text & others] (.getValuesList fields HttpHeader/CONTENT_LENGTH)]
    (when text
      (let [length (parse-long text)]
        (when (or others (nil? length) (neg? (long length)))
          (refuse "its header Content-Length has to be one number of bytes" text))
        length))))

(defn- check-length [length given]
  (when (and length given (not= length given))
    (refuse (str "the body has " length " bytes, and another number stands in its header Content-Length") (str given))))

(defn- write-length
  "Sets the Content-Length; returns how many bytes of a body have to follow, -1 if that is not known."
  [^Response response kind length]
  (let [fields (.getHeaders response)
        given (given-length fields)
        head? (head? response)]
    (cond
      (bodiless? (.getStatus response)) (.remove fields HttpHeader/CONTENT_LENGTH)
      (and head? (= :empty kind)) nil
      :else (do (check-length length given)
                (when (and length (nil? given))
                  (.put fields HttpHeader/CONTENT_LENGTH (long length)))))
    (long (or length given -1))))

(def ^:private ^:const most-at-once
  "The most bytes that are handed over without waiting until the client has taken them."
  65536)

(defn- send-in-chunks
  "Lets a body without a length be sent in chunks where HTTP/1.1 would end it by the end of the connection. Then the client could not tell a
  response that was aborted from one that is complete."
  [^Response response]
  (let [fields (.getHeaders response)
        version (.getHttpVersion (.getConnectionMetaData (.getRequest response)))]
    (when-not (or (not= HttpVersion/HTTP_1_1 version) (.contains fields HttpHeader/CONTENT_LENGTH))
      (.put fields HttpHeader/TRANSFER_ENCODING "chunked"))))

;; ---- the response

(defn- finish
  "Hands over the last bytes, and lets Jetty call the callback when the client has taken them."
  [^Sending sending ^ByteBuffer content before-end ^Callback callback]
  (before-end)
  (.set ^AtomicLong (.-since sending) (clock/now))
  (.write ^Response (.-response sending) true content callback))

(defn- send-content [sending ^bytes content before-end callback]
  (loop [from 0]
    (let [left (- (alength content) from)]
      (if (<= left (long most-at-once))
        (finish sending (ByteBuffer/wrap content from left) before-end callback)
        (do (send-part sending content from most-at-once)
            (recur (+ from (long most-at-once))))))))

(defn- check-complete [^Sending sending]
  (let [left (aget ^longs (.-left sending) 0)]
    (when (pos? left)
      (throw (wrong-length left)))))

(defn- send-unknown [^Sending sending kind ring-response body charset before-end callback]
  (send-in-chunks (.-response sending))
  (send-body sending kind ring-response body charset)
  (check-complete sending)
  (finish sending nil before-end callback))

;; `before-end` is called before the last byte of the response is handed over. After that the connection belongs to the next request.
(defn write
  "Writes the response, whose body is of this kind and in the volatile. Ends with a call of the callback; an error is thrown, and the callback is
  not called."
  [^Response response ring-response kind body {:keys [facts since before-end callback]}]
  (write-head response ring-response)
  (let [charset (charset-of response)
        content (when (#{:string :bytes} kind) (bytes-of @body charset))
        length (write-length response kind (known-length kind @body content))
        sending (Sending. response facts (long-array [length]) since)]
    (cond
      (or (= :empty kind) (head? response) (bodiless? (.getStatus response))) (finish sending nil before-end callback)
      content (send-content sending content before-end callback)
      :else (send-unknown sending kind ring-response body charset before-end callback))))

(defn write-error
  "Answers with a status, and its name as the text. `close?` also ends the connection."
  [^Response response status headers close? ^Callback callback]
  (.reset response)
  (.setStatus response status)
  (let [fields (.getHeaders response)
        text (str status " " (str/trim (str (HttpStatus/getMessage status))) "\n")]
    (.put fields "Content-Type" "text/plain;charset=utf-8")
    (put-headers fields headers)
    (when close?
      (.put fields "Connection" "close"))
    (.write response true (ByteBuffer/wrap (.getBytes text StandardCharsets/UTF_8)) callback)))
