(ns magnetar.impl.bits.writer
  "Gathers bits."
  {:no-doc true}
  (:require
   [magnetar.impl.bits.bitstring :as bitstring])
  (:import
   (java.util Arrays)
   (magnetar.impl.bits.bitstring Bitstring)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(definterface Sink
  (^void put [^long value ^long n] "Adds the low n bits of a value, 64 at most.")
  (^void putAll [bits] "Adds a Bitstring.")
  (^void zeros [^long n] "Adds n zero bits.")
  (^Object bits [] "What was added, as a Bitstring."))

(defn- room-for ^bytes [^bytes bytes ^long bits]
  (let [size (bitstring/bytes-for bits)]
    (if (< (alength bytes) size)
      (Arrays/copyOf bytes (int (max size (* 2 (alength bytes)))))
      bytes)))

(defn- put-bits [^bytes bytes ^long at ^long value ^long n]
  (loop [at at, left n]
    (when (pos? left)
      (let [here (- 8 (bit-and at 7))
            taken (min left here)
            i (bit-shift-right at 3)
            chunk (bit-and (unsigned-bit-shift-right value (- left taken)) (dec (bit-shift-left 1 taken)))]
        (aset bytes i (unchecked-byte (bit-or (aget bytes i) (bit-shift-left chunk (- here taken)))))
        (recur (+ at taken) (- left taken))))))

(defn- put-bytes [bytes ^long at ^bytes added ^long n]
  (if (zero? (bit-and at 7))
    (System/arraycopy added 0 bytes (bit-shift-right at 3) (bitstring/bytes-for n))
    (dotimes [i (bitstring/bytes-for n)]
      (let [done (* 8 i)
            taken (min 8 (- n done))]
        (put-bits bytes (+ at done) (bit-shift-right (bit-and 0xff (aget added i)) (- 8 taken)) taken)))))

(deftype Writer [^:unsynchronized-mutable ^bytes bytes ^:unsynchronized-mutable ^long at]
  Sink
  (put [_ value n]
    (set! bytes (room-for bytes (+ at n)))
    (put-bits bytes at value n)
    (set! at (+ at n)))
  (putAll [_ added]
    (let [n (.-size ^Bitstring added)]
      (set! bytes (room-for bytes (+ at n)))
      (put-bytes bytes at (.-bytes ^Bitstring added) n)
      (set! at (+ at n))))
  (zeros [_ n]
    (set! bytes (room-for bytes (+ at n)))
    (set! at (+ at n)))
  (bits [_]
    (Bitstring. (Arrays/copyOf bytes (int (bitstring/bytes-for at))) at)))

(defn writer
  "A sink with nothing in it."
  ^Writer []
  (Writer. (byte-array 32) 0))
