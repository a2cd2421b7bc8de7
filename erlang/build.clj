(ns build
  "Compiles the Java of magnetar-erlang for users of its sources."
  (:require
   [clojure.tools.build.api :as b]))

(def ^:private classes "target/classes")

(defn compile-java
  "Compiles src/java into target/classes, with a JDK 25 or newer. The Java of Magnetar has to be compiled before."
  [options]
  (b/delete {:path classes})
  (b/javac {:src-dirs ["src/java"]
            :class-dir classes
            :basis (b/create-basis {:project "deps.edn"})
            :javac-opts ["--release" "25" "-XDstringConcat=inline"]})
  options)
