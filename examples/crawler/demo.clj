(ns demo
  "bin/magnetar demo [DIR]

  Serves the HTML below DIR (by default the project's own papers) on loopback, crawls it with a thousand fetches
  in flight, and measures five old experiments on Magnetar, on core.async, and on core.async as it once was."
  (:require
   [clojure.java.io :as io]
   [crawler.demo :as demo]))

(defn- complaint
  "Returns a sentence that says what is wrong with the words `args`, nil when nothing is."
  [[folder & more]]
  (cond
    more   "Give at most one folder: bin/magnetar demo [DIR]"
    folder (demo/obstacle (io/file folder))))

(if-let [sentence (complaint *command-line-args*)]
  (do (binding [*out* *err*]
        (println (str "demo: " sentence)))
      (System/exit 2))
  (demo/run {:folder (some-> (first *command-line-args*) io/file .getCanonicalFile)
             :root   (io/file (System/getProperty "magnetar.home"))}))
