(ns magnetar.bits-support
  "What the tests of binaries share: bytes from text, and results that can be compared."
  (:require
   [magnetar.bits :as bits])
  (:import
   (java.util HexFormat)))

(set! *warn-on-reflection* true)

(defn hex
  "The bytes of hexadecimal text; blanks do not count."
  ^bytes [text]
  (.parseHex (HexFormat/of) (apply str (remove #{\space \newline} text))))

(defn text
  "Bytes as hexadecimal text."
  [^bytes bytes]
  (.formatHex (HexFormat/of) bytes))

(defn ascii
  "Bytes as characters."
  [^bytes bytes]
  (String. bytes "ISO-8859-1"))

(defn plain
  "A result with its byte arrays as vectors."
  [result]
  (cond
    (map? result) (update-vals result plain)
    (sequential? result) (mapv plain result)
    (bytes? result) (vec result)
    :else result))

(defn bits
  "The bitstring of a text of zeros and ones; blanks do not count."
  [text]
  (let [digits (remove #{\space} text)]
    (bits/build-bits (mapv (fn [digit] [(- (int digit) 48) 1]) digits) {})))

(defn parsed
  "What a layout finds, with byte arrays as vectors."
  [layout source]
  (plain (bits/parse layout source)))

(defn built
  "What a layout builds, as hexadecimal text."
  [layout values]
  (text (bits/build layout values)))

(defn failure
  "What a call throws."
  [f]
  (try
    (f)
    nil
    (catch IllegalArgumentException e e)))
