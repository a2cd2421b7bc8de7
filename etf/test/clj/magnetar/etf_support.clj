(ns magnetar.etf-support
  "Values for the tests of the codec: generators, and an equality that tells kinds apart."
  (:require
   [clojure.test.check.generators :as gen]
   [magnetar.etf :as etf])
  (:import
   (java.time Instant)
   (java.util Date HexFormat UUID)
   (magnetar.etf Fun ImproperList)))

(set! *warn-on-reflection* true)

(defn hex
  "The bytes that the hexadecimal digits stand for."
  ^bytes [text]
  (.parseHex (HexFormat/of) ^String text))

(defn unhex
  "The bytes as hexadecimal digits."
  [^bytes bytes]
  (.formatHex (HexFormat/of) bytes))

(defn- canonical
  "Data that is equal for two values if they are equal and of the same kind, at each depth, byte arrays and NaN included."
  [x]
  (cond
    (vector? x) [:vector (mapv canonical x)]
    (map? x) [:map (frequencies (map (fn [[k v]] [(canonical k) (canonical v)]) x))]
    (set? x) [:set (frequencies (map canonical x))]
    (sequential? x) [:list (mapv canonical x)]
    (bytes? x) [:bytes (vec x)]
    (float? x) [:float (Double/doubleToLongBits x)] ; NaN is NaN, and 0.0 is not -0.0
    (instance? ImproperList x) [:improper (canonical (.items ^ImproperList x)) (canonical (.tail ^ImproperList x))]
    (instance? Fun x) [:fun (.module ^Fun x) (.index ^Fun x) (vec (.uniq ^Fun x)) (mapv canonical (cons (.pid ^Fun x) (.free ^Fun x)))]
    :else x))

(defn same?
  "Are the values equal and of the same kind, at each depth?"
  [x y]
  (= (canonical x) (canonical y)))

(def ^:private big
  (gen/fmap (fn [[n ^long shift]] (bigint (.shiftLeft (biginteger n) shift))) (gen/tuple gen/large-integer (gen/choose 0 300))))

(def ^:private integer
  (gen/one-of [gen/small-integer gen/large-integer big
               (gen/elements [255 256 -1 0 Long/MAX_VALUE Long/MIN_VALUE (inc' Long/MAX_VALUE) (dec' Long/MIN_VALUE) 2147483647 2147483648 -2147483649])]))

(def ^:private real (gen/one-of [(gen/double* {:NaN? false :infinite? false}) (gen/elements [0.0 -0.0 1.0 1e300])]))

(def ^:private text
  (gen/one-of [gen/string-alphanumeric gen/string (gen/elements ["ä" "€" "𝄞" "a𝄞b" "" "?"])]))

(def ^:private atom-like
  (gen/one-of [(gen/elements [nil true false :ok :a/b :$clj (keyword "") :undefined]) gen/keyword gen/keyword-ns]))

(def ^:private erlang-scalar
  (gen/one-of [integer real text atom-like]))

(def ^:private odd-keyword
  (gen/elements [:nil :true :false (keyword "a" "b/c") (keyword nil "a/b") (keyword (apply str (repeat 300 "x"))) (keyword "x\ud800")]))

(def ^:private clojure-scalar
  (gen/one-of [erlang-scalar odd-keyword gen/char gen/symbol gen/symbol-ns
               (gen/such-that (complement integer?) gen/ratio 100)
               (gen/fmap (fn [[n scale]] (BigDecimal. (biginteger n) (int scale))) (gen/tuple integer (gen/choose -20 20)))
               (gen/fmap (fn [[a b]] (UUID. a b)) (gen/tuple gen/large-integer gen/large-integer))
               (gen/fmap #(Date. (long %)) gen/large-integer)
               (gen/fmap (fn [[s n]] (Instant/ofEpochSecond s n)) (gen/tuple (gen/choose -100000000000 100000000000) (gen/choose 0 999999999)))
               (gen/elements ["\ud800" "a\udc00b" ##Inf ##-Inf ##NaN])]))

(def ^:private as-bytes (gen/one-of [gen/bytes (gen/fmap #(.getBytes ^String %) gen/string-alphanumeric)]))

(defn- one-of-each
  "Returns the items whose keys differ also as terms: two byte arrays may have the same bytes."
  [key items]
  (vals (into {} (map (juxt (comp canonical key) identity)) items)))

(defn- maps [inner]
  (gen/fmap #(into {} (one-of-each key %)) (gen/map inner inner)))

(defn- sets [inner]
  (gen/fmap #(set (one-of-each identity %)) (gen/set inner)))

(defn- collections [inner]
  (gen/one-of [(gen/vector inner) (gen/list inner) (maps inner) (gen/vector (gen/choose 0 255))
               (gen/fmap #(into [:$clj] %) (gen/vector inner 0 3))]))

(def erlang-values
  "What plain Erlang has terms for. A byte array is UTF-8 there only by chance, so no value has one."
  (gen/recursive-gen collections erlang-scalar))

(def values
  "All that the codec writes by itself."
  (gen/recursive-gen #(gen/one-of [(collections %) (sets %) (gen/fmap (fn [x] {:bytes x}) as-bytes) (gen/fmap vector as-bytes)])
                     clojure-scalar))

(defn reason
  "The reason for which the function is refused; nil if it is not."
  [f]
  (try (f) nil
       (catch clojure.lang.ExceptionInfo e (:magnetar/reason (ex-data e)))))

(defn refusal
  "The message and the data of the refusal of the function, without the id."
  [f]
  (try (f) nil
       (catch clojure.lang.ExceptionInfo e (assoc (ex-data e) :message (ex-message e)))))

(def plain
  "The codec for plain Erlang."
  (etf/codec {:extensions false}))
