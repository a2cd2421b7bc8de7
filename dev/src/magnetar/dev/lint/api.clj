(ns magnetar.dev.lint.api
  "api.edn, the contract: namespace, name, kind, arglists, since, deprecated. Compared with what the namespaces publish."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [magnetar.dev.lint.docs :as docs]
   [magnetar.dev.lint.sources :as sources]))

(set! *warn-on-reflection* true)

(def ^:private file "api.edn")

(defn- kind [v]
  (let [value (deref v)]
    (cond
      (:macro (meta v)) :macro
      (:dynamic (meta v)) :dynamic
      (and (map? value) (:on-interface value)) :protocol
      (or (fn? value) (instance? clojure.lang.MultiFn value)) :function
      :else :value)))

(def ^:private first-release
  "The public API of 0.1."
  (delay (edn/read-string (slurp (io/resource "magnetar/dev/upgrade/api-0.1.edn")))))

(defn- since
  "Returns the release that a var came with: 0.1 if that has it, else what its :added says."
  [v]
  (let [{:keys [name added] space :ns} (meta v)]
    (if (get-in @first-release [(ns-name space) name]) "0.1" added)))

(defn- entry [v]
  (let [{:keys [arglists deprecated]} (meta v)]
    (cond-> (sorted-map :kind (kind v) :since (since v))
      arglists (assoc :arglists (edn/read-string (pr-str arglists)))
      deprecated (assoc :deprecated deprecated))))

(defn published
  "What the public namespaces of the core publish now, in the shape of api.edn."
  []
  (into (sorted-map)
        (for [{:keys [name] :as source} (mapcat sources/namespaces ["core/src/clj" "test-kit/src/clj" "etf/src/clj" "http/src/clj" "cluster/src/clj" "erlang/src/clj"])
              :when (docs/public-namespace? source)]
          [name (into (sorted-map) (update-vals (docs/public-vars name) entry))])))

(defn written
  "What api.edn says; empty if there is no such file."
  []
  (if (sources/exists? file) (edn/read-string (sources/text file)) {}))

(defn- line-of [ns-name var-name]
  (if (sources/exists? file)
    (sources/line-of (sources/text file)
                     (re-pattern (str "^\\s*[\\[{]?\\s*" (java.util.regex.Pattern/quote (str (or var-name ns-name))) " \\{")))
    1))

(defn- fault [listed real]
  (cond
    (nil? listed) "is public, but not listed"
    (nil? real) "is listed, but not public"
    (nil? (:since real)) "is not in 0.1 and has no :added: give the var the version that it comes with"
    (not= listed real) (str "is listed as " (pr-str listed) ", but is " (pr-str real))))

(defn differences
  "Findings where `listed` (of api.edn) and `real` (of the namespaces) differ."
  [listed real]
  (for [ns-name (sort (distinct (concat (keys listed) (keys real))))
        var-name (sort (distinct (concat (keys (listed ns-name)) (keys (real ns-name)))))
        :let [message (fault (get-in listed [ns-name var-name]) (get-in real [ns-name var-name]))]
        :when message]
    {:file file
     :line (line-of ns-name var-name)
     :message (str ns-name "/" var-name " " message "; `bin/magnetar lint --write-api` writes what is there")}))

(defn findings
  "Differences between api.edn and the public namespaces."
  []
  (if (sources/exists? file)
    (differences (written) (published))
    [{:file file :message "is missing; `bin/magnetar lint --write-api` writes it"}]))

(defn- text-of [api]
  (with-out-str
    (println ";; The public API. `bin/magnetar lint` compares it; `bin/magnetar lint --write-api` rewrites it.")
    (println "{")
    (doseq [[ns-name vars] api]
      (println (str " " ns-name " {"))
      (doseq [[var-name description] vars]
        (println (str "  " var-name " " (pr-str description))))
      (println " }"))
    (println "}")))

(defn write
  "Writes api.edn again."
  []
  (spit (io/file sources/*root* file) (text-of (published))))
