(ns magnetar.dev.processes
  "Starts programs as a user does: what they print and how they end, as data."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io File)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)
   (java.util List Map)))

(set! *warn-on-reflection* true)

(def home
  "Folder of the checkout."
  (System/getProperty "magnetar.home"))

(def launcher
  "Path of bin/magnetar."
  (str home "/bin/magnetar"))

(defn temporary-folder
  "A new folder that is deleted when the tests end."
  ^File []
  (doto (.toFile (Files/createTempDirectory "magnetar-test" (make-array FileAttribute 0)))
    (.deleteOnExit)))

(defn write
  "Writes `text` to `path` below `folder`; returns the path."
  [folder path text]
  (let [file (io/file folder path)]
    (io/make-parents file)
    (spit file text)
    (str file)))

(defn start
  "Runs `command`, `input` on its stdin, with `environment` over the present one (nil removes a variable).
  Returns :exit, :out and :err, with the ends of lines trimmed."
  [{:keys [environment folder input]} & command]
  (let [builder (ProcessBuilder. ^List (vec command))
        ^Map variables (.environment builder)]
    (.directory builder (io/file (or folder home)))
    (doseq [[k v] environment]
      (if v (.put variables k (str v)) (.remove variables k)))
    (let [process (.start builder)
          err (future (slurp (.getErrorStream process)))]
      (with-open [stdin (io/writer (.getOutputStream process))]
        (.write stdin (str input)))
      (let [out (slurp (.getInputStream process))]
        {:exit (.waitFor process)
         :out (str/trimr out)
         :err (str/trimr @err)}))))

(defn magnetar
  "Runs bin/magnetar with the arguments, as `start` does; a first map gives its options."
  [& arguments]
  (let [[options arguments] (if (map? (first arguments)) [(first arguments) (rest arguments)] [{} arguments])]
    (apply start options launcher arguments)))

(defn jdks
  "Folders of installed JDKs whose feature number satisfies `good?`."
  [good?]
  (for [^File folder (sort (.listFiles (.getParentFile (io/file (System/getProperty "java.home")))))
        :let [release (io/file folder "release")
              [_ feature] (when (.exists release) (re-find #"JAVA_VERSION=\"(\d+)" (slurp release)))]
        :when (and feature (good? (parse-long feature)) (.canExecute (io/file folder "bin/java")))]
    (.getPath (.getCanonicalFile folder))))

(defn copied-launcher
  "A checkout of its own with the launcher and the build files, and one Java class each as its kernel and its core."
  []
  (let [folder (temporary-folder)]
    (doseq [path ["bin/magnetar" "kernel/java.options" "deps.edn" "pom.xml"]]
      (io/make-parents (io/file folder path))
      (io/copy (io/file home path) (io/file folder path)))
    (.setExecutable (io/file folder "bin/magnetar") true)
    (write folder "kernel/src/java/Kernel.java" "public class Kernel {}")
    (write folder "core/src/java/Core.java" "public class Core {}")
    folder))

(defn primed-launcher
  "A copied launcher that already knows where this checkout's libraries are."
  []
  (let [checkout (copied-launcher)]
    (start {} "cp" "-R" (str home "/.cache/cp") (str (doto (io/file checkout ".cache") .mkdirs)))
    checkout))
