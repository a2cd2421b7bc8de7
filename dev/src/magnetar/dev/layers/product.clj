(ns magnetar.dev.layers.product
  "Reads from the sources what depends on what: namespaces, packages of the kernel and its classes, each a map from a name to a set."
  (:require
   [clojure.string :as str]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(def ^:private kernel-folder "kernel/src/java")

;; --- Java

(defn- java-source
  "The name, package and code of a Java file; the code has neither comments nor texts, which may name a class without using it."
  [file]
  (let [code (sources/java-code (sources/text file))]
    {:class (second (re-find #"([^/]+)\.java$" file))
     :package (second (re-find #"(?m)^package\s+([\w.]+)" code))
     :code (sources/without-literals code)}))

(defn- java-sources []
  (map java-source (remove #(re-find #"(package|module)-info" %) (sources/files kernel-folder ".java"))))

(defn- qualified-name [{:keys [package class]}]
  (str package "." class))

(defn- qualified-uses
  "Full names of classes in the code, also in its imports."
  [{:keys [code]}]
  (set (re-seq #"\b(?:[a-z]\w*\.)+[A-Z]\w*" code)))

(defn- package-of [qualified]
  (subs qualified 0 (str/last-index-of qualified ".")))

(defn- whole-imports
  "Packages of which all classes are imported."
  [{:keys [code]}]
  (map second (re-seq #"(?m)^import\s+([\w.]+)\.\*;" code)))

(defn packages
  "From each package of the kernel to those that its files import, or name in full."
  []
  (reduce (fn [graph {:keys [package] :as source}]
            (update graph package (fnil into #{}) (concat (map package-of (qualified-uses source)) (whole-imports source))))
          {} (java-sources)))

(defn- simple-names [{:keys [code]}]
  (set (re-seq #"(?<![\w.])[A-Z]\w*" (str/replace code #"(?m)^import\s.*$" ""))))

(defn- imported [source]
  (into {} (map (juxt #(re-find #"\w+$" %) identity))
        (map second (re-seq #"(?m)^import\s+(?:static\s+)?((?:[a-z]\w*\.)+[A-Z]\w*)" (:code source)))))

(defn- resolver
  "From a simple name to the full name it has in the source: imported, of the same package, or of one that is imported whole."
  [{:keys [package] :as source} known]
  (let [imports (imported source)
        candidates (cons package (whole-imports source))]
    (fn [simple]
      (or (imports simple)
          (some #(known (str % "." simple)) candidates)))))

(defn- written-in-full [source]
  (qualified-uses (update source :code str/replace #"(?m)^(import|package)\s.*$" "")))

(defn classes
  "From each class of the kernel, one for each file, to those that its code names."
  []
  (let [all (java-sources)
        known (set (map qualified-name all))]
    (into {} (for [source all]
               [(qualified-name source)
                (into (written-in-full source) (keep (resolver source known)) (simple-names source))]))))

;; --- Clojure

(defn- package-of-import
  "The package of (package Class ..) or of package.Class."
  [form]
  (if (sequential? form)
    (if (next form) (str (first form)) (package-of (str (first form))))
    (package-of (str form))))

(defn- imports-of [declaration]
  (->> (filter sequential? declaration)
       (filter #(= :import (first %)))
       (mapcat rest)
       (map package-of-import)))

;; The class of a deftype has its namespace as package, with _ for -.
(defn- namespace-of-package [package namespaces]
  (let [spelled (str/replace package "_" "-")]
    (if (contains? namespaces spelled) spelled package)))

(defn- add-namespace [graph names {:keys [declaration name requires]}]
  (assoc graph (str name)
         (into (set (map str requires))
               (map #(namespace-of-package % names))
               (imports-of declaration))))

(defn namespaces
  "From each namespace to the namespaces that it requires and the packages that it imports."
  []
  (let [found (mapcat sources/namespaces sources/product-folders)
        names (set (map (comp str :name) found))]
    (reduce #(add-namespace %1 names %2) {} found)))

(defn everything
  "Namespaces and packages in one graph."
  []
  (merge (namespaces) (packages)))
