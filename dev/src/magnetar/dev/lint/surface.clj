(ns magnetar.dev.lint.surface
  "kernel/surface.txt, the contract for programs in Java: the public and protected types and members of the packages that the kernel exports.

  A line is a type, a bar, and the type itself or one of its members. A member that a type inherits from a package that is not exported counts as
  its own. The prefixes magnetar.kernel and java.lang are left out."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.lint.layers :as layers]
   [magnetar.dev.lint.sources :as sources])
  (:import
   (java.io File)
   (java.lang.reflect Constructor Field Member Method Modifier)
   (java.net URL URLClassLoader)))

(set! *warn-on-reflection* true)

(def ^:private file "kernel/surface.txt")

(def ^:private header "# The public Java of the kernel. `bin/magnetar lint` compares it; `bin/magnetar lint --write-api` rewrites it.")

;; --- the types

(defn- class-names [^File folder]
  (for [^File f (file-seq folder)
        :let [path (str (.relativize (.toPath folder) (.toPath f)))]
        :when (and (str/ends-with? path ".class") (not= "module-info.class" path))]
    (-> path (str/replace #"\.class$" "") (str/replace File/separator "."))))

(defn- visible? [^long modifiers ^Class of]
  (or (Modifier/isPublic modifiers)
      (and (Modifier/isProtected modifiers) (not (Modifier/isFinal (.getModifiers of))))))

(defn- reachable?
  "May a program of another package name the class?"
  [^Class c]
  (let [outer (.getDeclaringClass c)]
    (cond
      (or (.isAnonymousClass c) (.isLocalClass c) (.isSynthetic c)) false
      (nil? outer) (Modifier/isPublic (.getModifiers c))
      :else (and (visible? (.getModifiers c) outer) (reachable? outer)))))

;; --- the members

(defn- exported? [exported ^Class c]
  (contains? exported (str/replace (.getPackageName c) #"^magnetar\.kernel\." "")))

(defn- hidden-supertypes
  "The types of the kernel that `c` inherits from and a program cannot name, itself left out."
  [exported ^Class c]
  (let [of-the-kernel (filter #(some-> ^Class % .getName (str/starts-with? "magnetar.kernel.")) (cons (.getSuperclass c) (.getInterfaces c)))
        hidden (remove #(and (exported? exported %) (reachable? %)) of-the-kernel)]
    (distinct (mapcat #(cons % (hidden-supertypes exported %)) hidden))))

(defn- text-of [member]
  (condp instance? member
    Method (.toGenericString ^Method member)
    Constructor (.toGenericString ^Constructor member)
    Field (.toGenericString ^Field member)))

(defn- members [^Class of ^Class from]
  (for [^Member member (concat (.getDeclaredFields from) (.getDeclaredMethods from) (when (identical? of from) (.getDeclaredConstructors from)))
        :when (and (visible? (.getModifiers member) of) (not (.isSynthetic member)))]
    (text-of member)))

(defn- type-text [^Class c]
  (let [parent (.getGenericSuperclass c)
        interfaces (map #(.getTypeName ^java.lang.reflect.Type %) (.getGenericInterfaces c))]
    (str (.toGenericString c)
         (when (and parent (not= Object parent)) (str " extends " (.getTypeName parent)))
         (when (seq interfaces) (str (if (.isInterface c) " extends " " implements ") (str/join ", " interfaces))))))

(defn- short-form [text]
  (-> text
      (str/replace #"\b(magnetar\.kernel|java\.lang)\.(?=\w)" "")
      (str/replace #"\b(synchronized|native|volatile|transient) " "")))

(defn- type-lines [exported ^Class c]
  (let [texts (cons (type-text c) (mapcat #(members c %) (cons c (hidden-supertypes exported c))))]
    (map #(str (short-form (.getName c)) " | " (short-form %)) texts)))

(defn surface
  "The sorted lines for the classes in `folder`, of the packages whose names below magnetar.kernel are in the set `exported`. No class is initialised."
  [folder exported]
  (with-open [loader (URLClassLoader. (into-array URL [(.toURL (.toURI (io/file folder)))]) (ClassLoader/getPlatformClassLoader))]
    (->> (class-names (io/file folder))
         (map #(Class/forName % false loader))
         (filter #(and (exported? exported %) (reachable? %)))
         (mapcat #(type-lines exported %))
         (into (sorted-set))
         vec)))

;; --- the file

(defn- kernel-classes []
  (->> (str/split (System/getProperty "java.class.path") (re-pattern File/pathSeparator))
       (filter #(.exists (io/file % "magnetar/kernel/channel/Channel.class")))
       first))

(defn- present []
  (surface (kernel-classes) (layers/exported-packages)))

(defn- listed []
  (into [] (remove #(str/starts-with? % "#")) (str/split-lines (sources/text file))))

(defn differences
  "Findings where the lines that are `listed` and those that are `real` differ."
  [listed real]
  (let [line-numbers (zipmap listed (iterate inc 2)) ; below the header
        remedy "; `bin/magnetar lint --write-api` writes what is there"]
    (concat
      (for [line (remove (set listed) real)]
        {:file file :message (str "`" line "` is public, but not listed" remedy)})
      (for [line (remove (set real) listed)]
        {:file file :line (line-numbers line) :message (str "`" line "` is listed, but not public" remedy)}))))

(defn findings
  "Differences between kernel/surface.txt and the compiled kernel."
  []
  (if (sources/exists? file)
    (differences (listed) (present))
    [{:file file :message "is missing; `bin/magnetar lint --write-api` writes it"}]))

(defn write
  "Writes kernel/surface.txt."
  []
  (spit (io/file sources/*root* file) (str/join "\n" (concat [header] (present) [""]))))
