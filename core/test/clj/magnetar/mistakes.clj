(ns magnetar.mistakes
  "Runs programs with mistakes, one after the other in one JVM, as `bin/magnetar run` does: what each prints follows its name."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.actor :as actor]
   [magnetar.dev.run :as run])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io File PrintStream)
   (magnetar.kernel.process ProcessTable)))

(set! *warn-on-reflection* true)

(def mark
  "What a line begins with that names the program whose output follows."
  "=== ")

(defn programs
  "The files of the folder, by name."
  [folder]
  (sort (filter #(str/ends-with? (str %) ".clj") (.listFiles (io/file folder)))))

(defn- end-what-is-left
  "Kills the processes that the program has registered, and waits for their ends."
  []
  (doseq [name (ProcessTable/names)]
    (when-some [pid (actor/whereis name)]
      (actor/exit pid :kill)
      (try (actor/join pid) (catch ExceptionInfo _)))))

(defn- run-one [^File file]
  (println (str mark (.getName file)))
  (flush)
  (try
    (#'run/run-program (str file) nil)
    (catch Throwable e
      (run! println (run/report e))))
  (flush)
  (end-what-is-left))

(defn -main
  "Runs the programs of the folder."
  [folder]
  (System/setErr (PrintStream. System/out true))
  (binding [*err* *out*]
    (run! run-one (programs folder)))
  (System/exit 0))
