(ns magnetar.net.framing
  "Cuts a stream of bytes into packets, and adds the headers of packets that are sent. Pure, except that it
  fills the array of an Input.

  A kind of packet is :raw, :line, the bytes of a header with the length, a function, or a compiled layout of
  bits."
  {:no-doc true}
  (:require
   [magnetar.bits :as bits]
   [magnetar.impl.bits.engine :as engine]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (java.nio ByteBuffer)
   (java.nio.charset StandardCharsets)
   (java.util Arrays)
   (magnetar.impl.bits.engine Layout)))

(set! *warn-on-reflection* true)

(def ^:private ^:const least-room "The least room for a read." 8192)
(def ^:private ^:const longest-array (- Integer/MAX_VALUE 8))
(def ^:private ^:const kept "A longer array is dropped once it is empty." 65536)

;; The bytes from `from` to `to` were read and are in no packet yet. A line was looked for up to `searched`,
;; in vain.
(defrecord Input [bytes from to searched])

(def empty-input
  "The input of a connection that has read nothing."
  (->Input (byte-array 0) 0 0 0))

(defn with-room
  "The input, with room for at least one more byte in its array."
  [{:keys [^bytes bytes ^long from ^long to ^long searched] :as input}]
  (let [size (- to from)]
    (cond
      (and (zero? size) (< kept (alength bytes))) (->Input (byte-array least-room) 0 0 0)
      (and (zero? size) (<= least-room (alength bytes))) (->Input bytes 0 0 0) ; all of it is free again
      (< to (alength bytes)) input
      :else (let [larger (byte-array (max least-room (min longest-array (* 2 size))))]
              (System/arraycopy bytes from larger 0 size)
              (->Input larger 0 size (max 0 (- searched from)))))))

(defn grown
  "The input after n more bytes were written into its array."
  [input ^long n]
  (update input :to #(+ (long %) n)))

;; A packet is [start end next], places in the array; or Decoded. `failure` is what the function or the layout
;; has thrown.
(deftype Decoded [value next])
(deftype Undecodable [failure])

(defn packet?
  "Is it a packet, not :too-long or another outcome?"
  [x]
  (or (vector? x) (instance? Decoded x)))

(defn after-packet
  "The input behind a packet."
  [input packet]
  (let [next (if (vector? packet) (peek packet) (.-next ^Decoded packet))]
    (assoc input :from next :searched next)))

(defn data
  "What is in a packet: a string, an array or the value that was decoded."
  [{:keys [^bytes bytes]} packet as]
  (if (instance? Decoded packet)
    (.-value ^Decoded packet)
    (let [[^long start ^long end] packet]
      (if (= :string as)
        (String. bytes (int start) (int (- end start)) StandardCharsets/UTF_8)
        (Arrays/copyOfRange bytes (int start) (int end))))))

(defn- line-end ^long [^bytes bytes ^long from ^long to]
  (loop [i from]
    (cond
      (= i to) -1
      (= 10 (aget bytes i)) (inc i)
      :else (recur (inc i)))))

(defn- line [{:keys [bytes ^long from ^long to ^long searched]} ^long most]
  (let [end (line-end bytes (max from searched) to)]
    (cond
      (< most (- (if (neg? end) to end) from)) :too-long
      (neg? end) nil
      :else [from end end])))

(defn- length ^long [^bytes bytes ^long from ^long header]
  (loop [i 0 n 0]
    (if (= i header)
      n
      (recur (inc i) (bit-or (bit-shift-left n 8) (bit-and 0xff (aget bytes (+ from i))))))))

(defn- with-header [{:keys [bytes ^long from ^long to]} ^long header ^long most]
  (when (<= header (- to from))
    (let [size (length bytes from header)
          start (+ from header)]
      (cond
        (< most size) :too-long
        (<= size (- to start)) [start (+ start size) (+ start size)]))))

(defn- exactly [{:keys [^long from ^long to]} ^long n]
  (when (<= n (- to from))
    [from (+ from n) (+ from n)]))

;; ---- functions and layouts

(defn layout?
  "Is it a kind of packet that is a layout of bits?"
  [kind]
  (instance? Layout kind))

(defn- by-layout [layout buffer]
  (let [fields (engine/parse-packet layout buffer)]
    (case fields
      nil (throw (errors/failure (str "The bytes do not match the " layout ".")
                                 {:magnetar/reason :magnetar/bad-packet :reason :einval}))
      ::engine/missing nil
      fields)))

(defn- bytes-of
  "The bytes that no packet has taken."
  ^ByteBuffer [{:keys [^bytes bytes ^long from ^long to]}]
  (-> (ByteBuffer/wrap bytes from (- to from)) .slice .asReadOnlyBuffer))

(defn- refuse-idle-function [kind value]
  (throw (errors/failure "The :packet function has returned a value and has taken no byte from the buffer."
                         {:magnetar/reason :magnetar/bad-packet :reason :einval :packet kind :value value})))

(defn- decode [{:keys [^long from ^long to] :as input} kind ^long most]
  (let [buffer (bytes-of input)
        value (if (layout? kind) (by-layout kind buffer) (kind buffer))
        used (.position buffer)]
    (cond
      (nil? value) (when (< most (- to from)) :too-long)
      (zero? used) (refuse-idle-function kind value)
      (< most used) :too-long
      :else (Decoded. value (+ from used)))))

(defn- decoded [{:keys [^long from ^long to] :as input} kind most]
  (when (< from to)
    (try
      (decode input kind most)
      (catch OutOfMemoryError e (throw e))
      (catch Throwable e
        (reports/stop-here e)
        (Undecodable. e)))))

(defn packet
  "The next packet; nil if bytes are missing, :too-long if it has more than `most`, an Undecodable if they
  cannot be one. `exact` is the number of bytes that are wanted of a raw stream, or nil for what there is."
  [{:keys [^long from ^long to] :as input} kind most exact]
  (case kind
    :raw (cond
           exact (exactly input exact)
           (< from to) [from to to])
    :line (line input most)
    (1 2 4) (with-header input kind most)
    (decoded input kind most)))

(defn searched
  "The input after `packet` found none of this kind: a line is not looked for twice in the same bytes."
  [input kind]
  (if (= :line kind)
    (assoc input :searched (:to input))
    input))

(defn longest
  "The number of bytes that fit in a packet of this kind when it is sent."
  ^long [kind]
  (cond
    (= 1 kind) 0xff
    (= 2 kind) 0xffff
    :else Integer/MAX_VALUE))

(defn built
  "The bytes of a map of fields."
  ^bytes [layout fields]
  (bits/build layout fields))

(defn framed
  "The bytes as they are sent: behind a header of so many bytes, or as they are."
  ^bytes [kind ^bytes data]
  (if-not (int? kind)
    data
    (let [size (alength data)
          header (long kind)
          framed (byte-array (+ header size))]
      (dotimes [i header]
        (aset framed i (unchecked-byte (bit-shift-right size (* 8 (- header i 1))))))
      (System/arraycopy data 0 framed header size)
      framed)))
