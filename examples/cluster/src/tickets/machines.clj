(ns tickets.machines
  "The machines of the nodes: JVMs that are started, killed and suspended."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.actor :as actor]
   [tickets.wires :as wires])
  (:import
   (java.lang ProcessBuilder$Redirect)
   (java.net InetAddress ServerSocket)
   (java.util List)))

(set! *warn-on-reflection* true)

(defn- free-port [^String host]
  (with-open [socket (ServerSocket. 0 1 (InetAddress/getByName host))]
    (.getLocalPort socket)))

(defn addresses
  "Where the nodes listen, from the name to host:port. Each has a loopback address of its own."
  [nodes]
  (into {} (map-indexed (fn [i node]
                          (let [host (str "127.0.0." (+ 2 (long i)))]
                            [node (str host ":" (free-port host))])))
        nodes))

(defn prepare
  "Machines that can start: `note` is told of the node and each thing that it says."
  [addresses wires port note]
  {:addresses addresses :wires wires :port port :note note :processes (atom {})})

(defn- host-of [address]
  (subs address 0 (str/index-of address ":")))

(defn- config [{:keys [addresses wires port]} node]
  {:name (str node "@tickets")
   :bind (addresses node)
   :advertise (wires/proxy-of wires node)
   :peers (mapv #(wires/proxy-of wires %) (keys addresses))
   :port port})

(defn- listen
  "Tells what the node says, until it ends."
  [{:keys [note]} node ^Process process]
  (with-open [lines (io/reader (.getInputStream process))]
    (doseq [line (line-seq lines)
            :when (.startsWith ^String line "[")]
      (note node (edn/read-string line)))))

(defn start
  "Starts the node in a JVM of its own."
  [{:keys [addresses processes] :as machines} node]
  (let [command [(str (io/file (System/getProperty "java.home") "bin" "java"))
                 "--add-opens" "java.base/java.lang=ALL-UNNAMED" "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC"
                 (str "-Djgroups.tcp.client_bind_addr=" (host-of (addresses node))) ; from where it dials
                 "-cp" (System/getProperty "java.class.path")
                 "clojure.main" "-m" "tickets.node" (pr-str (config machines node))]
        process (.start (doto (ProcessBuilder. ^List command)
                          (.redirectError ProcessBuilder$Redirect/INHERIT)))]
    (swap! processes assoc node process)
    (actor/spawn listen machines node process)))

(defn kill
  "Ends the node as a loss of power would."
  [{:keys [processes]} node]
  (.destroyForcibly ^Process (@processes node)))

(defn signal
  "Sends a signal to the node, such as STOP, after which it does nothing until CONT."
  [{:keys [processes]} node signal]
  (.waitFor (.start (ProcessBuilder. ^List (vector "kill" (str "-" signal) (str (.pid ^Process (@processes node))))))))

(defn end
  "Ends all nodes."
  [{:keys [processes] :as machines}]
  (run! #(kill machines %) (keys @processes)))
