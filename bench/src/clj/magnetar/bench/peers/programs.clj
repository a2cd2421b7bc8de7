(ns magnetar.bench.peers.programs
  "The programs below `bench/peers`: built, started, asked for one piece of work after the other, ended.

  Each reads lines `workload number ..` and answers each with a number, or several. A peer that cannot be built here is not there; what to install
  stands beside its name."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.build :as build]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine])
  (:import
   (java.io BufferedReader File IOException Writer)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(defn built
  "Returns the file of the path in the folder of what is compiled.

  Example: (built \"java\")"
  ^File [& path]
  (apply machine/in-home "bench" "target" "peers" path))

(defn- source ^File [& path]
  (apply machine/in-home "bench" "peers" path))

(defn- sources [language ending]
  (filter #(str/ends-with? (str %) ending) (file-seq (source language))))

(def ^:private library-path
  "The class path of jox, Pekko and Kotlin with its compiler: what the project's files name for the alias `peers`."
  (delay (str/trim (child/output [(io/file (machine/home) "bin" "magnetar") "classpath" "peers"]))))

(defn- jdk [command]
  (io/file (System/getProperty "java.home") "bin" command))

(defn- java [& arguments]
  (concat [(jdk "java")] arguments))

(def ^:private quiet
  ["--sun-misc-unsafe-memory-access=allow" "--enable-native-access=ALL-UNNAMED"])

(defn- java-path []
  (str @library-path File/pathSeparator (built "java")))

(defn- unless-built
  "Calls f, which builds into the folder of that name, unless nothing has changed since it did."
  [folder inputs f]
  (let [stamp (built (str folder ".stamp"))]
    (.mkdirs (built folder))
    (when (build/stale? stamp inputs)
      (f)
      (build/mark stamp))))

(defn- build-java []
  (unless-built "java" (sources "java" ".java")
    #(child/output (concat [(jdk "javac") "-cp" @library-path "-d" (built "java")] (sources "java" ".java")))))

(def ^:private java-built (delay (build-java)))

(defn- build-kotlin []
  @java-built
  (unless-built "kotlin" (mapcat sources ["java" "kotlin"] [".java" ".kt"])
    #(child/output (concat (apply java (concat quiet ["-cp" (java-path) "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler"]))
                           ["-nowarn" "-no-stdlib" "-no-reflect" "-cp" (java-path) "-d" (built "kotlin")]
                           (sources "kotlin" ".kt")))))

(defn- build-go []
  (child/output ["go" "build" "-C" (source "go") "-o" (built "go" "peer") "."]))

(def ^:private has-inets
  "Ends with 1 where Erlang has no HTTP, which Debian has in a package of its own."
  "halt(case code:lib_dir(inets) of {error, _} -> 1; _ -> 0 end).")

(defn- build-erlang []
  (child/output ["erl" "-noshell" "-eval" has-inets])
  (unless-built "erlang" (sources "erlang" ".erl")
    #(child/output (concat ["erlc" "-o" (built "erlang")] (sources "erlang" ".erl")))))

(defn- compiled-path
  "The class path of the peers in Clojure, which are compiled ahead of time, libraries and all: a peer starts in a second then."
  []
  (str (built "clojure") File/pathSeparator (System/getProperty "java.class.path")))

(defn- build-clojure []
  (unless-built "clojure" (mapcat build/files-below (filter #(.isDirectory ^File %) (machine/class-path)))
    #(child/output (java "-cp" (compiled-path) (str "-Dclojure.compile.path=" (built "clojure"))
                         "clojure.lang.Compile" "magnetar.bench.peers.ours" "magnetar.bench.peers.core-async"))))

(def ^:private clojure-built (delay (build-clojure)))

(defn- on-libraries [main]
  (fn [flags] (java quiet flags "-cp" (str (java-path) File/pathSeparator (built "kotlin")) main)))

(defn- clojure-program [text]
  (fn [flags] (java quiet flags "-cp" (compiled-path) "clojure.main" (child/program text))))

(def ^:private ours
  (clojure-program "((requiring-resolve 'magnetar.bench.peers.ours/-main))"))

(defn- core-async [kind]
  (clojure-program (str "((requiring-resolve 'magnetar.bench.peers.core-async/-main) \"" kind "\")")))

(def ^:private packages
  "the system's packages, or: bin/magnetar bench --install-peers")

(def ^:private maven
  "their jars, with `mvn` and a network, once: bin/magnetar bench --install-peers")

(def all
  "The peers by name: :build makes the program, :command starts it with some flags for the JVM, :version prints, :jar begins the
  name of its library, :install says what is needed.

  Example: (keys all)"
  {"Magnetar" {:build (fn [] @clojure-built) :command (fn [flags] (ours (concat (machine/launcher-options) flags)))}
   "Magnetar, closed" {:build (fn [] @clojure-built) :command ours}
   "Magnetar, plain" {:build (fn [] @clojure-built) :command (fn [flags] (ours (remove (set (machine/launcher-options)) flags)))}
   "Go" {:build build-go :command (fn [_] [(built "go" "peer")]) :version ["go" "version"] :install (str "Go, from " packages)}
   "Erlang" {:build build-erlang
             :command (fn [_] ["erl" "+P" "5000000" "-noshell" "-pa" (built "erlang") "-s" "magnetar_peer" "main"])
             :version ["erl" "-noshell" "-eval" "io:format(\"Erlang/OTP ~s~n\", [erlang:system_info(otp_release)]), halt()."]
             :install (str "Erlang, from " packages)}
   "core.async, go" {:build (fn [] @clojure-built) :command (core-async "go")}
   "core.async, io-thread" {:build (fn [] @clojure-built) :command (core-async "io")}
   "jox" {:build (fn [] @java-built) :command (on-libraries "magnetar.peer.Jox") :jar "channels-" :install maven}
   "Kotlin" {:build build-kotlin :command (on-libraries "PeerKt") :jar "kotlinx-coroutines-core-jvm-" :install maven}
   "Pekko" {:build (fn [] @java-built) :command (on-libraries "magnetar.peer.Pekko") :jar "pekko-actor-typed_" :install maven}
   "virtual threads" {:build (fn [] @java-built) :command (on-libraries "magnetar.peer.Threads") :install maven}})

(def ^:private system-packages
  {"go" ["golang-go"] "erl" ["erlang-base" "erlang-inets"] "erlc" ["erlang-dev"]})

(defn install
  "Installs the missing peers, by `apt-get` and `mvn`; returns the exit code: 0, or the code of the command that failed.

  Example: (install)"
  []
  (let [missing (mapcat val (remove (comp child/executable key) system-packages))
        root (when (child/executable "sudo") ["sudo"])]
    (long
      (or (first (remove zero?
                   (concat (when (seq missing) [(child/run-through (concat root ["apt-get" "install" "-y"] missing))])
                           [(child/run-through [(io/file (machine/home) "bin" "magnetar") "classpath" "peers"])])))
          0))))

(defn- flat-command [parts]
  (mapv str (flatten parts)))

(defn build
  "Builds a peer; nil, or the sentence that says that it is not there and what to install.

  Example: (build \"Go\")"
  [named]
  (let [{:keys [build install]} (all named)]
    (try
      (when build (build))
      nil
      (catch Exception _
        (str named " is skipped: it could not be built here. It needs " install ".")))))

(defn- on-cores [cores command]
  (if (and cores (machine/kernel-file "/proc/self/status"))
    (concat ["taskset" "-c" (str "0-" (dec (long cores)))] command)
    command))

(defn start
  "Starts a peer, with flags for its JVM if it has one, on so many cores; nil for all.

  Example: (start \"Go\" {:flags [] :cores 1})"
  [named {:keys [flags cores]}]
  (let [command (on-cores cores (flat-command ((:command (all named)) flags)))
        process (.start (doto (ProcessBuilder. ^List (vec command))
                          (.redirectError (built (str (str/replace named #"[^A-Za-z]" "-") ".log")))))]
    {:name named :process process :in (.outputWriter process) :out (.inputReader process)}))

(def ^:private patience-ms
  "Ten times what the longest piece of work takes: the memory of a million."
  180000)

(defn- line-of
  "The next line of a peer; :ended at the end of its output, :late when no line comes in time."
  [{:keys [^Process process ^BufferedReader out]}]
  (let [line (future (try (or (.readLine out) :ended) (catch IOException _ :ended)))
        answer (deref line patience-ms :late)]
    (when (= :late answer)
      (.destroyForcibly process)) ; which also ends the future
    answer))

(defn- numbers-in
  "The numbers of an answer; nil if it is anything else."
  [answer]
  (when (string? answer)
    (let [numbers (map parse-double (str/split (str/trim answer) #" "))]
      (when (every? some? numbers) numbers))))

(defn ask-all
  "The numbers that the peer answers.

  Blocks until it has done the work; fails with its name when it ends instead, and when it has not answered after three minutes.

  Example: (ask-all peer \"computing\" 4 100 3000)"
  [{:keys [name ^Writer in] :as peer} what & numbers]
  (let [question (str/join " " (cons what numbers))
        answer (try
                 (.write in (str question "\n"))
                 (.flush in)
                 (line-of peer)
                 (catch IOException _ :ended))]
    (or (numbers-in answer)
        (throw (ex-info (str name " did not answer `" question "`, but "
                             (case answer :ended "ended" :late "was still at it after three minutes" (str "said `" answer "`"))
                             "; its words are in bench/target/peers.")
                        {:peer name :what what :numbers numbers})))))

(defn ask
  "What the peer answers: nanoseconds, bytes or a port. Blocks and fails as `ask-all`.

  Example: (ask peer \"spawn\" 1000)"
  [peer what & numbers]
  (first (apply ask-all peer what numbers)))

(defn end
  "Ends a peer.

  Example: (end peer)"
  [{:keys [^Process process]}]
  (.destroy process)
  (when-not (.waitFor process 10 TimeUnit/SECONDS)
    (.destroyForcibly process)))

(defn with-started
  "The value of (f peers), with peers that `start` has started; they are ended.

  Example: (with-started [(start \"Go\" {})] #(ask (first %) \"spawn\" 1000))"
  [peers f]
  (let [peers (vec peers)]
    (try
      (f peers)
      (finally (run! end peers)))))

(defn version
  "What a peer says about its version, or the name of its jar; else nil.

  Example: (version \"Go\") => \"go version go1.26.8 linux/amd64\""
  [named]
  (let [{:keys [version jar]} (all named)]
    (cond version (str/trim (child/output version))
          jar (some->> (re-find (re-pattern (str "(" jar "[^/]*)\\.jar")) @library-path) second (str named " ")))))
