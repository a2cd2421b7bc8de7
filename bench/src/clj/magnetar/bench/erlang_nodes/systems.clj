(ns magnetar.bench.erlang-nodes.systems
  "A BEAM, and the nodes that talk to it: ours, one of jinterface, one of Erlang.

  A node reads lines `workload number ..` and answers each with nanoseconds, as the peers of the suite `peers` do. All listen on the loopback address, and have an EPMD of their own."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.bench.child :as child]
   [magnetar.bench.machine :as machine]
   [magnetar.bench.peers.programs :as programs]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.report :refer [say]])
  (:import
   (java.io BufferedReader File)
   (java.net ConnectException InetAddress ServerSocket Socket)
   (java.util List)))

(set! *warn-on-reflection* true)

(defn- sources [language ending]
  (filter #(str/ends-with? (str %) ending) (file-seq (machine/in-home "bench" "erlang" language))))

;; --- building

(defn- build-erlang []
  (when-not (and (child/executable "erl") (child/executable "erlc"))
    (say "installing Erlang")
    (child/install "erlang-base"))
  (.mkdirs (programs/built "stock"))
  (child/output (concat ["erlc" "-o" (programs/built "stock")] (sources "erlang" ".erl"))))

(defn- jar-below [folder]
  (first (filter #(and (= "OtpErlang.jar" (File/.getName %)) (File/.isFile %)) (file-seq (io/file folder)))))

(defn- fetch-jar
  "Unpacks Debian's package into a folder of the benchmarks, which takes no root."
  []
  (say "fetching Debian's jinterface")
  (.mkdirs (programs/built "jinterface"))
  (child/run-through ["sh" "-c" "cd \"$1\" && apt-get -q download erlang-jinterface && dpkg -x erlang-jinterface_*.deb ." "sh" (programs/built "jinterface")])
  (jar-below (programs/built "jinterface")))

(def ^:private jar
  "The jar of jinterface: the installed one, or the one of Debian's package."
  (delay
    (or (jar-below "/usr/lib/erlang/lib")
        (jar-below (programs/built "jinterface"))
        (fetch-jar)
        (throw (ex-info "there is no OtpErlang.jar" {})))))

(defn- build-jinterface []
  (.mkdirs (programs/built "jinterface-java"))
  (child/output (concat [(io/file (System/getProperty "java.home") "bin" "javac") "-cp" @jar "-d" (programs/built "jinterface-java")]
                        (sources "java" ".java"))))

(defn jinterface-version
  "The version of jinterface, which OTP has in the name of its folder; nil if it is not there.

  Example: (jinterface-version) => \"jinterface-1.13.1\""
  []
  (try
    (re-find #"jinterface-[0-9.]*[0-9]" (str @jar))
    (catch Exception _ nil)))

;; --- commands

(def ^:private host "127.0.0.1")

(def ^:private stock (str "stock@" host))

(defn- ours [cookie n-terms]
  (concat [(machine/java-command)] (machine/launcher-options) rounds/flags
          ["-cp" (System/getProperty "java.class.path") "clojure.main"
           (child/program "(apply (requiring-resolve 'magnetar.bench.erlang-nodes.node/-main) *command-line-args*)\n")
           (str "till@" host) cookie stock n-terms]))

(defn- jinterface [cookie n-terms]
  (concat [(machine/java-command)] rounds/flags
          ["-cp" (str @jar File/pathSeparator (programs/built "jinterface-java")) "magnetar.peer.JinterfaceNode" (str "jinterface@" host) cookie stock n-terms]))

(defn- beam [named cookie & words]
  (concat ["erl" "-noshell" "-pa" (programs/built "stock") "-name" named "-setcookie" cookie "-kernel" "inet_dist_use_interface" "{127,0,0,1}"]
          words))

(defn- erlang [cookie _]
  (beam (str "erlang@" host) cookie "-run" "magnetar_stock" "main" stock))

(def ^:private kinds
  {"Magnetar" {:command ours}
   "jinterface" {:command jinterface :build build-jinterface :install "the system's package erlang-jinterface"}
   "Erlang" {:command erlang}})

(defn present
  "Builds what has to be built, and returns the names of the nodes that can be started here. Without a BEAM it fails. If
  jinterface is not there, a line says what it needs.

  Example: (present)"
  []
  (build-erlang)
  (vec (for [named ["Magnetar" "jinterface" "Erlang"]
             :let [{:keys [build install]} (kinds named)
                   failure (when build (try (build) nil (catch Exception e (str (ex-message e)))))]
             :when (or (not failure)
                       (say (str named " is skipped: it could not be built here. It needs " install ". The build failed: " failure)))]
         named)))

;; --- processes

(defn- free-port []
  (with-open [socket (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))]
    (.getLocalPort socket)))

(defn- start-process [named port command]
  (let [builder (doto (ProcessBuilder. ^List (mapv str command))
                  (.redirectError (programs/built (str "erlang-" named ".log"))))]
    (.put (.environment builder) "ERL_EPMD_PORT" (str port))
    (let [process (.start builder)]
      {:name named :process process :in (.outputWriter process) :out (.inputReader process)})))

(defn- await-ready [{:keys [name ^BufferedReader out] :as node}]
  (when-not (some #{"ready"} (take-while some? (repeatedly #(.readLine out))))
    (throw (ex-info (str name ": a node ended before it was connected; its words are in bench/target/peers.") {:peer name})))
  node)

(defn- listening? [port]
  (try
    (.close (Socket. (InetAddress/getLoopbackAddress) (int port)))
    true
    (catch ConnectException _ false)))

(defn- start-epmd [port]
  (let [{:keys [^Process process] :as epmd} (start-process "epmd" port ["epmd" "-port" port "-address" host])]
    (while (and (.isAlive process) (not (listening? port)))
      (Thread/sleep 10))
    epmd))

(defn- start-all
  "Starts EPMD, the BEAM and the nodes, each of which goes to the atom `started` first."
  [names n-terms started]
  (let [port (free-port)
        cookie (str (random-uuid))
        keep-it #(do (swap! started conj %) %)
        _ (keep-it (start-epmd port))
        stock (keep-it (start-process "stock" port (beam stock cookie "-s" "magnetar_stock" "main")))]
    (await-ready stock)
    (mapv (fn [named]
            (let [node (keep-it (start-process named port ((:command (kinds named)) cookie n-terms)))]
              (assoc (await-ready node) :stock stock)))
          names)))

(defn with-started
  "The value of (f nodes), with the nodes of these names, connected with a BEAM. All are ended.

  Example: (with-started [\"Magnetar\" \"Erlang\"] 6 #(ask (first %) \"call\" 100))"
  [names n-terms f]
  (let [started (atom ())]
    (try
      (f (start-all names n-terms started))
      (finally (run! programs/end @started)))))

(defn ask
  "The nanoseconds that a node answers. Blocks and fails as `programs/ask`.

  Example: (ask node \"call\" 100)"
  [node & question]
  (apply programs/ask node question))

(defn processor-micros
  "The processor time of the node and of the BEAM since their start, in microseconds; nil where there is no /proc.

  Example: (processor-micros node) => [120000 90000]"
  [{:keys [process stock]}]
  (let [both (map machine/process-micros [process (:process stock)])]
    (when (every? some? both) (vec both))))
