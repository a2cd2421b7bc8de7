(ns magnetar.etf-fuzz-test
  "Encodings that are altered, real ones of OTP among them, and bytes at random give a value or the codec's own refusal, and take little memory.
  JAVA_OPTS=-Dmagnetar.runs=N for more runs."
  {:wakes false
   :limit 600000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [clojure.test.check.generators :as gen]
   [magnetar.dev.processes :as processes]
   [magnetar.etf :as etf]
   [magnetar.etf-support :refer [hex same? values]])
  (:import
   (com.sun.management ThreadMXBean)
   (java.lang.management ManagementFactory)
   (java.util Random)
   (magnetar.etf Decoder Encoder)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 100000))

;; ---- memory

(def ^:private ^ThreadMXBean threads (ManagementFactory/getThreadMXBean))

(def ^:private free
  "What each decode may allocate: a refusal has a stack trace, for one."
  20000)

(def ^:private growth
  "How many more bytes a decode may allocate for each byte of its input."
  65)

;; ---- altered encodings

(def ^:private opaque
  "Terms with the tags that no value of Clojure has."
  (map hex ["836400026f6b" "8373026f6b" "8363312e353030303030303030303030303030303030303030652b303000000000" "834d00000003020102c0"
            "836b0003010203" "836c0000000261016120770161" "83587703614062000000550000000000000007" "83677703614062000000550000000003"
            "835977036140620000000500000007" "836677036140620000000503" "83787703614062000000010000000000000007" "836577036140620000000903"
            "8372000277036140620300000009000000080000" "835a0003770361406200000007000000010000000200000003" "837177056c6973747377036d61706102"
            (str "837000000047010011223344556677889900aabbccddee000000030000000277026d7961036205e3a1b2587703614062000000550000000000000007"
                 "6d000000036164616b00020102")
            "8350000000057801cb4dcc4e0500032e0150" "836f0000010000ff" "8352000000"]))

(def ^:private dumps
  "Terms at random as the `term_to_binary` of OTP 25 writes them, made by make/3 of etf_peer.erl."
  (mapv hex (str/split-lines (slurp (io/file processes/home "etf/test/resources/terms_of_otp.txt")))))

