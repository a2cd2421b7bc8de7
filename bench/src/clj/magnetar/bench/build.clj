(ns magnetar.bench.build
  "Compiles the benchmarks into `bench/target/classes`: the JMH shells with their generated code, and the workloads ahead of
  time, so that a fork starts in a second instead of compiling core.async first. The folders of the class path are copied there
  too: a run of minutes then measures one state of the sources, whatever is edited meanwhile."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.machine :as machine])
  (:import
   (java.io File)
   (java.nio.file CopyOption Files StandardCopyOption)
   (javax.tools JavaCompiler ToolProvider)))

(set! *warn-on-reflection* true)

(defn target
  "Returns the folder of the compiled benchmarks.

  Example: (str (target)) => \"/home/me/magnetar/bench/target/classes\""
  ^File []
  (io/file (machine/home) "bench" "target" "classes"))

(defn files-below
  "Returns the files in a folder and the folders in it.

  Example: (count (files-below \"bench/src\"))"
  [root]
  (filter #(.isFile ^File %) (file-seq (io/file root))))

(defn- newest
  ^long [files]
  (transduce (map #(.lastModified ^File %)) max 0 files))

(defn- inputs
  []
  (let [java (io/file (machine/home) "bench" "src" "java")]
    (mapcat files-below (remove #(= (target) %) (cons java (machine/class-path))))))

(defn- stamp
  ^File []
  (io/file (target) "compiled.stamp"))

(defn stale?
  "True unless `mark` has stamped the file with this class path since the newest of the inputs was changed.

  Example: (stale? (io/file \"compiled.stamp\") (files-below \"src\"))"
  [^File stamp inputs]
  (or (not (.exists stamp))
      (not= (slurp stamp) (System/getProperty "java.class.path"))
      (<= (.lastModified stamp) (newest inputs))))

(defn mark
  "Says that what the stamp stands for is built.

  Example: (mark (io/file \"compiled.stamp\"))"
  [stamp]
  (spit stamp (System/getProperty "java.class.path")))

(defn- clear
  [^File folder]
  (run! #(.delete ^File %) (reverse (file-seq folder)))
  (.mkdirs folder))

(defn- of-benchmarks?
  "True of the folders that are not copied: the benchmarks themselves find their project through them."
  [folder]
  (.startsWith (.toPath ^File (.getAbsoluteFile ^File folder)) (.toPath (io/file (machine/home) "bench"))))

(defn- folders-to-copy
  []
  (filter #(and (.isDirectory ^File %) (not (of-benchmarks? %))) (machine/class-path)))

(defn- copy-below
  "Keeps the times of the files: Clojure loads a class only if it is newer than its source. Leaves the declaration of a module out: with it the shells
  would be compiled into that module, which does not see JMH."
  [^File folder]
  (doseq [^File file (files-below folder)
          :when (not= "module-info.class" (.getName file))
          :let [copy (io/file (target) (str (.relativize (.toPath folder) (.toPath file))))]]
    (io/make-parents copy)
    (Files/copy (.toPath file) (.toPath copy)
                ^"[Ljava.nio.file.CopyOption;" (into-array CopyOption [StandardCopyOption/COPY_ATTRIBUTES
                                                                       StandardCopyOption/REPLACE_EXISTING]))))

(defn class-path
  "Returns the class path, as one string, of a JVM that runs what was built: the copies instead of the folders.

  Example: (class-path) => \"bench/target/classes:clojure-1.12.6.jar:..\""
  []
  (str/join File/pathSeparator
            (cons (target) (remove (set (folders-to-copy)) (machine/class-path)))))

(defn- javac-arguments
  "JDK 23 and later run no annotation processor unless told to: without `-proc:full` JMH finds no benchmark and says nothing."
  []
  (into ["-proc:full" "-processor" "org.openjdk.jmh.generators.BenchmarkProcessor"
         "-d" (str (target)) "-cp" (System/getProperty "java.class.path")]
        (comp (map str) (filter #(str/ends-with? % ".java")))
        (files-below (io/file (machine/home) "bench" "src" "java"))))

(defn- javac
  ^JavaCompiler []
  (or (ToolProvider/getSystemJavaCompiler)
      (throw (ex-info "This Java has no compiler: run the benchmarks with a JDK, not a JRE."
                      {:java-home (System/getProperty "java.home")}))))

(defn- compile-shells
  []
  (let [exit (.run (javac) nil nil nil ^"[Ljava.lang.String;" (into-array String (javac-arguments)))]
    (when-not (zero? exit)
      (throw (ex-info "The JMH shells in bench/src/java do not compile: see the messages of javac above." {:exit exit})))))

(defn- compile-workloads
  []
  (binding [*compile-path* (str (target))]
    (compile 'magnetar.bench.workload.magnetar)
    (compile 'magnetar.bench.workload.core-async)))

(defn ensure-built
  "Compiles shells and workloads when a file of the class path is newer than the last time, and returns `class-path`.

  Fails with javac's or Clojure's message when a source does not compile.

  Example: (ensure-built)"
  []
  (when (stale? (stamp) (inputs))
    (println "compiling the benchmarks ..")
    (clear (target))
    (run! copy-below (folders-to-copy))
    (compile-shells)
    (compile-workloads)
    (mark (stamp)))
  (class-path))
