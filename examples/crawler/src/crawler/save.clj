(ns crawler.save
  "Files that are there whole or not at all."
  (:require
   [clojure.java.io :as io])
  (:import
   (java.io File)
   (java.nio.file CopyOption Files StandardCopyOption)))

(set! *warn-on-reflection* true)

(defn obstacle
  "Returns a sentence that says why `path` cannot be written, nil when nothing seems to be in the way."
  [path]
  (let [file   (.getAbsoluteFile (io/file path))
        folder (.getParentFile file)]
    (cond
      (.isDirectory file)             (str path " is a folder, not a file")
      (not (.isDirectory folder))     (str "there is no folder " folder)
      (not (Files/isWritable (.toPath folder))) (str "nobody may write in " folder))))

(defn- temporary-beside
  "Returns a new empty file in `file`'s folder, that does not outlive this JVM."
  ^File [^File file]
  (doto (File/createTempFile (str "." (.getName file)) ".part" (.getParentFile file))
    (.deleteOnExit)))

(defn write-edn
  "Writes `data` to `path` as EDN. Until it is complete the file is not there, or is what it was before."
  [path data]
  (let [file      (.getAbsoluteFile (io/file path))
        temporary (temporary-beside file)]
    (try
      (with-open [out (io/writer temporary)]
        (binding [*out* out, *print-length* nil, *print-level* nil]
          (prn data)))
      (Files/move (.toPath temporary) (.toPath file)
                  (into-array CopyOption [StandardCopyOption/ATOMIC_MOVE]))
      (finally (.delete temporary)))))