(defn- pool
  "Encodings to alter."
  [seed]
  (into (into (vec opaque) dumps)
        (map #(etf/encode %))
        (gen/generate (gen/vector values 400) 30 seed)))

(defn- place [^Random random ^bytes bytes]
  (.nextInt random (max 1 (alength bytes))))

(defn- joined ^bytes [& parts]
  (let [out (java.io.ByteArrayOutputStream.)]
    (doseq [[^bytes part from to] parts] (.write out part (int from) (int (- (long to) (long from)))))
    (.toByteArray out)))

(def ^:private telling
  "Bytes that mean something at many places: tags, and the ends of ranges."
  (byte-array (map unchecked-byte [0 1 2 3 4 8 32 127 128 255 67 70 77 80 82 88 89 90 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114
                                   115 116 118 119 120 121 131])))

(defn- altered
  "The bytes with one change: a byte, a bit, a part that is cut out, doubled, or taken from another encoding."
  ^bytes [^Random random ^bytes bytes ^bytes other]
  (let [n (alength bytes)
        at (place random bytes)
        to (min n (+ at 1 (.nextInt random 8)))]
    (case (long (if (zero? n) 5 (.nextInt random 6)))
      0 (doto (aclone bytes) (aset at (aget ^bytes telling (.nextInt random (alength ^bytes telling)))))
      1 (doto (aclone bytes) (aset at (unchecked-byte (bit-xor (aget bytes at) (bit-shift-left 1 (.nextInt random 8))))))
      2 (joined [bytes 0 at] [bytes to n])
      3 (joined [bytes 0 to] [bytes at n])
      4 (doto (aclone bytes) (aset at (unchecked-byte (.nextInt random))))
      5 (joined [bytes 0 at] [other (place random other) (alength other)]))))

(defn- alteration [^Random random encodings]
  (let [some-encoding #(nth encodings (.nextInt random (count encodings)))]
    (nth (iterate #(altered random % (some-encoding)) (some-encoding)) (inc (.nextInt random 3)))))

(def ^:private own-reasons #{:magnetar/bad-term :magnetar/term-limit :magnetar/unknown-extension})

(defn- decoded
  "The value of the bytes or what was thrown, and how many bytes were allocated."
  [^Decoder in ^bytes bytes]
  (let [from (.getCurrentThreadAllocatedBytes threads)
        value (try (.decode in bytes) (catch Throwable t t))]
    [value (- (.getCurrentThreadAllocatedBytes threads) from)]))

(defn- outcome
  "What comes of the value that was read: :value, :refused, or what should not happen. With `again?` a value is written, and read as the same."
  [^Decoder in ^Encoder out value again?]
  (cond
    (own-reasons (:magnetar/reason (ex-data value))) :refused
    (instance? Throwable value) value
    (not again?) :value
    :else (try
            (if (same? value (.decode in (.encode out value))) :value [:another value])
            (catch Throwable e e))))

(defn- growth-of
  "How many bytes were allocated for each byte, beside what is free."
  [^bytes bytes took]
  (quot (- (long took) (long free)) (max 1 (alength bytes))))

(defn- read-again
  "The least that a decode of the bytes allocates: what runs for the first time loads classes."
  [codec bytes took]
  (reduce min took (repeatedly 3 #(second (decoded (etf/decoder codec) bytes)))))

(def ^:private written
  "How many inputs are written again, which takes longer than to read them."
  70000)

(def ^:private per-decoder
  "How many inputs a decoder reads: its atoms are limited."
  50000)

(defn- outcomes
  "The number of values and refusals of n inputs, and the most :growth; or the first input with which something else :found."
  [seed n options next-input]
  (let [random (Random. seed)
        codec (etf/codec options)
        out (etf/encoder codec)]
    (loop [i 0, in nil, counts {:value 0 :refused 0 :growth 0}]
      (if (= i n)
        counts
        (let [in (if (zero? (rem i (long per-decoder))) (etf/decoder codec) in)
              ^bytes bytes (next-input random)
              [value took] (decoded in bytes)
              took (if (< (long growth) (long (growth-of bytes took))) (read-again codec bytes took) took)
              found (outcome in out value (< i (long written)))
              grown (long (growth-of bytes took))]
          (if (and (keyword? found) (<= grown (long growth)))
            (recur (inc i) in (-> counts (update found inc) (update :growth max grown)))
            {:found found :took took :run i :bytes (vec bytes)}))))))

(defn- altered-outcomes [seed n options]
  (let [encodings (pool seed)]
    (outcomes seed n options #(alteration % encodings))))

(deftest altered-encodings-give-a-value-or-a-refusal
  (doseq [[seed n options] [[20261129 (quot (* 7 (long runs)) 10) {}] [31 (quot (* 3 (long runs)) 10) {:extensions false}]]
          :let [{:keys [found value refused] :as counts} (altered-outcomes seed n (merge {:max-size 100000 :max-atoms 1000000} options))]]
    (is (nil? found) (pr-str counts))
    (when-not found
      (is (< (quot n 35) (long value)) (pr-str counts))
      (is (< (quot n 35) (long refused)) (pr-str counts)))))

(defn- at-random ^bytes [^Random random]
  (let [bytes (byte-array (.nextInt random 40))]
    (.nextBytes random bytes)
    (when (pos? (alength bytes)) (aset bytes 0 (unchecked-byte 131)))
    bytes))

(deftest bytes-at-random-give-a-value-or-a-refusal
  (let [counts (outcomes 7 20000 {} at-random)]
    (is (nil? (:found counts)) (pr-str counts))))
