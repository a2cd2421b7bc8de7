(ns magnetar.hot.watch
  "Watches files, folders and jars, and tells which units of them have changed.

  The events of the file system only wake: what has changed is found by comparing digests, so that no event that is lost, doubled or early
  matters. A jar is read again when its time stamp is another one."
  {:no-doc true}
  (:require
   [clojure.java.io :as io]
   [magnetar.hot.sources :as sources]
   [magnetar.impl.runtime])
  (:import
   (java.io File)
   (java.nio.file FileSystems Path StandardWatchEventKinds WatchEvent$Kind WatchKey WatchService)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private quiet-ms
  "How long nothing has to happen before files are read: an editor may write more than once."
  50)

(def ^:private longest-ms
  "How long to wait for that at most: a program may write a log beside the files without an end."
  1000)

(def ^:private look-anyway-s
  "How long to wait before files are compared without an event: some file systems send none."
  10)

;; ---- what there is

(defn- stamp [^File file]
  [(.lastModified file) (.length file)])

(defn- read-source
  "The digests of the units of a source: {:stamp s :units {namespace unit}}. What cannot be read at the moment will be at another one."
  [before ^File file]
  (let [now (stamp file)]
    (if (and before (sources/jar? file) (= now (:stamp before)))
      before
      (try
        {:stamp now :units (into {} (map (juxt :namespace identity)) (sources/units-of-file "watch" file))}
        (catch Exception e
          (assoc before :failed (ex-message e)))))))

(defn- digests [{:keys [units]}]
  (update-vals units :digest))

(defn- changed-units [before after]
  (let [known (digests before)]
    (remove #(= (:digest %) (known (:namespace %))) (vals (:units after)))))

(defn first-look
  "What the files are when the watch begins: from file to what was read."
  [files]
  (into {} (map (juxt identity #(read-source nil %))) files))

(defn look
  "[the units that have changed, in the order to load them; what the files are now]. If any has, those of the `pending` namespaces are among them,
  which had changed before and could not be loaded."
  [seen pending]
  (let [now (into {} (map (fn [[file before]] [file (read-source before file)])) seen)
        changed (mapcat (fn [[file after]] (changed-units (get seen file) after)) now)
        again (when (seq changed)
                (filter (comp pending :namespace) (mapcat (comp vals :units val) now)))]
    [(sources/in-order (concat again changed)) now]))

;; ---- when to look

(def ^:private kinds
  (into-array WatchEvent$Kind [StandardWatchEventKinds/ENTRY_CREATE StandardWatchEventKinds/ENTRY_MODIFY StandardWatchEventKinds/ENTRY_DELETE]))

(defn- folders [^File file]
  (if (.isDirectory file)
    (filter #(.isDirectory ^File %) (file-seq file))
    [(.getParentFile (.getAbsoluteFile file))]))

(defn register
  "Lets the service watch all folders of the files, also those that are new."
  [^WatchService service files]
  (doseq [^File folder (distinct (mapcat folders files))]
    (try
      (.register (.toPath folder) service kinds)
      (catch java.nio.file.NoSuchFileException _))))

(defn open
  "A service of the file system."
  ^WatchService []
  (.newWatchService (FileSystems/getDefault)))

(defn- drain [^WatchKey key]
  (when key
    (.pollEvents key)
    (.reset key)))

(defn await-event
  "Waits until something has happened, and then nothing more for a moment."
  [^WatchService service]
  (drain (.poll service look-anyway-s TimeUnit/SECONDS))
  (let [begin (System/nanoTime)]
    (loop []
      (when-some [key (.poll service quiet-ms TimeUnit/MILLISECONDS)]
        (drain key)
        (when (< (quot (- (System/nanoTime) begin) 1000000) (long longest-ms))
          (recur))))))
