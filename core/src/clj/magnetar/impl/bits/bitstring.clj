(ns magnetar.impl.bits.bitstring
  "A string of bits, as a value: its length need not be whole bytes."
  {:no-doc true}
  (:import
   (clojure.lang Counted IHashEq Indexed)
   (java.nio ByteBuffer)
   (java.util Arrays)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(def ^:private shown 64)

(defn bytes-for
  "How many bytes hold n bits."
  ^long [^long n]
  (unsigned-bit-shift-right (+ n 7) 3))

(defn- bit-of ^long [^bytes bytes ^long i]
  (bit-and 1 (bit-shift-right (long (aget bytes (bit-shift-right i 3))) (- 7 (bit-and i 7)))))

(defn- digits [bytes ^long n]
  (let [text (StringBuilder.)]
    (dotimes [i (min n (long shown))]
      (.append text (bit-of bytes i)))
    (when (> n (long shown))
      (.append text "..."))
    (str text)))

;; The bits of the last byte behind the end are zero, so that equal strings have equal bytes.
(deftype Bitstring [^bytes bytes ^long size]
  Counted
  (count [_] (int size))

  Indexed
  (nth [this i] (if (< -1 i size) (bit-of bytes i) (throw (IndexOutOfBoundsException. (str i " of " this)))))
  (nth [_ i else] (if (< -1 i size) (bit-of bytes i) else))

  IHashEq
  (hasheq [this] (.hashCode this))

  Object
  (equals [_ other]
    (and (instance? Bitstring other)
         (= size (.-size ^Bitstring other))
         (Arrays/equals bytes ^bytes (.-bytes ^Bitstring other))))
  (hashCode [_] (unchecked-int (+ (* 31 (Arrays/hashCode bytes)) size)))
  (toString [_] (str size " bits " (digits bytes size))))

(defmethod print-method Bitstring [^Bitstring bits ^java.io.Writer out]
  (.write out (str "#<" bits ">")))

(defn clear-tail
  "Zeroes the bits of the array behind the first n; returns the array."
  ^bytes [^bytes bytes ^long n]
  (let [used (bit-and n 7)]
    (when (pos? used)
      (let [last (unsigned-bit-shift-right n 3)]
        (aset bytes last (unchecked-byte (bit-and (aget bytes last) (bit-shift-left 0xff (- 8 used)))))))
    bytes))

(defn first-bits
  "The first n bits of a byte array, copied."
  [^bytes bytes ^long n]
  (Bitstring. (clear-tail (Arrays/copyOf bytes (bytes-for n)) n) n))

(defn- remaining ^bytes [^ByteBuffer buffer]
  (let [bytes (byte-array (.remaining buffer))]
    (.get buffer (.position buffer) bytes)
    bytes))

(defn of
  "The bits of a byte array, what remains in a ByteBuffer, or a Bitstring; nil for anything else. An array is not copied."
  [value]
  (cond
    (bytes? value) (Bitstring. value (* 8 (alength ^bytes value)))
    (instance? Bitstring value) value
    (instance? ByteBuffer value) (of (remaining value))))
