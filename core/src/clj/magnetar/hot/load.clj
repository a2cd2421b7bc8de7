(ns magnetar.hot.load
  "Loads units, all or none."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.hot.snapshot :as snapshot]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.impl.versions :as versions])
  (:import
   (clojure.lang Compiler Compiler$CompilerException Namespace RT Var)
   (java.io StringReader)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.fiber Cancelled)))

(set! *warn-on-reflection* true)

(defonce ^:private ^ReentrantLock lock (ReentrantLock.))

(defn refuse-within
  "Refuses what would wait for the loading that this thread is in."
  [operation]
  (when (.isHeldByCurrentThread lock)
    (throw (errors/illegal-state :magnetar/within-load
                                 (str "`" operation "` was called by source that is being loaded: it would wait for the end of that. Call it in a function.")
                                 {}))))

(defn alone
  "Calls f while no other thread loads."
  [f]
  (.lockInterruptibly lock)
  (try
    (f)
    (finally (.unlock lock))))

(defn- last-part [path]
  (last (str/split path #"[/\\]")))

(defn- built-in? [symbol x]
  (identical? x (get RT/DEFAULT_IMPORTS symbol)))

(defn- clear
  "Leaves a namespace nothing but its own vars: the next `ns` form would only add to the rest, and refuse an alias that means another namespace."
  [name]
  (when-some [^Namespace ns (find-ns name)]
    (.resetMeta ns nil)
    (run! #(ns-unalias ns %) (keys (ns-aliases ns)))
    (doseq [[symbol x] (ns-map ns)
            :when (not (or (and (var? x) (identical? ns (.ns ^Var x))) (built-in? symbol x)))]
      (ns-unmap ns symbol))))

(defn- load-unit [{:keys [namespace text path digest]}]
  (versions/while-loading namespace digest
    #(do (clear namespace)
         (Compiler/load (StringReader. text) path (last-part path))
         (versions/set-digest namespace digest))))

(defn- place [^Throwable t]
  (when (instance? Compiler$CompilerException t)
    (let [{:clojure.error/keys [source line]} (ex-data t)]
      (when line (str " at " source ":" line)))))

(defn- cause [^Throwable t]
  (if (and (instance? Compiler$CompilerException t) (ex-cause t)) (ex-cause t) t))

(defn- failed [{:keys [namespace path]} t]
  (errors/failure (str "The namespace " namespace " does not load" (or (place t) (str " from " path)) ": " (ex-message (cause t))
                    ". All namespaces are as they were before.")
    {:magnetar/reason :magnetar/load-failed :namespace namespace :path path}
    t))

(defn- forget-stale
  "Takes away the vars that the new source does not have; their names."
  [before name]
  (let [stale (mapv (comp :name meta) (snapshot/stale before (the-ns name)))]
    (run! #(ns-unmap (the-ns name) %) stale)
    (vec (sort stale))))

(defn- loaded [before old {:keys [namespace]}]
  {:namespace namespace
   :from (get old namespace)
   :to (versions/version namespace)
   :removed (forget-stale before namespace)})

(defn load-units
  "Loads the units in this order: {:loaded [..] :undo f}, where f puts all back. If one does not load, all is put back, and this throws."
  [units]
  (let [before (snapshot/take-snapshot)
        old (into {} (map (juxt :namespace (comp versions/version :namespace))) units)]
    (doseq [unit units]
      (try
        (load-unit unit)
        (catch Throwable t
          (snapshot/put-back before (snapshot/take-snapshot))
          (throw (if (Cancelled/isBehind t) t (failed unit t))))))
    (let [loaded (mapv #(loaded before old %) units)
          after (snapshot/take-snapshot)]
      {:loaded loaded
       :undo #(snapshot/put-back before after)})))

(defn wanted
  "The units without the units of folders and jars that are loaded already. A unit that was named itself is loaded again."
  [units]
  (remove #(and (:one-of-many %) (= (:digest %) (versions/digest (:namespace %)))) units))
