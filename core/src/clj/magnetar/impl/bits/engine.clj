(ns magnetar.impl.bits.engine
  "Compiled layouts: what parses, builds and matches."
  {:no-doc true}
  (:require
   [magnetar.impl.bits.codec :as codec]
   [magnetar.impl.bits.layout :as layout]
   [magnetar.impl.bits.reader :as reader]
   [magnetar.impl.bits.refusals :as refusals]
   [magnetar.impl.bits.writer :as writer])
  (:import
   (clojure.lang RT)
   (java.io InputStream)
   (java.nio ByteBuffer)
   (magnetar.impl.bits.bitstring Bitstring)
   (magnetar.impl.bits.reader Reader)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(deftype Layout [source fields pins segments ^objects readers writers lengths]
  Object
  (toString [_] (str "layout " (refusals/shown source))))

(defmethod print-method Layout [layout ^java.io.Writer out]
  (.write out (str "#<" layout ">")))

;; ---- compiling

(defn- sized-by
  "[field segment] where the size of a binary is the plain name of a field."
  [{:keys [size type slot-of slot] :as segment} fields]
  (when (and slot (ident? size) (#{:binary :bits} type))
    (when-let [field (get fields (slot-of size))]
      [field segment])))

(defn- lengths-of
  "For fields that are the length of a binary, the segment of such a binary."
  [{:keys [fields segments]}]
  (into {} (keep #(sized-by % fields)) segments))

(defn compile-layout
  "A Layout of a vector of segments, in which the symbols in `bound` stand for values that are given to the match."
  [source bound]
  (let [{:keys [fields pins segments] :as meant} (layout/read-layout source bound)]
    (Layout. source fields pins segments
             (object-array (map codec/segment-reader segments))
             (mapv codec/segment-writer segments)
             (lengths-of meant))))

(defn layout-of
  "The Layout that is given, or the Layout of a vector."
  ^Layout [layout]
  (if (instance? Layout layout) layout (compile-layout layout nil)))

;; ---- reading

(defn- slots-of ^objects [^Layout layout]
  (object-array (+ (count (.-fields layout)) (count (.-pins layout)))))

(defn- read-all [^Layout layout ^Reader in ^objects slots]
  (let [^objects readers (.-readers layout)
        n (alength readers)]
    (loop [i 0]
      (cond
        (= i n) true
        ((aget readers i) in slots) (recur (inc i))
        :else false))))

(defn- at-end? [^Reader in]
  (zero? (.rest in)))

(defn- between-bytes? [^Reader in]
  (zero? (bit-and 7 (.at in))))

(defn- read-whole [layout in slots]
  (and (read-all layout in slots) (at-end? in)))

(defn- read-front [layout in slots]
  (and (read-all layout in slots) (between-bytes? in)))

(defn- read-buffer [layout ^ByteBuffer buffer slots]
  (let [in (reader/of-buffer buffer)]
    (when (read-front layout in slots)
      (.position buffer (int (bit-shift-right (.at in) 3)))
      true)))

(defn- read-source [layout source slots]
  (cond
    (bytes? source) (read-whole layout (reader/of-bytes source) slots)
    (instance? ByteBuffer source) (read-buffer layout source slots)
    (instance? InputStream source) (read-front layout (reader/of-stream source) slots)
    (instance? Bitstring source) (read-whole layout (reader/of-bits source) slots)
    :else (refusals/no-source source)))

(defn- as-map [^Layout layout ^objects slots]
  (let [fields (.-fields layout)
        n (count fields)
        entries (object-array (* 2 n))]
    (dotimes [i n]
      (aset entries (* 2 i) (nth fields i))
      (aset entries (inc (* 2 i)) (aget slots i)))
    (RT/mapUniqueKeys entries)))

(defn parse
  "The fields that the layout finds in the source, or nil."
  [layout source]
  (let [layout (layout-of layout)
        slots (slots-of layout)]
    (when (read-source layout source slots)
      (as-map layout slots))))

;; ---- streams of packets

(defn endless?
  "Does its last segment take all the rest?"
  [layout]
  (let [{:keys [kind type size]} (peek (.-segments (layout-of layout)))]
    (and (not= :constant kind) (contains? #{:binary :bits} type) (nil? size))))

(defn parse-packet
  "The fields that the layout finds at the front of the buffer, whose position moves behind them; ::missing if more bytes may complete them; nil
  if it does not match, whatever follows."
  [^Layout layout ^ByteBuffer buffer]
  (let [slots (slots-of layout)
        in (reader/of-buffer buffer)]
    (cond
      (read-front layout in slots) (do
                                     (.position buffer (int (bit-shift-right (.at in) 3)))
                                     (as-map layout slots))
      (.lacks in) ::missing)))

;; ---- matching

(defn- value-cursor [message]
  (cond
    (bytes? message) (reader/of-bytes message)
    (instance? ByteBuffer message) (reader/of-buffer message)
    (instance? Bitstring message) (reader/of-bits message)))

(defn match
  "The slots of a message that the layout matches wholly, or nil. The slots of the fields come first; `pinned` are the values of the pins."
  ^objects [^Layout layout message ^objects pinned]
  (when-let [in (value-cursor message)]
    (let [slots (slots-of layout)]
      (when pinned
        (System/arraycopy pinned 0 slots (count (.-fields layout)) (alength pinned)))
      (when (read-whole layout in slots)
        slots))))

;; ---- building

(defn- binder [^Layout layout field]
  (first (filter #(and (= :bind (:kind %)) (= field (:key %))) (.-segments layout))))

(defn- missing [layout field]
  (let [segment (binder layout field)]
    (refusals/bad-value segment (str "has no value; give it one, under " field ".") {:missing field})))

(defn- counted
  "The length of the value whose size a field is, in units."
  [layout {:keys [key] :as segment} values]
  (if-some [value (get values key)]
    (codec/units segment value)
    (missing layout key)))

(defn- value-for [^Layout layout values field]
  (let [value (get values field)]
    (cond
      (some? value) value
      (contains? (.-lengths layout) field) (counted layout (get (.-lengths layout) field) values)
      :else (missing layout field))))

(defn- filled-slots ^objects [^Layout layout values]
  (let [slots (slots-of layout)
        fields (.-fields layout)]
    (dotimes [i (count fields)]
      (aset slots i (value-for layout values (nth fields i))))
    slots))

(defn build
  "The Bitstring of the layout with these values."
  ^Bitstring [layout values]
  (let [layout (layout-of layout)
        slots (filled-slots layout values)
        out (writer/writer)]
    (run! #(% out slots) (.-writers layout))
    (.bits out)))
