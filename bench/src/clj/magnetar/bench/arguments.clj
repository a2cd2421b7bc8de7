(ns magnetar.bench.arguments
  "Names that a user gives at the command line: one that means nothing is refused before anything runs."
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

(defn check
  "Fails for the first word that means none of the names, with the names that there are.

  Example: (check \"group\" = [\"ring\"] [\"rng\"]) => fails: There is no group called rng. There are: ring."
  [what means? names words]
  (doseq [word words :when (not-any? #(means? word %) names)]
    (throw (ex-info (format "There is no %s called %s. There are: %s." what word (str/join "; " names)) {::unknown word}))))

(defn refused
  "The sentence of a failure that `check` has thrown, or nil for another one.

  Example: (refused (ex-info \"x\" {})) => nil"
  [failure]
  (when (::unknown (ex-data failure)) (ex-message failure)))
