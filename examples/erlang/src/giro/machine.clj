(ns giro.machine
  "The programs of Erlang: the compiler, EPMD on a port of its own, and the BEAM. They end with their standard
  input, so they end with this JVM in any case."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io BufferedReader File IOException)
   (java.lang ProcessBuilder$Redirect)
   (java.net InetAddress ServerSocket Socket)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute PosixFilePermissions)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(def ^:private modules ["giro" "giro_courier" "giro_ledger"])

(defn missing
  "The program of Erlang that is not on the PATH; nil if all are."
  []
  (let [folders (str/split (or (System/getenv "PATH") "") #":")]
    (first (remove (fn [program] (some #(.canExecute (io/file % program)) folders))
                   ["erl" "erlc" "epmd"]))))

(defn- start ^Process [^File folder environment & words]
  (let [builder (doto (ProcessBuilder. ^List words)
                  (.directory folder)
                  (.redirectError ProcessBuilder$Redirect/INHERIT))]
    (.putAll (.environment builder) environment)
    (.start builder)))

(defn- end [^Process process]
  (.close (.getOutputStream process))
  (when-not (.waitFor process 10 TimeUnit/SECONDS)
    (.destroyForcibly process))
  (.waitFor process))

;; ---- the folder

(defn- file ^File [folder name]
  (doto (io/file folder name) .deleteOnExit))

(defn- write-cookie
  "Writes a cookie that only this user can read."
  [^File cookie]
  (let [permissions (PosixFilePermissions/asFileAttribute (PosixFilePermissions/fromString "rw-------"))]
    (Files/createFile (.toPath cookie) (into-array FileAttribute [permissions]))
    (spit cookie (random-uuid))))

(defn- compile-erlang [folder]
  (doseq [module modules]
    (io/copy (io/input-stream (io/resource (str "giro/" module ".erl"))) (file folder (str module ".erl")))
    (file folder (str module ".beam")))
  (let [^Process compiler (apply start folder {} "erlc" (map #(str % ".erl") modules))
        printed (slurp (.getInputStream compiler))]
    (when-not (zero? (.waitFor compiler))
      (throw (ex-info (str "erlc has failed. It printed: " printed) {})))))

(defn prepare
  "A folder with the cookie and the compiled modules, the home of the BEAM. It is deleted when this JVM ends."
  ^File []
  (doto (.toFile (Files/createTempDirectory "giro" (make-array FileAttribute 0)))
    .deleteOnExit
    (-> (file ".erlang.cookie") write-cookie)
    compile-erlang))

(defn cookie-file
  "The path of the cookie in the folder."
  [folder]
  (str (io/file folder ".erlang.cookie")))

;; ---- EPMD

(defn- free-port []
  (with-open [socket (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))]
    (.getLocalPort socket)))

(defn- listening? [port]
  (try
    (.close (Socket. (InetAddress/getLoopbackAddress) (int port)))
    true
    (catch IOException _ false)))

(def ^:private epmd-until-end
  "EPMD does not read its standard input, so a shell does. Ctrl-C goes to all programs of a terminal, and the
  shell has to outlive it."
  "trap '' INT HUP; epmd -port \"$0\" -address 127.0.0.1 2>/dev/null & cat >/dev/null; kill -KILL $!")

(defn with-epmd
  "Calls f with the port of an EPMD."
  [folder f]
  (let [port (free-port)
        shell (start folder {} "sh" "-c" epmd-until-end (str port))]
    (try
      (loop [tries 1000]
        (when-not (listening? port)
          (when (zero? tries)
            (throw (ex-info (str "epmd does not listen on port " port ".") {:port port})))
          (Thread/sleep 10)
          (recur (dec tries))))
      (f port)
      (finally (end shell)))))

;; ---- the BEAM

(defn- await-open
  "Waits for the line that says that the bank is open."
  [^BufferedReader lines]
  (let [line (.readLine lines)]
    (cond
      (nil? line) (throw (ex-info "The BEAM has ended before its bank was open." {}))
      (not= "open" line) (recur lines))))

(defn with-beam
  "Calls f while the BEAM with this name is a bank, beside the one on the node `bank`."
  [folder port name bank mode f]
  (let [process (start folder {"HOME" (str folder) "ERL_EPMD_PORT" (str port) "ERL_CRASH_DUMP_SECONDS" "0"}
                       "erl" "-noshell" "+Bi" "-pa" (str folder) "-name" name "-start_epmd" "false"
                       "-kernel" "inet_dist_use_interface" "{127,0,0,1}" "-kernel" "logger_level" "none"
                       "-s" "giro" "main" bank mode)]
    (try
      (await-open (io/reader (.getInputStream process)))
      (f)
      (finally (end process)))))
