(ns magnetar.dev.startup-page-test
  "The recipe of docs/guide/startup.md, done as the page says."
  {:slow true
   :limit 600000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.processes :refer [home start temporary-folder write]]))

(set! *warn-on-reflection* true)

(defn- blocks
  "Commands of the page, a text for each block."
  []
  (map second (re-seq #"(?s)```sh\n(.*?)```" (slurp (io/file home "docs/guide/startup.md")))))

(defn- libraries
  "Clojure and core.match, and a jar of Magnetar with sources and kernel classes, as `mvn install` makes two, below the folder."
  [folder]
  (let [jar (str (io/file folder "magnetar.jar"))
        jdk (System/getProperty "java.home")]
    (start {} (str jdk "/bin/jar") "--create" "--file" jar
           "-C" (str home "/core/src/clj") "." "-C" (str home "/kernel/target/classes") "." "-C" (str home "/core/target/classes") ".")
    (str/join ":" (cons jar (filter #(re-find #"/org/clojure/(clojure|spec\.alpha|core\.specs\.alpha|core\.match)/" %)
                                    (str/split (System/getProperty "java.class.path") #":"))))))

(deftest a-program-is-compiled-and-starts-from-a-cache-as-the-page-says
  (let [folder (temporary-folder)
        [_ program] (re-find #"(?s)## Ten lines\s+```clojure\n(.*?)```" (slurp (io/file home "README.md")))
        environment {"PATH" (str (System/getProperty "java.home") "/bin:" (System/getenv "PATH")), "LIBRARIES" (libraries folder)}
        sh #(start {:environment environment, :folder folder} "sh" "-e" "-c" %)
        greeting "the sum of 1000 squares is 332833500"
        [recipe begin] (blocks)]
    (write folder "src/hello.clj" program)
    (let [{:keys [exit out err]} (sh recipe)]
      (is (= [0 ["Compiling hello to target/classes" greeting]] [exit (take 2 (str/split-lines out))]) err))
    (is (= [0 greeting] ((juxt :exit :out) (sh begin))))
    (is (= [0 greeting] ((juxt :exit :out) (sh (str/replace begin "java " "java -XX:AOTMode=on ")))) "with the cache, not without it")
    (is (= 0 (:exit (sh "java -Xlog:class+load -XX:AOTCache=target/hello.aot -cp \"target/hello.jar:$LIBRARIES\" hello | grep 'magnetar.async.* source: shared objects file' >/dev/null")))
        "Magnetar's own classes come from it")))
