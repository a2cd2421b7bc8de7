(ns magnetar.dev.aot
  "Compiles Magnetar's own namespaces into the jar of the start-up cache. Called by bin/magnetar only."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io File)
   (java.util.jar JarEntry JarOutputStream)))

(set! *warn-on-reflection* true)

(def ^:private launcher-namespaces '[magnetar.dev.run magnetar.dev.repl])

(defn- files [folder]
  (filter #(.isFile ^File %) (file-seq (io/file folder))))

(defn- relative [folder ^File file]
  (str (.relativize (.toPath (io/file folder)) (.toPath file))))

(defn- ns-name-of [path]
  (-> (str/replace path #"\.cljc?$" "") (str/replace "/" ".") (str/replace "_" "-") symbol))

(defn namespaces
  "Names of the namespaces below the source folder, sorted."
  [folder]
  (->> (files folder)
       (map #(relative folder %))
       (filter #(re-find #"\.cljc?$" %))
       (map ns-name-of)
       sort))

(defn- compile-into [folder ns-syms]
  (.mkdirs (io/file folder))
  (binding [*compile-path* (str folder)]
    (run! compile ns-syms)))

;; Clojure prefers a source that is newer than its class, and jar times have steps of two seconds:
;; rounded up, a class is newer than the source it was made from and older than the next edit.
(defn- entry-time []
  (+ 2000 (System/currentTimeMillis)))

(defn- add-folder [^JarOutputStream jar folder time]
  (doseq [file (files folder)]
    (.putNextEntry jar (doto (JarEntry. (str/replace (relative folder file) File/separator "/")) (.setTime (long time))))
    (io/copy file jar)
    (.closeEntry jar)))

(defn- write-jar [target folders]
  (let [time (entry-time)]
    (with-open [jar (JarOutputStream. (io/output-stream target))]
      (run! #(add-folder jar % time) folders))))

(defn -main
  "Compiles the core of the checkout `root` and writes it with the `kernel` classes to `target`/magnetar.jar."
  [root kernel target]
  (let [classes (io/file target "classes")]
    (compile-into classes (concat (namespaces (io/file root "core/src/clj")) launcher-namespaces))
    (write-jar (io/file target "magnetar.jar") [classes kernel])
    (shutdown-agents)))
