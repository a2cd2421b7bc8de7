(ns magnetar.impl.fold.longs
  "Folds of Clojure's own arithmetic over longs, without boxes: (comp (filter even?) (map inc)) and + become one loop over longs.

  Only functions that are listed here take part. An element or a result that is no long, such as an overflow, ends it: the elements
  since then are reduced again as any others, which these functions, having no effects, allow. The loop is compiled when a fold turns
  out to be long enough for several fibers, once for each pipeline in the life of the program."
  {:no-doc true}
  (:import
   (clojure.lang AFunction)
   (java.lang.reflect Field)))

(set! *warn-on-reflection* true)

(def ^:private predicates
  {even? #(list `zero? (list `bit-and % 1))
   odd? #(list `not (list `zero? (list `bit-and % 1)))
   pos? #(list `pos? %)
   neg? #(list `neg? %)
   zero? #(list `zero? %)})

(def ^:private functions
  {inc #(list `inc %)
   dec #(list `dec %)
   - #(list `- %)
   inc' #(list `inc %)
   dec' #(list `dec %)})

(def ^:private totals
  {+ #(list `+ %1 %2)
   +' #(list `+ %1 %2)
   * #(list `* %1 %2)
   max #(list `Math/max %1 %2)
   min #(list `Math/min %1 %2)})

;; ---- what a transducer is made of

(defn- made-by? [f pattern]
  (and (instance? AFunction f) (some? (re-matches pattern (.getName (class f))))))

(defn- closed-over [f ^String named]
  (let [^Field field (.getDeclaredField (class f) named)]
    (.setAccessible field true)
    (.get field f)))

(defn- kept-by [pred]
  (if (made-by? pred #"clojure\.core\$complement\$fn__\d+")
    (let [opposite (closed-over pred "f")]
      (when (predicates opposite) [:remove opposite]))
    (when (predicates pred) [:filter pred])))

(defn- stages
  "The stages of a transducer, [:map f], [:filter pred] or [:remove pred]; nil if there is one of another kind."
  [xform]
  (cond
    (identical? identity xform) []
    (made-by? xform #"clojure\.core\$map\$fn__\d+") (let [f (closed-over xform "f")]
                                                      (when (functions f) [[:map f]]))
    (made-by? xform #"clojure\.core\$filter\$fn__\d+") (some-> (kept-by (closed-over xform "pred")) vector)
    (made-by? xform #"clojure\.core\$comp\$fn__\d+") (let [f (stages (closed-over xform "f"))
                                                           g (when f (stages (closed-over xform "g")))]
                                                       (when g (into f g)))))

(defn plan
  "[stages reducef] if they can be folded without boxes, else nil."
  [xform reducef]
  (when (contains? totals reducef)
    (when-some [stages (stages xform)]
      [stages reducef])))

;; ---- the loop

(defn- next-element [stages reducef x]
  (if-some [[[kind f] & more] (seq stages)]
    (let [after #(next-element more reducef %)
          skip `(recur (unchecked-inc ~'i) ~'acc)]
      (case kind
        :map (let [y (gensym "x")] `(let [~y ~((functions f) x)] ~(after y)))
        :filter `(if ~((predicates f) x) ~(after x) ~skip)
        :remove `(if ~((predicates f) x) ~skip ~(after x))))
    `(recur (unchecked-inc ~'i) ~((totals reducef) 'acc x))))

(def no-long
  "What the loop throws on an element that is no long."
  (ArithmeticException. "not a long"))

(defn- loop-form [[stages reducef]]
  (let [hinted #(with-meta % {:tag 'long})]
    `(fn ~(hinted ['xs (hinted 'from) (hinted 'to) (hinted 'start)])
       (let [~(with-meta 'xs {:tag 'objects}) ~'xs]
         (loop [~'i ~'from ~'acc ~'start]
           (if (< ~'i ~'to)
             (let [~'x (aget ~'xs ~'i)]
               (if (instance? Long ~'x)
                 (let [~'n (.longValue ~(with-meta 'x {:tag 'Long}))]
                   ~(next-element stages reducef 'n))
                 (throw no-long)))
             ~'acc))))))

(defn- compiled [plan]
  (binding [*unchecked-math* false ; an overflow has to show
            *compile-files* false
            *ns* (the-ns 'clojure.core)]
    (eval (loop-form plan))))

(def ^:private ^:const most-loops 256)
(def ^:private loops (atom {}))

(defn loop-of
  "The loop of a plan: of an array, from and to where, and a number, the number that comes of them. It throws an ArithmeticException if
  one of them is no long. Nil if there is no plan, or were too many."
  [plan]
  (when plan
    (or (get @loops plan)
        (when (< (count @loops) (long most-loops))
          (get (swap! loops assoc plan (compiled plan)) plan)))))
