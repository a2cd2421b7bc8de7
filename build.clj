(ns build
  "Builds for users of the sources: the kernel of a git dependency, and the library jars.
  Everything else is bin/magnetar."
  (:require
   [clojure.tools.build.api :as b]))

(def ^:private kernel-classes "kernel/target/classes")

(defn- check-java []
  (let [feature (.feature (Runtime/version))]
    (when (< feature 25)
      (throw (ex-info (str "Magnetar's kernel needs JDK 25 or newer to compile; this is "
                           (System/getProperty "java.version") " at " (System/getProperty "java.home")
                           ". Put the `java` of a JDK 25 first on the PATH and run it again.")
                      {:magnetar/reason :magnetar/java-too-old})))))

(defn compile-kernel
  "Compiles the kernel into kernel/target/classes; fails on a Java older than 25."
  [options]
  (check-java)
  (b/delete {:path kernel-classes})
  (b/javac {:src-dirs ["kernel/src/java"]
            :class-dir kernel-classes
            :javac-opts ["--release" "25" "-XDstringConcat=inline"]})
  (b/delete {:path (str kernel-classes "/module-info.class")}) ; the Clojure above uses packages that the module hides; mvn compiles it for an older Java
  options)

(defn jar
  "Writes target/magnetar.jar: Clojure sources, kernel classes, no compiled Clojure."
  [options]
  (compile-kernel options)
  (b/delete {:path "target/jar"})
  (b/copy-dir {:src-dirs ["core/src/clj" "core/resources" kernel-classes] :target-dir "target/jar"})
  (b/copy-file {:src "LICENSE" :target "target/jar/META-INF/LICENSE"})
  (b/jar {:class-dir "target/jar" :jar-file "target/magnetar.jar"})
  options)
