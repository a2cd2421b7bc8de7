(ns magnetar.bits-random-test
  "Layouts at random: what is built is parsed again, from every kind of source, and integers stand as a model in text says."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [clojure.test.check :as tc]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [magnetar.bits :as bits]
   [magnetar.bits-support :refer [bits plain]])
  (:import
   (java.io ByteArrayInputStream)
   (java.nio ByteBuffer)))

(set! *warn-on-reflection* true)

(defn- holds [n property]
  (let [result (tc/quick-check n property)]
    (is (:pass? result) (str "seed " (:seed result) ", smallest " (pr-str (:smallest (:shrunk result)))))))

;; ---- generators: a field is the words of a segment, the fields it is computed from, and a value

(def ^:private order (gen/elements [[] [:big] [:little] [:native]]))

(def ^:private digits
  (gen/fmap #(apply str %) (gen/vector (gen/elements [\0 \1]) 0 130)))

(defn- power [n]
  (.shiftLeft BigInteger/ONE (int n)))

(defn- from-digits [text signed?]
  (let [n (count text)
        value (if (zero? n) 0N (bigint (BigInteger. ^String text 2)))]
    (if (and signed? (= \1 (first text))) (- value (power n)) value)))

(def ^:private integer-field
  (gen/let [text digits
            signed? gen/boolean
            order order]
    {:words (into [(count text) (if signed? :signed :unsigned)] order) :value (from-digits text signed?)}))

(def ^:private float-field
  (gen/let [[size value] (gen/one-of [(gen/tuple (gen/return 64) (gen/double* {:NaN? false}))
                                      (gen/tuple (gen/return 32) (gen/fmap #(double (float %)) (gen/double* {:min -1e30 :max 1e30 :NaN? false})))
                                      (gen/tuple (gen/return 16) (gen/fmap #(/ (long %) 4.0) (gen/choose -1000 1000)))])
            order order]
    {:words (into [:float size] order) :value value}))

(def ^:private code-point
  (gen/such-that #(not (<= 0xd800 % 0xdfff)) (gen/one-of [(gen/choose 0 0x7ff) (gen/choose 0 0x10ffff)]) 100))

(def ^:private text-field
  (gen/let [value code-point
            words (gen/one-of [(gen/return [:utf8]) (gen/fmap #(into [:utf16] %) order) (gen/fmap #(into [:utf32] %) order)])]
    {:words words :value value}))

(def ^:private binary-field
  (gen/fmap (fn [bytes] {:words [:binary (count bytes)] :value bytes}) (gen/vector gen/byte 0 20)))

(def ^:private bits-field
  (gen/fmap (fn [text] {:words [:bits (count text)] :value (bits text)}) digits))

(def ^:private sized-binary
  "Two fields: a length, in 16 bits, and what has it."
  (gen/fmap (fn [bytes] {:words [:binary] :value bytes :sized true}) (gen/vector gen/byte 0 20)))

(def ^:private fields
  (gen/vector (gen/one-of [integer-field float-field text-field binary-field bits-field sized-binary]) 0 8))

(defn- segments [i {:keys [words value sized]}]
  (let [field (keyword (str "f" i))
        length (keyword (str "n" i))]
    (if sized
      {:layout [[length 16] [field :binary length]] :values {length (count value) field value}}
      {:layout [(into [field] words)] :values {field value}})))

(def ^:private layouts
  "Maps of :layout and :values, with byte arrays as vectors."
  (gen/fmap (fn [fields]
              (let [parts (map-indexed segments fields)]
                {:layout (into [] (mapcat :layout) parts) :values (into {} (map :values) parts)}))
            fields))

(defn- with-bytes [values]
  (update-vals values #(if (vector? %) (byte-array %) %)))

(defn- filled
  "The layout with padding to whole bytes, that the values need behind it."
  [{:keys [layout values] :as random}]
  (let [n (count (bits/build-bits layout (with-bytes values)))]
    (assoc random :layout (conj layout [:_ (mod (- n) 8)]))))

;; ---- properties

(deftest what-is-built-is-parsed
  (holds 300 (prop/for-all [{:keys [layout values]} layouts]
               (= values (plain (bits/parse layout (bits/build-bits layout (with-bytes values))))))))

(deftest lengths-need-not-be-given
  (holds 100 (prop/for-all [{:keys [layout values]} layouts]
               (= (bits/build-bits layout (with-bytes values))
                  (bits/build-bits layout (with-bytes (into {} (remove #(= \n (first (name (key %))))) values)))))))

(deftest every-source-gives-the-same
  (holds 200 (prop/for-all [random layouts
                            before (gen/vector gen/byte 0 3)
                            behind (gen/vector gen/byte 0 3)]
               (let [{:keys [layout values]} (filled random)
                     bytes (bits/build layout (with-bytes values))
                     buffer (.position (ByteBuffer/wrap (byte-array (concat before bytes behind))) (count before))
                     in (ByteArrayInputStream. (byte-array (concat bytes behind)))]
                 (and (= values (plain (bits/parse layout bytes)))
                      (= values (plain (bits/parse layout buffer)))
                      (= (count behind) (.remaining buffer))
                      (= values (plain (bits/parse layout in)))
                      (= (count behind) (.available in)))))))

(deftest a-part-of-what-is-built-does-not-match
  (holds 200 (prop/for-all [{:keys [layout values]} layouts
                            cut gen/nat]
               (let [built (bits/build-bits layout (with-bytes values))
                     left (- (count built) (inc (long cut)))]
                 (or (neg? left)
                     (nil? (bits/parse layout (bits/bitstring (bits/build [[:all :bits (count built)] [:_ (mod (- (count built)) 8)]] {:all built})
                                                              left))))))))

(deftest noise-never-breaks-a-layout
  (holds 300 (prop/for-all [{:keys [layout]} layouts
                            noise gen/bytes]
               (let [found (bits/parse (conj layout [:rest :bits]) (bytes noise))]
                 (or (nil? found)
                     (= (bits/bitstring noise)
                        (bits/build-bits (conj layout [:rest :bits]) found))
                     (some #(and (double? %) (Double/isNaN %)) (vals found)))))))

(defn- octets [text]
  (map #(apply str %) (partition-all 8 text)))

(defn- little
  "The digits of an integer in little-endian order: the lowest eight first, what is no whole byte last."
  [text]
  (let [odd (mod (count text) 8)]
    (str (apply str (reverse (octets (subs text odd)))) (subs text 0 odd))))

(deftest integers-stand-as-their-digits
  (holds 300 (prop/for-all [before digits
                            text digits
                            signed? gen/boolean
                            little? gen/boolean]
               (let [words [(count text) (if signed? :signed :unsigned) (if little? :little :big)]
                     stands (bits (str before (if little? (little text) text)))
                     value (from-digits text signed?)]
                 (and (= stands (bits/build-bits [(bits before) (into [:x] words)] {:x value}))
                      (= {:x value} (bits/parse [[:_ (count before)] (into [:x] words)] stands)))))))

(deftest constants-are-fields-with-one-value
  (holds 100 (prop/for-all [{:keys [words value]} (gen/one-of [integer-field float-field text-field])]
               (let [built (bits/build-bits [(into [:x] words)] {:x value})]
                 (and (= built (bits/build-bits [(into [value] words)] {}))
                      (= {} (bits/parse [(into [value] words)] built))
                      (= {:x value} (bits/parse [(into [:x] words)] built)))))))
