(ns magnetar.compat.flow-from-jar
  "Loads the namespaces of core.async.flow out of core.async's jar. The jar is not on the class path, for the rest of it must not be:
  they run on magnetar-core-async."
  (:require
   [clojure.core.async]
   [clojure.core.async.impl.dispatch]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.dev.processes :as processes])
  (:import
   (clojure.lang Compiler)
   (java.io File)
   (java.util.jar JarFile)))

(set! *warn-on-reflection* true)

(defn- jar
  "The jar that the alias :flow of deps.edn names."
  ^JarFile []
  (let [path (:out (processes/magnetar "classpath" "flow"))]
    (JarFile. ^String (some #(re-find #".*core\.async-.*\.jar$" %) (str/split path (re-pattern File/pathSeparator))))))

;; In the order in which they require each other: each finds those before it loaded.
(def ^:private files
  (map #(str "clojure/core/async/" %) ["flow/spi.clj" "flow/impl/graph.clj" "flow/impl.clj" "flow.clj"]))

(defn- load-entry [^JarFile jar ^String path]
  (with-open [source (io/reader (.getInputStream jar (.getEntry jar path)))]
    (Compiler/load source path path)))

(with-open [jar (jar)]
  (run! #(load-entry jar %) files))
