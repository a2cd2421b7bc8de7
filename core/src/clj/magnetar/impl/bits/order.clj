(ns magnetar.impl.bits.order
  "Integers of n bits from and to bits in the order in which they stand: signs, little-endian, more than 64 bits.
  Little-endian puts the lowest byte first; what does not fill a byte are the highest bits, and stand last."
  {:no-doc true}
  (:require
   [magnetar.impl.bits.bitstring :as bitstring])
  (:import
   (clojure.lang BigInt)
   (java.nio ByteOrder)
   (java.util Arrays)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(def native-little?
  "Is the lowest byte first on this machine?"
  (= ByteOrder/LITTLE_ENDIAN (ByteOrder/nativeOrder)))

(defn- low ^long [^long v ^long n]
  (if (= 64 n) v (bit-and v (dec (bit-shift-left 1 n)))))

(defn from-little
  "The value of n bits, 64 at most, that stand in little-endian order in the long."
  ^long [^long v ^long n]
  (let [odd (bit-and n 7)
        whole (- n odd)]
    (bit-or (Long/reverseBytes (bit-shift-left (unsigned-bit-shift-right v odd) (- 64 whole)))
            (bit-shift-left (low v odd) whole))))

(defn to-little
  "The n bits, 64 at most, of a value in little-endian order."
  ^long [^long v ^long n]
  (let [odd (bit-and n 7)
        whole (- n odd)]
    (bit-or (bit-shift-left (unsigned-bit-shift-right (Long/reverseBytes (low v whole)) (- 64 whole)) odd)
            (low (unsigned-bit-shift-right v whole) odd))))

(defn signed
  "The signed value of n bits, 64 at most."
  ^long [^long v ^long n]
  (if (zero? n) 0 (bit-shift-right (bit-shift-left v (- 64 n)) (- 64 n))))

(defn- number [^BigInteger n]
  (if (< (.bitLength n) 64) (.longValue n) (BigInt/fromBigInteger n)))

(defn unsigned-64
  "The unsigned value of 64 bits."
  [^long v]
  (if (neg? v)
    (number (.add (BigInteger/valueOf v) (.shiftLeft BigInteger/ONE 64)))
    v))

(defn- reversed ^bytes [^bytes bytes]
  (let [n (alength bytes)
        result (byte-array n)]
    (dotimes [i n]
      (aset result i (aget bytes (- n i 1))))
    result))

(defn- shift-last
  "Moves the bits of the last byte of an array of n bits: to its low end, or back to its high end."
  ^bytes [^bytes bytes ^long n down?]
  (let [unused (bit-and (- n) 7)
        last (dec (alength bytes))
        octet (bit-and 0xff (aget bytes last))]
    (aset bytes last (unchecked-byte (if down?
                                       (unsigned-bit-shift-right octet unused)
                                       (bit-shift-left octet unused))))
    bytes))

(defn- magnitude ^BigInteger [^bytes bytes ^long n little?]
  (if little?
    (BigInteger. 1 (reversed (shift-last bytes n true)))
    (.shiftRight (BigInteger. 1 bytes) (- (* 8 (alength bytes)) n))))

(defn big
  "The value of n bits, more than 64, that stand in the array."
  [^bytes bytes ^long n little? signed?]
  (let [^BigInteger value (magnitude bytes n little?)]
    (number (if (and signed? (.testBit value (dec n)))
              (.subtract value (.shiftLeft BigInteger/ONE n))
              value))))

(defn- padded ^bytes [^BigInteger v ^long size]
  (let [bytes (.toByteArray v)
        from (max 0 (- (alength bytes) size))
        kept (Arrays/copyOfRange bytes from (alength bytes))
        result (byte-array size)]
    (System/arraycopy kept 0 result (- size (alength kept)) (alength kept))
    result))

(defn big-bytes
  "The n bits, at least one, of a BigInteger in the order in which they stand."
  ^bytes [^BigInteger v ^long n little?]
  (let [size (bitstring/bytes-for n)
        value (.mod v (.shiftLeft BigInteger/ONE n))]
    (if little?
      (shift-last (reversed (padded value size)) n false)
      (padded (.shiftLeft value (- (* 8 size) n)) size))))
