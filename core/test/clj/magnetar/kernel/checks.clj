(ns magnetar.kernel.checks
  "Runs the Java checks of the kernel, kernel/test/java, in JVMs of their own: they count the fibers and timers of the whole JVM."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [is]]
   [magnetar.dev.child :as child]))

(defn class-path
  "What this JVM loads classes from."
  []
  (str/split (System/getProperty "java.class.path") #":"))

(def classes
  "Folder of the compiled checks and of the Java-only example, made on first use."
  (delay (let [into (child/temp-folder "checks")
               from (io/file (System/getProperty "magnetar.home") "kernel/test/java")]
           (when-let [complaint (child/compile-java [from] into (class-path))]
             (throw (ex-info (str "The Java checks do not compile: " complaint) {:from (str from)})))
           into)))

(def ^:private way-of-waking
  "The option of the test run's own JVM that turns hand-off off, if it has it: the checks are run in the same way."
  (when-let [set (System/getProperty "magnetar.hand-off")]
    [(str "-Dmagnetar.hand-off=" set)]))

(defn run
  "Runs a Java main class of kernel/test/java; returns {:exit :out}. `command` is options, class and arguments."
  [seconds & command]
  (apply child/run (cons @classes (class-path)) seconds (concat child/opens way-of-waking command)))

;; Two threads that meet again and again do so for half a second here, for two seconds in `bin/magnetar proofs`.
(def ^:private bounds
  ["-Xmx600m" "-Dmagnetar.check.seconds=25" "-Dmagnetar.check.meeting=500"])

(defn green?
  "Asserts that the checks of these names hold, one JVM for all of them. Options of the JVM come first, as strings with a dash."
  [seconds & words]
  (let [options (filter #(str/starts-with? % "-") words)
        names (remove #(str/starts-with? % "-") words)
        {:keys [exit out]} (apply run seconds (concat bounds options ["magnetar.check.Main"] names))]
    (is (= 0 exit) out)
    (doseq [name names]
      (is (str/includes? out (str "green " name " ")) out))))
