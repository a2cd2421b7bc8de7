(ns magnetar.dev.lint.shell
  "Starts other programs, and has the shell parse the shell scripts."
  (:require
   [clojure.java.shell :as shell]
   [clojure.string :as str]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(def ^:private scripts
  [["bin/magnetar" "sh"]
   [".ci/run" "bash"]])

(defn run
  "Runs a command in the checkout. Returns its :exit, :out and :err; exit 127 where there is no such program."
  [& command]
  (try (apply shell/sh (concat command [:dir sources/*root*]))
       (catch java.io.IOException e {:exit 127 :out "" :err (ex-message e)})))

(defn- script-finding [[script interpreter]]
  (when (sources/exists? script)
    (let [{:keys [exit err]} (run interpreter "-n" script)]
      (when-not (zero? (long exit))
        {:file script
         :line (some-> (re-find #"(?:line )?(\d+):" err) second parse-long)
         :message (str "does not parse: " (first (str/split-lines err)))}))))

(defn findings
  "Shell scripts that do not parse."
  []
  (keep script-finding scripts))
