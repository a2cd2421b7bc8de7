(ns magnetar.hot.sources
  "Finds the source of what is to be loaded: a unit is {:namespace :text :path :digest :requires :one-of-many}, one file of Clojure that begins with `ns`."
  {:no-doc true}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang LineNumberingPushbackReader)
   (java.io File InputStream StringReader)
   (java.net URL URLConnection)
   (java.nio.file Path)
   (java.security MessageDigest)
   (java.util HexFormat)
   (java.util.jar JarEntry JarFile)))

(set! *warn-on-reflection* true)

;; ---- one file

(defn- digest-of [^String text]
  (-> (HexFormat/of)
      (.formatHex (.digest (MessageDigest/getInstance "SHA-256") (.getBytes text "UTF-8")))
      (subs 0 12)))

(defn- unreadable-form
  "An `ns` form that cannot be read, with no more than its name: what is wrong is for the compiler to say, so it must not be passed over."
  [text]
  (when-some [[_ name] (re-find #"(?m)^\(ns\s+(?:\^\S+\s+)*([\w.*+!?<>=-]+)(?=[\s()]|$)" text)]
    (list 'ns (symbol name))))

(defn- ns-form
  "The `ns` form that the text begins with, or nil."
  [text]
  (try
    (binding [*read-eval* false]
      (let [form (read {:read-cond :allow :eof nil} (LineNumberingPushbackReader. (StringReader. text)))]
        (when (and (seq? form) (= 'ns (first form)) (symbol? (second form)))
          form)))
    (catch RuntimeException _ (unreadable-form text))))

(defn- with-prefix [prefix lib]
  (symbol (str prefix "." (if (coll? lib) (first lib) lib))))

(defn- libs
  "The namespaces that a part of a :require names."
  [part]
  (cond
    (symbol? part) [part]
    (and (sequential? part) (or (nil? (second part)) (keyword? (second part)))) [(first part)]
    (sequential? part) (map #(with-prefix (first part) %) (rest part))))

(defn- requires [form]
  (into #{}
        (comp (filter #(and (seq? %) (#{:require :use :require-macros} (first %)))) (mapcat rest) (mapcat libs))
        form))

(defn- unit
  "The unit of a text, nil if it does not begin with `ns`."
  [path text]
  (when-some [form (ns-form text)]
    {:namespace (with-meta (second form) nil) :text text :path path :digest (digest-of text) :requires (requires form)}))

(defn- source-name? [name]
  (boolean (re-find #"\.cljc?$" name)))

;; ---- many

(defn- sources-below [^File folder]
  (sort (filter #(and (.isFile ^File %) (source-name? (.getName ^File %))) (file-seq folder))))

(defn- in-folder [^File folder]
  (keep #(some-> (unit (str %) (slurp %)) (assoc :one-of-many true)) (sources-below folder)))

(defn- entries [^JarFile jar]
  (sort-by JarEntry/.getName (filter #(source-name? (.getName ^JarEntry %)) (enumeration-seq (.entries jar)))))

(defn- in-jar
  "Reads the jar as it is now: the class loader may still see another one."
  [^File file]
  (with-open [jar (JarFile. file)]
    (vec (keep (fn [^JarEntry entry]
                 (some-> (unit (.getName entry) (slurp (.getInputStream jar entry))) (assoc :one-of-many true)))
               (entries jar)))))

(defn- no-source [operation source why]
  (arguments/misuse :magnetar/no-source (str "`" operation "` cannot load " (arguments/show source) ": " why ".") {:source source}))

(defn- in-file [operation ^File file]
  (or (some-> (unit (str file) (slurp file)) vector)
      (no-source operation (str file) "it does not begin with an `ns` form")))

(defn jar?
  "Is the file called a jar?"
  [^File file]
  (str/ends-with? (.getName file) ".jar"))

(defn units-of-file
  "The units of a file of source, or of all those in a folder or a jar."
  [operation ^File file]
  (cond
    (.isDirectory file) (in-folder file)
    (not (.isFile file)) (no-source operation (str file) "there is no such file")
    (jar? file) (in-jar file)
    (source-name? (.getName file)) (in-file operation file)
    :else (no-source operation (str file) "it is no .clj, no .cljc, no jar and no folder")))

(defn- on-class-path [name]
  (let [root (-> (str name) (str/replace "-" "_") (str/replace "." "/"))]
    (some (fn [path] (when-some [url (io/resource path)] [path url]))
          [(str root ".clj") (str root ".cljc")])))

(defn- read-url [^URL url]
  (let [^URLConnection connection (doto (.openConnection url) (.setUseCaches false))]
    (with-open [^InputStream in (.getInputStream connection)]
      (slurp in))))

(defn- of-namespace [operation name]
  (let [[path url] (or (on-class-path name)
                       (no-source operation name "there is no source of that namespace on the class path"))
        unit (unit path (read-url url))]
    (if (= name (:namespace unit))
      [unit]
      (no-source operation name (str path " does not begin with its `ns` form")))))

(defn file-of
  "The path as a file; nil if it is not one."
  ^File [x]
  (cond
    (string? x) (io/file x)
    (instance? File x) x
    (instance? Path x) (.toFile ^Path x)))

(defn- units-of [operation source]
  (cond
    (symbol? source) (of-namespace operation source)
    (file-of source) (units-of-file operation (file-of source))
    :else (no-source operation source "a source is the symbol of a namespace, or the path of a file, a folder or a jar")))

;; ---- the order

(defn in-order
  "The units, each behind those that it requires; the last of those with the same namespace counts."
  [units]
  (let [by-name (into {} (map (juxt :namespace identity)) units)
        visit (fn visit [[seen out :as done] name]
                (if (or (seen name) (nil? (by-name name)))
                  done
                  (let [[seen out] (reduce visit [(conj seen name) out] (sort (:requires (by-name name))))]
                    [seen (conj out (by-name name))])))]
    (second (reduce visit [#{} []] (map :namespace units)))))

(defn units
  "The units of the sources, one or a collection, in the order to load them."
  [operation sources]
  (in-order (mapcat #(units-of operation %) (if (and (coll? sources) (not (map? sources))) sources [sources]))))
