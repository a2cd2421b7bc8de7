(ns magnetar.dev.aot-test
  "The jar that programs start from: Clojure loads its classes, never its sources."
  {:wakes false}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.aot :as aot]
   [magnetar.dev.processes :refer [temporary-folder write]])
  (:import
   (java.util.jar JarEntry JarFile)))

(set! *warn-on-reflection* true)

(defn- times
  "The time of each entry, by its name."
  [jar]
  (with-open [jar (JarFile. (io/file jar))]
    (into {} (map (fn [^JarEntry entry] [(.getName entry) (.getTime entry)])) (enumeration-seq (.entries jar)))))

(deftest each-class-is-newer-than-each-source-however-long-it-takes-to-write-them
  (let [folder (temporary-folder)
        jar (str folder "/x.jar")]
    (dotimes [i 2000]
      (write (io/file folder "classes") (str "p/c" i "__init.class") "x")
      (write (io/file folder "sources") (str "p/c" i ".clj") "x"))
    (aot/write-jar jar [(io/file folder "classes") (io/file folder "sources")])
    (let [{classes true, sources false} (group-by #(str/ends-with? (key %) ".class") (times jar))]
      (is (= 2000 (count classes) (count sources)))
      (is (< (long (apply max (vals sources))) (long (apply min (vals classes))))))))
