(ns magnetar.dev.lint.layers
  "Arrows point down only: checks what namespaces require, kernel packages import and kernel classes name against layers.edn."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.set :as set]
   [clojure.string :as str]
   [magnetar.dev.layers.graph :as graph]
   [magnetar.dev.layers.product :as product]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(def ^:private layers
  (delay (edn/read-string (slurp (io/resource "magnetar/dev/lint/layers.edn")))))

(defn- within? [ns-name prefix]
  (or (= ns-name prefix) (str/starts-with? ns-name (str prefix "."))))

(defn- place
  "[layer module] of a namespace, as numbers, or nil. The longest matching name decides."
  [ns-name]
  (->> (for [[layer modules] (map-indexed vector (:clojure @layers))
             [module names] (map-indexed vector modules)
             prefix names
             :when (within? ns-name prefix)]
         [(count prefix) [layer module]])
       (sort-by first)
       last
       second))

(defn- ours? [ns-name]
  (str/starts-with? ns-name "magnetar."))

(defn- arrow-fault
  "Says what is wrong when `from` requires `to`, or nil."
  [from to]
  (let [[from-layer :as from-place] (place from)
        [to-layer :as to-place] (place to)]
    (cond
      (nil? to-place) (str to " has no layer: add it to dev/src/magnetar/dev/lint/layers.edn")
      (= from-place to-place) nil
      (< (long from-layer) (long to-layer)) (str from " requires " to ", which lies above it: arrows point down only")
      (= from-layer to-layer) (str from " requires " to ", which lies beside it: move what they share to a layer below"))))

