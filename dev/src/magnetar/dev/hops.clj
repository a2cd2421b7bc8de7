(ns magnetar.dev.hops
  "bin/magnetar hops [--edn] [--checkout DIR] [--trace TEXT]: counts the methods, files and crossings of single operations."
  (:require
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str]
   [magnetar.dev.hops.count :as hops]
   [magnetar.dev.hops.trace :as trace]))

(set! *warn-on-reflection* true)

(def ^:private home (System/getProperty "magnetar.home"))

;; --- the program

(defn- class-path-of
  "The class path of another checkout, with the counted program of this one before it."
  [checkout]
  (let [{:keys [exit out err]} (shell/sh (str (io/file checkout "bin/magnetar")) "classpath")]
    (when-not (= 0 exit)
      (throw (ex-info (str "The class path of " checkout " was not found: " err) {:checkout checkout :exit exit})))
    (str home "/dev/src:" (str/trim out))))

(defn- program [checkout]
  {:main "magnetar.dev.hops.program"
   :class-path (if checkout (class-path-of checkout) (System/getProperty "java.class.path"))
   :options [(str "@" (io/file (or checkout home) "kernel/java.options"))]})

;; --- printing

(def ^:private columns
  [["methods" :methods] ["seam" :seam] ["files" :files] ["hops" :hops] ["crossings" :crossings]])

(defn- spread-text [{[least most] :spread}]
  (if (= least most) "" (str least "-" most)))

(defn- line [title cells spread]
  (str/trimr (str (format "%-40s" title) (str/join (map #(format "%10s" %) cells)) "  " spread)))

(defn table
  "The rows as lines of text."
  [rows]
  (cons (line "operation" (map first columns) "spread of methods")
        (for [row rows]
          (line (:title row) (map #(get row (second %)) columns) (spread-text row)))))

(defn- print-trace [recording]
  (println (str "\n" (:title recording)))
  (doseq [{:keys [thread class method file]} (hops/calls recording)]
    (println (format "  %6d  %-50s %s.%s" thread file class method))))

;; --- the command

(defn- options-of
  "The map of the options, or nil if one is unknown."
  [[option value & more :as arguments]]
  (case option
    nil {}
    "--edn" (some-> (options-of (rest arguments)) (assoc :edn true))
    ("--checkout" "--trace") (when value (some-> (options-of more) (assoc (keyword (subs option 2)) value)))
    nil))

(defn- report [recordings {:keys [edn trace]}]
  (let [rows (hops/rows recordings)]
    (if edn
      (run! prn rows)
      (run! println (table rows)))
    (when trace
      (run! (comp print-trace first)
            (filter #(str/includes? (:title (first %)) trace) (partition-by :title recordings))))))

(defn -main
  "Prints a line for each operation."
  [& arguments]
  (if-some [{:keys [checkout] :as options} (options-of arguments)]
    (do (report (trace/recordings (program checkout)) options)
        (flush)
        (System/exit 0))
    (do (println (str "hops takes [--edn] [--checkout DIR] [--trace TEXT], not `" (str/join " " arguments) "`."))
        (System/exit 2))))
