(ns magnetar.bench.cluster.systems
  "Pairs of nodes: ours, Pekko's over artery, Erlang's; each with and without TLS 1.3. One node of a pair measures, the other one serves.

  A node that measures reads lines `workload number ..` and answers each with numbers, as the peers of the suite `peers` do. All nodes listen on the loopback address."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.child :as child]
   [magnetar.bench.cluster.certificates :as certificates]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.report :refer [say]])
  (:import
   (java.io BufferedReader File)
   (java.net InetAddress ServerSocket)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute PosixFilePermissions)
   (java.util List)))

(set! *warn-on-reflection* true)

(defn- sources [language ending]
  (filter #(str/ends-with? (str %) ending) (file-seq (machine/in-home "bench" "cluster" language))))

(defn- launcher []
  (machine/in-home "bin" "magnetar"))

;; --- building

(def ^:private pekko-path
  (delay (str/trim (child/output [(launcher) "classpath" "pekko-remote"]))))

(defn- build-pekko []
  (.mkdirs (programs/built "cluster-java"))
  (child/output (concat [(io/file (System/getProperty "java.home") "bin" "javac") "-cp" @pekko-path "-d" (programs/built "cluster-java")]
                        (sources "java" ".java"))))

(def ^:private has-ssl
  "Ends with 1 where Erlang has no TLS, which Debian has in a package of its own."
  "halt(case code:lib_dir(ssl) of {error, _} -> 1; _ -> 0 end).")

(defn- erlang-with-tls? []
  (and (child/executable "erl")
       (child/executable "erlc")
       (zero? (child/run-through ["erl" "-noshell" "-eval" has-ssl]))))

(defn- install-erlang []
  (say "installing Erlang")
  (child/install "erlang-base" "erlang-ssl"))

(defn- build-erlang []
  (when-not (erlang-with-tls?)
    (install-erlang))
  (.mkdirs (programs/built "cluster-erlang"))
  (child/output (concat ["erlc" "-o" (programs/built "cluster-erlang")] (sources "erlang" ".erl"))))

;; --- commands

(def ^:private cookie
  "The path of a cookie that only its owner can read."
  (delay
    (let [owner-only (PosixFilePermissions/asFileAttribute (PosixFilePermissions/fromString "rw-------"))
          path (Files/createTempFile "magnetar-bench" ".cookie" (into-array FileAttribute [owner-only]))
          file (doto (.toFile path) .deleteOnExit)]
      (spit file (str (random-uuid)))
      (str file))))

(def ^:private cipher "TLS_AES_256_GCM_SHA384")

(defn- ours [{:keys [port of tls]}]
  (concat [(launcher) "run" "--cookie-file" @cookie]
          (if of
            ["--node" "here@bench" "--join" (str "127.0.0.1:" of)]
            ["--node" "there@bench" "--bind" (str "127.0.0.1:" port)])
          (when tls
            ["--certfile" (certificates/path "node.pem") "--keyfile" (certificates/path "node.key") "--cacertfile" (certificates/path "ca.pem")])
          [(machine/in-home "bench" "src" "clj" "magnetar" "bench" "cluster" "node.clj")]
          (when of ["there@bench"])))

(defn- pekko [{:keys [port of tls]}]
  (concat [(machine/java-command) "--sun-misc-unsafe-memory-access=allow"] rounds/flags
          ["-cp" (str @pekko-path File/pathSeparator (programs/built "cluster-java")) "magnetar.peer.PekkoNode"
           port (or of "-") (if tls (certificates/path "") "-") cipher]))

(defn- erlang-tls
  "The file of the options for TLS between Erlang nodes."
  []
  (let [both (format "{certfile, \"%s\"}, {keyfile, \"%s\"}, {cacertfile, \"%s\"}, {verify, verify_peer}, {versions, ['tlsv1.3']}, {ciphers, [\"%s\"]}"
                     (certificates/path "node.pem") (certificates/path "node.key") (certificates/path "ca.pem") cipher)
        file (programs/built "cluster-erlang" "tls.conf")]
    (spit file (format "[{server, [%s, {fail_if_no_peer_cert, true}]},%n {client, [%s]}].%n" both both))
    file))

(defn- erlang [{:keys [port of tls]}]
  (concat ["erl" "-noshell" "-pa" (programs/built "cluster-erlang") "-start_epmd" "false" "-epmd_module" "magnetar_ports" "-setcookie" "bench"
           "-kernel" "inet_dist_use_interface" "{127,0,0,1}" "-sname" (str (if of "a" "b") port "@localhost")]
          (when tls ["-proto_dist" "inet_tls" "-ssl_dist_optfile" (erlang-tls)])
          (if of
            ["-run" "magnetar_node" "main" (str "b" of "@localhost")]
            ["-s" "magnetar_node" "main"])))

(def ^:private kinds
  {"Magnetar" {:command ours}
   "Pekko" {:command pekko :build build-pekko :install "its jars, with `mvn` and a network, once"}
   "Erlang" {:command erlang :build build-erlang :install "the system's packages erlang-base and erlang-ssl"}})

(def all
  "The pairs, ours first: the kind, and if it is with TLS.

  Example: (map :name all)"
  (for [kind ["Magnetar" "Pekko" "Erlang"], tls [false true]]
    {:name (str kind (when tls ", TLS")) :kind kind :tls tls}))

(defn present
  "Builds what has to be built, and returns the pairs that can be started here. Of each other kind one line says
  what it needs, and why its build failed.

  Example: (map :name (present))"
  []
  (let [missing (into #{} (for [[kind {:keys [build install]}] kinds
                                :let [failure (when build (try (build) nil (catch Exception e (str (ex-message e)))))]
                                :when failure]
                            (do (say (str kind " is skipped: it could not be built here. It needs " install ". The build failed: " failure))
                                kind)))]
    (vec (remove (comp missing :kind) all))))

