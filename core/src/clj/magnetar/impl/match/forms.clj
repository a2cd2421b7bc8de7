(ns magnetar.impl.match.forms
  "Classifies the forms of a `receive` or `match` by the symbol at their head."
  {:no-doc true})

(set! *warn-on-reflection* true)

(def infix
  "The keywords that make a pattern of a list when they stand second."
  #{:guard :seq :as :only :when :<<})

(defn function?
  "Does the form make a function?"
  [form]
  (and (seq? form) (contains? '#{fn* fn clojure.core/fn} (first form))))

(defn var-named
  "The name of the var that a symbol resolves to, or nil."
  [sym]
  (let [v (try (resolve sym) (catch ClassNotFoundException _ nil))]
    (when (var? v) (symbol v))))

(defn head-of
  "The symbol at the head of a list that is no pattern with an infix keyword, or nil."
  [form]
  (when (and (seq? form) (symbol? (first form)) (not (infix (second form))))
    (first form)))

;; Syntax-quote puts a namespace before a name it does not know: the namespace of the macro, where the name need not exist.
(defn called?
  "Does the symbol stand for the public macro `full`: as its var, or as its name where no var of another is meant?"
  [sym full]
  (let [named (var-named sym)]
    (or (= full named)
        (and (= (name full) (name sym))
             (or (nil? named) (nil? (namespace sym)))))))
