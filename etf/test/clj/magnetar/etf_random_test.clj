(ns magnetar.etf-random-test
  "Values at random come back; bytes at random, and encodings that are altered, give a value or the codec's own refusal."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [clojure.test.check :as tc]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [magnetar.etf :as etf]
   [magnetar.etf-support :refer [erlang-values hex plain same? values]])
  (:import
   (java.util Arrays Random)
   (magnetar.etf Decoder Encoder)))

(set! *warn-on-reflection* true)

(defn- holds [n property]
  (let [result (tc/quick-check n property :max-size 60)]
    (is (:pass? result) (str "seed " (:seed result) ", smallest " (pr-str (:smallest (:shrunk result)))))))

(def ^:private codec (etf/codec))

;; Twenty at a time: a check of one value takes longer to set up than to do.
(defn- of-all [generator property]
  (prop/for-all [values (gen/vector generator 20)]
    (every? property values)))

(deftest values-come-back
  (holds 500 (of-all values #(same? % (etf/decode (etf/encode %))))))

(deftest values-of-plain-erlang-come-back
  (let [out (etf/encoder plain)
        in (etf/decoder plain)]
    (holds 250 (of-all erlang-values #(same? % (etf/decode in (etf/encode out %)))))))

(deftest what-plain-erlang-sends-is-read-by-every-codec
  (let [reserved? (fn [x] (some #(and (vector? %) (= :$clj (first %))) (tree-seq coll? seq x)))]
    (holds 100 (of-all erlang-values #(or (reserved? %) (same? % (etf/decode (etf/encode plain %))))))))

(deftest a-part-of-a-term-is-refused
  (holds 100 (of-all values (fn [value]
                              (let [bytes (etf/encode value)
                                    n (rand-int (alength bytes))]
                                (try (etf/decode (Arrays/copyOf bytes (int n))) false
                                     (catch clojure.lang.ExceptionInfo e (= :magnetar/bad-term (:magnetar/reason (ex-data e))))))))))

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

(defn- pool
  "Encodings to alter."
  [seed]
  (into (vec (remove nil? opaque))
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

(defn- outcome
  "What comes of the bytes: :value, :refused, or what should not happen. A value that was read is written, and read as the same."
  [^Decoder in ^Encoder out ^bytes bytes]
  (try
    (let [value (.decode in bytes)]
      (if (same? value (.decode in (.encode out value))) :value [:another value]))
    (catch clojure.lang.ExceptionInfo e
      (if (own-reasons (:magnetar/reason (ex-data e))) :refused e))
    (catch Throwable e e)))

(defn- outcomes [seed n codec]
  (let [random (Random. seed)
        encodings (pool seed)
        in (etf/decoder codec)
        out (etf/encoder codec)]
    (loop [i 0, counts {:value 0 :refused 0}]
      (if (= i n)
        counts
        (let [bytes (alteration random encodings)
              found (outcome in out bytes)]
          (if (keyword? found)
            (recur (inc i) (update counts found inc))
            {:found found :bytes (vec bytes)}))))))

(deftest altered-encodings-give-a-value-or-a-refusal
  (let [{:keys [value refused] :as counts} (outcomes 20261129 70000 (etf/codec {:max-size 100000 :max-atoms 1000000}))]
    (is (and value (< 2000 (long value)) (< 2000 (long refused))) (pr-str counts)))
  (let [{:keys [value refused] :as counts} (outcomes 31 30000 (etf/codec {:extensions false :max-size 100000 :max-atoms 1000000}))]
    (is (and value (< 1000 (long value)) (< 1000 (long refused))) (pr-str counts))))

(deftest bytes-at-random-give-a-value-or-a-refusal
  (let [random (Random. 7)
        in (etf/decoder codec)
        out (etf/encoder codec)]
    (dotimes [_ 20000]
      (let [bytes (byte-array (.nextInt random 40))]
        (.nextBytes random bytes)
        (when (pos? (alength bytes)) (aset bytes 0 (unchecked-byte 131)))
        (let [found (outcome in out bytes)]
          (when-not (keyword? found) (is (nil? found) (pr-str (vec bytes)))))))))
