(ns magnetar.impl.chans
  "Makes channels: buffers of a number or a buffer, transducers, handlers of what they throw."
  {:no-doc true}
  (:require
   [clojure.core.protocols :as protocols]
   [clojure.datafy :as datafy]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.refusals :as refusals]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (java.util.function Consumer)
   (magnetar.kernel.channel Buffer Channel ChannelInfo Transform TransformChannel)))

(set! *warn-on-reflection* true)

(defonce ^{:doc "Function that makes a buffer of ours of another library's, or returns nil; set by the bridge."} buffer-adapter
  (atom (constantly nil)))

(defn- as-buffer ^Buffer [buffer]
  (if (or (not buffer) (instance? Buffer buffer))
    (or buffer nil)
    (or (@buffer-adapter buffer)
        (throw (errors/illegal-argument
                 :magnetar/not-a-buffer
                 (str "A channel takes a number, a buffer or nil; this is " (arguments/show buffer) " of "
                      (.getName (class buffer)) ". Make one with (buffer n), (dropping-buffer n) or (sliding-buffer n).")
                 {:buffer buffer})))))

(defn- sink-step
  "The reducing function at the end of a channel's transducer."
  ([sink] sink)
  ([^Consumer sink itm]
   (assert (not (nil? itm)))
   (.accept sink itm)
   sink))

(defn- report [error]
  (reports/report error)
  nil)

(defn- guarded
  "Runs a step of a transducer; what it throws goes to the handler, whose value, unless nil, is put in its place."
  [step ex-handler ^Consumer sink]
  (try
    (step)
    (catch Throwable e
      (let [instead (ex-handler e)]
        (when (some? instead) (.accept sink instead))
        sink))))

(defn- transform [xform ex-handler]
  (let [rf (refusals/built "chan" xform sink-step)
        ex-handler (if ex-handler (refusals/callable "chan" "a function as its ex-handler" ex-handler) report)]
    (reify Transform
      (add [_ sink value] (reduced? (guarded #(rf sink value) ex-handler sink)))
      (complete [_ sink] (guarded #(rf sink) ex-handler sink)))))

(defn chan
  "A channel behind `buffer`, or without one for nil, and behind `xform`, unless that is nil."
  [buffer xform ex-handler]
  (if xform
    (TransformChannel/of (as-buffer buffer) (transform xform ex-handler))
    (Channel/of (as-buffer buffer))))

(defn buffer
  "A fixed buffer of n values."
  ^Buffer [n]
  (let [n (long (refusals/number "buffer" n))]
    (assert (pos? n) "fixed buffers must have size > 0")
    (Buffer/fixed (min n Integer/MAX_VALUE))))

(defn of
  "A channel behind a buffer, which may be given by its size, and a transducer; nil or false for none."
  ([buf-or-n] (chan (if (number? buf-or-n) (buffer buf-or-n) buf-or-n) nil nil))
  ([buf-or-n xform ex-handler]
   (when xform (assert buf-or-n "buffer must be supplied when transducer is"))
   (chan (if (number? buf-or-n) (buffer buf-or-n) buf-or-n) xform ex-handler)))

(defn unblocking?
  "True if a put on a channel with this buffer never waits."
  [buffer]
  (boolean (when-some [^Buffer known (if (instance? Buffer buffer) buffer (@buffer-adapter buffer))]
             (.isUnblocking known))))

(defn- buffer-type [^Buffer buffer]
  (let [original (.original buffer)
        name (.getSimpleName (class original))]
    (symbol (if (identical? original buffer) (str name "Buffer") name))))

(defn- buffer-data [^Buffer buffer]
  {:type (buffer-type buffer)
   :count (count buffer)
   :capacity (let [n (.capacity buffer)] (when-not (neg? n) n))})

(defn- channel-data [^Channel channel]
  (let [^ChannelInfo info (.info channel)
        buffer (.buffer channel)]
    (cond-> {:put-count (count (.putters info))
             :take-count (count (.takers info))
             :closed? (.closed info)}
      buffer (assoc :buffer (datafy/datafy buffer)))))

(extend-protocol protocols/Datafiable
  Channel
  (datafy [channel] (with-meta (channel-data channel) {::datafy/obj channel}))
  Buffer
  (datafy [buffer] (buffer-data buffer)))

(defmethod print-method Channel [channel ^java.io.Writer out]
  (.write out (str channel)))
