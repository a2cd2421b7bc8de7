(ns magnetar.dev.upgrade
  "bin/magnetar upgrade-check: lists in a user's sources the uses of what 0.2 has changed, with what to write instead."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.upgrade.uses :as uses])
  (:import
   (java.io File)))

(set! *warn-on-reflection* true)

(defn- each-alone
  "A change of each name, where the :old of one is a vector of names."
  [{:keys [old] :as change}]
  (if (vector? old)
    (map #(assoc change :old %) old)
    [change]))

(def changes
  "What has changed: maps of :old, a qualified symbol or a namespace, :kind (:renamed, :changed or :removed) and :new, what to write instead. With
  :where a use counts only where one of these conditions holds, see `magnetar.dev.upgrade.uses`."
  (delay (into [] (mapcat each-alone) (edn/read-string (slurp (io/resource "magnetar/dev/upgrade/changes.edn"))))))

(defn- source? [^File file]
  (and (.isFile file) (re-find #"\.cljc?$" (.getName file))))

(defn- hidden? [^File folder ^File file]
  (some #(str/starts-with? (str %) ".") (.relativize (.toPath folder) (.toPath file))))

(defn- sources [^File folder]
  (sort (remove #(hidden? folder %) (filter source? (file-seq folder)))))

(defn- line [^File folder ^File file {:keys [line message]}]
  (str (.relativize (.toPath folder) (.toPath file)) ":" line ": " message))

(defn findings
  "The lines to print about the sources below the folder."
  [^File folder]
  (for [file (sources folder)
        use (uses/of-text (slurp file) @changes)]
    (line folder file use)))

(defn- refuse [message]
  (binding [*out* *err*]
    (println (str "magnetar: " message)))
  (System/exit 2))

(defn- folder-of ^File [arguments]
  (let [folder (io/file (str (first arguments)))]
    (cond
      (not= 1 (count arguments)) (refuse "upgrade-check takes one folder, as in `bin/magnetar upgrade-check src`.")
      (not (.isDirectory folder)) (refuse (str "upgrade-check wants a folder of sources; " folder " is none."))
      :else folder)))

(defn -main
  "Prints the findings; the exit code is 1 if there are any."
  [& arguments]
  (let [folder (folder-of arguments)
        found (findings folder)]
    (run! println found)
    (println (str (count (sources folder)) " files, " (count found) " places to change"
                  (when (seq found) "; docs/guide/upgrading.md explains the changes") "."))
    (System/exit (if (seq found) 1 0))))
