(ns magnetar.dev.lint
  "The gates of the project. Prints one line per finding, `file:line: sentence`, and ends with 1 when there is one.
  Each gate is a function of nothing that returns findings: maps of :file, :line and :message."
  (:require
   [clojure.string :as str]
   [magnetar.dev.lint.api :as api]
   [magnetar.dev.lint.docs :as docs]
   [magnetar.dev.lint.errors :as errors]
   [magnetar.dev.lint.format :as format]
   [magnetar.dev.lint.layers :as layers]
   [magnetar.dev.lint.libraries :as libraries]
   [magnetar.dev.lint.prose :as prose]
   [magnetar.dev.lint.reflection :as reflection]
   [magnetar.dev.lint.scenarios :as scenarios]
   [magnetar.dev.lint.shell :as shell]
   [magnetar.dev.lint.surface :as surface]))

(set! *warn-on-reflection* true)

(def ^:private project-gates
  [["shell syntax" shell/findings]
   ["poms from deps.edn" libraries/findings]
   ["layers" layers/findings]
   ["names of layers" layers/name-findings]
   ["kernel layers" layers/kernel-findings]
   ["circles of classes" layers/circle-findings]
   ["list of circles" layers/circle-list-findings]
   ["runtime first" layers/runtime-findings]
   ["exported packages" layers/import-findings]
   ["public Java" surface/findings]
   ["format" format/findings]
   ["Javadoc" docs/java-findings]
   ["reflection and boxed math" #(reflection/findings ["core/src/clj" "test-kit/src/clj" "etf/src/clj" "http/src/clj" "cluster/src/clj" "erlang/src/clj" "dev/src" "bench/src/clj"])]
   ["reflection" #(reflection/reflection-findings ["examples"])]
   ["docstrings" docs/findings]
   ["form of docstrings" docs/form-findings]
   ["width of prose" prose/width-findings]
   ["decision records" prose/decision-findings]
   ["scenarios of Erlang" scenarios/findings]
   ["ids of errors" errors/findings]
   ["api.edn" api/findings]])

(def ^:private compat-gates
  [["reflection and boxed math" #(reflection/findings ["compat/core-async/src/clj"])]])

(defn- line-of [{:keys [file line message]}]
  (str file ":" (or line 1) ": " message))

(defn- broken [^Throwable e]
  [{:file "dev/src/magnetar/dev/lint.clj" :message (str "the gate itself failed: " (ex-message (or (ex-cause e) e)))}])

(defn- verdict [findings]
  (cond
    (:skipped (meta findings)) (str "not checked, " (:skipped (meta findings)))
    (seq findings) (str (count findings) " findings")
    :else "ok"))

(defn- run-gate [[gate-name gate]]
  (let [findings (try (gate) (catch Throwable e (broken e)))]
    (run! (comp println line-of) findings)
    (println (str "  " gate-name ": " (verdict findings)))
    (flush)
    (count findings)))

(defn- leave [status]
  (flush)
  (.halt (Runtime/getRuntime) status))

(defn- check [what gates]
  (let [total (reduce + (map run-gate gates))]
    (println (str "lint " what ": " total " findings"))
    (leave (if (zero? (long total)) 0 1))))

(defn -main
  "Runs the gates of `what`, project or compat. --fix writes the poms and the page about errors, and formats, instead, --write-api rewrites api.edn and
  kernel/surface.txt instead."
  [what & options]
  (let [option? (fn [option] (some #(= option %) options))
        unknown (remove #{"--fix" "--write-api"} (filter #(str/starts-with? % "--") options))]
    (cond
      (seq unknown) (do (println (str "magnetar: lint has no option " (first unknown) ", only --fix and --write-api")) (leave 2))
      (= "compat" what) (check what (if (next options) [] compat-gates))
      (option? "--fix") (do (libraries/fix) (errors/fix) (leave (format/fix)))
      (option? "--write-api") (do (api/write) (surface/write) (leave 0))
      :else (check what project-gates))))
