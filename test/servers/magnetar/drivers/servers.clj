(ns magnetar.drivers.servers
  "Starts real servers for a test, each in a temporary folder on a free port of loopback, and ends those that it started."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.test :as mt])
  (:import
   (java.io File)
   (java.lang ProcessBuilder$Redirect)
   (java.net InetAddress ServerSocket Socket)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)
   (java.sql DriverManager)
   (java.util List)))

(set! *warn-on-reflection* true)

(defn new-folder ^File []
  (.toFile (Files/createTempDirectory "magnetar-drivers" (make-array FileAttribute 0))))

(defn delete-folder [^File folder]
  (run! io/delete-file (reverse (file-seq folder))))

(defn- free-port []
  (with-open [socket (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))]
    (.getLocalPort socket)))

(defn- spawn
  "Starts the command in the folder; what it prints goes to a file there."
  ^Process [^File folder & command]
  (-> (ProcessBuilder. ^List (vec command))
      (.directory folder)
      (.redirectErrorStream true)
      (.redirectOutput (ProcessBuilder$Redirect/appendTo (io/file folder "log")))
      (.start)))

(defn- run
  "Runs the command in the folder to its end."
  [^File folder & command]
  (when-not (zero? (.waitFor ^Process (apply spawn folder command)))
    (throw (ex-info (str (str/join " " command) " failed: " (slurp (io/file folder "log"))) {}))))

(defn- killing
  "The function that kills the process. It is called at the end of the JVM, too."
  [^Process process]
  (let [kill #(do (.destroyForcibly process) (.waitFor process))
        hook (Thread. ^Runnable kill)]
    (.addShutdownHook (Runtime/getRuntime) hook)
    (fn []
      (kill)
      (.removeShutdownHook (Runtime/getRuntime) hook))))

(defn- answers? [connect]
  (try
    (connect)
    true
    (catch java.sql.SQLException _ false)
    (catch java.io.IOException _ false)))

(defn- await-server [connect folder]
  (when-not (mt/wait-until #(answers? connect) {:timeout 20000 :else false})
    (throw (ex-info (str "the server does not answer: " (slurp (io/file folder "log"))) {}))))

;; PostgreSQL refuses to run as root. runuser does not end together with the process that it starts, setpriv becomes that process.
(def ^:private as-postgres
  (if (= "root" (System/getProperty "user.name"))
    ["setpriv" "--reuid=postgres" "--regid=postgres" "--clear-groups"]
    []))

(defn- run-postgres
  "Starts a PostgreSQL on its data; returns the function that ends it at once, as a crash does."
  [folder data port url]
  (let [kill (killing (apply spawn folder (conj as-postgres "postgres" "-D" data "-p" port "-c" "listen_addresses=127.0.0.1"
                                                "-c" "unix_socket_directories=" "-c" "fsync=off" "-c" "max_connections=300")))]
    (await-server #(.close (DriverManager/getConnection url)) folder)
    (fn []
      (.waitFor ^Process (apply spawn folder (conj as-postgres "pg_ctl" "stop" "-w" "-m" "immediate" "-D" data)))
      (kill))))

(defn start-postgres
  "A new PostgreSQL as {:url .. :stop f}. Between (crash) and (start-again) it is away."
  []
  (let [folder (new-folder)
        data (str folder "/data")
        port (str (free-port))
        url (str "jdbc:postgresql://127.0.0.1:" port "/postgres?user=magnetar")]
    (when (seq as-postgres) (run folder "chown" "postgres" (str folder)))
    (apply run folder (conj as-postgres "initdb" "-D" data "-U" "magnetar" "-A" "trust" "-E" "UTF8" "--no-locale" "--no-sync"))
    (let [end (atom (run-postgres folder data port url))]
      {:url url
       :crash #(@end)
       :start-again #(reset! end (run-postgres folder data port url))
       :stop #(do (@end)
                  (delete-folder folder))})))

(defn start-redis
  "A new Redis as {:port .. :stop f}."
  []
  (let [folder (new-folder)
        port (free-port)
        kill (killing (spawn folder "redis-server" "--port" (str port) "--bind" "127.0.0.1" "--save" "" "--appendonly" "no"))]
    (await-server #(.close (Socket. "127.0.0.1" (int port))) folder)
    {:port port
     :stop #(do (kill)
                (delete-folder folder))}))

(def postgres?
  "Are PostgreSQL's programs on the PATH?"
  (delay (try
           (let [^List command ["initdb" "--version"]]
             (zero? (.waitFor (.start (ProcessBuilder. command)))))
           (catch java.io.IOException _ false))))
