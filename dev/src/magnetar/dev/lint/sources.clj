(ns magnetar.dev.lint.sources
  "Finds the sources of a checkout and reads their ns forms."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.tools.namespace.parse :as parse])
  (:import
   (java.io File PushbackReader)))

(set! *warn-on-reflection* true)

(def ^:dynamic *root*
  "Folder of the checkout that is checked; tests bind it to one with seeded faults."
  (System/getProperty "magnetar.home" "."))

(defn- hidden? [^File file]
  (or (str/starts-with? (.getName file) ".") (= "target" (.getName file))))

(defn- walk [^File file]
  (cond
    (hidden? file) []
    (.isDirectory file) (mapcat walk (sort (.listFiles file)))
    :else [file]))

(defn- relative [^File file]
  (str/replace (str (.relativize (.toPath (io/file *root*)) (.toPath file))) File/separator "/"))

(defn files
  "Paths, relative to the checkout, of the files below `folder` that end in `suffix`."
  [folder suffix]
  (->> (.listFiles (io/file *root* folder))
       sort
       (mapcat walk)
       (map relative)
       (filter #(str/ends-with? % suffix))))

(defn exists?
  "Is there a file or folder `path` in the checkout?"
  [path]
  (.exists (io/file *root* path)))

(defn text
  "Text of the file `path` of the checkout."
  [path]
  (slurp (io/file *root* path)))

(def product-folders
  "Where the Clojure that is shipped lies."
  ["core/src/clj" "test-kit/src/clj" "etf/src/clj" "http/src/clj" "cluster/src/clj" "erlang/src/clj" "compat/core-async/src/clj"])

(def ^:private java-literal
  #"(?s)\"{3}.*?\"{3}|\"(?:[^\"\\\n]++|\\.)*+\"|'(?:[^'\\\n]++|\\.)++'")

(def ^:private java-comment-or-literal
  (re-pattern (str "(?s)/\\*.*?\\*/|//[^\\n]*|" java-literal)))

(defn- blank [text]
  (str/replace text #"[^\n]" ""))

(defn java-code
  "The text of a Java file without its comments; the number of a line stays. A literal with what looks like a comment stays too."
  [text]
  (str/replace text java-comment-or-literal #(if (str/starts-with? % "/") (blank %) %)))

(defn without-literals
  "The Java code with its strings and characters emptied; the number of a line stays."
  [code]
  (str/replace code java-literal blank))

(defn line-of
  "Number of the first line of `text` that matches `pattern`, or 1."
  [text pattern]
  (or (first (keep-indexed #(when (re-find pattern %2) (inc (long %1))) (str/split-lines text))) 1))

(defn declaration
  "The ns form of the file `path`, or nil."
  [path]
  (with-open [reader (PushbackReader. (io/reader (io/file *root* path)))]
    (parse/read-ns-decl reader)))

(defn namespaces
  "What the Clojure files below `folder` declare: maps of :file, :name, :declaration and :requires."
  [folder]
  (for [file (files folder ".clj")
        :let [form (declaration file)]
        :when form]
    {:file file
     :name (parse/name-from-ns-decl form)
     :declaration form
     :requires (parse/deps-from-ns-decl form)}))
