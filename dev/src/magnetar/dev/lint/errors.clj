(ns magnetar.dev.lint.errors
  "Each id of an error has a section in the page about errors, and each section an id that some source raises."
  (:require
   [clojure.string :as str]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(def ^:private source-page "core/src/clj/magnetar/errors.md")

(def ^:private page "docs/reference/errors.md")

(def ^:private no-ids
  "Keywords of these namespaces that name no error: keys of data, and tags of messages."
  #{"magnetar/call" "magnetar/cast" "magnetar/cluster" "magnetar/dump" "magnetar/erlang" "magnetar/event" "magnetar/exit"
    "magnetar/failed" "magnetar/keys" "magnetar/leaks" "magnetar/reason" "magnetar/system" "magnetar/top" "magnetar/why"})

(def ^:private of-simulations
  "Ids that the test kit makes of the problems that the simulator finds, as in magnetar.kernel.sim.Run."
  (map #(str "magnetar.test/" %) ["broken" "deadlock" "endless" "foreign-thread" "interrupted" "monitor" "shared" "stuck" "timed-wait"]))

(def ^:private run-of-a-simulation "kernel/src/java/magnetar/kernel/sim/Run.java")

(def ^:private skipped
  "A character literal, a string or a comment of Clojure."
  #"(?s)\\.|\"(?:[^\"\\]|\\.)*+\"|;[^\n]*")

(defn- keywords-in [file]
  (for [[_ id] (re-seq #"(?<!:):(magnetar(?:\.test)?/[a-z0-9-]+)" (str/replace (sources/text file) skipped " "))]
    [id file]))

(defn- misuses-in [file]
  (for [[_ id] (re-seq #"\b(?:misuse|refusal)\(\s*\"([a-z-]+)\"" (sources/text file))]
    [(str "magnetar/" id) file]))

(defn- raised
  "From each id that is raised to a file that raises it."
  []
  (-> (into {} (mapcat keywords-in) (mapcat #(sources/files % ".clj") ["core/src/clj" "test-kit/src/clj" "etf/src/clj" "http/src/clj" "cluster/src/clj" "erlang/src/clj"]))
      (into (mapcat misuses-in) (mapcat #(sources/files % ".java") ["kernel/src/java" "etf/src/java" "erlang/src/java"]))
      (into (map #(vector % run-of-a-simulation)) (when (sources/exists? run-of-a-simulation) of-simulations))
      (as-> ids (apply dissoc ids no-ids))))

(defn- sections []
  (map second (re-seq #"(?m)^## :(\S+)" (sources/text source-page))))

(defn findings
  "Ids without a section, sections without an id, and a page that differs from the text on the class path."
  []
  (let [raised (raised)
        sections (sections)]
    (concat
      (for [[id file] (sort raised) :when (not (some #{id} sections))]
        {:file file :line (sources/line-of (sources/text file) (re-pattern (str "[:\"]" (str/replace id #"^magnetar/" "(magnetar/)?") "\\b")))
         :message (str "the error :" id " has no section in " source-page ": write one, or list the keyword in magnetar.dev.lint.errors")})
      (for [id sections :when (not (raised id))]
        {:file source-page :line (sources/line-of (sources/text source-page) (re-pattern (str "^## :" id "$")))
         :message (str "no source raises :" id)})
      (for [[id n] (frequencies sections) :when (< 1 (long n))]
        {:file source-page :message (str "there are " n " sections for :" id)})
      (when (not= (sources/text source-page) (sources/text page))
        [{:file page :message (str "differs from " source-page ", which `explain` reads: bin/magnetar lint --fix copies it")}]))))

(defn fix
  "Copies the text on the class path to the page of the documentation."
  []
  (spit (str sources/*root* "/" page) (sources/text source-page)))
