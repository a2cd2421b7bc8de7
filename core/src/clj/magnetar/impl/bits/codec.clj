(ns magnetar.impl.bits.codec
  "Compiles segments to functions: readers of a cursor, writers to a sink. Both take the slots in which the values of the fields are."
  {:no-doc true}
  (:require
   [magnetar.impl.bits.bitstring :as bitstring]
   [magnetar.impl.bits.order :as order]
   [magnetar.impl.bits.reader :as reader]
   [magnetar.impl.bits.refusals :as refusals :refer [bad-value]]
   [magnetar.impl.bits.size :as size]
   [magnetar.impl.bits.text :as text]
   [magnetar.impl.bits.writer :as writer])
  (:import
   (clojure.lang IFn$OL IFn$OLO)
   (java.util Arrays)
   (magnetar.impl.bits.bitstring Bitstring)
   (magnetar.impl.bits.reader Cursor)
   (magnetar.impl.bits.writer Sink)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(def ^:private none
  "What a reader of a value returns where there is no value."
  (Object.))

(defn- size-of
  "A function from slots to the bits of a segment."
  ^IFn$OL [{:keys [slot-of names size unit] :as segment}]
  (size/bits segment slot-of names size unit))

;; ---- reading values of n bits, which are there

(defn- read-integer [signed? little?]
  (fn [^Cursor in ^long n]
    (if (> n 64)
      (order/big (.copy in n) n little? signed?)
      (let [bits (.get in n)
            value (if little? (order/from-little bits n) bits)]
        (cond
          signed? (order/signed value n)
          (= 64 n) (order/unsigned-64 value)
          :else value)))))

(defn- float-of [^long bits ^long n]
  (case n
    16 (double (Float/float16ToFloat (unchecked-short bits)))
    32 (double (Float/intBitsToFloat (unchecked-int bits)))
    64 (Double/longBitsToDouble bits)))

(defn- float-size? [^long n]
  (or (= 64 n) (= 32 n) (= 16 n)))

(defn- read-float [little?]
  (fn [^Cursor in ^long n]
    (if (float-size? n)
      (let [bits (.get in n)]
        (float-of (if little? (order/from-little bits n) bits) n))
      none)))

(defn- read-bytes [^Cursor in ^long n]
  (if (zero? (bit-and n 7)) (.copy in n) none))

(defn- read-bits [^Cursor in ^long n]
  (Bitstring. (.copy in n) n))

(defn- reader-of-n ^IFn$OLO [{:keys [type signed? little?]}]
  (case type
    :integer (read-integer signed? little?)
    :float (read-float little?)
    :binary read-bytes
    :bits read-bits))

;; ---- reading values

(defn- read-static [segment ^long n]
  (let [read (reader-of-n segment)]
    (fn [^Cursor in _]
      (if (.need in n) (.invokePrim read in n) none))))

(defn- read-sized [segment]
  (let [read (reader-of-n segment)
        size (size-of segment)]
    (fn [^Cursor in slots]
      (let [n (.invokePrim size slots)]
        (if (and (<= 0 n) (.need in n)) (.invokePrim read in n) none)))))

(defn- read-rest [segment]
  (let [read (reader-of-n segment)
        unit (long (:unit segment))]
    (fn [^Cursor in _]
      (let [n (.rest in)]
        (if (zero? (rem n unit)) (.invokePrim read in n) none)))))

(defn- read-text [{:keys [type little?]}]
  (fn [in _]
    (let [value (text/read-code-point in type little?)]
      (if (neg? value) none value))))

(defn- value-reader
  "A function from cursor and slots to the value that comes next, or `none`."
  [{:keys [type static size] :as segment}]
  (cond
    (#{:utf8 :utf16 :utf32} type) (read-text segment)
    static (read-static segment static)
    size (read-sized segment)
    :else (read-rest segment)))

;; ---- writing values

(defn- range-shown [signed? ^long n]
  (let [top (.shiftLeft BigInteger/ONE (int (if (and signed? (pos? n)) (dec n) n)))]
    (str (if signed? (.negate top) 0) " to " (.subtract top BigInteger/ONE))))

(defn- misfit [{:keys [signed?] :as segment} value ^long n]
  (bad-value segment
             (if (integer? value)
               (str "cannot hold " (refusals/shown value) ": " (if signed? "signed" "unsigned") ", in " n " bits, it holds "
                    (if (< n 129) (range-shown signed? n) "less") ". Give it a value in this range, or more bits.")
               (str "takes a whole number; this is " (refusals/shown value) "."))
             {:value value :bits n}))

(defn- fits-long? [signed? ^long v ^long n]
  (cond
    (zero? n) (zero? v)
    signed? (= v (order/signed v n))
    :else (and (<= 0 v) (or (<= 63 n) (< v (bit-shift-left 1 n))))))

(defn- fits-big? [signed? ^BigInteger v ^long n]
  (cond
    (zero? n) (zero? (.signum v))
    signed? (< (.bitLength v) n)
    :else (and (<= 0 (.signum v)) (<= (.bitLength v) n))))

(defn- put-long [^Sink out ^long v ^long n little?]
  (.put out (if little? (order/to-little v n) v) n))

(defn- put-big [{:keys [signed? little?] :as segment} ^Sink out value ^long n]
  (let [v (biginteger value)]
    (cond
      (not (fits-big? signed? v n)) (misfit segment value n)
      (<= n 64) (put-long out (.longValue v) n little?)
      :else (.putAll out (Bitstring. (order/big-bytes v n little?) n)))))

(defn- put-integer [{:keys [signed? little?] :as segment} ^Sink out value ^long n]
  (let [value (if (char? value) (int value) value)]
    (cond
      (not (integer? value)) (misfit segment value n)
      (or (> n 64) (not (int? value))) (put-big segment out value n)
      (fits-long? signed? (long value) n) (put-long out (long value) n little?)
      :else (misfit segment value n))))

(defn- float-bits ^long [^double v ^long n]
  (case n
    16 (bit-and 0xffff (Float/floatToFloat16 (float v)))
    32 (bit-and 0xffffffff (Float/floatToIntBits (float v)))
    64 (Double/doubleToLongBits v)))

(defn- checked-double ^double [segment value ^long n]
  (when-not (and (number? value) (float-size? n))
    (bad-value segment (str "takes a number, in 16, 32 or 64 bits; this is " (refusals/shown value) ", in " n ".") {:value value :bits n}))
  (double value))

(defn- put-float [{:keys [little?] :as segment} ^Sink out value ^long n]
  (let [v (checked-double segment value n)
        bits (float-bits v n)]
    (when (and (Double/isInfinite (float-of bits n)) (not (Double/isInfinite v)))
      (bad-value segment (str "cannot hold " v " in " n " bits; give it more bits.") {:value value :bits n}))
    (put-long out bits n little?)))

(defn- raw-bits ^Bitstring [segment value]
  (or (bitstring/of value)
      (bad-value segment (str "takes a byte array, a ByteBuffer or a bitstring; this is " (refusals/shown value)
                              (when (string? value) ". Use its (.getBytes s \"UTF-8\")") ".")
                 {:value value})))

(defn- put-raw [segment ^Sink out value ^long n]
  (let [bits (raw-bits segment value)]
    (when-not (= n (.-size bits))
      (bad-value segment (str "is " n " bits long by its size; the value has " (.-size bits)
                              ". Make them equal: a length that is the plain name of a field may be left out, and is then counted.")
                 {:value value :bits n}))
    (.putAll out bits)))

(defn- in-units ^Bitstring [{:keys [unit type] :as segment} value]
  (let [bits (raw-bits segment value)]
    (when-not (zero? (rem (.-size bits) (long unit)))
      (bad-value segment (str "takes whole units of " unit " bits; the value has " (.-size bits)
                              (when (= :binary type) ". Use :bits for what is no whole bytes") ".")
                 {:value value :bits (.-size bits)}))
    bits))

(defn units
  "How many units of a :binary or :bits segment a value has; a value that is no such thing is refused."
  [segment value]
  (quot (.-size (in-units segment value)) (long (:unit segment))))

(defn- put-rest [segment ^Sink out value]
  (.putAll out (in-units segment value)))

(defn- put-text [{:keys [type little?] :as segment}]
  (let [encode (text/encoder type little?)]
    (fn [^Sink out value]
      (let [point (if (char? value) (int value) value)]
        (when-not (and (int? point) (text/code-point? point))
          (bad-value segment (str "takes a code point, 0 to 0x10FFFF without the surrogates, or a character; this is "
                                  (refusals/shown value) ".")
                     {:value value}))
        (.putAll out (encode (Character/toString (int point))))))))

(defn- no-size [{:keys [size] :as segment}]
  (bad-value segment (str "has no size: " (if (fn? size) "its function" (refusals/shown size))
                          " comes to less than 0, or cannot be computed from the values of the fields before it.")
             {:size size}))

(defn- checked-size
  "A function from slots to the bits that are to be written."
  ^IFn$OL [{:keys [static] :as segment}]
  (if static
    (fn ^long [_] (long static))
    (let [size (size-of segment)]
      (fn ^long [slots]
        (let [n (.invokePrim size slots)]
          (if (neg? n) (long (no-size segment)) n))))))

(defn- write-sized [{:keys [type] :as segment}]
  (let [size (checked-size segment)
        put (case type
              :integer put-integer
              :float put-float
              (:binary :bits) put-raw)]
    (fn [out value slots] (put segment out value (.invokePrim size slots)))))

(defn- value-writer
  "A function from sink, value and slots that writes the value."
  [{:keys [type size] :as segment}]
  (cond
    (#{:utf8 :utf16 :utf32} type) (let [put (put-text segment)] (fn [out value _] (put out value)))
    size (write-sized segment)
    :else (fn [out value _] (put-rest segment out value))))

;; ---- constants

(defn- parts
  "The values that a constant stands for: a string for one per character, or per code point where it is text."
  [{:keys [type value]}]
  (cond
    (not (string? value)) [value]
    (= :integer type) (seq value)
    :else (iterator-seq (.iterator (.codePoints ^String value)))))

(defn- known? [{:keys [static size]}]
  (or static (nil? size)))

(defn- encoded
  "The bits of a constant whose size is known; a constant that does not fit is the layout's fault."
  ^Bitstring [segment]
  (let [out (writer/writer)
        write (value-writer segment)]
    (try
      (run! #(write out % nil) (parts segment))
      (catch IllegalArgumentException e
        (refusals/bad-layout segment "is a constant that does not fit its size and type; give it more bits, and text beyond Latin-1 :utf8."
          (dissoc (ex-data e) :magnetar/reason))))
    (.bits out)))

(defn- expect-short [^long wanted ^long n]
  (fn [^Cursor in _]
    (and (.need in n) (= wanted (.get in n)))))

(defn- expect [^Bitstring bits]
  (let [n (.-size bits)]
    (if (<= n 64)
      (expect-short (.get (reader/of-bits bits) n) n)
      (fn [^Cursor in _]
        (and (.need in n) (Arrays/equals ^bytes (.-bytes bits) ^bytes (.copy in n)))))))

(defn- same? [a b]
  (or (= a b)
      (and (bytes? a) (bytes? b) (Arrays/equals ^bytes a ^bytes b))))

(defn- expect-parts [segment]
  (let [read (value-reader segment)
        wanted (mapv #(if (char? %) (int %) %) (parts segment))]
    (fn [in slots]
      (every? #(same? % (read in slots)) wanted))))

(defn- write-parts [segment]
  (let [write (value-writer segment)]
    (fn [out slots]
      (run! #(write out % slots) (parts segment)))))

;; ---- what is skipped

(defn- skip-sized [segment]
  (let [size (checked-size segment)]
    (fn [^Sink out slots] (.zeros out (.invokePrim size slots)))))

(defn- write-skipped [{:keys [type size] :as segment}]
  (cond
    (#{:utf8 :utf16 :utf32} type) (let [put (put-text segment)] (fn [out _] (put out 0)))
    size (skip-sized segment)
    :else (fn [_ _])))

(defn- skip-static [^long n]
  (fn [^Cursor in _]
    (when (.need in n)
      (.skip in n)
      true)))

(defn- skip [{:keys [type static] :as segment}]
  (if (and static (not= :float type))
    (skip-static static)
    (let [read (value-reader segment)]
      (fn [in slots] (not (identical? none (read in slots)))))))

;; ---- segments

(defn- bind [{:keys [slot] :as segment}]
  (let [read (value-reader segment)
        slot (int slot)]
    (fn [in ^objects slots]
      (let [value (read in slots)]
        (when-not (identical? none value)
          (aset slots slot value)
          true)))))

(defn- compare-with [{:keys [slot] :as segment}]
  (let [read (value-reader segment)
        slot (int slot)]
    (fn [in ^objects slots]
      (same? (aget slots slot) (read in slots)))))

(defn segment-reader
  "A function from cursor and slots: true if what the segment says comes next, which is then read."
  [{:keys [kind] :as segment}]
  (case kind
    :constant (if (known? segment) (expect (encoded segment)) (expect-parts segment))
    :skip (skip segment)
    :bind (bind segment)
    :same (compare-with segment)))

(defn- write-field [{:keys [slot] :as segment}]
  (let [write (value-writer segment)
        slot (int slot)]
    (fn [out ^objects slots] (write out (aget slots slot) slots))))

(defn segment-writer
  "A function from sink and slots that adds the bits of the segment."
  [{:keys [kind] :as segment}]
  (case kind
    :constant (if (known? segment)
                (let [bits (encoded segment)] (fn [^Sink out _] (.putAll out bits)))
                (write-parts segment))
    :skip (write-skipped segment)
    (write-field segment)))
