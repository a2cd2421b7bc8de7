(ns magnetar.impl.match.code
  "Makes code of the steps of patterns. core.match compiles one value against one pattern at a time, and what follows a match stands once."
  {:no-doc true}
  (:require
   [magnetar.impl.loading :as loading]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang IPersistentVector)
   (java.util Objects)
   (magnetar.kernel.process Clauses)))

(set! *warn-on-reflection* true)

;; core.match is needed by the compiler only: it is loaded when the first pattern is met, and not compiled into the classes of a program.
(def ^:private names-of-core-match
  (update-keys '{compile clj-form, line *line*, locals *locals*, warned *warned*, whole *recur-present*, checks *syntax-check*}
               keyword))

(defn- core-var [k]
  (binding [*compile-files* false, *warn-on-reflection* false, *unchecked-math* false]
    (loading/var-of 'clojure.core.match/matchv)) ; among the last that it defines
  (ns-resolve 'clojure.core.match (names-of-core-match k)))

(defn- core-form
  "The code of core.match for one row, with the symbol `done` where it matches and nil where not."
  [value p pins done]
  (with-bindings {(core-var :line) nil
                  (core-var :locals) (zipmap pins (repeat true))
                  (core-var :warned) (atom true)
                  (core-var :checks) (atom false)
                  (core-var :whole) true}
    ((core-var :compile) [value] [[p] done :else nil])))

(defn- choice-of-lookup? [form]
  (= 'clojure.core.match/val-at* (some-> (nth form 3 nil) (as-> else (when (seq? else) (first else))))))

(declare polish)

;; Beside a primitive number = boxes it at each call, unless it is small; what a method returns is an object.
(defn- primitive? [x]
  (or (and (int? x) (not (<= -128 x 127))) (float? x)))

(defn- polish-list [done form]
  (let [[f x y] form]
    (cond
      (= 'quote f) form
      (and (= `= f) (primitive? y)) `(= ~(polish done x) (Objects/requireNonNull ~y))
      (= `vector? f) `(instance? IPersistentVector ~(polish done x))
      (= `not= f) `(if (identical? ~@(map #(polish done %) (rest form))) false true)
      (choice-of-lookup? form) (polish done (nth form 2))
      :else (apply list (map #(polish done %) form)))))

(defn- polish
  "The form with `done` replaced, without functions of core.match, and with tests that the compiler does inline."
  [done form]
  (cond
    (contains? done form) (done form)
    (seq? form) (polish-list done form)
    (vector? form) (mapv #(polish done %) form)
    :else form))

(defn- core-code [value p pins inner]
  (let [done (gensym "done")]
    (polish {done inner} (core-form value p pins done))))

(defn- local? [pins p]
  (and (symbol? p) (not (contains? pins p))))

(declare emit)

(defn- places [array locals]
  (mapcat (fn [i x] [x `(aget ~array ~i)]) (range) locals))

(defn- unpack [array form locals inner]
  (let [array (vary-meta array assoc :tag 'objects)]
    `(let [~array ~form]
       (if (nil? ~array)
         nil
         (let [~@(places array locals)] ~inner)))))

(defn- packed [locals]
  (if (seq locals) `(object-array [~@locals]) true))

(defn- first-of [pins found locals tries inner]
  (let [form `(or ~@(map #(emit pins % (packed locals)) tries))]
    (if (seq locals)
      (unpack found form locals inner)
      `(if ~form ~inner nil))))

(defn emit-step
  "The code of one step, with `inner` where it succeeds, else nil."
  [pins [op a b c] inner]
  (case op
    :core (cond
            (= '_ b) inner
            (local? pins b) `(let [~b ~a] ~inner)
            :else (core-code a b pins inner))
    :let `(let [~a ~b] ~inner)
    :test `(if ~a ~inner nil)
    :or (first-of pins a b c inner)
    :array (unpack a b c inner)))

(defn- emit
  "The code of the steps, with `inner` where all of them succeed, else nil."
  [pins steps inner]
  (reduce (fn [inner step] (emit-step pins step inner)) inner (rseq steps)))

;; --- clauses

(defn- answer [number locals]
  (cond
    (empty? locals) number
    (<= (count locals) 6) `(Clauses/answer ~number ~@locals)
    :else `(object-array [~number ~@locals])))

(defn- clause-code [number {:keys [steps locals pins]}]
  (emit (set pins) steps (answer number locals)))

(defn- method [i message code]
  `(~(symbol (str "c" i)) [~'_ ~message] ~code))

(defn- object [methods texts]
  `(reify Clauses
     (~'size [~'_] ~(count methods))
     (~'text [~'_ i#] (nth ~texts i#))
     ~@methods))

(defn- nest [message codes texts]
  (let [[here more] (split-at (dec Clauses/WIDTH) codes)]
    (if (<= (count codes) Clauses/WIDTH)
      (object (map-indexed #(method %1 message %2) codes) texts)
      (object (map-indexed #(method %1 message %2)
                           (concat here [`(.match ~(nest message more (subvec texts (count here))) ~message)]))
              (subvec texts 0 Clauses/WIDTH)))))

(defn matcher
  "Code of a Matcher of the analyzed clauses, which match the value of the symbol `message`; texts name them in reports."
  [message clauses texts]
  (if (empty? clauses)
    `Clauses/NONE
    (nest message (vec (map-indexed clause-code clauses)) texts)))
