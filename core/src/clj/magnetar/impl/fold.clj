(ns magnetar.impl.fold
  "Folds: from what a program gives to a run of the engine."
  {:no-doc true}
  (:refer-clojure :exclude [transduce])
  (:require
   [clojure.core.reducers :as reducers]
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.fold.engine :as engine]
   [magnetar.impl.fold.longs :as longs]
   [magnetar.impl.fold.owned :as owned]
   [magnetar.impl.fold.sources :as sources])
  (:import
   (clojure.core Eduction)
   (java.util Map$Entry)))

(set! *warn-on-reflection* true)

(defn- settings [{:keys [parallelism] :as options}]
  (assoc options
         :parallelism (or parallelism (owned/cores))
         :at-once (some? parallelism)))

(defn- taking-pairs [rf]
  (fn [acc ^Map$Entry entry]
    (rf acc (.getKey entry) (.getValue entry))))

(defn- fold-base
  "Folds what is below the pipelines: by itself if the program has taught it to, else by the engine."
  [site {:keys [place] :as options} combinef reducef {:keys [coll pairs]}]
  (if (sources/own-fold coll)
    (reducers/coll-fold coll (:chunk options 512) combinef reducef)
    (let [settings (settings options)]
      (engine/run site (sources/source place coll settings) combinef (if pairs (taking-pairs reducef) reducef) settings))))

(defn fold [site {:keys [place] :as options} combinef reducef coll]
  (checks/combining place combinef)
  (let [base (sources/unwrap place coll identity true)
        rf ((:xform base) reducef)]
    (when-not (:pairs base) (checks/reducing place reducef))
    (fold-base site (assoc options :plan (longs/plan (:xform base) reducef)) combinef rf base)))

(defn- in-order
  "A collection of what a transducer with state makes of coll: it is read in order, and reduced in parallel."
  [xform coll]
  (Eduction. xform coll))

(defn transduce [site {:keys [place] :as options} xform combinef reducef coll]
  (let [stateful (checks/stateful? place xform)]
    (checks/combining place combinef)
    (checks/reducing place reducef)
    (let [{:keys [xform] :as base} (sources/unwrap place
                                                   (if stateful (in-order xform coll) coll)
                                                   (if stateful identity xform)
                                                   false)]
      (fold-base site (assoc options :plan (longs/plan xform reducef)) combinef (xform reducef) base))))
