(ns magnetar.impl.bits.reader
  "Reads bits from an array, a buffer or a stream. A stream is read no further than what is asked for."
  {:no-doc true}
  (:require
   [magnetar.impl.bits.bitstring :as bitstring])
  (:import
   (java.io InputStream)
   (java.nio ByteBuffer)
   (java.util Arrays)
   (magnetar.impl.bits.bitstring Bitstring)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(definterface Cursor
  (^boolean need [^long n] "Are there n more bits? A stream is read until there are.")
  (^long get [^long n] "The next n bits, 64 at most, which are there.")
  (^Object copy [^long n] "The next n bits, which are there, as an array.")
  (^void skip [^long n])
  (^long rest [] "How many bits there are; a stream is read to its end.")
  (^long at [] "Where the next bit is, in bits.")
  (^boolean lacks [] "Was `need` false once?"))

;; What lies behind an array's last byte cannot be there; a stream is not asked for it either.
(def ^:private ^:const most-bits (* 8 Integer/MAX_VALUE))

(defn- bit-by-bit ^long [^ByteBuffer view ^long at ^long n]
  (loop [value 0, at at, left n]
    (if (zero? left)
      value
      (let [here (- 8 (bit-and at 7))
            taken (min left here)
            octet (bit-and 0xff (.get view (bit-shift-right at 3)))
            chunk (bit-and (unsigned-bit-shift-right octet (- here taken)) (dec (bit-shift-left 1 taken)))]
        (recur (bit-or (bit-shift-left value taken) chunk) (+ at taken) (- left taken))))))

(defn- bits-at ^long [^ByteBuffer view ^long at ^long n]
  (if (zero? (bit-and at 7))
    (let [i (bit-shift-right at 3)]
      (case n
        8 (bit-and 0xff (.get view i))
        16 (bit-and 0xffff (.getShort view i))
        32 (bit-and 0xffffffff (.getInt view i))
        64 (.getLong view i)
        (bit-by-bit view at n)))
    (bit-by-bit view at n)))

(defn- copy-aligned [^ByteBuffer view ^long at ^bytes bytes]
  (.get view (int (bit-shift-right at 3)) bytes 0 (alength bytes)))

(defn- copy-shifted [view ^long at ^bytes bytes ^long n]
  (dotimes [i (alength bytes)]
    (let [done (* 8 i)
          take (min 8 (- n done))]
      (aset bytes i (unchecked-byte (bit-shift-left (bits-at view (+ at done) take) (- 8 take)))))))

(defn- bytes-at ^bytes [view ^long at ^long n]
  (let [bytes (byte-array (bitstring/bytes-for n))]
    (if (zero? (bit-and at 7))
      (copy-aligned view at bytes)
      (copy-shifted view at bytes n))
    (bitstring/clear-tail bytes n)))

(defn- append
  "The view with the bytes put behind its first `used`."
  [^ByteBuffer view ^long used ^bytes more]
  (let [size (+ used (alength more))
        array (if (< (.capacity view) size)
                (Arrays/copyOf (.array view) (int (min Integer/MAX_VALUE (max size (* 2 used)))))
                (.array view))]
    (System/arraycopy more 0 array used (alength more))
    (ByteBuffer/wrap array)))

(deftype Reader [^:unsynchronized-mutable ^ByteBuffer view
                 ^:unsynchronized-mutable ^long at
                 ^:unsynchronized-mutable ^long limit
                 ^InputStream in
                 ^:unsynchronized-mutable ^long lacking]
  Cursor
  (need [_ n]
    (when (and in (< (- limit at) n most-bits))
      (let [used (unsigned-bit-shift-right limit 3)
            more (.readNBytes in (int (- (bitstring/bytes-for (+ at n)) used)))]
        (set! view (append view used more))
        (set! limit (+ limit (* 8 (alength more))))))
    (or (<= n (- limit at))
        (do (set! lacking 1) false)))
  (get [_ n]
    (let [value (bits-at view at n)]
      (set! at (+ at n))
      value))
  (copy [_ n]
    (let [bytes (bytes-at view at n)]
      (set! at (+ at n))
      bytes))
  (skip [_ n]
    (set! at (+ at n)))
  (rest [_]
    (when in
      (let [more (.readAllBytes in)]
        (set! view (append view (unsigned-bit-shift-right limit 3) more))
        (set! limit (+ limit (* 8 (alength more))))))
    (- limit at))
  (at [_] at)
  (lacks [_] (= 1 lacking)))

(defn of-bytes
  "A cursor over a byte array."
  ^Reader [^bytes bytes]
  (Reader. (ByteBuffer/wrap bytes) 0 (* 8 (alength bytes)) nil 0))

(defn of-bits
  "A cursor over a Bitstring."
  ^Reader [^Bitstring bits]
  (Reader. (ByteBuffer/wrap (.-bytes bits)) 0 (.-size bits) nil 0))

(defn of-buffer
  "A cursor over what remains in a ByteBuffer, whose position and byte order do not matter and do not change."
  ^Reader [^ByteBuffer buffer]
  (Reader. (.duplicate buffer) (* 8 (.position buffer)) (* 8 (.limit buffer)) nil 0))

(defn of-stream
  "A cursor over what comes from an InputStream."
  ^Reader [in]
  (Reader. (ByteBuffer/allocate 16) 0 0 in 0))
