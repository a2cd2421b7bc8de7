(ns magnetar.dev.project-test
  "bin/magnetar runs programs of several files, with the paths and libraries of their own project."
  {:slow true
   :limit 300000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.dev.processes :refer [home launcher magnetar start temporary-folder write]]
   [magnetar.dev.project :as project])
  (:import
   (java.io BufferedReader File)))

(set! *warn-on-reflection* true)

(defn- folder-with
  "A new folder, with a space in its name, that holds the texts by path."
  ^File [texts]
  (let [folder (doto (io/file (temporary-folder) "my app") .mkdirs)]
    (doseq [[path text] texts] (write folder path text))
    (.getCanonicalFile folder)))

(defn- run
  "What `bin/magnetar run` with the arguments ends with, started in the folder: exit code, stdout, lines of stderr except progress."
  [folder & arguments]
  (let [{:keys [exit out err]} (apply magnetar {:folder folder} "run" arguments)]
    [exit out (vec (remove #(re-find #"^magnetar: (finding|fetching|preparing)|^$" %) (str/split-lines err)))]))

(def ^:private server
  "(set! *warn-on-reflection* true)
   (ns ^{:doc \"A chat.\"} chat.my-server (:require [chat.conn :as conn]))
   (defn -main [& names] (println (conn/greet names)))")

(deftest a-program-of-several-files-runs-from-any-folder
  (let [folder (folder-with {"src/chat/my_server.clj" server
                             "src/chat/conn.clj" "(ns chat.conn (:require [clojure.java.io :as io]))
                                                  (defn greet [names] (str (slurp (io/resource \"word.txt\")) (vec names)))"
                             "resources/word.txt" "hello"})]
    (is (= [0 "hello[\"a b\" \"c\"]" []] (run folder "src/chat/my_server.clj" "a b" "c")))
    (is (= [0 "hello[]" []] (run (io/file folder "src/chat") "my_server.clj")))
    (is (= [0 "hello[]" []] (run "/" (str folder "/src/chat/my_server.clj"))))))

(deftest further-folders-of-sources-are-named-by-paths
  (let [folder (folder-with {"main.clj" "(ns main (:require [words] [more])) (defn -main [] (println words/word more/word))"
                             "a b/words.clj" "(ns words) (def word 1)"
                             "c/more.clj" "(ns more) (def word 2)"})]
    (is (= [0 "1 2" []] (run folder "--paths" "a b:c" "main.clj")))
    (is (= [0 "1 2" []] (run folder "--paths=a b" "--paths" "c" "main.clj")))))

(deftest a-main-that-is-called-with-a-wrong-number-of-arguments-says-what-it-takes
  (let [folder (folder-with {"foo.clj" "(ns foo)\n(defn -main [x] (println x))"
                             "inner.clj" "(ns inner)\n(defn work [x] x)\n(defn -main [] (work))"})]
    (is (= [1 "" ["magnetar: foo/-main at foo.clj:2 was called with 0 arguments, and takes [x]. What stands after the file is passed to it: magnetar run foo.clj ARGUMENT .."]]
           (run folder "foo.clj")))
    (is (= [0 "a" []] (run folder "foo.clj" "a")))
    (is (str/starts-with? (first (peek (run folder "inner.clj"))) "Wrong number of args (0) passed to: inner/work (ArityException)"))))

(deftest projects-may-name-each-other
  (let [folder (folder-with {"a/deps.edn" "{:paths [\"one\"] :deps {my/b {:local/root \"../b\"} my/a {:local/root \".\"}}}"
                             "b/deps.edn" "{:paths [\"two\"] :deps {my/a {:local/root \"../a\"} org/x {:mvn/version \"1\"}}}"})
        {:keys [paths maven]} (project/of-deps (io/file folder "a") [])]
    (is (= [(str folder "/a/one") (str folder "/b/two")] paths))
    (is (= '{org/x {:mvn/version "1"}} maven))))

(deftest a-project-has-the-paths-and-the-libraries-of-its-deps-edn
  (let [folder (folder-with
                 {"deps.edn" "{:paths [\"code\"]
                               :deps {magnetar/magnetar {:git/url \"https://example.org/magnetar.git\", :git/sha \"abc\"}
                                      org.clojure/clojure {:mvn/version \"1.11.1\"}
                                      org.clojure/test.check {:mvn/version \"1.1.1\"}
                                      its/words {:local/root \"words\"}}
                               :aliases {:dev {:extra-paths [\"dev\"]}}}"
                  "words/deps.edn" "{}"
                  "words/src/its/words.clj" "(ns its.words) (def word \"word\")"
                  "dev/its/tool.clj" "(ns its.tool) (def tool :tool)"
                  "code/its/main.clj" "(ns its.main (:require [clojure.test.check :as check] [its.words :as words] [magnetar.async :as a]))
                                       (defn -main [] (println (some? check/quick-check) words/word (a/<!! (a/go (clojure-version)))))"
                  "code/its/dev.clj" "(ns its.dev (:require [its.tool :as tool])) (println tool/tool)"})]
    (is (= [0 (str "true word " (clojure-version)) []] (run folder "code/its/main.clj")) "Clojure is not older than Magnetar needs")
    (is (= [0 ":tool" []] (run folder "-A:dev" "code/its/dev.clj")))
    (testing "and the prompt has them too"
      (is (str/includes? (:out (magnetar {:folder folder, :input "(require 'its.words)\nits.words/word\n"} "repl")) "\"word\"")))
    (testing "which are found again after a change"
      (write folder "words/deps.edn" "{:paths [\"elsewhere\"]}")
      (write folder "words/elsewhere/its/words.clj" "(ns its.words) (def word \"changed\")")
      (is (= [0 (str "true changed " (clojure-version)) []] (run folder "code/its/main.clj"))))))

(deftest a-project-has-the-folders-and-the-libraries-of-its-pom
  (let [folder (folder-with
                 {"pom.xml" "<project><modelVersion>4.0.0</modelVersion><groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>
                               <dependencies>
                                 <dependency><groupId>magnetar</groupId><artifactId>magnetar</artifactId><version>0.2.0-SNAPSHOT</version></dependency>
                                 <dependency><groupId>org.clojure</groupId><artifactId>test.check</artifactId><version>1.1.1</version></dependency>
                               </dependencies></project>"
                  "src/main/resources/word.txt" "hello"
                  "src/main/clojure/shop/main.clj"
                  "(ns shop.main (:require [clojure.java.io :as io] [clojure.test.check] [magnetar.async :as a]))
                   (defn -main [] (println (slurp (io/resource \"word.txt\"))))"})]
    (is (= [0 "hello" []] (run folder "src/main/clojure/shop/main.clj")))))

(deftest a-project-that-names-the-cluster-has-it-with-jgroups
  (let [program "(ns shop.till (:require [magnetar.cluster :as cluster]))
                 (defn -main []
                   (let [[how] (cluster/start {:name \"till@shop\" :cookie \"0123456789abcdef\"})]
                     (println how (cluster/nodes) (cluster/stop))))"
        by-deps (folder-with {"deps.edn" "{:deps {magnetar/magnetar-cluster {:mvn/version \"0.2.0-SNAPSHOT\"}}}", "src/shop/till.clj" program})
        by-pom (folder-with
                 {"pom.xml" "<project><modelVersion>4.0.0</modelVersion><groupId>shop</groupId><artifactId>shop</artifactId><version>1</version>
                               <dependencies>
                                 <dependency><groupId>magnetar</groupId><artifactId>magnetar-cluster</artifactId><version>0.2.0-SNAPSHOT</version></dependency>
                               </dependencies></project>"
                  "src/main/clojure/shop/till.clj" program})]
    (is (= [0 ":ok [] :ok" []] (run by-deps "src/shop/till.clj")))
    (is (= [0 ":ok [] :ok" []] (run by-pom "src/main/clojure/shop/till.clj")))))

(defn- refusal
  "The one sentence that a program with this deps.edn ends with."
  [deps & options]
  (let [folder (folder-with {"deps.edn" deps, "src/main.clj" "(println :ran)"})
        [exit out lines] (apply run folder (concat options ["src/main.clj"]))]
    (is (= [2 "" 1] [exit out (count lines)]) (pr-str lines))
    (str/replace (str (first lines)) (str folder) "FOLDER")))

(deftest what-a-project-cannot-get-is-said-in-a-sentence
  (are [sentence deps options] (= sentence (apply refusal deps options))
    "magnetar: FOLDER/deps.edn cannot be read: EOF while reading" "{:deps {" []
    "magnetar: FOLDER/deps.edn holds no map." "[]" []
    "magnetar: there is no alias :test in FOLDER/deps.edn; its aliases are :dev." "{:aliases {:dev {}}}" ["-A:test"]
    "magnetar: its/lib in FOLDER/deps.edn is FOLDER/lib, which is not there." "{:deps {its/lib {:local/root \"lib\"}}}" []
    "magnetar: its/lib in FOLDER/deps.edn is the folder FOLDER/src, which has no deps.edn." "{:deps {its/lib {:local/root \"src\"}}}" []
    (str "magnetar: its/lib in FOLDER/deps.edn is not a :mvn/version or :local/root, and only the Clojure CLI can fetch it: install it "
         "(https://clojure.org/guides/install_clojure), or clone it and name the folder as :local/root.")
    "{:deps {its/lib {:git/url \"u\", :git/sha \"s\"}}}" []))

(defn- with-mvn-that
  "Runs a project with one library where `mvn` does what the script says; returns its one sentence."
  [script]
  (let [folder (folder-with {"deps.edn" "{:deps {no.such/lib {:mvn/version \"9\"}}}", "src/main.clj" "(println :ran)"})
        tools (temporary-folder)]
    (.setExecutable (io/file (write tools "mvn" (str "#!/bin/sh\n" script "\n"))) true)
    (let [{:keys [exit out err]} (magnetar {:folder folder, :environment {"PATH" (str tools ":/usr/bin:/bin")}} "run" "src/main.clj")]
      (is (= [2 ""] [exit out]))
      (-> (last (str/split-lines err)) (str/replace (str folder) "FOLDER") (str/replace home "HOME")))))

(deftest a-library-that-no-repository-has-is-named
  (is (= (str "magnetar: FOLDER/deps.edn needs no.such:lib:jar:9, which no repository has. Look at the name and the version; "
              "the log is HOME/.cache/resolve.log.")
         (with-mvn-that "echo '[ERROR] Could not find artifact no.such:lib:jar:9 in central (https://x)'; exit 1")))
  (is (= (str "magnetar: the libraries of FOLDER/deps.edn could not be fetched, first no.such:lib:pom:9 from central (https://x). "
              "Is the network reachable, is the name right? The log is HOME/.cache/resolve.log.")
         (with-mvn-that "echo '[ERROR] Could not transfer artifact no.such:lib:pom:9 from/to central (https://x): Unknown host'; exit 1"))))

(deftest where-the-clojure-cli-is-installed-it-reads-the-deps-edn
  (let [folder (folder-with {"deps.edn" "{:paths [\"code\"]}", "code/main.clj" "(ns main (:require [word])) (defn -main [] (println word/word))"
                             "gitlibs/word.clj" "(ns word) (def word :fetched)"})
        tools (temporary-folder)]
    (.setExecutable (io/file (write tools "clojure" (str "#!/bin/sh\nprintf '%s\\n' \"$@\" >'" tools "/seen'\necho code:gitlibs:" home "/core/src/clj\n"))) true)
    (is (= ":fetched" (:out (magnetar {:folder folder, :environment {"PATH" (str tools ":/usr/bin:/bin")}} "run" "-A:dev:test" "code/main.clj"))))
    (is (= ["-Sdeps" (pr-str {:deps {'magnetar/magnetar {:local/root home}}}) "-Spath" "-A:dev:test"]
           (str/split-lines (slurp (io/file tools "seen")))))))

(deftest the-main-function-is-found-wherever-it-stands
  (let [out #(rest (butlast (run (folder-with {"p.clj" %}) "p.clj")))]
    (are [program] (= ["main"] (out program))
      "(set! *warn-on-reflection* true)\n(ns p)\n(defn -main [] (println \"main\"))"
      "(require '[clojure.string :as str])\n(in-ns 'p)\n(clojure.core/refer-clojure)\n(defn -main [] (println \"main\"))"
      "(defn -main [] (println \"main\"))"
      "(ns other)\n(ns p (:gen-class))\n(def -main (fn [] (println \"main\")))")))

(deftest a-file-with-nothing-to-run-says-so
  (let [end #(run (folder-with {"p.clj" %}) "p.clj")]
    (is (= [1 "" ["magnetar: there is nothing to run in p.clj: it has no -main, and its top level only declares. Name the function that begins the program `-main`."]]
           (end "(ns p)\n(defn start [] (println 1))")))
    (is (= [1 "" ["magnetar: there is nothing to run in p.clj: it has no -main, and its top level only declares. It has a `main`: name it `-main`."]]
           (end "(ns p)\n(def n 1)\n(defn main [] (println 1))")))
    (is (= [0 "" []] (end "(require 'clojure.set)")) "a script that does something")))

(deftest a-namespace-that-is-missing-is-told-with-where-it-was-looked-for
  (let [folder (folder-with {"src/chat/server.clj" "(ns chat.server (:require [chat.my-conn :as conn]))\n(defn -main [])"})
        [exit _ lines] (run folder "src/chat/server.clj")]
    (is (= 1 exit))
    (is (= (str "magnetar: the namespace chat.my-conn was looked for in " folder "/src and in the libraries. `--paths DIR` names a further folder of "
                "sources, a deps.edn beside the program its libraries.")
           (last lines)))))

(deftest a-wrong-command-line-is-refused-with-a-remedy
  (let [folder (folder-with {"p.clj" "(println 1)"})]
    (are [sentence arguments] (= [2 "" [sentence]] (apply run folder arguments))
      "magnetar: run does not know --path; `bin/magnetar run --help` says what it knows." ["--path" "src" "p.clj"]
      "magnetar: run --paths names nowhere, which is not a folder." ["--paths" "nowhere" "p.clj"]
      "magnetar: run --paths needs folders, as in --paths src:resources." ["--paths"]
      "magnetar: run -A needs aliases, as in -A:dev:test." ["-A" "p.clj"]
      (str "magnetar: -A:dev names aliases, and there is no deps.edn or pom.xml in " folder " or above it.") ["-A:dev" "p.clj"]
      "magnetar: . is a folder: run needs the file with the program's -main." ["."])
    (are [sentence arguments] (= [2 "" sentence] ((juxt :exit :out :err) (apply magnetar arguments)))
      "magnetar: repl does not know x; `bin/magnetar repl --help` says what it knows." ["repl" "x"]
      "magnetar: test does not know --quick; its options are --sample-projects, --integrations, --nrepl, --ring, --redis, --drivers, --beam, --browser, --faults, --histories, --slow and --with-erl." ["test" "--quick"]
      "magnetar: lint takes one option: --fix or --write-api." ["lint" "--fix" "core"]
      "magnetar: demo takes at most one folder: bin/magnetar demo [DIR]" ["demo" "a" "b"]
      "magnetar: demo does not know --fast; it takes a folder of HTML." ["demo" "--fast"]
      "magnetar: version takes no arguments." ["version" "1"]
      "magnetar: there is no command `fly`; `bin/magnetar help` lists them." ["fly" "--help"]
      "magnetar: there is no command `fly`; `bin/magnetar help` lists them." ["help" "fly"])))

(deftest each-command-says-what-it-takes
  (doseq [command ["demo" "run" "repl" "cluster" "test" "lint" "bench" "proofs" "hops" "layers" "classpath" "version" "help"]
          :let [[text :as texts] (map :out [(magnetar command "--help") (magnetar command "-h") (magnetar "help" command)])]]
    (is (str/starts-with? text (str "bin/magnetar " command)) command)
    (is (apply = texts) command)))

(deftest the-version-names-magnetar-clojure-and-the-jdk
  (let [{:keys [exit out]} (magnetar "--version")]
    (is (= 0 exit))
    (is (re-matches (re-pattern (str "magnetar \\S+, Clojure " (clojure-version) ", JDK 2\\d\\S* at /.*")) out))
    (is (= out (:out (magnetar "version"))))))

(defn- sh [script & arguments]
  (apply start {:environment {"MAGNETAR" launcher}} "sh" "-c" script "sh" arguments))

(deftest streams-that-are-closed-disturb-nobody
  (let [folder (folder-with {"p.clj" "(println (pr-str (read-line)))", "many.clj" "(doseq [i (range 100000)] (println i))"})]
    (is (= "nil" (:out (sh "\"$MAGNETAR\" run \"$1\" <&-" (str folder "/p.clj")))))
    (is (= {:exit 0, :out "user=>", :err ""} (sh "\"$MAGNETAR\" repl <&-")) "the prompt ends")
    (is (= "0\n1" (:out (sh "\"$MAGNETAR\" run \"$1\" | head -n 2" (str folder "/many.clj")))))
    (is (= {:exit 0, :out "", :err ""} (sh "\"$MAGNETAR\" run \"$1\" <&- >&-" (str folder "/p.clj"))))))

(deftest without-a-home-programs-and-the-prompt-run
  (is (= "user=> 42\nuser=>" (:out (magnetar {:environment {"HOME" nil}, :input "(+ 40 2)\n"} "repl")))))

(defn- status-after
  "The exit code of a program that waits for ever and is sent the signal."
  [program signal]
  (let [^java.util.List command [launcher "run" program]
        process (.start (ProcessBuilder. command))
        ^BufferedReader out (io/reader (.getInputStream process))]
    (is (= ":ready" (.readLine out)))
    (start {} "kill" (str "-" signal) (str (.pid process)))
    (.waitFor process)))

(deftest a-program-ends-by-a-signal-with-its-number-and-128
  (let [program (write (folder-with {}) "p.clj" "(println :ready) @(promise)")]
    (is (= 143 (status-after program "TERM")))
    (is (= 130 (status-after program "INT")))))

(deftest one-jar-of-each-library-is-on-the-class-path
  (let [jar #(str "/m2/" %1 "/" %2 "/x-" %2 ".jar")
        ours [(jar "org/clojure/clojure" "1.12.6") (jar "org/jline/jline" "4.5.0")]]
    (is (= (conj ours (jar "its/lib" "1")) (project/merged ours [(jar "its/lib" "1")])) "the launcher's first: its start-up cache serves")
    (is (= (conj ours (jar "its/lib" "1")) (project/merged ours [(jar "org/clojure/clojure" "1.9.0") (jar "its/lib" "1")])))
    (is (= [(jar "org/clojure/clojure" "1.13.0") (jar "org/jline/jline" "4.5.0")] (project/merged ours [(jar "org/clojure/clojure" "1.13.0")])))
    (is (= [(jar "org/jline/jline" "3.1.0") (jar "org/clojure/clojure" "1.12.6")] (project/merged ours [(jar "org/jline/jline" "3.1.0")])))
    (is (= ours (project/merged ours [(jar "magnetar/magnetar" "0.1.0") (jar "magnetar/magnetar-kernel" "0.1.0")])))))

(deftest the-readme-links-every-guide-and-parity-page
  (let [readme (slurp (io/file home "README.md"))]
    (doseq [folder ["docs/guide" "docs/parity"]
            page (sort (.list (io/file home folder)))]
      (is (str/includes? readme (str "(" folder "/" page ")"))))))

(deftest the-prompt-prints-prettily-and-has-what-a-clojure-prompt-has
  (let [{:keys [out]} (magnetar {:input "(pprint {:a 1})\n[1 2]\n(pp)\n(every? resolve '[doc source apropos dir pst find-doc])\n"} "repl")]
    (is (= ["{:a 1}" "[1 2]" "[1 2]" "true"] (filter #{"{:a 1}" "[1 2]" "true"} (str/split out #"\n|=> "))))))
