(ns magnetar.dev.launcher-test
  "bin/magnetar as a user meets it: every refusal is one sentence on stderr and exit code 2.

  The first start of a checkout fetches the libraries and compiles them, which takes a busy machine longer than a test may take as a rule."
  {:slow true
   :limit 240000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.dev.processes :refer [copied-launcher home launcher magnetar primed-launcher start temporary-folder write]]))

(defn- refusal [{:keys [exit out err]}]
  [exit out err])

(deftest help-lists-every-command
  (let [{:keys [exit out]} (magnetar "help")]
    (is (= 0 exit))
    (are [command] (str/includes? out (str "\n  " command))
      "demo" "run" "repl" "test" "lint" "bench" "proofs" "hops" "layers" "classpath" "help")))

(deftest an-unknown-command-is-refused
  (is (= [2 "" "magnetar: there is no command `fly`; `bin/magnetar help` lists them."]
         (refusal (magnetar "fly")))))

(deftest a-missing-file-is-refused
  (is (= [2 "" "magnetar: there is no file no/such.clj."]
         (refusal (magnetar "run" "no/such.clj"))))
  (is (= [2 "" "magnetar: run needs a file: bin/magnetar run [--no-wait] [--paths DIR:DIR] [-A:ALIAS] FILE [ARG..]"]
         (refusal (magnetar "run")))))

(deftest an-unknown-alias-or-test-is-refused
  (is (= [2 "" "magnetar: there is no alias `nowhere` in deps.edn."]
         (refusal (magnetar "classpath" "nowhere"))))
  (is (= [2 "" "magnetar: dev/suites.txt has no suite no.such-test, and its folders no test namespace no.such-test."]
         (refusal (magnetar "test" "no.such-test")))))

(deftest a-machine-without-a-new-jdk-gets-a-sentence
  (let [empty-folder (temporary-folder)
        without-jdk {"JAVA_HOME" nil, "MAGNETAR_JAVA_HOME" nil, "MAGNETAR_JDKS" (str empty-folder), "PATH" "/usr/bin:/bin"}
        {:keys [exit out err]} (magnetar {:environment without-jdk} "classpath")]
    ;; Where the PATH's own java is new, there is nothing to refuse.
    (when-not (zero? exit)
      (is (= [2 ""] [exit out]))
      (is (= (str "magnetar: no JDK 25 or newer found (looked at JAVA_HOME, the PATH's java, " empty-folder
                  "): install one, for example Temurin 25, or set MAGNETAR_JAVA_HOME.")
             err)))))

(deftest a-named-jdk-that-does-not-serve-is-refused
  (let [folder (str (temporary-folder))]
    (is (= [2 "" (str "magnetar: MAGNETAR_JAVA_HOME is " folder ", which is not a JDK 25 or newer.")]
           (refusal (magnetar {:environment {"MAGNETAR_JAVA_HOME" folder}} "classpath"))))))

(defn- fake-jdk
  "A folder that looks like a JDK of the version, as far as a release file and javac go."
  [folder version]
  (write folder "release" (str "IMPLEMENTOR=\"Nobody\"\nJAVA_VERSION=\"" version "\"\n"))
  (.setExecutable (io/file (write folder "bin/javac" "#!/bin/sh\nexit 3\n")) true))

(deftest a-jdk-is-chosen-by-its-release-file-alone
  (let [jdks (temporary-folder)
        checkout (copied-launcher)]
    (fake-jdk (io/file jdks "a") "1.8.0_292")
    (fake-jdk (io/file jdks "b") "17.0.15")
    (fake-jdk (io/file jdks "c") "26-ea")
    (let [environment {"JAVA_HOME" (str jdks "/b"), "MAGNETAR_JAVA_HOME" nil, "MAGNETAR_JDKS" (str jdks), "PATH" "/usr/bin:/bin"}
          seen (str jdks "/seen")]
      (write jdks "mvn" (str "#!/bin/sh\necho $JAVA_HOME >" seen "\nexit 1\n"))
      (.setExecutable (io/file jdks "mvn") true)
      (start {:environment (assoc environment "PATH" (str jdks ":/usr/bin:/bin"))} (str checkout "/bin/magnetar") "classpath")
      (is (= (str jdks "/c\n") (slurp seen))))))

