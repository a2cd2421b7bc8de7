(ns magnetar.dev.lint.format
  "Standard Clojure Style, through npm. Where it cannot be had, a line says so; in CI that is a finding."
  (:require
   [clojure.string :as str]
   [magnetar.dev.lint.shell :as shell]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(def ^:private package "@chrisoakman/standard-clojure-style@0.29.0")

(def ^:private home ".cache/npm")

(def ^:private program (str home "/node_modules/.bin/standard-clj"))

(def ^:private folders
  ["core/src" "core/test/clj" "http" "compat" "dev" "bench/src" "examples" "test" "build.clj"])

(defn- install []
  (:exit (shell/run "npm" "install" "--prefix" home "--silent" "--no-audit" "--no-fund" package)))

(defn- available? []
  (or (sources/exists? program) (zero? (long (install)))))

(defn- standard-clj [& arguments]
  (apply shell/run program (concat arguments (filter sources/exists? folders))))

(defn- plain [text]
  (str/replace text #"\u001b\[\d+m" ""))

(defn- unformatted [line]
  (second (re-find #"✗ (\S+)" (plain line))))

(defn- relative [path]
  (str/replace (str/replace-first path (str sources/*root* "/") "") #"^/" ""))

(defn- missing []
  (let [message (str "the formatter " package " could not be installed with npm")]
    (if (= "true" (System/getenv "CI"))
      [{:file "package" :message message}]
      (with-meta [] {:skipped message}))))

(defn- check []
  (let [{:keys [exit out err]} (standard-clj "check" "--log-level" "ignore-already-formatted")]
    (when-not (zero? (long exit))
      (for [file (keep unformatted (str/split-lines (str out err)))]
        {:file (relative file) :message "is not formatted: `bin/magnetar lint --fix` formats it"}))))

(defn findings
  "Clojure files that the formatter would change."
  []
  (if (available?) (check) (missing)))

(defn fix
  "Formats all Clojure files. Returns the exit code."
  []
  (if (available?)
    (let [{:keys [exit out err]} (standard-clj "fix" "--log-level" "ignore-already-formatted")]
      (print (plain (str out err)))
      exit)
    (do (println (str "magnetar: the formatter " package " could not be installed with npm")) 1)))
