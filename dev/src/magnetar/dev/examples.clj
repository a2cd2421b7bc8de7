(ns magnetar.dev.examples
  "Checks the examples in docstrings: each reads, names what exists, compiles, and gives what it says.

  An example sees what a reader has who follows the docstrings of the namespaces: what they say after `Require
  it`. Other symbols in it, such as `order`, are free. They stand for values of the reader's program."
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor]
   [magnetar.dev.guide :as guide]
   [magnetar.dev.lint.docs :as docs]
   [magnetar.impl.suggest :as suggest]
   [magnetar.test :as mt])
  (:import
   (clojure.lang Compiler$CompilerException)))

(set! *warn-on-reflection* true)

(defn- libspecs
  "How a docstring says that namespaces are required: arguments of `require`."
  [doc]
  (map (comp read-string second) (re-seq #"`(\[[a-z.-]+ :(?:as|refer) [^`]+\])`" (str doc))))

(def ^:private public-namespaces
  (delay (let [names (mapv :name (docs/public-sources))]
           (run! require names)
           names)))

(def required
  "A delay of the libspecs in the docstrings of the public namespaces: what examples see."
  (delay (into [] (mapcat (comp libspecs :doc meta the-ns)) @public-namespaces)))

(defn- of-namespace [ns-sym]
  (for [[var-name v] (docs/public-vars ns-sym)
        :let [code (docs/example (str (:doc (meta v))))]
        :when code]
    [(symbol (str ns-sym) (str var-name)) code]))

(defn all
  "Returns the examples of all public namespaces, a map of qualified name to code."
  []
  (into (sorted-map) (mapcat of-namespace) @public-namespaces))

(defn- in-scratch
  "Calls f in a new namespace that has required the public ones as their docstrings say."
  [f]
  (let [scratch (create-ns (gensym "magnetar.examples.scratch"))]
    (try
      (binding [*ns* scratch, *warn-on-reflection* false]
        (refer-clojure)
        (apply require @required)
        (f))
      (finally (remove-ns (ns-name scratch))))))

(defn- causes [error]
  (take-while some? (iterate ex-cause error)))

;; ---- names

(defn- unresolved
  "The symbol that the compiler could not resolve, or nil."
  [error]
  (let [missing #"Unable to resolve symbol: (\S+) in this context"]
    (some #(some-> (re-find missing (str (ex-message %))) second symbol) (causes error))))

(defn- missing
  "The symbol that is missing to compile the forms with these locals, or nil; throws if they do not compile."
  [locals forms]
  (try
    (eval `(fn [~@locals] ~@forms))
    nil
    (catch Compiler$CompilerException e
      (let [sym (unresolved e)]
        (if (or (nil? sym) (some #{sym} locals)) (throw e) sym)))))

(defn- free-symbols [forms]
  (loop [free []]
    (if-let [sym (missing free forms)]
      (recur (conj free sym))
      free)))

(defn- referred []
  (for [[sym v] (ns-refers *ns*)
        :when (str/starts-with? (str (symbol v)) "magnetar.")]
    sym))

(defn- name-problem
  "What is wrong with a free symbol that looks like a name of Magnetar, or nil."
  [own-ns free]
  (when-let [meant (or (some #{free} (keys (docs/public-vars own-ns)))
                       (suggest/closest free (referred)))]
    (str "`" free "` is not in scope; if `" meant "` of Magnetar is not meant, choose another name")))

;; ---- calls

(defn- takes? [n arglist]
  (let [[fixed more] (split-with (complement #{'&}) arglist)]
    (if (seq more) (<= (count fixed) (long n)) (= (count fixed) n))))

(defn- arity-problem
  "What is wrong with n arguments for a function, or nil. The compiler checks macros."
  [v n]
  (let [{:keys [arglists macro]} (meta v)]
    (when (and arglists (not macro) (not-any? #(takes? n %) arglists))
      (str "`" (symbol v) "` takes " (pr-str arglists) ", and is given " n))))

(defn- doc-of [v]
  (str (:doc (meta v))))

(defn- mentioned
  "The vars that the docstring of a var mentions."
  [v]
  (filter var? (keep (fn [[_ text]] (ns-resolve (:ns (meta v)) (symbol text)))
                     (re-seq #"`([a-z][^`\s]*)`" (doc-of v)))))

(defn- keywords [doc]
  (map (comp keyword second) (re-seq #"(?<!\w):([a-z-]+)" doc)))

(defn- option-problems
  "Keys of literal maps among the arguments that no docstring about the options of the var names."
  [v arguments]
  (when (str/includes? (doc-of v) "Options:")
    (let [documented (into #{} (mapcat (comp keywords doc-of)) (cons v (mentioned v)))]
      (for [k (mapcat keys (filter map? arguments))
            :when (and (keyword? k) (not (documented k)))]
        (str "`" (symbol v) "` has no option " k " in its docstring")))))

(defn- call
  "The function and its arguments, if x is a call or the :start of a child."
  [x]
  (cond
    (and (map-entry? x) (= :start (key x)) (vector? (val x))) (val x)
    (and (seq? x) (symbol? (first x))) x))

(defn- inner
  "The form, with a threading macro expanded; nil if it is quoted."
  [form]
  (condp contains? (first (call form))
    '#{quote} nil
    '#{-> ->> some-> some->>} (macroexpand-1 form)
    form))

(defn- problems-of-call [[f & arguments]]
  (let [v (when (symbol? f) (ns-resolve *ns* f))]
    (when (and (var? v) (str/starts-with? (str (symbol v)) "magnetar."))
      (cons (arity-problem v (count arguments)) (option-problems v arguments)))))

(defn- call-problems
  "What is wrong with the calls of Magnetar in the forms."
  [forms]
  (->> (tree-seq coll? #(seq (inner %)) forms)
       (filter coll?)
       (keep (comp call inner))
       (mapcat problems-of-call)
       (remove nil?)))

;; ---- values

(defn- expected-form [text]
  (let [[form & more :as forms] (guide/forms (str/replace text #"\.\.(?=\})" ".. .."))]
    (when (or more (empty? forms))
      (throw (ex-info (str "`;=> " text "` is not one value; put further words after another `;`") {})))
    form))

(declare fits?)

(defn- map-fits? [expected value]
  (let [named (dissoc expected '..)]
    (and (map? value)
         (or (contains? expected '..) (= (count expected) (count value)))
         (every? (fn [[k v]] (and (contains? value k) (fits? v (get value k)))) named))))

(defn- sequence-fits? [expected value]
  (let [open (= '.. (last expected))
        named (if open (butlast expected) expected)]
    (and (sequential? value)
         ((if open <= =) (count named) (count value))
         (every? true? (map fits? named value)))))

(defn- fits?
  "Is the value as it is written? A symbol stands for any value, and `..` at an end for any further ones."
  [expected value]
  (cond
    (symbol? expected) true
    (map? expected) (map-fits? expected value)
    (sequential? expected) (sequence-fits? expected value)
    :else (= expected value)))

(defn- step-problem [[code expected]]
  (let [value (last (mapv eval (guide/forms code)))]
    (when (and expected (not (fits? (expected-form expected) value)))
      (str "gives " (pr-str value) ", not " expected))))

;; ---- an example

;; A simulation ends what the example leaves, its waits take no time, and it refuses one without end.
(defn- as-process [f]
  (mt/simulate {} (actor/with-process {} (f))))

(defn- around
  "What an example of the namespace is evaluated in: a function of it. A simulation stands in no other one."
  [own-ns]
  (if (= 'magnetar.test own-ns) #(%) as-process))

(defn- value-problems [own-ns setting code]
  (in-scratch
    (fn []
      ((around own-ns)
       (fn []
         (run! eval setting)
         (vec (keep step-problem (guide/steps code))))))))

(defn- compiled
  "The free symbols of the code, and its problems."
  [own-ns code]
  (in-scratch
    (fn []
      (let [forms (guide/forms code)
            free (free-symbols forms)]
        {:free free
         :problems (vec (concat (call-problems forms) (keep #(name-problem own-ns %) free)))}))))

(defn- unset [free setting]
  (seq (remove (set (keep #(when ('#{def defn} (first %)) (second %)) setting)) free)))

(defn- evaluated [{:keys [free] :as result} own-ns setting code]
  (if-let [unset (unset free setting)]
    (assoc result :problems [(str "leaves " (str/join ", " unset) " open: define them in its setting")])
    (assoc result :problems (value-problems own-ns setting code) :evaluated true)))

(defn check
  "Checks an example of a namespace; one that says what it gives is evaluated after the forms of the setting.

  Returns a map of :problems, strings; of :free, the symbols that the example leaves to the reader; and of
  :evaluated, true if it was evaluated."
  [own-ns setting code]
  (try
    (let [{:keys [problems] :as result} (compiled own-ns code)]
      (if (and (empty? problems) (str/includes? code ";=>"))
        (evaluated result own-ns setting code)
        result))
    (catch Throwable e
      {:problems [(or (ex-message (last (causes e))) (str (class e)))]})))
