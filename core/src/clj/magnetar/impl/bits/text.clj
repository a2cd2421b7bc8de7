(ns magnetar.impl.bits.text
  "Code points in UTF-8, UTF-16 and UTF-32: bytes that are not a code point, or a longer spelling of one, are not read."
  {:no-doc true}
  (:require
   [magnetar.impl.bits.bitstring :as bitstring]
   [magnetar.impl.bits.order :as order])
  (:import
   (java.nio.charset Charset)
   (magnetar.impl.bits.reader Cursor)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(defn code-point?
  "Is there a character with this number? The surrogates of UTF-16 are not characters."
  [^long n]
  (or (<= 0 n 0xd7ff) (<= 0xe000 n 0x10ffff)))

(defn- next-unit
  "The next n bits, -1 if they are not there."
  ^long [^Cursor in ^long n little?]
  (cond
    (not (.need in n)) -1
    little? (order/from-little (.get in n) n)
    :else (.get in n)))

(defn- followed
  "The code point of a first part and so many bytes behind it; -1 if less than `least`, which would have been spelled shorter."
  ^long [in ^long first ^long more ^long least]
  (loop [value first, more more]
    (if (zero? more)
      (if (>= value least) value -1)
      (let [octet (next-unit in 8 false)]
        (if (= 0x80 (bit-and octet 0xc0))
          (recur (bit-or (bit-shift-left value 6) (bit-and octet 0x3f)) (dec more))
          -1)))))

(defn- read-utf8 ^long [in]
  (let [octet (next-unit in 8 false)]
    (cond
      (< octet 0x80) octet
      (< octet 0xc0) -1
      (< octet 0xe0) (followed in (bit-and octet 0x1f) 1 0x80)
      (< octet 0xf0) (followed in (bit-and octet 0x0f) 2 0x800)
      (< octet 0xf8) (followed in (bit-and octet 0x07) 3 0x10000)
      :else -1)))

(defn- read-utf16 ^long [in little?]
  (let [high (next-unit in 16 little?)]
    (if (= 0xd800 (bit-and high 0xfc00))
      (let [low (next-unit in 16 little?)]
        (if (= 0xdc00 (bit-and low 0xfc00))
          (+ 0x10000 (bit-shift-left (bit-and high 0x3ff) 10) (bit-and low 0x3ff))
          -1))
      high)))

(defn read-code-point
  "The code point that comes next, or -1."
  ^long [in type little?]
  (let [value (case type
                :utf8 (read-utf8 in)
                :utf16 (read-utf16 in little?)
                :utf32 (next-unit in 32 little?))]
    (if (code-point? value) value -1)))

(defn- charset ^Charset [type little?]
  (Charset/forName (case type
                     :utf8 "UTF-8"
                     :utf16 (if little? "UTF-16LE" "UTF-16BE")
                     :utf32 (if little? "UTF-32LE" "UTF-32BE"))))

(defn encoder
  "A function from text to its bits."
  [type little?]
  (let [charset (charset type little?)]
    (fn [^String text] (bitstring/of (.getBytes text charset)))))
