(ns magnetar.impl.versions
  "Which version of which namespace a process runs: it notes that in its dictionary where it starts, and where its state is changed."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Namespace Var)
   (magnetar.kernel.process LocalProcess)))

(set! *warn-on-reflection* true)

;; From namespaces that are being loaded to digests: a process that takes a new function before all of them are there is told what it comes from.
(defonce ^:private loading (atom {}))

(defn while-loading
  "Calls f, which loads the namespace from the source of that digest."
  [ns digest f]
  (swap! loading assoc ns digest)
  (try
    (f)
    (finally (swap! loading dissoc ns))))

(defn version
  "The version of a namespace: its metadata :version, else the digest of the source that magnetar.hot has loaded it from, else nil."
  [ns]
  (when-some [found (find-ns ns)]
    (let [{:keys [version ::digest]} (meta found)]
      (if (some? version) version (or digest (@loading ns))))))

(defn set-digest
  "Notes what the namespace was loaded from."
  [ns digest]
  (alter-meta! (the-ns ns) assoc ::digest digest))

(defn digest
  "The digest of the source that the namespace was loaded from; nil if magnetar.hot has not loaded it."
  [ns]
  (::digest (meta (find-ns ns))))

(defn home
  "The name of the namespace that code comes from, nil where that cannot be told."
  [source]
  (cond
    (instance? Namespace source) (ns-name source)
    (var? source) (ns-name (.ns ^Var source))))

(defonce ^:private shared (atom {}))

(defn- now
  "{name version}, one map for all processes that run it. Its metadata holds a process dictionary with this map alone, which they share too."
  [name]
  (let [version (version name)
        known (get @shared name)]
    (if (and known (= version (get known name)))
      known
      (let [versions {name version}]
        (get (swap! shared assoc name (with-meta versions {::alone {::served versions}})) name)))))

(defn- all-now [names]
  (if (next names)
    (into {} (map now) names)
    (now (first names))))

(defn- alone
  "The dictionary with this note and nothing else, if all processes with the note share it."
  [versions]
  (let [dictionary (::alone (meta versions))]
    (when (= versions (::served dictionary)) ; a map that was derived from another one has its metadata
      dictionary)))

(defn- note [^LocalProcess process versions]
  (let [dictionary (.dictionary process)]
    (when-not (= versions (::served dictionary))
      (.setDictionary process (or (when (nil? dictionary) (alone versions))
                                  (assoc dictionary ::served versions))))))

(defn serves
  "This process runs the callbacks of these sources, namespaces or vars, and answers `magnetar.sys`."
  [& sources]
  (when-some [names (seq (keep home sources))]
    (note (LocalProcess/current) (all-now names))))

;; What a process goes on with: the var, what that was, and the version. A loop passes here with each message, so it asks for no more than
;; whether the var is what it was.
(deftype Run [var root versions])

(defn- same? [run ^Var v]
  (and (instance? Run run)
       (identical? v (.-var ^Run run))
       (identical? (.getRawRoot v) (.-root ^Run run))))

(defn serves-too
  "This process runs the callbacks of one source more, and has just made a state by them."
  [source]
  (when-some [name (home source)]
    (let [process (LocalProcess/current)]
      (note process (assoc (get (.dictionary process) ::served) name (version name))))))

(defn serves-only
  "This process runs the callbacks of these sources, and of no others any more."
  [sources]
  (let [process (LocalProcess/current)
        known (get (.dictionary process) ::served)
        names (keep home sources)]
    (note process (not-empty (into {} (map (fn [name] [name (if (contains? known name) (known name) (version name))])) names)))))

(defn runs
  "This process goes on with f: if that is a var, with what it is now."
  [f]
  (let [process (LocalProcess/current)
        known (get (.dictionary process) ::run)]
    (cond
      (var? f) (when-not (same? known f)
                 (.setDictionary process (assoc (.dictionary process) ::run (Run. f (.getRawRoot ^Var f) (now (home f))))))
      known (.setDictionary process (dissoc (.dictionary process) ::run)))))

(defn served-by
  "From namespace to version: what the process serves, that answers `magnetar.sys`; nil if nothing."
  [^LocalProcess process]
  (::served (.dictionary process)))

(defn of-dictionary
  "From namespace to version: what the process of the dictionary runs; nil if that is not known."
  [dictionary]
  (or (::served dictionary)
      (when-some [run (::run dictionary)] (.-versions ^Run run))))

(defn note?
  "True of the keys of a dictionary under which something is noted here."
  [key]
  (or (= ::served key) (= ::run key)))

(defn without-notes
  "The dictionary without what is noted here."
  [dictionary]
  (dissoc dictionary ::served ::run))

(defn renew
  "The state of this process is one of the versions that are loaded now."
  []
  (let [process (LocalProcess/current)]
    (when-some [served (served-by process)]
      (note process (all-now (keys served))))))

(defn put-back
  "The state of this process is one of these versions again."
  [versions]
  (when versions
    (note (LocalProcess/current) versions)))
