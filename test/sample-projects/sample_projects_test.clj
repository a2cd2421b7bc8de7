(ns sample-projects-test
  "Three projects outside the tree run the README's ten lines: through tools.deps and prep, through Maven, as an uberjar.
  They build from a copy of the checkout that holds what git would clone, and nothing compiled."
  {:limit 600000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.dev.processes :refer [home start temporary-folder write]])
  (:import
   (java.io File)
   (java.util.zip ZipFile)))

(set! *warn-on-reflection* true)

(def ^:private greeting "the sum of 1000 squares is 332833500")

(def ^:private version
  (delay (second (re-find #"<version>(.*?)</version>" (slurp (io/file home "pom.xml"))))))

(def ^:private jdk (System/getProperty "java.home"))

(def ^:dynamic *checkout* nil)

(defn- sources-only
  "Paths of the checkout's files without what is built, cached or git's own."
  []
  (->> (file-seq (io/file home))
       (filter #(.isFile ^File %))
       (map #(str (.relativize (.toPath (io/file home)) (.toPath ^File %))))
       (remove #(re-find #"(^|/)(\.git|\.cache|\.cpcache|target)/" %))))

(defn- copy-checkout []
  (let [folder (temporary-folder)]
    (doseq [path (sources-only)]
      (io/make-parents (io/file folder path))
      (io/copy (io/file home path) (io/file folder path)))
    (str (.getCanonicalFile folder))))

(use-fixtures :once
  (fn [run-tests]
    (binding [*checkout* (copy-checkout)]
      (run-tests))))

(defn- consumer
  "A copy of the sample project in a folder of its own, pointing at the copied checkout."
  ^File [project]
  (let [folder (temporary-folder)
        from (io/file home "test/sample-projects" project)]
    (doseq [file (file-seq from)
            :when (.isFile ^File file)]
      (write folder (str (.relativize (.toPath from) (.toPath ^File file)))
             (str/replace (slurp file) "CHECKOUT" *checkout*)))
    folder))

(defn- succeed
  "Runs the command and returns what it printed; a failure is reported with all of its output."
  [options & command]
  (let [{:keys [exit out err]} (apply start options command)]
    (is (zero? (long exit)) (str (str/join " " command) "\n" out "\n" err))
    out))

(defn- clojure-script
  "Runs a script of the project; prep and the compiler take the `java` of the PATH."
  [folder script]
  (succeed {:folder folder, :environment {"PATH" (str jdk "/bin:" (System/getenv "PATH")), "JAVA_CMD" nil}}
           (str jdk "/bin/java") "-cp" (System/getProperty "java.class.path") "clojure.main" script))

(defn- last-line [text]
  (last (str/split-lines text)))

(deftest a-deps-project-preps-the-kernel-and-runs
  (is (= greeting (last-line (clojure-script (consumer "deps") "start.clj")))))

(deftest an-uberjar-compiled-ahead-of-time-runs-with-java-jar
  (let [folder (consumer "jar")]
    (clojure-script folder "build.clj")
    (is (= greeting (succeed {:folder folder} (str jdk "/bin/java") "-jar" "target/hello.jar")))))

(defn- entries [jar]
  (with-open [zip (ZipFile. (io/file jar))]
    (mapv str (enumeration-seq (.entries zip)))))

(defn- compiled-clojure [names]
  (filter #(re-find #"__init\.class$" %) names))

(deftest the-jar-of-build-clj-holds-sources-and-kernel-classes-only
  (clojure-script *checkout* (write *checkout* "target/start.clj" "(load-file \"build.clj\") (build/jar {}) (shutdown-agents)"))
  (let [names (entries (io/file *checkout* "target/magnetar.jar"))]
    (is (some #{"magnetar/async.clj"} names))
    (is (every? (set names) ["magnetar/kernel/channel/Channel.class" "magnetar/MisuseException.class"]))
    (is (not-any? #{"module-info.class"} names) "the Clojure in the jar uses packages that the module hides")
    (is (some #{"clj-kondo.exports/magnetar/magnetar/config.edn"} names))
    (is (= [] (compiled-clojure names)))))

(defn- scratch-repository
  "A local Maven repository of its own, filled from the user's so that nothing is fetched twice."
  []
  (let [folder (str (temporary-folder))
        users (io/file (System/getProperty "user.home") ".m2/repository")]
    (when (.exists users)
      (start {} "sh" "-c" (str "cp -Rl '" users "/.' '" folder "' 2>/dev/null || cp -R '" users "/.' '" folder "'")))
    folder))

(defn- mvn
  "Runs mvn as a user whose JAVA_HOME is not set does."
  [folder repository & arguments]
  (apply succeed {:folder folder, :environment {"JAVA_HOME" nil}}
         "mvn" "-q" "-B" (str "-Dmaven.repo.local=" repository) arguments))

(defn- installed [repository artifact]
  (io/file repository "magnetar" artifact @version (str artifact "-" @version ".jar")))

(deftest maven-installs-the-modules-and-a-project-runs-with-them
  (let [repository (scratch-repository)
        folder (consumer "maven")]
    (mvn *checkout* repository "install")
    (mvn folder repository "dependency:build-classpath" "-Dmdep.outputFile=classpath.txt")
    (is (= greeting (succeed {:folder folder} (str jdk "/bin/java") "-cp"
                             (str "src/main/clojure:" (slurp (io/file folder "classpath.txt"))) "clojure.main" "-m" "hello")))
    (testing "the library jars hold sources and kernel classes"
      (is (some #{"magnetar/async.clj"} (entries (installed repository "magnetar"))))
      (is (some #{"clj-kondo.exports/magnetar/magnetar/magnetar/hooks.clj_kondo"} (entries (installed repository "magnetar"))))
      (is (some #{"magnetar/kernel/channel/Channel.class"} (entries (installed repository "magnetar-kernel"))))
      (is (some #{"module-info.class"} (entries (installed repository "magnetar-kernel"))))
      (is (some #{"clojure/core/async.clj"} (entries (installed repository "magnetar-core-async")))))
    (testing "and no compiled Clojure"
      (doseq [artifact ["magnetar" "magnetar-core-async"]]
        (is (= [] (compiled-clojure (entries (installed repository artifact)))) artifact))
      (is (some #{"magnetar/MisuseException.class"} (entries (installed repository "magnetar"))) "but its Java")
      (is (= [] (compiled-clojure (entries (installed repository "magnetar-kernel"))))))))

(deftest the-readme-shows-the-lines-that-the-projects-run
  (let [program (slurp (io/file home "test/sample-projects/deps/src/hello.clj"))]
    (is (str/includes? (slurp (io/file home "README.md")) program))
    (is (= program (slurp (io/file home "test/sample-projects/jar/src/hello.clj"))))
    (is (= program (slurp (io/file home "test/sample-projects/maven/src/main/clojure/hello.clj"))))))
