(ns magnetar.dev.lint.scenarios
  "Every scenario of Erlang is carried by a test, or excused in the page about Erlang."
  (:require
   [magnetar.dev.lint.sources :as sources]
   [magnetar.dev.scenarios :as scenarios]))

(set! *warn-on-reflection* true)

(defn- carried-in [text]
  (concat (map second (re-seq #"\(scenario ([A-Z]+-\d+)" text))
          (mapcat scenarios/ids-in (re-seq #":otp\s+(?:\"[^\"]*\"|\[[^\]]*\])" text))))

(defn- carriers
  "From ID to a file with a test that carries it."
  []
  (into {}
        (for [folder ["core/test/clj" "cluster/test/clj" "examples" "test"]
              file (sources/files folder ".clj")
              id (carried-in (sources/text file))]
          [id file])))

(defn- finding [file id message]
  {:file file
   :line (sources/line-of (sources/text file) (re-pattern (str "\\b" id "\\b")))
   :message (str id " " message)})

(defn- uncared-for [ids carriers excuses]
  (for [id ids
        :when (not (or (carriers id) (excuses id) (excuses (scenarios/group id))))]
    (finding scenarios/ids-file id (str "is neither carried by a test nor excused in " scenarios/page))))

(defn- excused-in-vain [ids carriers excuses]
  (for [id (filter excuses ids)
        :when (carriers id)]
    (finding scenarios/page id (str "is excused, but " (carriers id) " carries it"))))

(defn- unknown [ids where file-of]
  (let [known (into (set ids) (map scenarios/group) ids)]
    (for [id (remove known where)]
      (finding (file-of id) id "is no scenario"))))

(defn findings
  "Scenarios that are neither carried nor excused, or both; IDs that do not exist."
  []
  (let [ids (scenarios/all sources/*root*)
        excuses (scenarios/excuses sources/*root*)
        carriers (carriers)]
    (concat (uncared-for ids carriers excuses)
            (excused-in-vain ids carriers excuses)
            (unknown ids (keys carriers) carriers)
            (unknown ids excuses (constantly scenarios/page)))))
