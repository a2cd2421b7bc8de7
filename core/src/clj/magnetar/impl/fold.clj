(ns magnetar.impl.fold
  "Folds: from what a program gives to a run of the engine."
  {:no-doc true}
  (:refer-clojure :exclude [transduce])
  (:require
   [clojure.core :as core]
   [clojure.core.reducers :as reducers]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.fold.engine :as engine]
   [magnetar.impl.fold.owned :as owned]
   [magnetar.impl.fold.sources :as sources]
   [magnetar.impl.runtime])
  (:import
   (clojure.core Eduction)
   (java.util Map$Entry)
   (java.util.concurrent.atomic AtomicLong)
   (magnetar.kernel.fiber Cause Fiber)))

(set! *warn-on-reflection* true)

(defn- settings [{:keys [parallelism] :as options}]
  (assoc options
         :parallelism (or parallelism (owned/cores))
         :at-once (some? parallelism)))

(defn- taking-pairs [rf]
  (fn [acc ^Map$Entry entry]
    (rf acc (.getKey entry) (.getValue entry))))

(defn- until-cancelled
  "The reducing function, for threads that know of no cancellation: it ends with this fiber."
  [reducef]
  (let [fiber (Fiber/current)
        check #(when-some [^Cause why (.cause fiber)] (throw (.toError why)))]
    (fn
      ([] (reducef))
      ([acc x] (check) (reducef acc x))
      ([acc k v] (check) (reducef acc k v)))))

(defn- fold-itself
  "What the collection's own fold gives; it runs on Clojure's pool, and a fiber waits for it."
  [site {:keys [chunk]} combinef reducef coll]
  (let [answer (volatile! nil)]
    (owned/in-scope site
      (fn [scope]
        (owned/fork scope site false (fibers/frame)
                    #(vreset! answer (reducers/coll-fold coll (or chunk 512) combinef (until-cancelled reducef))))))
    @answer))

(defn- fold-base
  "Folds what is below the pipelines: by itself if the program has taught it to, else by the engine."
  [site {:keys [place] :as options} combinef reducef {:keys [coll pairs]}]
  (if (sources/own-fold coll)
    (fold-itself site options combinef reducef coll)
    (let [settings (settings options)]
      (engine/run site (sources/source place coll settings) combinef (if pairs (taking-pairs reducef) reducef) settings))))

(defn fold [site {:keys [place] :as options} combinef reducef coll]
  (checks/combining place combinef)
  (let [base (sources/unwrap place coll identity true)
        rf ((:xform base) reducef)]
    (when-not (:pairs base) (checks/reducing place reducef))
    (fold-base site options combinef rf base)))

(defn- in-order
  "A collection of what a transducer with state makes of coll: it is read in order, and reduced in parallel."
  [xform coll]
  (Eduction. xform coll))

(defn- watched
  "A transducer ahead of all others: it ends when this fiber is cancelled, and says at which element one of them failed."
  [site]
  (let [fiber (Fiber/current)
        position (AtomicLong. -1)]
    (fn [rf]
      (completing
        (fn [acc x]
          (.check fiber)
          (.incrementAndGet position)
          (try
            (rf acc x)
            (catch Exception e
              (throw (if (.isCancelled fiber) e (owned/failed-at :magnetar/fold-failed site (.get position) x e))))))
        rf))))

(defn- alone
  "The reduction in order, by this fiber."
  [site {:keys [place]} xform combinef reducef coll]
  (core/transduce (comp (watched site) xform) (completing reducef) (combinef) (sources/to-reduce place coll)))

(defn- in-parallel [site {:keys [place] :as options} xform combinef reducef coll]
  (let [{:keys [xform] :as base} (sources/unwrap place coll xform false)]
    (fold-base site options combinef (xform reducef) base)))

(defn transduce [site {:keys [place] :as options} xform combinef reducef coll]
  (let [order (checks/order place xform)]
    (checks/combining place combinef)
    (checks/reducing place reducef)
    (case order
      :any (in-parallel site options xform combinef reducef coll)
      :in-order (in-parallel site options identity combinef reducef (in-order xform coll))
      :alone (alone site options xform combinef reducef coll))))
