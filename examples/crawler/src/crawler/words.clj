(ns crawler.words
  "Numbers in words, the same in every country."
  (:import
   (java.util Locale)))

(set! *warn-on-reflection* true)

(defn fill
  "Returns `pattern` (as for `format`) filled with `values`, whatever the machine's language."
  [^String pattern & values]
  (String/format Locale/ROOT pattern (to-array values)))
