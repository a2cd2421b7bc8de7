(ns build
  "Builds for users of the sources: the Java of a git dependency, and the library jars.
  Everything else is bin/magnetar."
  (:require
   [clojure.tools.build.api :as b]))

(def ^:private kernel-classes "kernel/target/classes")
(def ^:private core-classes "core/target/classes")

(defn- check-java []
  (let [feature (.feature (Runtime/version))]
    (when (< feature 25)
      (throw (ex-info (str "Magnetar's kernel needs JDK 25 or newer to compile; this is "
                           (System/getProperty "java.version") " at " (System/getProperty "java.home")
                           ". Put the `java` of a JDK 25 first on the PATH and run it again.")
                      {:magnetar/reason :magnetar/java-too-old})))))

(defn- compile-folder [source classes options]
  (b/delete {:path classes})
  (b/javac (merge {:src-dirs [source]
                   :class-dir classes
                   :javac-opts ["--release" "25" "-XDstringConcat=inline"]}
                  options)))

(defn compile-java
  "Compiles the Java of the kernel and of the core into their target/classes; fails on a Java older than 25."
  [options]
  (check-java)
  (compile-folder "kernel/src/java" kernel-classes {})
  (b/delete {:path (str kernel-classes "/module-info.class")}) ; the Clojure above uses packages that the module hides; mvn compiles it for an older Java
  (compile-folder "core/src/java" core-classes {:basis (assoc-in (b/create-basis {:project "deps.edn"}) [:libs 'magnetar/kernel :paths]
                                                                 [(str (b/resolve-path kernel-classes))])})
  options)

(defn jar
  "Writes target/magnetar.jar: Clojure sources, classes of the Java, no compiled Clojure."
  [options]
  (compile-java options)
  (b/delete {:path "target/jar"})
  (b/copy-dir {:src-dirs ["core/src/clj" "core/resources" kernel-classes core-classes] :target-dir "target/jar"})
  (b/copy-file {:src "LICENSE" :target "target/jar/META-INF/LICENSE"})
  (b/jar {:class-dir "target/jar" :jar-file "target/magnetar.jar"})
  options)
