(ns magnetar.impl.match.refusals
  "What is wrong with the clauses of `receive` and `match`, in a sentence that begins with their place. Thrown at macro-expansion."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors])
  (:import
   (clojure.lang Compiler)))

(set! *warn-on-reflection* true)

(defn printed
  "A form as text for a sentence: short, on one line."
  [form]
  (binding [*print-length* 12, *print-level* 5, *print-meta* false, *print-namespace-maps* false]
    (pr-str form)))

;; A form that another macro wrote has no line of its own.
(defn- line-of [form]
  (or (:line (meta form)) (.deref Compiler/LINE)))

(defn site
  "Where the macro form stands: its `:what`, `:file`, `:line` and `:place`, and its `:env`."
  [env form]
  (let [what (name (first form))
        file (or *file* "?")
        line (line-of form)]
    {:env env, :what what, :file file, :line line, :place (str what " at " file ":" line)}))

(defn refuse
  "Throws an IllegalArgumentException: the place of the site, then the words in `sentence`."
  [{:keys [place what file line]} data & sentence]
  (throw (errors/illegal-argument :magnetar/bad-clause
                                  (str place ": " (apply str sentence))
                                  (merge {:macro what, :file file, :line line} data))))
