(ns magnetar.kernel.module-test
  "The kernel on the module path, as docs/guide/java.md shows it."
  {:wakes false}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.child :as child]
   [magnetar.kernel.checks :as checks]))

(set! *warn-on-reflection* true)

(def ^:private page
  (slurp (io/file (System/getProperty "magnetar.home") "docs/guide/java.md")))

(defn- block
  "The text of the n-th block of the page in this language."
  [language n]
  (nth (map second (re-seq (re-pattern (str "(?s)```" language "\n(.*?)```")) page)) n))

(def ^:private kernel
  (first (filter #(.exists (io/file % "module-info.class")) (checks/class-path))))

(defn- compiled
  "Compiles the program's two files on the module path; returns [complaint folder]."
  [program]
  (let [sources (child/temp-folder "module-source")
        classes (child/temp-folder "module-classes")]
    (io/make-parents (io/file sources "orders" "Main.java"))
    (spit (io/file sources "module-info.java") (block "java" 0))
    (spit (io/file sources "orders" "Main.java") program)
    [(child/compile-java [sources] classes [] "--module-path" kernel) (str classes)]))

(defn- run
  "The lines that the compiled program prints, with its exit code in front. The options are the JVM's."
  [classes & options]
  (let [{:keys [exit out]} (apply child/run [] 60 (concat ["--module-path" (str kernel ":" classes)] options ["-m" "orders/orders.Main"]))]
    (into [exit] (str/split-lines out))))

(def ^:private printed
  "What the page says that the program prints."
  (str/split-lines (str/trim (second (re-find #"(?s)The program prints:\n\n```\n(.*?)```" page)))))

(def ^:private opens-to-the-module
  ["--add-opens" "java.base/java.lang=magnetar.kernel"])

(deftest a-program-of-the-module-path-uses-the-kernel-as-the-page-says
  (is (str/includes? (block "sh" 0) (str/join " " opens-to-the-module)))
  (let [[complaint classes] (compiled (block "java" 1))]
    (is (nil? complaint))
    (is (= (into [0] printed) (apply run classes (conj opens-to-the-module "-Dmagnetar.hand-off=true"))))
    (is (= (into [0] (conj (pop printed) "hand-off: false")) (apply run classes child/opens))
        "what is opened to the class path is not open to the module")))

(deftest a-package-that-is-not-exported-is-refused
  (doseq [hidden ["sched.HandOff" "report.Failures" "park.Waiter" "time.Durations" "sim.Simulation"]
          :let [[package] (str/split hidden #"\.")
                program (str/replace (block "java" 1) "import magnetar.kernel.scope.Scope;" (str "import magnetar.kernel.scope.Scope;\nimport magnetar.kernel." hidden ";"))
                [complaint] (compiled program)]]
    (is (str/includes? (str complaint) (str "magnetar.kernel." package)) hidden)
    (is (re-find #"(?s)is not visible|does not export" (str complaint)) hidden)))
