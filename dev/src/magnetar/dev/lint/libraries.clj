(ns magnetar.dev.lint.libraries
  "deps.edn and the poms name the same libraries: :deps are the profile `library` and the core's own dependencies,
  each alias the profile of the same name."
  (:require
   [clojure.data :as data]
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.xml :as xml]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(defn- children [element tag]
  (filter #(= tag (:tag %)) (:content element)))

(defn- child [element tag]
  (first (children element tag)))

(defn- text-at [element tag]
  (first (:content (child element tag))))

(defn- coordinate [element]
  (symbol (text-at element :groupId) (text-at element :artifactId)))

(defn- library [element]
  (let [excluded (mapv coordinate (children (child element :exclusions) :exclusion))]
    [(coordinate element)
     (cond-> {:mvn/version (text-at element :version)}
       (seq excluded) (assoc :exclusions excluded))]))

(defn- dependencies [element]
  (into {} (map library) (children (child element :dependencies) :dependency)))

(defn- profiles [project]
  (into {}
        (for [profile (children (child project :profiles) :profile)]
          [(keyword (text-at profile :id)) (dependencies profile)])))

(defn- pom [path]
  (xml/parse (io/file sources/*root* path)))

(defn- without-own [libraries]
  (into {} (remove #(= "magnetar" (namespace (key %)))) libraries))

(defn- aliases [deps]
  (into {} (keep (fn [[alias {:keys [extra-deps]}]] (when extra-deps [alias extra-deps]))) (:aliases deps)))

(defn differences
  "Findings for what the maps `from-deps` and `from-poms`, of a name to its libraries, do not share."
  [from-deps from-poms]
  (for [alias (sort (distinct (concat (keys from-deps) (keys from-poms))))
        :let [[only-deps only-pom] (data/diff (from-deps alias) (from-poms alias))]
        :when (or only-deps only-pom)]
    {:file "deps.edn"
     :message (str alias " differs from pom.xml: deps.edn alone has " (pr-str only-deps)
                   ", pom.xml alone " (pr-str only-pom))}))

(defn findings
  "Differences between deps.edn, pom.xml and core/pom.xml."
  []
  (let [deps (edn/read-string (sources/text "deps.edn"))
        in-deps (assoc (aliases deps) :library (:deps deps))]
    (concat (differences in-deps (profiles (pom "pom.xml")))
            (differences {:library (:deps deps)} {:library (without-own (dependencies (pom "core/pom.xml")))}))))
