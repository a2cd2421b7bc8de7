(ns magnetar.impl.trace.forms
  "Code that notes which of its forms it is about to do, so that an error can tell the path of forms to the one that threw it.

  Each form of the source has a number. The code writes it into a cell before it evaluates the form, and writes the number of the outer form
  again after each part except the last. Nothing follows the last part, so tail positions are kept. What a part returns is not boxed. One
  `try` surrounds the whole, and one the body of each function. A `recur` to the function becomes one to a loop inside that `try`.

  The macro `traced` rewrites one level, and wraps each part in `traced`. So the compiler expands each macro of the source where it stands,
  with the locals that it sees there."
  {:no-doc true}
  (:require
   [magnetar.impl.match.forms :as forms]
   [magnetar.impl.match.refusals :as refusals]
   [magnetar.impl.outcomes :as outcomes]
   [magnetar.impl.runtime]
   [magnetar.impl.trace.events :as events]))

(set! *warn-on-reflection* true)

;; ---- the forms of the source

(defn- over-parts
  "The form with f of each of its parts, of the same kind and with the same metadata."
  [f form]
  (cond
    (or (record? form) (not (coll? form))) form
    (seq? form) (with-meta (apply list (map f form)) (meta form))
    (map? form) (with-meta (into (empty form) (map (fn [[k v]] [(f k) (f v)])) form) (meta form))
    :else (with-meta (into (empty form) (map f) form) (meta form))))

