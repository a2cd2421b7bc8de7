(ns magnetar.impl.bits.layout
  "What the segments of a layout mean: from data to maps, checked.

  A segment comes out as :index :form :kind :type :signed? :little? :unit, and where they apply :size (as written), :static (its bits, if
  known), :value (of a constant), :slot (of a field or of a local of the pattern). Kinds are :constant, :skip, :bind (a field's first
  occurrence) and :same (a later one, or a bound local): what is there must be equal."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.bits.order :as order]
   [magnetar.impl.bits.refusals :as refusals :refer [bad-layout]])
  (:import
   (magnetar.impl.bits.bitstring Bitstring)))

(set! *warn-on-reflection* true)

(def ^:private types #{:integer :float :binary :bits :utf8 :utf16 :utf32})

(def ^:private modifiers
  {:signed [:sign true], :unsigned [:sign false]
   :big [:little false], :little [:little true], :native [:little order/native-little?]})

(def ^:private words
  (str/join " " (concat (sort types) (sort (keys modifiers)) [":unit n"])))

(defn- field-key [ident]
  (keyword (namespace ident) (name ident)))

(defn- field-symbol [ident]
  (symbol (namespace ident) (name ident)))

;; ---- words

(defn- give [segment key what value]
  (if (contains? segment key)
    (bad-layout segment (str "has two " what "s; keep one.") {:second value})
    (assoc segment key value)))

(defn- read-words [segment [word & more]]
  (cond
    (nil? word) segment
    (= :unit word) (recur (give segment :unit "unit" (first more)) (next more))
    (types word) (recur (give segment :type "type" word) more)
    (modifiers word) (let [[key value] (modifiers word)] (recur (give segment key ({:sign "sign" :little "byte order"} key) value) more))
    :else (recur (give segment :size "size" word) more)))

(defn- default-type [{:keys [value]}]
  (cond
    (bytes? value) :binary
    (instance? Bitstring value) :bits
    :else :integer))

(defn- words-of [index form]
  (let [[value & more] (if (vector? form) form [form])
        segment {:index index :form form :value value}]
    (when (or (= [] form) (some nil? more))
      (bad-layout segment "has no value, or a nil in it; a segment is [name-or-constant & size-type-and-modifiers]."))
    (let [segment (read-words segment more)]
      (merge {:type (default-type segment)} segment))))

;; ---- what goes together

(defn- text? [type]
  (contains? #{:utf8 :utf16 :utf32} type))

(defn- raw? [type]
  (contains? #{:binary :bits} type))

(defn- check-modifiers [{:keys [type unit] :as segment}]
  (cond
    (and (contains? segment :sign) (not= :integer type))
    (bad-layout segment (str "has a sign, which " type " has not; leave it out."))
    (and (contains? segment :little) (or (raw? type) (= :utf8 type)))
    (bad-layout segment (str "has a byte order, which " type " has not; leave it out."))
    (and (text? type) (or unit (:size segment)))
    (bad-layout segment (str "has a size or unit; one " type " code point is as long as it is. Leave it out."))
    (and (contains? segment :unit) (not (and (int? unit) (<= 1 (long unit) 256))))
    (bad-layout segment (str "has the unit " (refusals/shown unit) "; a unit is a number of bits from 1 to 256.") {:unit unit})
    (and unit (not (raw? type)) (not (:size segment)))
    (bad-layout segment "has a unit and no size to multiply with it; give the size.")))

(defn- default-size [{:keys [type value]}]
  (case type
    :integer (when-not (bytes? value) 8)
    :float 64
    nil))

(defn- checked-literal [segment size]
  (cond
    (neg? (long size)) (bad-layout segment (str "has the size " size "; a size is 0 or more.") {:size size})
    (< Integer/MAX_VALUE (long size)) (bad-layout segment (str "has the size " size ", and no source is as long; give it less.") {:size size})
    :else size))

(defn- with-size [{:keys [type size unit] :as segment}]
  (let [unit (long (or unit (if (= :binary type) 8 1)))
        size (if (nil? size) (default-size segment) size)]
    (cond-> (assoc segment :unit unit)
      (some? size) (assoc :size size)
      (int? size) (assoc :static (* (long (checked-literal segment size)) unit)))))

(defn- check-static [{:keys [type size] :as segment}]
  (when-let [bits (:static segment)]
    (cond
      (and (= :float type) (not (#{16 32 64} bits)))
      (bad-layout segment (str "is a float of " bits " bits; a float has 16, 32 or 64.") {:size size})
      (and (= :binary type) (pos? (rem (long bits) 8)))
      (bad-layout segment (str "is a :binary of " bits " bits, which are no whole bytes; use :bits.") {:size size}))))

;; ---- values

(defn- text-or-number? [value]
  (or (integer? value) (char? value) (string? value)))

(def ^:private constants
  {:integer [text-or-number? "a whole number, a character or a string"]
   :float [number? "a number"]
   :binary [bytes? "a byte array; text stands without :binary, as [\"PNG\"] or [\"é\" :utf8]"]
   :bits [#(instance? Bitstring %) "a bitstring"]})

(defn- check-constant [{:keys [type value size] :as segment}]
  (let [[fits? wanted] (constants type [text-or-number? "a code point, a character or a string"])]
    (when-not (fits? value)
      (bad-layout segment (str "begins with " (refusals/shown value) ", which is no " type "; put there a name, _, or " wanted ".")
                  {:value value}))
    (when (and size (raw? type))
      (bad-layout segment "is a constant with a size; it has its own, leave it out." {:size size}))
    (assoc segment :kind :constant)))

(defn- skipped? [value]
  (and (ident? value) (= "_" (name value))))

(defn- name-kind [{:keys [fields pins bound]} value]
  (cond
    (some #{(field-key value)} fields) :same
    (some #{(field-symbol value)} pins) :pin
    (and (symbol? value) (contains? bound value)) :pin
    :else :bind))

(defn- with-kind [{:keys [value] :as segment} scope]
  (cond
    (skipped? value) (assoc segment :kind :skip)
    (ident? value) (assoc segment :kind (name-kind scope value) :key (field-key value))
    :else (check-constant segment)))

(defn- check-rest [{:keys [type size kind] :as segment} last?]
  (when (and (raw? type) (nil? size) (not last?) (not= :constant kind))
    (bad-layout segment (str "takes all the rest and is not the last segment; give it a size, or move it to the end."))))

;; ---- names in sizes

(defn- names-in [size]
  (cond
    (ident? size) [size]
    (seq? size) (mapcat names-in (rest size))))

(defn- unknown-name [segment fields ident]
  (bad-layout segment
              (str (if (keyword? ident)
                     (str "has `" ident "`, which is no type or modifier (" words ") and names no earlier field")
                     (str "takes its size from `" ident "`, which names no earlier field"))
                   "; before it stand: " (if (seq fields) (str/join " " (map name fields)) "none")
                   ". Put the field before this one, or correct the name.")
              {:name ident :fields fields}))

(defn- check-reference [segment {:keys [fields types bound]} ident]
  (let [key (field-key ident)]
    (cond
      (#{:float :binary :bits} (types key))
      (bad-layout segment (str "takes its size from `" ident "`, which is a " (types key) "; name an :integer field.") {:name ident})
      (not (or (some #{key} fields) (contains? bound (field-symbol ident))))
      (unknown-name segment fields ident))))

(defn- check-size [{:keys [size] :as segment} scope]
  (when-not (or (nil? size) (int? size) (ident? size) (seq? size) (fn? size))
    (bad-layout segment (str "has " (refusals/shown size) " for a size; a size is a whole number, an earlier field, "
                             "arithmetic with these, or a function of the fields.")
                {:size size}))
  (run! #(check-reference segment scope %) (names-in size)))

(defn- pins-of [{:keys [fields]} {:keys [kind value size]}]
  (concat (when (= :pin kind) [(field-symbol value)])
          (for [ident (names-in size) :when (not (some #{(field-key ident)} fields))]
            (field-symbol ident))))

(defn- enter
  "The scope behind a segment."
  [scope {:keys [kind key type] :as segment}]
  (cond-> (-> (update scope :segments conj (assoc segment :names (:fields scope)))
              (update :pins into (remove (set (:pins scope))) (distinct (pins-of scope segment))))
    (= :bind kind) (-> (update :fields conj key) (update :types assoc key type))))

(defn- segment-of [scope index form last?]
  (let [segment (words-of index form)]
    (check-modifiers segment)
    (let [segment (-> segment with-size (with-kind scope))]
      (check-size segment scope)
      (check-static segment)
      (check-rest segment last?)
      (-> segment
          (assoc :signed? (boolean (:sign segment)) :little? (boolean (:little segment)))
          (dissoc :sign :little)))))

;; ---- slots

(defn- slot-function [{:keys [fields pins]}]
  (let [slots (zipmap (concat fields (map field-key pins)) (range))]
    (fn [ident] (slots (field-key ident)))))

(defn- with-slot [slot-of {:keys [kind value] :as segment}]
  (cond-> (assoc segment :slot-of slot-of)
    (#{:bind :same :pin} kind) (assoc :slot (slot-of value))
    (= :pin kind) (assoc :kind :same)))

(defn read-layout
  "What a layout says: :fields, keywords in the order of their slots; :pins, symbols of `bound` that it uses, whose slots come behind;
  :segments."
  [layout bound]
  (when-not (vector? layout)
    (refusals/no-layout layout))
  (let [end (dec (count layout))
        scope (reduce (fn [scope [index form]] (enter scope (segment-of scope index form (= index end))))
                      {:fields [] :types {} :pins [] :segments [] :bound (set bound)}
                      (map-indexed vector layout))
        slot-of (slot-function scope)]
    (-> (select-keys scope [:fields :pins])
        (assoc :segments (mapv #(with-slot slot-of %) (:segments scope))))))
