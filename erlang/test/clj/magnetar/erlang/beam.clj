(ns magnetar.erlang.beam
  "Real BEAMs for tests, with Erlang or Elixir, in a run with --with-erl, with an EPMD of their own on a free port. They end with the test."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.dev.processes :as processes]
   [magnetar.erlang.scripted :as scripted])
  (:import
   (java.io BufferedReader File IOException Writer)
   (java.net InetAddress ServerSocket Socket)
   (java.util List)
   (java.util.concurrent LinkedBlockingQueue TimeUnit)))

(set! *warn-on-reflection* true)

(def limit-ms
  "How long a test waits for something that has to come."
  30000)

(def cookie
  "The cookie of the nodes."
  "a_cookie_of_tests")

(defn- on-path? [program]
  (some #(.canExecute (io/file % program)) (str/split (or (System/getenv "PATH") "") #":")))

(defn missing
  "Why no BEAM can be started; nil if one can."
  []
  (cond
    (not= "true" (System/getProperty "magnetar.erl")) :not-wanted
    (not (on-path? "erl")) :no-erl))

(defn- start ^Process [folder environment words]
  (let [builder (doto (ProcessBuilder. ^List words) (.directory folder) (.redirectErrorStream true))]
    (.putAll (.environment builder) environment)
    (.start builder)))

(def ^:private ssl?
  (delay (zero? (.waitFor (start (processes/temporary-folder) {}
                                 ["erl" "-noshell" "-eval" "halt(case code:lib_dir(ssl) of {error, _} -> 1; _ -> 0 end)."])))))

(defn free-port
  "A port where nothing listens."
  []
  (with-open [socket (ServerSocket. 0 50 (InetAddress/getLoopbackAddress))]
    (.getLocalPort socket)))

(defn- listening? [port]
  (try
    (.close (Socket. (InetAddress/getLoopbackAddress) (int port)))
    true
    (catch java.net.ConnectException _ false)))

(defn start-epmd
  "Starts EPMD at the port, and returns its process when it listens."
  ^Process [port]
  (let [folder (processes/temporary-folder)
        process (start folder {} ["epmd" "-port" (str port) "-address" "127.0.0.1"])]
    (loop []
      (when-not (or (listening? port) (not (.isAlive process)))
        (recur)))
    process))

(defn end
  "Kills a process, and waits for its end."
  [^Process process]
  (.destroyForcibly process)
  (.waitFor process limit-ms TimeUnit/MILLISECONDS))

(defn- lines
  "A queue of what the process prints, line by line, and :end."
  ^LinkedBlockingQueue [^Process process]
  (let [queue (LinkedBlockingQueue.)]
    (Thread/startVirtualThread
      #(with-open [reader (BufferedReader. (io/reader (.getInputStream process)))]
         (try
           (run! (fn [line] (.put queue line)) (line-seq reader))
           (catch IOException _)) ; the stream of a process that was killed may be closed
         (.put queue :end)))
    queue))

(defn- next-answer
  "The next line that is an answer. Reports of the BEAM come between them."
  [^LinkedBlockingQueue queue]
  (let [line (.poll queue limit-ms TimeUnit/MILLISECONDS)]
    (cond
      (not (string? line)) (throw (ex-info "the BEAM has not answered" {:line line}))
      (re-find #"^(= |! |ready)" line) line
      :else (recur queue))))

(defn start-beam
  "Starts a BEAM with the name, and returns it when it reads. Options are further words of its command line."
  [name epmd-port & options]
  (let [source (io/file processes/home "erlang/test/resources/erlang_peer.erl")
        process (start (processes/temporary-folder) {"ERL_EPMD_PORT" (str epmd-port) "HOME" (str (processes/temporary-folder))}
                       (into ["erl" "-noshell" (if (str/includes? (second (str/split name #"@")) ".") "-name" "-sname") name "-setcookie" cookie "-kernel" "logger_level" "none"]
                             (concat options
                                     ["-eval" (str "{ok, M, B} = compile:file(\"" source "\", [binary, report_errors]), "
                                                   "code:load_binary(M, \"erlang_peer\", B), erlang_peer:main().")])))
        beam {:process process :name name :lines (lines process) :in (io/writer (.getOutputStream process))}]
    (next-answer (:lines beam))
    beam))

(defn begin-elixir
  "Starts the command, of Elixir, in the folder, and returns it."
  [folder epmd-port command]
  (let [process (start folder
                       {"ERL_EPMD_PORT" (str epmd-port) "HOME" (str (processes/temporary-folder)) "LC_ALL" "C.UTF-8"}
                       command)]
    {:process process :lines (lines process) :in (io/writer (.getOutputStream process)) :full-stop ""}))

(defn start-elixir
  "Starts Elixir as a node with the name, and returns it when it reads. Options are further words for `erl`."
  [name epmd-port & options]
  (let [elixir (begin-elixir (processes/temporary-folder) epmd-port
                             ["elixir" "--name" name "--cookie" cookie "--erl" (str/join " " (cons "-kernel logger_level none" options))
                              (str (io/file processes/home "erlang/test/resources/elixir_peer.exs"))])]
    (next-answer (:lines elixir))
    (assoc elixir :name name)))

(defn ask
  "Evaluates Erlang in the BEAM, or Elixir, whose variables stay; returns the value as text."
  [{:keys [^Writer in lines full-stop] :or {full-stop "."}} & texts]
  (.write in (str (apply str texts) full-stop "\n"))
  (.flush in)
  (let [line (next-answer lines)]
    (if (str/starts-with? line "= ")
      (subs line 2)
      (throw (ex-info (str "the BEAM has said " line) {})))))

(defn- signal [name {:keys [^Process process]}]
  (.waitFor (start (processes/temporary-folder) {} ["kill" name (str (.pid process))])))

(defn suspend
  "Stops the BEAM until `resume`."
  [beam]
  (signal "-STOP" beam))

(defn resume
  "Lets a suspended BEAM go on."
  [beam]
  (signal "-CONT" beam))

(defn end-beam
  "Kills the BEAM."
  [beam]
  (end (:process beam)))

;; ---- a BEAM and this node

(def us
  "The name of this node."
  "m@127.0.0.1")

(def them
  "The name of the BEAM."
  "b@127.0.0.1")

(defn- run-with [{:keys [other words lines begin] :or {other them words ["-hidden"] lines (atom []) begin start-beam} :as options} f]
  (let [port (free-port)
        epmd (start-epmd port)]
    (try
      (let [b (apply begin other port words)]
        (try
          (scripted/running (merge {:cookie cookie :epmd port} (dissoc options :other :words :lines :begin)) lines
            (fn [] (actor/with-process {:name :inbox} (f port (assoc b :epmd epmd)))))
          (finally (end-beam b))))
      (finally (end epmd)))))

(defn with-beam
  "Calls f with the port of EPMD and a BEAM, which has the process :epmd, in a process with the name :inbox, while this JVM is a node. Without --with-erl does nothing.
  The options are of `erlang/start`, and :other, the name of the BEAM; :words, further words of its command line, which make it hidden
  if they are not given; and :lines, an atom for the lines that are logged."
  ([f] (with-beam {} f))
  ([options f]
   (case (if (:tls options) (or (missing) (when-not @ssl? :no-ssl)) (missing))
     :not-wanted nil
     :no-erl (println "  magnetar.erlang: the tests with a BEAM are skipped, there is no `erl` on the PATH (Debian: apt-get install erlang-base)")
     :no-ssl (println "  magnetar.erlang: the tests with a BEAM and TLS are skipped, Erlang has no ssl (Debian: apt-get install erlang-ssl)")
     (run-with options f))))

(defn elixir?
  "Can Elixir be started? If it is wanted and not there, this is printed."
  []
  (case (or (missing) (when-not (on-path? "elixir") :no-elixir))
    :not-wanted false
    nil true
    (do
      (println "  magnetar.erlang: a test with Elixir is skipped, there is no `elixir` on the PATH (Debian: apt-get install elixir)")
      false)))

(defn with-elixir
  "Does what `with-beam` does with a node of Elixir, for which `ask` evaluates lines of Elixir."
  ([f] (with-elixir {} f))
  ([options f]
   (when (elixir?)
     (run-with (merge {:begin start-elixir} options) f))))

(defn got
  "The next message of this process; :none if none comes."
  []
  (receive x x (after limit-ms :none)))

(defn nothing-more?
  "Has this process no message?"
  []
  (= :none (receive x x (after 0 :none))))
