(ns magnetar.dev.aot
  "Compiles Magnetar's own namespaces into the jar of the start-up cache. Called by bin/magnetar only."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io File)
   (java.util.jar JarEntry JarOutputStream)))

(set! *warn-on-reflection* true)

(def ^:private loaded-by-macros
  "What the first macro loads: the jars of Clojure's specs and of core.match hold sources only. Compiled first, since what a macro of the
  core has loaded while the core is compiled would be loaded already, and not compiled."
  '[clojure.core.specs.alpha clojure.core.match])

(def ^:private further-namespaces
  "What the commands with a start-up cache need besides the core."
  '[magnetar.dev.node magnetar.dev.run magnetar.dev.repl magnetar.dev.project magnetar.dev.top])

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

;; A bridge to a library that is not on the class path cannot be compiled; it stays a source in the jar.
(defn- try-compile [ns-sym]
  (try (compile ns-sym)
       (catch Throwable e
         (println ns-sym "stays a source:" (ex-message (or (ex-cause e) e))))))

(defn- compile-into [folder ns-syms]
  (.mkdirs (io/file folder))
  (binding [*compile-path* (str folder)]
    (run! try-compile ns-syms)))

;; Clojure prefers a source that is newer than its class, and jar times have steps of two seconds.
(defn- entry-time [^String path ^long now]
  (+ now (if (str/ends-with? path ".class") 2000 -2000)))

(defn- entry ^JarEntry [path now]
  (doto (JarEntry. ^String path)
    (.setTime (long (entry-time path now)))))

(defn- add-folder [^JarOutputStream jar folder now]
  (doseq [file (files folder)]
    (.putNextEntry jar (entry (str/replace (relative folder file) File/separator "/") now))
    (io/copy file jar)
    (.closeEntry jar)))

(defn write-jar
  "Writes a jar of all that is in the folders; classes are newer than sources."
  [target folders]
  (with-open [jar (JarOutputStream. (io/output-stream target))]
    (let [now (System/currentTimeMillis)] ; one for all: to write them may take longer than a step
      (run! #(add-folder jar % now) folders))))

(defn -main
  "Compiles the core of the checkout `root` and writes it with the compiled Java, `java-classes`, folders with colons between, to `target`/magnetar.jar."
  [root java-classes target]
  (let [classes (io/file target "classes")]
    (compile-into classes (concat loaded-by-macros (namespaces (io/file root "core/src/clj")) further-namespaces))
    (write-jar (io/file target "magnetar.jar") (concat [classes] (str/split java-classes #":") [(io/file root "core/src/clj") (io/file root "dev/src")]))
    (shutdown-agents)))
