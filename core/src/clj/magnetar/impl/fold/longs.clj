(ns magnetar.impl.fold.longs
  "Folds of Clojure's own arithmetic over longs, without boxes: what (comp (filter even?) (map inc)) and + make of 32 elements is computed
  in an array of longs, a stage at a time.

  Only functions that are listed here take part: they have no effects, so that nobody sees the order in which they are called. An
  element or a result that is no long, such as an overflow, ends it: the elements since then are reduced again as any others."
  {:no-doc true}
  (:import
   (clojure.lang AFunction)
   (java.lang.reflect Field)))

(set! *warn-on-reflection* true)
(set! *unchecked-math* false) ; an overflow has to show

;; ---- stages: each has loops of its own, which the JIT compiles for it alone

(definterface Stage
  (^long run [^longs xs ^long n])) ; changes the first n in place; returns how many are left

(definterface Total
  (^long add [^longs xs ^long n ^long acc]))

(defmacro ^:private keeping [[x] test]
  `(reify Stage
     (run [~'_ xs# n#]
       (loop [i# 0 kept# 0]
         (if (< i# n#)
           (let [~x (aget xs# i#)]
             (aset xs# kept# ~x)
             (recur (unchecked-inc i#) (if ~test (unchecked-inc kept#) kept#)))
           kept#)))))

(defmacro ^:private changing [[x] value]
  `(reify Stage
     (run [~'_ xs# n#]
       (loop [i# 0]
         (when (< i# n#)
           (let [~x (aget xs# i#)]
             (aset xs# i# ~value)
             (recur (unchecked-inc i#)))))
       n#)))

(defmacro ^:private totalling [[acc x] value]
  `(reify Total
     (add [~'_ xs# n# start#]
       (loop [i# 0 ~acc start#]
         (if (< i# n#)
           (let [~x (aget xs# i#)]
             (recur (unchecked-inc i#) (long ~value)))
           ~acc)))))

(def ^:private predicates
  {even? (keeping [x] (zero? (bit-and x 1)))
   odd? (keeping [x] (not (zero? (bit-and x 1))))
   pos? (keeping [x] (pos? x))
   neg? (keeping [x] (neg? x))
   zero? (keeping [x] (zero? x))})

(def ^:private opposites
  {even? odd?, odd? even?})

(def ^:private functions
  {inc (changing [x] (inc x))
   dec (changing [x] (dec x))
   - (changing [x] (- x))
   inc' (changing [x] (inc x))
   dec' (changing [x] (dec x))})

(def ^:private totals
  {+ (totalling [acc x] (+ acc x))
   +' (totalling [acc x] (+ acc x))
   * (totalling [acc x] (* acc x))
   max (totalling [acc x] (Math/max acc x))
   min (totalling [acc x] (Math/min acc x))})

;; ---- what a transducer is made of

(defn- made-by? [f pattern]
  (and (instance? AFunction f) (some? (re-matches pattern (.getName (class f))))))

(defn- closed-over [f ^String named]
  (let [^Field field (.getDeclaredField (class f) named)]
    (.setAccessible field true)
    (.get field f)))

(defn- keeps [pred]
  (if (made-by? pred #"clojure\.core\$complement\$fn__\d+")
    (some-> (closed-over pred "f") opposites predicates)
    (predicates pred)))

(defn- stages
  "The stages of a transducer; nil if one is not listed here."
  [xform]
  (cond
    (identical? identity xform) []
    (made-by? xform #"clojure\.core\$map\$fn__\d+") (some-> (functions (closed-over xform "f")) vector)
    (made-by? xform #"clojure\.core\$filter\$fn__\d+") (some-> (keeps (closed-over xform "pred")) vector)
    (made-by? xform #"clojure\.core\$comp\$fn__\d+") (let [f (stages (closed-over xform "f"))
                                                           g (when f (stages (closed-over xform "g")))]
                                                       (when g (into f g)))))

(defn plan
  "How to fold with xform and reducef without boxes; nil if that cannot be done."
  [xform reducef]
  (when-some [total (totals reducef)]
    (when-some [stages (stages xform)]
      {:stages (object-array stages) :total total})))

;; ---- one worker

(definterface Reducer
  (^Object reduce [xs ^long from ^long to acc])) ; nil if that cannot be done

(set! *unchecked-math* :warn-on-boxed)

(defn- unboxed?
  "Copies the elements; false if one is no Long."
  [^objects xs ^long from ^long to ^longs into]
  (loop [i from]
    (if (< i to)
      (let [x (aget xs i)]
        (if (instance? Long x)
          (do (aset into (- i from) (.longValue ^Long x))
              (recur (inc i)))
          false))
      true)))

(defn- run-stages ^long [^objects stages ^longs xs ^long n]
  (loop [i 0 n n]
    (if (< i (alength stages))
      (recur (inc i) (.run ^Stage (aget stages i) xs n))
      n)))

(def ^:private ^:const width 256)

(deftype Longs [^objects stages ^Total total ^longs buffer]
  Reducer
  (reduce [_ xs from to acc]
    (when (instance? Long acc)
      (try
        (loop [from from
               acc (.longValue ^Long acc)]
          (if (< from to)
            (let [end (min to (+ from (long width)))]
              (when (unboxed? xs from end buffer)
                (recur end (.add total buffer (run-stages stages buffer (- end from)) acc))))
            acc))
        (catch ArithmeticException _)))))

(defn reducer
  "The reducer of a worker; nil if there is no plan."
  [{:keys [stages total]}]
  (when total
    (Longs. stages total (long-array width))))
