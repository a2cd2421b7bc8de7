(ns magnetar.dev.child
  "Java sources compiled, and run in a JVM of their own with a limit on its time."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io File StringWriter)
   (java.lang ProcessBuilder$Redirect)
   (java.util.concurrent TimeUnit)
   (javax.tools JavaFileManager ToolProvider)))

(set! *warn-on-reflection* true)

(defn java-files
  "Files of Java source below the folder, sorted."
  [folder]
  (->> (file-seq (io/file folder))
       (filter #(str/ends-with? (str %) ".java"))
       sort))

(defn compile-java
  "Compiles the Java below the folders `from` into the new folder `into`, against the class path.
  Returns nil, or the compiler's complaint as text. Further options are javac's."
  [from into class-path & options]
  (.mkdirs (io/file into))
  (let [compiler (ToolProvider/getSystemJavaCompiler)
        complaint (StringWriter.)]
    (with-open [^JavaFileManager files (.getStandardFileManager compiler nil nil nil)]
      (let [units (.getJavaFileObjectsFromFiles ^javax.tools.StandardJavaFileManager files (mapcat java-files from))
            options (concat ["-encoding" "UTF-8" "-nowarn" "-XDstringConcat=inline" "-d" (str into) "-cp" (str/join File/pathSeparator class-path)] options)]
        (when-not (.call (.getTask compiler complaint files nil options nil units))
          (str complaint))))))

(defn temp-folder
  "A new folder that goes when the JVM ends."
  ^File [prefix]
  (let [folder (.toFile (java.nio.file.Files/createTempDirectory prefix (make-array java.nio.file.attribute.FileAttribute 0)))]
    (.addShutdownHook (Runtime/getRuntime)
                      (Thread. ^Runnable #(run! io/delete-file (reverse (file-seq folder)))))
    folder))

(defn- java-command []
  (str (io/file (System/getProperty "java.home") "bin" "java")))

(def temp
  "The option of a JVM that has its temporary files where ours are."
  (str "-Djava.io.tmpdir=" (System/getProperty "java.io.tmpdir")))

(def opens
  "What hand-off needs of a JVM; bin/magnetar gives more (kernel/java.options), by which no check is to pass or fail."
  ["--add-opens" "java.base/java.lang=ALL-UNNAMED"])

(defn run
  "Runs a Java program: `command` is options, main class and arguments. Ends it after `seconds`.
  Returns {:exit code, or :timeout, :out everything it printed, :ms}."
  [class-path seconds & command]
  (let [out (File/createTempFile "magnetar" ".out")
        begin (System/nanoTime)
        ^java.util.List words (vec (concat [(java-command) temp "-cp" (str/join File/pathSeparator class-path)] command))
        process (.start (doto (ProcessBuilder. words)
                          (.redirectErrorStream true)
                          (.redirectOutput (ProcessBuilder$Redirect/to out))
                          (.directory (temp-folder "run"))))
        ended (.waitFor process (long seconds) TimeUnit/SECONDS)]
    (when-not ended
      (run! #(.destroyForcibly ^java.lang.ProcessHandle %) (iterator-seq (.iterator (.descendants process))))
      (.waitFor (.destroyForcibly process)))
    (try
      {:exit (if ended (.exitValue process) :timeout)
       :out (slurp out)
       :ms (quot (- (System/nanoTime) begin) 1000000)}
      (finally (.delete out)))))
