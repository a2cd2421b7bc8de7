(ns crawler.runner
  "One column of the demo's table: a JVM of its own that runs the experiments on one library.

  It says `{:ready true}` on stdout when it has loaded everything, reads the experiments' context as EDN from
  stdin, warms up and says `{:warm true}`. From then on it reads the id of a row from each line, runs it once, and
  answers with a line of EDN. It ends when its stdin does, so it never outlives the demo."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]))

(def ^:private programs
  "What runs on the library under test, in the order of need."
  ["crawler/crawl.clj" "crawler/experiments.clj"])

(defn- load-library
  "Loads `library`. Compiles it into the folder of the property crawler.compile-into, where there is one."
  [library]
  (let [folder (System/getProperty "crawler.compile-into")]
    (binding [*compile-files* (some? folder)
              *compile-path*  folder]
      (require (symbol library)))))

(defn- load-on
  "Loads the source file `path` with its `require` of Magnetar replaced by one of `library`."
  [library path]
  (load-string (str/replace (slurp (io/resource path)) "[magnetar.async " (str "[" library " "))))

(defn- say
  "Writes `data` as one line to `out` at once."
  [^java.io.Writer out data]
  (.write out (str (pr-str data) "\n"))
  (.flush out))

(defn- next-data
  "Blocks for the next line of stdin and returns its data; nil at the end."
  []
  (some-> (read-line) edn/read-string))

(defn -main
  "Runs the experiments on `library`, the name of a namespace."
  [library]
  (let [out *out*]
    (binding [*out* *err*]
      (load-library library)
      (run! #(load-on library %) programs)
      (say out {:ready true})
      (when-some [context (next-data)]
        (let [run ((requiring-resolve 'crawler.experiments/start) context)]
          (say out {:warm true})
          (run! #(say out (run %)) (take-while some? (repeatedly next-data)))))))
  (System/exit 0))
