(ns magnetar.bench.startup
  "Wall clock of `bin/magnetar run FILE` for a file that requires the library, and for an empty one."
  (:require
   [clojure.java.io :as io]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.statistics :as statistics]))

(set! *warn-on-reflection* true)

(defn- launcher
  []
  (let [file (io/file (machine/home) "bin" "magnetar")]
    (when (.canExecute file) file)))

(defn measure
  "Returns the milliseconds of `rounds` starts with and without `(require 'magnetar.async)`, alternating, and their difference.

  The launcher's caches are filled by starts that do not count (after an edit the second one builds them). Returns nil where
  there is no launcher; fails when a start does.

  Example: (:require (measure 5)) => {:median 61.0 :min 52.1 :max 80.9 :count 5}"
  [rounds]
  (when-let [launcher (launcher)]
    (let [start #(child/wall-ms [launcher "run" %])
          files [(child/program "(require 'magnetar.async)\n") (child/program "nil\n")]
          _ (run! start (concat files files))
          pairs (vec (repeatedly rounds #(mapv start files)))]
      {:whole (statistics/spread (map first pairs))
       :empty (statistics/spread (map second pairs))
       :require (statistics/spread (map #(apply - %) pairs))
       :raw pairs})))