(deftest without-clojure-and-mvn-it-says-so
  (let [checkout (copied-launcher)
        tools (temporary-folder)]
    (doseq [tool ["sh" "dirname" "readlink" "cat" "tr" "cksum" "mkdir" "find" "sort" "xargs" "grep" "sed"]]
      (start {} "ln" "-s" (:out (start {} "sh" "-c" (str "command -v " tool))) (str (io/file tools tool))))
    (is (= [2 "" "magnetar: neither `clojure` nor `mvn` is on the PATH, and one of them is needed to fetch the libraries once."]
           (refusal (start {:environment {"PATH" (str tools)}} (str checkout "/bin/magnetar") "classpath"))))))

(deftest when-mvn-cannot-fetch-it-asks-for-the-network
  (let [checkout (copied-launcher)
        tools (temporary-folder)
        mvn (write tools "mvn" "#!/bin/sh\necho unreachable\nexit 1\n")
        {:keys [exit out err]} (do (.setExecutable (io/file mvn) true)
                                   (start {:environment {"PATH" (str tools ":/usr/bin:/bin")}}
                                          (str checkout "/bin/magnetar") "classpath"))]
    (is (= [2 ""] [exit out]))
    (is (= [(str "magnetar: fetching the libraries (run), once; what it does is in " (.getCanonicalPath checkout) "/.cache/resolve.log")
            (str "magnetar: the libraries of `run` could not be fetched: is the network reachable? What was tried is in "
                 (.getCanonicalPath checkout) "/.cache/resolve.log.")]
           (str/split-lines err))
        "off a terminal too it says what it does, on stderr")))

(deftest a-program-keeps-its-arguments-its-streams-and-its-exit-code
  (let [program (write (temporary-folder) "echo.clj"
                       "(println *command-line-args* (read-line)) (binding [*out* *err*] (println \"aside\")) (System/exit 7)")]
    (magnetar {:input "typed\n"} "run" program) ; the first start of a checkout says on stderr what it fetches
    (is (= {:exit 7, :out "(a b c) typed", :err "aside"}
           (magnetar {:input "typed\n"} "run" program "a" "b c")))))

