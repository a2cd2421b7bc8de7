(ns magnetar.dev.faults
  "The fault points of the kernel, and whether the named checks find what is seeded there."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [magnetar.dev.child :as child]))

(set! *warn-on-reflection* true)

(defn faults
  "The list of the checkout `root`, in order."
  [root]
  (edn/read-string (slurp (io/file root "kernel/mutants/faults.edn"))))

(defn in-source
  "The names of the fault points in the kernel of the checkout `root`, one for each point."
  [root]
  (->> (child/java-files (io/file root "kernel/src/java"))
       (mapcat #(re-seq #"Fault\.([A-Z_]+)\.isSeeded\(\)" (slurp %)))
       (map second)))

(def ^:private one-carrier
  ["-Djdk.virtualThreadScheduler.parallelism=1" "-Dmagnetar.added-carriers=0"])

(def ^:private two-carriers
  ["-Djdk.virtualThreadScheduler.parallelism=2"])

(def ^:private carriers
  "What a check is about: how many carriers there are, and whether more may be added."
  {"hand-off-fair" one-carrier
   "hand-off-together" one-carrier
   "hand-off-outside" one-carrier
   "timers-in-backlog" ["-Dmagnetar.added-carriers=0"]
   "timers-in-backlog-of-one-carrier" one-carrier
   "hand-off-crowded" two-carriers
   "computing" two-carriers
   "computing-busy-afterwards" two-carriers
   "computing-pairs" two-carriers
   "computing-yielding" two-carriers
   "computing-host" two-carriers
   "computing-off" one-carrier
   "fairness" ["-Dmagnetar.added-carriers=0"]
   "fairness-processes" ["-Dmagnetar.added-carriers=0"]})

(defn check
  "Runs the named check against these kernel classes. Returns nil if it passes, else one line about the failure.
  `seconds` limits one step of it; the whole check gets four times that. Further options are the JVM's."
  [kernel checks name seconds & options]
  (let [{:keys [exit out]} (apply child/run [kernel checks] (* 4 (long seconds))
                                  (concat child/opens
                                          ["-Xmx600m" (str "-Dmagnetar.check.seconds=" seconds)]
                                          (carriers name)
                                          options
                                          ["magnetar.check.Main" name]))]
    (cond
      (= 0 exit) nil
      (= :timeout exit) "it did not end"
      (re-find #"(?m)^red " out) (re-find #"(?m)^red .*" out)
      :else (throw (ex-info (str "The check `" name "` could not run: " out) {:check name :exit exit})))))

(def seconds
  "What a step of a check may take with a fault: those that hang do so for good."
  4)

(defn unseen
  "Returns nil if the check finds the seeded fault within ten runs, else the reason. Options are the JVM's."
  [kernel checks name fault & options]
  (try
    ;; a race need not happen the first time
    (when-not (some (fn [_] (apply check kernel checks name seconds (str "-Dmagnetar.check.fault=" fault) options)) (range 10))
      (str "the check `" name "` does not see it"))
    (catch clojure.lang.ExceptionInfo e (ex-message e))))