(defn- arrow-findings [{:keys [file name requires]}]
  (let [from (str name)
        lines (sources/text file)
        finding (fn [pattern message] {:file file :line (sources/line-of lines pattern) :message message})]
    (if (nil? (place from))
      [(finding #"\(ns " (str from " has no layer: add it to dev/src/magnetar/dev/lint/layers.edn"))]
      (for [to (sort (filter ours? (map str requires)))
            :let [fault (arrow-fault from to)]
            :when fault]
        (finding (re-pattern (java.util.regex.Pattern/quote to)) fault)))))

(defn findings
  "Arrows of the core that point up or sideways, and namespaces without a layer."
  []
  (mapcat arrow-findings (mapcat sources/namespaces ["core/src/clj" "test-kit/src/clj" "etf/src/clj" "http/src/clj" "cluster/src/clj" "erlang/src/clj"])))

(defn name-findings
  "Names that have a layer, and no namespace."
  []
  (let [there (map (comp str :name) (mapcat sources/namespaces ["core/src/clj" "test-kit/src/clj" "etf/src/clj" "http/src/clj" "cluster/src/clj" "erlang/src/clj" "bench/src/clj" "dev/src"]))]
    (for [modules (:clojure @layers), module modules, prefix module
          :when (not-any? #(within? % prefix) there)]
      {:file "dev/src/magnetar/dev/lint/layers.edn" :message (str prefix " has a layer, but there is no such namespace: take it out")})))

;; --- kernel packages

(def ^:private height
  (delay (into {} (for [[layer packages] (map-indexed vector (:kernel @layers))
                        package packages]
                    [package layer]))))

(defn- package-fault [from to]
  (cond
    (nil? (@height to)) (str "the kernel package " to " has no layer: add it to dev/src/magnetar/dev/lint/layers.edn")
    (= from to) nil
    (<= (long (@height from)) (long (@height to)))
    (str "the kernel package " from " uses " to ", which does not lie below it: arrows point down only")))

(defn- foreign-import [line]
  (second (re-find #"^import\s+(?:static\s+)?((?!java\.|javax\.|jdk\.|magnetar\.kernel\.)[\w.]+)" line)))

(defn- line-faults [from line]
  (concat
    (when-let [library (foreign-import line)]
      [(str "the kernel imports " library ", but may see the JDK only")])
    (keep #(package-fault from (second %)) (re-seq #"magnetar\.kernel\.(\w+)" line))))

(defn- java-findings [file]
  (let [text (sources/java-code (sources/text file))
        [_ from] (re-find #"(?m)^package\s+magnetar\.kernel\.(\w+)" text)]
    (if (nil? (@height from))
      [{:file file :message (str "the package of this file has no layer in dev/src/magnetar/dev/lint/layers.edn")}]
      (for [[number line] (map-indexed vector (str/split-lines text))
            message (distinct (line-faults from line))]
        {:file file :line (inc (long number)) :message message}))))

(defn kernel-findings
  "Kernel packages that see one beside or above them, or anything but the JDK."
  []
  (mapcat java-findings (remove #(re-find #"(package|module)-info" %) (sources/files "kernel/src/java" ".java"))))

;; --- kernel classes

(def ^:private kernel-prefix "magnetar.kernel.")

(def ^:private listed-circles
  (delay (set (for [[package & classes] (:circles @layers)]
                (set (map #(str kernel-prefix package "." %) classes))))))

(defn- circles-there []
  (set (graph/circles (product/classes))))

(defn- without-nearest
  "Returns the members of `group` that are not in the one of the groups with which it overlaps most."
  [group groups]
  (set/difference group (reduce (partial max-key count) #{} (map #(set/intersection group %) groups))))

(defn- enumeration [names]
  (let [names (sort names)]
    (if (next names)
      (str (str/join ", " (butlast names)) " and " (last names))
      (first names))))

(defn- shown [classes]
  (enumeration (map #(subs % (count kernel-prefix)) classes)))

(defn- circle-message [newcomers group]
  (let [others (set/difference group newcomers)]
    (str (shown newcomers)
         (cond
           (empty? others) " refer to each other"
           (next newcomers) (str " have joined the circle of " (shown others))
           :else (str " has joined the circle of " (shown others)))
         ": let one side not know the other, or add to :circles of dev/src/magnetar/dev/lint/layers.edn what has no better cut")))

(defn circle-findings
  "Classes of the kernel that refer to each other, and are not listed in layers.edn as a group that does."
  []
  (for [group (sort-by first (circles-there))
        :let [newcomers (without-nearest group @listed-circles)]
        :when (seq newcomers)]
    {:file (str "kernel/src/java/" (str/replace (first (sort newcomers)) "." "/") ".java")
     :message (circle-message newcomers group)}))

(defn circle-list-findings
  "Classes that layers.edn lists as a group in which they no longer are."
  []
  (let [there (circles-there)]
    (for [group (sort-by (comp first sort) @listed-circles)
          :let [gone (without-nearest group there)]
          :when (seq gone)]
      {:file "dev/src/magnetar/dev/lint/layers.edn"
       :message (str (shown gone) (if (next gone) " are" " is") " listed in a group of :circles, and no longer in that circle: take "
                     (if (next gone) "them" "it") " out")})))

;; --- the runtime check comes first

;; "First" means before the import of a kernel class. Among the required namespaces the order is the formatter's:
;; each of them that uses the kernel makes the same check itself.
(defn- required-before-imports [declaration]
  (->> (filter sequential? declaration)
       (take-while #(not= :import (first %)))
       (filter #(= :require (first %)))
       (mapcat rest)
       (map #(if (sequential? %) (first %) %))
       set))

(def ^:private needs-new-java
  #"magnetar\.kernel\.|ofVirtual|startVirtualThread|newVirtualThread|ScopedValue")

(defn needs-runtime-check?
  "Does the namespace use the kernel, or what only a new Java has?"
  [{:keys [file name]}]
  (and (not= 'magnetar.impl.runtime name)
       (re-find needs-new-java (sources/text file))))

(defn- runtime-finding [{:keys [file declaration name] :as source}]
  (when (and (needs-runtime-check? source)
             (not ((required-before-imports declaration) 'magnetar.impl.runtime)))
    {:file file
     :line (sources/line-of (sources/text file) needs-new-java)
     :message (str name " uses the kernel or virtual threads: its ns form must require magnetar.impl.runtime before any import")}))

(defn runtime-findings
  "Namespaces that use the kernel and do not require magnetar.impl.runtime before their imports."
  []
  (keep runtime-finding (mapcat sources/namespaces sources/product-folders)))

;; --- exported packages

(def ^:private module-file "kernel/src/java/module-info.java")

(defn exported-packages
  "The names below magnetar.kernel of the packages that the module of the kernel exports."
  []
  (set (map second (re-seq #"exports\s+magnetar\.kernel\.(\w+)\s*;" (sources/text module-file)))))

(def ^:private reaches-the-simulator
  "Namespaces of the test kit that drive the simulator, which the kernel does not export."
  #{"magnetar.test.clock" "magnetar.test.guard" "magnetar.test.network" "magnetar.test.nodes" "magnetar.test.runs"})

(defn- may-see-all? [{:keys [name]}]
  (or (within? (str name) "magnetar.impl")
      (reaches-the-simulator (str name))))

(defn- hidden-uses
  "A finding for each package of the kernel that the namespace names on a line, and that is not in `exported`."
  [exported {:keys [file name]}]
  (for [[number line] (map-indexed vector (str/split-lines (sources/text file)))
        package (distinct (map second (re-seq #"magnetar\.kernel\.(\w+)" line)))
        :when (not (exported package))]
    {:file file
     :line (inc (long number))
     :message (str name " names the kernel package " package ", which " module-file " does not export: go through a namespace of magnetar.impl")}))

(defn import-findings
  "Uses of kernel packages that are not exported, in namespaces outside of magnetar.impl.

  Exempt are the namespaces of the test kit that drive the simulator. Tests and the tools in dev are not checked: they are not shipped."
  []
  (let [exported (exported-packages)]
    (mapcat #(hidden-uses exported %)
            (remove may-see-all? (mapcat sources/namespaces sources/product-folders)))))