(deftest the-main-function-of-a-program-is-called-with-the-arguments
  (let [folder (temporary-folder)
        out #(:out (magnetar "run" (write folder "p.clj" %) "a" "b c"))]
    (is (= "[a b c]" (out "#!/usr/bin/env magnetar\n;; a program\n(ns p (:gen-class))\n(defn -main [& args] (println (vec args)))")))
    (is (= "once" (out "(ns p)\n(defn -main [& args] (println \"once\"))\n(apply -main *command-line-args*)")) "not a second time")
    (is (= "loaded" (out "(println \"loaded\")")))))

(deftest the-ten-lines-of-the-readme-run
  (let [[_ program] (re-find #"(?s)## Ten lines\s+```clojure\n(.*?)```" (slurp "README.md"))]
    (is (= {:exit 0 :out "the sum of 1000 squares is 332833500" :err ""}
           (magnetar "run" (write (temporary-folder) "hello.clj" program))))))

(deftest a-fork-that-fails-shows-the-users-frames-and-what-was-suppressed
  (let [program (write (temporary-folder) "forks.clj"
                       (str "(ns forks (:require [magnetar.scope :as scope :refer [with-scope fork]]))\n"
                            "(defn boom [s] (throw (ex-info s {})))\n"
                            "(with-scope [s]\n"
                            "  (scope/on-exit s #(boom \"clean-up\"))\n"
                            "  (fork s boom \"work\"))"))
        lines (str/split-lines (:err (magnetar "run" program)))]
    (is (re-find #"^The fork .*forks\.clj:5 failed: work \(ExceptionInfo\)$" (first lines)))
    (is (= ["caused by: work (ExceptionInfo)" "suppressed: clean-up (ExceptionInfo)"]
           (filterv #(re-find #"^caused|^suppressed" %) lines)))
    (is (= ["forks"] (distinct (map second (keep #(re-find #"    at (\w+)" %) lines)))))))

(deftest a-program-that-throws-shows-its-message-and-the-users-frames
  (let [program (write (temporary-folder) "boom.clj"
                       "(ns boom)\n(defn half [n] (/ n 0))\n(defn go [n]\n  (half n))\n(go 3)\n")
        {:keys [exit out err]} (magnetar "run" program)]
    (is (= [1 ""] [exit out]))
    (is (= ["Divide by zero (ArithmeticException)"
            "    at boom/half (boom.clj:2)"
            "    at boom/go (boom.clj:4)"
            "    at boom (boom.clj:5)"]
           (str/split-lines err)))))

(deftest a-program-that-does-not-compile-names-the-place
  (let [program (write (temporary-folder) "typo.clj" "\n(prinltn 1)\n")
        {:keys [exit err]} (magnetar "run" program)]
    (is (= 1 exit))
    (is (str/includes? err "typo.clj:2:1"))
    (is (str/includes? err "Unable to resolve symbol: prinltn in this context"))))

(deftest a-program-finds-the-files-beside-it
  (let [folder (temporary-folder)]
    (write folder "beside/friend.clj" "(ns beside.friend) (def word :beside)")
    (write folder "src/further.clj" "(ns further) (def word :further)")
    (is (= ":beside :further"
           (:out (magnetar "run" (write folder "main.clj"
                                        "(require 'beside.friend 'further) (println beside.friend/word further/word)")))))))

(deftest the-class-path-holds-the-compiled-kernel
  (let [entries (str/split (:out (magnetar "classpath")) #":")]
    (is (some #(str/includes? % "clojure-1.12") entries))
    (is (some #(.exists (io/file % "magnetar/kernel/channel/Channel.class")) entries))
    (testing "and every entry exists"
      (is (= [] (remove #(.exists (io/file %)) entries))))))

(deftest a-link-to-the-launcher-is-the-launcher
  (let [link (str (io/file (temporary-folder) "magnetar"))]
    (start {} "ln" "-s" launcher link)
    (is (= 0 (:exit (start {} link "help"))))))

(deftest the-prompt-reads-from-a-pipe
  (let [{:keys [exit out]} (magnetar {:input "(+ 40 2)\n"} "repl")]
    (is (= 0 exit))
    (is (str/includes? out "42"))))

(deftest the-prompt-has-the-canonical-aliases
  (let [{:keys [out]} (magnetar {:input "(keys (ns-aliases *ns*))\n"} "repl")]
    (is (every? #(re-find (re-pattern (str "[( ]" % "[) ]")) out) '[a channel scope context fold r inspect]) out)))

(deftest a-prompt-option-that-is-no-port-is-refused
  (is (= [2 "magnetar: `high` is not a port: repl --socket [PORT]"]
         ((juxt :exit :err) (magnetar "repl" "--socket" "high")))))

(deftest two-launchers-at-once-make-one-kernel
  (let [checkout (primed-launcher)
        launch #(start {} (str checkout "/bin/magnetar") "classpath")
        other (future (launch))
        results [(launch) @other]]
    (is (= [0 0] (map :exit results)) (str/join (map :err results)))
    (is (= 1 (count (distinct (map :out results)))))
    (is (.exists (io/file checkout "kernel/target/classes/Kernel.class")))
    (is (= 1 (count (.list (io/file checkout ".cache/kernel")))))))

(deftest an-edit-of-the-kernel-compiles-it-anew-and-leaves-no-old-class
  (let [checkout (primed-launcher)
        launch #(start {} (str checkout "/bin/magnetar") "classpath")]
    (launch)
    (.delete (io/file checkout "kernel/src/java/Kernel.java"))
    (write checkout "kernel/src/java/Other.java" "public class Other {}")
    (launch)
    (is (= ["Other.class"] (vec (.list (io/file checkout "kernel/target/classes")))))
    (write checkout "kernel/src/java/Other.java" "public class Other {")
    (let [{:keys [exit err]} (launch)]
      (is (= 2 exit))
      (is (str/ends-with? err (str "magnetar: the Java below " (.getCanonicalPath checkout)
                                   "/kernel/src/java does not compile; javac's messages are above."))))))

(deftest the-java-is-looked-at-once-for-all-suites
  (let [checkout (primed-launcher)
        tools (temporary-folder)
        seen (str (io/file tools "seen"))
        real (:out (start {} "sh" "-c" "command -v find"))]
    (write checkout "dev/suites.txt" "everyday one run one\neveryday two run two\n")
    (write tools "find" (str "#!/bin/sh\necho \"$1\" >>" seen "\nexec " real " \"$@\"\n"))
    (.setExecutable (io/file tools "find") true)
    (is (= 1 (:exit (start {:environment {"PATH" (str tools ":" (System/getenv "PATH"))}} (str checkout "/bin/magnetar") "test")))
        "since there is no test runner in this checkout")
    (is (= {"kernel/src/java" 1, "core/src/java" 1}
           (select-keys (frequencies (str/split-lines (slurp seen))) ["kernel/src/java" "core/src/java"])))))

(deftest the-temporary-files-of-tests-are-deleted
  (let [checkout (primed-launcher)
        temp (temporary-folder)]
    (write checkout "dev/suites.txt" "everyday one run one\n")
    (write checkout "dev/src/magnetar/dev/test.clj"
           (str "(ns magnetar.dev.test) (defn -main [_ counts & _] (println (str (java.io.File/createTempFile \"left\" \".txt\")))"
                " (spit counts \"1 0\\n\") (flush) (.halt (Runtime/getRuntime) 0))"))
    (let [{:keys [exit out]} (start {:environment {"TMPDIR" (str temp)}} (str checkout "/bin/magnetar") "test")]
      (is (= 0 exit) out)
      (is (str/includes? out (str temp "/magnetar.")))
      (is (= [] (vec (.list temp)))))))

(deftest where-clojure-is-installed-it-resolves-the-libraries
  (let [checkout (copied-launcher)
        tools (temporary-folder)
        jar (first (filter #(str/ends-with? % ".jar") (str/split (System/getProperty "java.class.path") #":")))
        clojure (write tools "clojure" (str "#!/bin/sh\necho \"$@\" >" tools "/seen\necho src:" jar ":classes\n"))]
    (.setExecutable (io/file clojure) true)
    (is (= jar (first (str/split (:out (start {:environment {"PATH" (str tools ":/usr/bin:/bin")}}
                                              (str checkout "/bin/magnetar") "classpath" "run" "test"))
                                 #":"))))
    (is (= "-Spath -A:run:test" (str/trim (slurp (io/file tools "seen")))))))

(defn- named-for-inlining
  "The methods that kernel/java.options names, as [class method]."
  []
  (for [[_ class method] (re-seq #"CompileCommand=inline,(.+)::(.+)" (slurp (io/file home "kernel/java.options")))]
    [class method]))

(deftest the-options-of-the-launcher-name-methods-that-there-are
  (is (= (count (re-seq #"CompileCommand=inline" (slurp (io/file home "kernel/java.options")))) (count (named-for-inlining))) "each is Class::method")
  (doseq [[class method] (named-for-inlining)]
    (is (some #(= method (.getName ^java.lang.reflect.Method %)) (.getDeclaredMethods (Class/forName class)))
        (str class "::" method))))

(defn- ask
  "What a socket REPL answers to the line of input, up to the next prompt."
  [port line]
  (with-open [socket (java.net.Socket. "127.0.0.1" (int port))
              out (io/writer socket)
              in (io/reader socket)]
    (.write out (str line "\n:repl/quit\n"))
    (.flush out)
    (slurp in)))

(deftest the-socket-prompt-serves-editors-and-writes-its-port
  (let [folder (temporary-folder)
        builder (doto (ProcessBuilder. ^java.util.List [launcher "repl" "--socket"]) (.directory folder))
        process (.start builder)]
    (try
      (let [line (.readLine (io/reader (.getInputStream process)))
            [_ port] (re-find #"Socket REPL on 127\.0\.0\.1:(\d+), port in \.socket-repl-port" line)]
        (is (= port (str/trim (slurp (io/file folder ".socket-repl-port")))))
        (is (str/includes? (ask (parse-long port) "(a/<!! (a/go 41))") "41"))
        (is (str/includes? (ask (parse-long port) "(! (self) :mine) (receive m [:got m])") "[:got :mine]"))
        (is (str/includes? (ask (parse-long port) "(exit :bye) (inc 41)") "** exited: :bye\nuser=> 42")))
      (finally (.destroy process)))
    (.waitFor process)
    (is (not (.exists (io/file folder ".socket-repl-port"))))))