(defn- clause?
  "Is the list a part of a form, and none itself: the arity of a function, or a clause of a `try`?"
  [[x]]
  (or (vector? x) (contains? '#{catch finally} x)))

(defn- marked
  "The form with a number in the metadata of each list that is a form, and [text outer-number] of each of these in the volatile."
  [noted text outer form]
  (cond
    (and (seq? form) (= 'quote (first form))) form
    (and (seq? form) (seq form) (not (clause? form)))
    (let [n (count @noted)]
      (vswap! noted conj [(text form) outer])
      (vary-meta (over-parts #(marked noted text n %) form) assoc ::form n))
    :else (over-parts #(marked noted text outer %) form)))

(defn- place-text [file form]
  (str (events/form-text form) (when-some [line (:line (meta form))] (str " at " file ":" line))))

;; ---- code

(declare part last-part)

(defn- enters [{:keys [cell]} number]
  `(aset ~cell 0 ~number))

(defn- holds-code? [form]
  (and (coll? form) (or (seq? form) (some holds-code? form))))

;; To make a function cannot fail. The compiler names it after the `def` or binding directly around it: nothing may come between.

(defn- part
  "Code of a form after which the form with the number `outer` goes on."
  [site outer form]
  (cond
    (not (holds-code? form)) form
    (forms/function? form) (last-part site outer form)
    (seq? form) (let [value (gensym "value")]
                  `(let* [~value ~(last-part site outer form)] ~(enters site outer) ~value))
    :else (over-parts #(part site outer %) form)))

(defn- last-part
  "Code of a form which the outer form ends with. It has the line of the form, for the frames and errors of the compiler."
  [site outer form]
  (if (seq? form)
    (with-meta `(traced ~site ~outer ~form) (select-keys (meta form) [:line :column]))
    (part site outer form)))

(defn- statement
  "The forms of a part whose value is dropped. It stays a statement: elsewhere Clojure makes a function of a loop."
  [site outer form]
  (if (and (seq? form) (not (forms/function? form)))
    [(last-part site outer form) (enters site outer)]
    [(part site outer form)]))

(defn- parts [site outer forms]
  (map #(part site outer %) forms))

(defn- body [site outer forms]
  (concat (mapcat #(statement site outer %) (butlast forms))
          (when (seq forms) [(last-part site outer (last forms))])))

(defn- bindings [site outer pairs]
  (into [] (mapcat (fn [[local form]] [local (part site outer form)])) (partition 2 pairs)))

(defn- without-number [form]
  (vary-meta form dissoc ::form))

;; ---- functions

(defn- recurs?
  "May a `recur` in the forms go to their function?"
  [forms]
  (some #{'recur} (tree-seq coll? seq forms)))

(defn- looped
  "The body of a method, in a loop if it contains a `recur`, which cannot cross the `try`."
  [locals forms-of-body code]
  (if (recurs? forms-of-body)
    [`(loop* [~@(mapcat #(repeat 2 (with-meta % nil)) locals)] ~@code)]
    code))

(defn- method-code
  "A method of a function. Its body has a cell of its own, since it may run later, on another thread. A function that is called once has no loop,
  which would keep what it closes over."
  [{:keys [cell forms] :as site} outer once? [params & forms-of-body]]
  (let [code (body site outer forms-of-body)]
    (list params
          `(let* [~cell (new-cell ~outer)]
             (try
               ~@(if once? code (looped (remove '#{&} params) forms-of-body code))
               (catch Throwable error#
                 (throw (attached ~forms ~cell error#))))))))

(defn- function-code [site outer [head & more :as form]]
  (let [[named methods] (split-with symbol? more)
        methods (if (vector? (first methods)) [methods] methods)]
    (with-meta `(~head ~@named ~@(map #(method-code site outer (:once (meta head)) %) methods))
      (meta (without-number form)))))

;; ---- special forms

(defn- case-code [site outer [head value shift mask default tests & more]]
  `(~head ~value ~shift ~mask ~(last-part site outer default)
          ~(reduce-kv (fn [m k [test branch]] (assoc m k [test (last-part site outer branch)])) tests tests)
          ~@more))

(defn- finally-code
  "A `finally` that leaves the cell as it is, if its own forms do not throw."
  [{:keys [cell] :as site} outer [head & forms]]
  `(~head
     (let* [before# (aget ~cell 0)]
       ~@(parts site outer forms)
       (aset ~cell 0 before#))))

(defn- catch-code
  "A `catch`, where the error first gets the path to the form that threw it: it may be thrown on."
  [{:keys [cell forms] :as site} outer [head class local & forms-of-body]]
  `(~head ~class ~local
     (attached ~forms ~cell ~local)
     ~(enters site outer)
     ~@(body site outer forms-of-body)))

(defn- try-code [site outer [head & forms]]
  (let [[forms clauses] (split-with #(not (and (seq? %) (contains? '#{catch finally} (first %)))) forms)]
    `(~head
       ~@(body site outer forms)
       ~@(map (fn [[kind :as clause]]
                (if (= 'catch kind) (catch-code site outer clause) (finally-code site outer clause)))
              clauses))))

(defn- dot-code [site outer [head target member & arguments]]
  (let [target (part site outer target)]
    (if (seq? member)
      `(~head ~target (~(first member) ~@(parts site outer (rest member))))
      `(~head ~target ~member ~@(parts site outer arguments)))))

(defn- special-code
  "Code of the form, or nil if it is not a special form with parts."
  [site outer [head x y :as form]]
  (case head
    (quote var import* clojure.core/import* reify* deftype* monitor-enter monitor-exit) form
    def (if (next form) (concat (butlast form) [(last-part site outer (last form))]) form)
    if `(~head ~(part site outer x) ~@(map #(last-part site outer %) (drop 2 form)))
    do `(~head ~@(body site outer (rest form)))
    (let* loop*) `(~head ~(bindings site outer x) ~@(body site outer (drop 2 form)))
    letfn* `(~head ~(into [] (mapcat (fn [[local f]] [local (last-part site outer f)])) (partition 2 x)) ~@(body site outer (drop 2 form)))
    fn* (function-code site outer form)
    case* (case-code site outer form)
    try (try-code site outer form)
    set! `(~head ~x ~(part site outer y))
    . (dot-code site outer form)
    (throw recur) `(~head ~@(parts site outer (rest form)))
    new `(~head ~x ~@(parts site outer (drop 2 form)))
    nil))

(defn- call-code [site outer form]
  (with-meta (apply list (parts site outer form)) (meta (without-number form))))

(defn- rewritten
  "The code of a form, with its parts left to `traced`."
  [site outer form]
  (let [form (with-meta (apply list form) (meta form))]
    (if-some [code (when (special-symbol? (first form)) (special-code site outer form))]
      (with-meta code (meta (without-number form)))
      (call-code site outer form))))

(defn expand
  "The code of one level of the form, in which the compiler stands."
  [site outer form]
  (let [number (::form (meta form))
        inner (or number outer)
        expanded (macroexpand-1 form)
        code (if (identical? expanded form)
               (rewritten site inner form)
               (last-part site inner expanded))]
    (if (and number (not= number outer) (not (forms/function? form)))
      `(do ~(enters site number) ~code)
      code)))

(defmacro traced
  "The form, which notes what it does. It expands to one level of it."
  [site outer form]
  (expand site outer form))

;; ---- at run time

(defn new-cell
  "What a body has of its own: the number of the form that is done, the number of the body's outermost form, and when the body began."
  ^longs [number]
  (long-array [number number (System/nanoTime)]))

(defn- path
  "The texts of the form in the cell and of those around it in the same body."
  [forms ^longs cell]
  (let [outermost (aget cell 1)]
    (loop [n (aget cell 0), path []]
      (let [[text outer] (get forms n)]
        (cond
          (nil? text) path
          (= n outermost) (conj path text)
          :else (recur (long outer) (conj path text)))))))

(defn- known
  "The texts that the error has got since the body of the cell began: it may be thrown a second time."
  [^longs cell ^Throwable error]
  (into []
        (mapcat (fn [suppressed]
                  (let [{:magnetar.trace/keys [forms noted-at]} (ex-data suppressed)]
                    (when (and noted-at (<= 0 (- (long noted-at) (aget cell 2))))
                      forms))))
        (.getSuppressed error)))

(defn- unknown
  "The texts of the path that the error does not have yet."
  [forms cell error]
  (remove (set (known cell error)) (path forms cell)))

(def ^:private retry (Class/forName "clojure.lang.LockingTransaction$RetryEx"))

(defn- failure?
  "False for what only ends a wait, a fiber or an attempt of a transaction."
  [error]
  (not (or (instance? retry error) (outcomes/cancellation? error))))

(defn- note [texts]
  (doto (ex-info "These forms failed, the innermost first." {:magnetar.trace/forms texts, :magnetar.trace/noted-at (System/nanoTime)})
    (Throwable/.setStackTrace (make-array StackTraceElement 0))))

(defn attached
  "The error, which from now on carries the path of forms to the one in the cell. An error of the JVM itself, as of a full stack, stays as it is."
  [forms cell ^Throwable error]
  (when (and (failure? error) (not (instance? VirtualMachineError error)))
    (when-some [texts (seq (unknown forms cell error))]
      (.addSuppressed error (note (vec texts)))))
  error)

(defn told
  "The error, with the path of forms. Tells the sink of it."
  [sink forms cell error]
  (when (and (failure? error) (not (instance? OutOfMemoryError error)))
    (let [texts (into (known cell error) (unknown forms cell error))]
      (attached forms cell error)
      (events/tell sink {:event :throw, :error error, :forms texts, :by (events/by), :depth (events/indentation)})))
  error)

;; ---- all together

(defn- options-and-body
  "[options forms] of the arguments: a map is a body if it stands alone."
  [[x & more :as arguments]]
  (if (and (map? x) more) [x more] [{} arguments]))

(defn whole
  "The code of a `trace-forms`."
  [[_ & arguments :as form]]
  (let [[options forms-of-body] (options-and-body arguments)
        file (:file (refusals/site nil form))
        noted (volatile! [])
        forms-of-body (mapv #(marked noted (partial place-text file) -1 %) forms-of-body)
        site {:cell (with-meta (gensym "cell") {:tag 'longs}), :forms (gensym "forms")}]
    `(let [sink# (events/sink "trace-forms" ~options *out*)
           ~(:forms site) ~(deref noted)
           ~(:cell site) (new-cell -1)]
       (try
         ~@(body site -1 forms-of-body)
         (catch Throwable error#
           (throw (told sink# ~(:forms site) ~(:cell site) error#)))))))
