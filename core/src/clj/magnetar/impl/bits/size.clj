(ns magnetar.impl.bits.size
  "Sizes that are computed from earlier fields: arithmetic, as data, compiled to functions of longs."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.bits.refusals :as refusals])
  (:import
   (clojure.lang IFn$LLL IFn$OL)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

(defn- shifted ^long [^long a ^long n]
  (if (< -1 n 64) (bit-shift-left a n) (throw (ArithmeticException. "shift"))))

(def ^:private operators
  {"+" (fn ^long [^long a ^long b] (Math/addExact a b))
   "-" (fn ^long [^long a ^long b] (Math/subtractExact a b))
   "*" (fn ^long [^long a ^long b] (Math/multiplyExact a b))
   "quot" (fn ^long [^long a ^long b] (quot a b))
   "rem" (fn ^long [^long a ^long b] (rem a b))
   "mod" (fn ^long [^long a ^long b] (Math/floorMod a b))
   "min" (fn ^long [^long a ^long b] (min a b))
   "max" (fn ^long [^long a ^long b] (max a b))
   "bit-and" (fn ^long [^long a ^long b] (bit-and a b))
   "bit-or" (fn ^long [^long a ^long b] (bit-or a b))
   "bit-xor" (fn ^long [^long a ^long b] (bit-xor a b))
   "bit-shift-left" shifted
   "bit-shift-right" (fn ^long [^long a ^long b] (bit-shift-right a b))
   "=" (fn ^long [^long a ^long b] (if (= a b) 1 0))
   "<" (fn ^long [^long a ^long b] (if (< a b) 1 0))
   ">" (fn ^long [^long a ^long b] (if (> a b) 1 0))
   "<=" (fn ^long [^long a ^long b] (if (<= a b) 1 0))
   ">=" (fn ^long [^long a ^long b] (if (>= a b) 1 0))})

(def ^:private known
  (str/join " " (concat (sort (keys operators)) ["inc" "dec" "if"])))

(defn- constant [^long n]
  (fn ^long [_] n))

(defn- whole ^long [value]
  (cond
    (instance? Long value) (.longValue ^Long value)
    (integer? value) (.longValueExact (biginteger value))
    :else (throw (ArithmeticException. "no whole number"))))

(defn- reference [slot]
  (let [slot (int slot)]
    (fn ^long [^objects slots] (whole (aget slots slot)))))

(defn- apply-2 [^IFn$LLL f ^IFn$OL a ^IFn$OL b]
  (fn ^long [slots] (.invokePrim f (.invokePrim a slots) (.invokePrim b slots))))

(defn- choice [^IFn$OL test ^IFn$OL then ^IFn$OL else]
  (fn ^long [slots]
    (if (zero? (.invokePrim test slots))
      (.invokePrim else slots)
      (.invokePrim then slots))))

(declare expression)

(defn- call [segment operator args]
  (let [f (operators operator)]
    (cond
      (nil? f) (refusals/bad-layout segment (str "computes its size with `" operator "`, which is none of: " known
                                              ". A layout that is not quoted may have a function of the fields there.")
                 {:operator operator})
      (not= 2 (count args)) (refusals/bad-layout segment (str "gives `" operator "` " (count args) " operands; it takes 2.")
                              {:operator operator})
      :else (apply-2 f (first args) (second args)))))

(defn- operation [segment slot-of [operator & operands]]
  (let [args (mapv #(expression segment slot-of %) operands)
        operator (if (symbol? operator) (name operator) (refusals/shown operator))]
    (case [operator (count args)]
      ["inc" 1] (call segment "+" (conj args (constant 1)))
      ["dec" 1] (call segment "-" (conj args (constant 1)))
      ["if" 3] (apply choice args)
      (if (and (#{"+" "*" "-" "bit-and" "bit-or"} operator) (< 2 (count args)))
        (reduce #(call segment operator [%1 %2]) args)
        (call segment operator args)))))

(defn- expression
  "A function from slots to long."
  [segment slot-of form]
  (cond
    (int? form) (constant form)
    (ident? form) (reference (slot-of form))
    (seq? form) (operation segment slot-of form)
    :else (refusals/bad-layout segment (str "has " (refusals/shown form) " in its size; a size is a whole number, an earlier field, "
                                         "or arithmetic with these.")
            {:size form})))

(defn- safe
  "What cannot be computed, and what is less than zero, is no size: -1."
  [^IFn$OL f ^long unit]
  (fn ^long [slots]
    (try
      (max -1 (Math/multiplyExact (.invokePrim f slots) unit))
      (catch ArithmeticException _ -1))))

(defn- of-fields
  "The size that a function of the earlier fields gives."
  [segment names f]
  (let [names (vec names)]
    (fn ^long [^objects slots]
      (let [size (f (zipmap names slots))]
        (if (integer? size)
          (whole size)
          (refusals/bad-layout segment (str "has a function that gave " (refusals/shown size) " as its size; let it give a whole number.")
            {:size size}))))))

(defn bits
  "A function from slots to the number of bits that a size comes to, -1 if that is no number of bits.
  slot-of gives the slot of a name or throws; names are the names of the earlier fields, in the order of their slots."
  [segment slot-of names form unit]
  (safe (if (fn? form)
          (of-fields segment names form)
          (expression segment slot-of form))
        unit))