;; --- pairs

(defn- free-port []
  (with-open [socket (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))]
    (.getLocalPort socket)))

(defn- await-ready [{:keys [name ^BufferedReader out] :as node}]
  (when-not (some #{"ready"} (take-while some? (repeatedly #(.readLine out))))
    (throw (ex-info (str name ": a node ended before it was connected; its words are in bench/target/peers.") {:peer name})))
  node)

(defn- start-node [{:keys [name kind] :as pair} role options]
  (let [command ((:command (kinds kind)) (merge pair options))
        log (programs/built (str "cluster-" (str/replace name #"[^A-Za-z]" "") "-" role ".log"))
        builder (doto (ProcessBuilder. ^List (mapv str command)) (.redirectError log))]
    (.put (.environment builder) "JAVA_OPTS" (str/join " " (remove (set (machine/launcher-options)) rounds/flags)))
    (let [process (.start builder)]
      (await-ready {:name name :process process :in (.outputWriter process) :out (.inputReader process)}))))

(defn start
  "Starts the nodes of a pair; returns it with :there, which serves, and :here, which measures.

  Blocks until the two are connected.

  Example: (start (first all))"
  [pair]
  (let [port (free-port)
        there (start-node pair "there" {:port port})]
    (try
      (assoc pair :there there :here (start-node pair "here" {:port (free-port) :of port}))
      (catch Exception e
        (programs/end there)
        (throw e)))))

(defn end
  "Ends the nodes of a pair.

  Example: (end pair)"
  [{:keys [here there]}]
  (run! programs/end [here there]))

(defn with-started
  "The value of (f pairs), with pairs that were started; they are ended.

  Example: (with-started all count)"
  [pairs f]
  (let [started (atom [])]
    (try
      (run! #(swap! started conj (start %)) pairs)
      (f @started)
      (finally (run! end @started)))))

(defn ask
  "The numbers that a pair answers, as `programs/ask-all`.

  Example: (ask pair \"ask\" 1 1000)"
  [{:keys [here]} & question]
  (apply programs/ask-all here question))

;; --- processor time

(defn processor-micros
  "The processor time of both nodes since their start, in microseconds: [here there]; nil where there is no /proc.

  Example: (processor-micros pair) => [120000 90000]"
  [{:keys [here there]}]
  (let [both (map (comp machine/process-micros :process) [here there])]
    (when (every? some? both) (vec both))))
