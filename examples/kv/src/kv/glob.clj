(ns kv.glob
  "Patterns of KEYS and PSUBSCRIBE."
  (:require
   [clojure.string :as str])
  (:import
   (java.util.regex Pattern)))

(set! *warn-on-reflection* true)

(def ^:private part
  "An escaped character, a set of characters, or one character."
  #"(?s)\\.|\[\^?(?:\\.|[^\]\\])*+\]?|.")

(defn- quoted [text]
  (Pattern/quote text))

(defn- members
  "The inside of a set: characters and ranges, in either order of their ends."
  [inside]
  (str/join (for [[_ low high single] (re-seq #"(?s)\\?(.)-\\?(.)|\\?(.)" inside)]
              (if single
                (quoted single)
                (let [[low high] (sort [low high])]
                  (str (quoted low) "-" (quoted high)))))))

(defn- regex [text]
  (case text
    "*" ".*"
    "?" "."
    (let [[_ negated inside] (re-matches #"(?s)\[(\^?)(.*?)\]?" text)]
      (cond
        (nil? inside) (quoted (cond-> text (< 1 (count text)) (subs 1)))
        (= "" inside) (if (= "^" negated) "." "(?!)")
        :else (str "[" negated (members inside) "]")))))

(defn matcher
  "A function that tells whether the whole of a string fits the pattern."
  [pattern]
  (let [compiled (Pattern/compile (str/join (map regex (re-seq part pattern))) Pattern/DOTALL)]
    (fn [text]
      (.matches (.matcher compiled text)))))
