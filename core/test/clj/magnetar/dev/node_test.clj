(ns magnetar.dev.node-test
  "Programs that bin/magnetar runs as nodes of a cluster."
  {:slow true
   :limit 300000}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is]]
   [magnetar.dev.certificates :as certificates]
   [magnetar.dev.processes :refer [launcher magnetar start temporary-folder write]])
  (:import
   (java.io BufferedReader File)
   (java.nio.file Files)
   (java.nio.file.attribute PosixFilePermissions)))

(set! *warn-on-reflection* true)

(defn- cookie-in
  "The path of a cookie file in the folder."
  [^File folder]
  (let [path (write folder "cookie" "0123456789abcdef0123456789abcdef")]
    (Files/setPosixFilePermissions (.toPath (io/file path)) (PosixFilePermissions/fromString "rw-------"))
    path))

(def ^:private till
  "(ns till (:require [magnetar.actor :as actor :refer [receive]] [magnetar.cluster :as cluster] [magnetar.gen-server :as gs]))
   (defn tell [] (receive [what node] (println what node)) (recur))
   (defn -main [& args]
     (actor/spawn #(do (cluster/monitor-nodes true) (println :ready) (tell)))
     (gs/start {:init (fn [n] [:ok n]) :handle-call (fn [_ _ n] [:reply n (inc n)])} 7 {:name :counter}))")

(defn- run-node
  "A program that runs as a node, with its output and its errors as readers."
  [folder program & options]
  (let [^java.util.List command (vec (concat [launcher "run" "--cookie-file" (str (io/file folder "cookie"))] options [program]))
        process (.start (doto (ProcessBuilder. command) (.directory folder)))]
    {:process process, :out (io/reader (.getInputStream process)), :err (io/reader (.getErrorStream process))}))

(defn- line-with
  "The next line that the pattern matches."
  [^BufferedReader reader pattern]
  (loop []
    (let [line (.readLine reader)]
      (cond
        (nil? line) (throw (ex-info "The program ended first." {:pattern (str pattern)}))
        (re-find pattern line) line
        :else (recur)))))

(defn- address [{:keys [err]}]
  (second (re-find #" is at ([^,]+)," (line-with err #" is at "))))

(defn- end [{:keys [^Process process]}]
  (.waitFor (.destroyForcibly process))
  (io/delete-file (io/file "/tmp" (str ".java_pid" (.pid process))) true)) ; the JDK's, of a JVM that was asked and then killed

(deftest a-program-is-a-node-until-it-ends
  (let [folder (temporary-folder)
        _ (cookie-in folder)
        stock (write folder "stock.clj" "(require '[magnetar.cluster :as cluster] '[magnetar.gen-server :as gs]) (println (cluster/nodes) (gs/call [:counter \"till@shop\"] :next))")
        waiting (write folder "waiting.clj" "(println :ready) @(promise)")
        a (run-node folder (write folder "till.clj" till) "--node" "till@shop")]
    (try
      (let [address (address a)
            run #(magnetar "run" "--node" "stock@shop" "--join" address (str "--cookie-file=" folder "/cookie") %)]
        (line-with (:out a) #":ready")
        (is (= [0 "[till@shop] 7"] ((juxt :exit :out) (run stock))))
        (is (= [":nodeup stock@shop" ":nodedown stock@shop"] (repeatedly 2 #(line-with (:out a) #"node"))))
        (let [{:keys [out ^Process process] :as b} (run-node folder waiting "--node" "stock@shop" "--join" address)]
          (try
            (line-with out #":ready")
            (is (= ":nodeup stock@shop" (line-with (:out a) #"node")))
            (start {} "kill" "-TERM" (str (.pid process)))
            (is (= ":nodedown stock@shop" (line-with (:out a) #"node")))
            (is (= 143 (.waitFor process)))
            (finally (end b))))
        (is (= [2 "magnetar: The name till@shop is taken by another node of the cluster. Start this one with another name."]
               ((juxt :exit (comp last str/split-lines :err)) (magnetar "run" "--node" "till@shop" "--join" address "--cookie-file" (str folder "/cookie") stock)))))
      (finally (end a)))))

(defn- asked [& words]
  (let [{:keys [exit out err]} (apply magnetar words)]
    (if (= 0 exit) out [exit err])))

(deftest a-node-is-asked-and-ended-from-outside
  (let [folder (temporary-folder)
        _ (cookie-in folder)
        name (str "n" (System/nanoTime) "@shop") ; another checkout may test this too
        a (run-node folder (write folder "till.clj" till) "--node" name "--cluster" name)
        address (address a)
        _ (line-with (:out a) #":ready")
        pid #(str (.pid ^Process (:process %)))
        b (run-node folder (write folder "waiting.clj" "(println :ready) @(promise)") "--node" "stock@shop" "--cluster" name "--join" address)]
    (try
      (is (= ":nodeup stock@shop" (line-with (:out a) #"node")))
      (is (re-matches (re-pattern (str "(?s)" name " at " address ", in the cluster for .* s\n  (not )?active, .*\n  stock@shop  connected for .*, 0 bytes queued")) (asked "cluster" "status" name)))
      (is (re-find #"(?s):counter .*
Node stock@shop:
.*:magnetar.cluster/node " (asked "inspect" (pid a) "tree" "--nodes")))
      (start {} "kill" "-STOP" (pid b))
      ;; Where it takes longer than the detector to ask, the node is lost before that, or meanwhile.
      (is (re-find #"
Node stock@shop (is silent: it has not answered for \d+\.\d s|was lost .* ago|shows no tree)\." (asked "inspect" (pid a) "tree" "--nodes")))
      (is (= [2 (str "Process " (pid b) " is stopped, so it cannot answer: let it go on with `kill -CONT " (pid b) "`.")] (asked "cluster" "status" (pid b))))
      (start {} "kill" "-CONT" (pid b))
      (is (= "stock@shop has left the cluster." (asked "cluster" "leave" (pid b))))
      (is (= [2 (str "Process " (pid b) " is in no cluster.")] (asked "cluster" "status" (pid b))))
      (is (= (str name " has left the cluster.
Process " (pid a) " has ended.") (asked "cluster" "stop" name)))
      (is (= 143 (.waitFor ^Process (:process a))))
      (finally
        (end a)
        (end b)))))

(deftest nonsense-about-a-cluster-is-answered-by-a-sentence
  (are [expected words] (= [2 expected] (apply asked words))
    "usage: bin/magnetar cluster status|leave|stop [PID|NODE]" ["cluster"]
    "usage: bin/magnetar cluster status|leave|stop [PID|NODE]" ["cluster" "start" "1"]
    "usage: bin/magnetar cluster status|leave|stop [PID|NODE]" ["cluster" "status" "1" "2"]
    "There is no process 2147483646." ["cluster" "stop" "2147483646"]
    "No program that runs with --node no@such is here. Name a process id, as `jps` lists them." ["cluster" "leave" "no@such"]
    "`cluster` wants a process id, as `jps` lists them, or the name of a node; this is \"till\"." ["cluster" "status" "till"])
  (let [[exit err] (asked "inspect" "1" "top" "--nodes")]
    (is (= 2 exit))
    (is (str/starts-with? err "`--nodes` goes with a process id, and the view tree or none.\nusage: "))))

(deftest nodes-use-the-certificates-of-files
  (let [folder (temporary-folder)
        _ (cookie-in folder)
        program (write folder "till.clj" till)
        tls #(vector "--certfile" (certificates/path (str % ".pem")) "--keyfile" (certificates/path (str % ".key")) "--cacertfile" (certificates/path "ca.pem"))
        a (apply run-node folder program "--node" "till@shop" (tls "server"))]
    (try
      (let [address (address a)
            _ (line-with (:out a) #":ready")
            b (apply run-node folder program "--node" "stock@shop" "--join" address (tls "client"))]
        (try
          (is (= ":nodeup stock@shop" (line-with (:out a) #"node")))
          (finally (end b))))
      (finally (end a)))))

(deftest what-a-node-cannot-be-is-said-in-a-sentence
  (let [folder (temporary-folder)
        cookie (cookie-in folder)
        program (write folder "p.clj" "(println :ran)")
        good ["--node" "till@shop" "--cookie-file" cookie]
        sentence (fn [& options]
                   (let [{:keys [exit out err]} (apply magnetar {:folder folder} "run" (conj (vec options) program))]
                     (is (= [2 ""] [exit out]))
                     (last (str/split-lines err))))]
    (are [expected options] (= expected (apply sentence options))
      "magnetar: run --node wants a name of the form name@host; this is \"till\"." ["--node" "till" "--cookie-file" cookie]
      "magnetar: run --node needs --cookie-file FILE; make one that all nodes share, as by `(umask 077; openssl rand -hex 32 > cookie)`." ["--node" "till@shop"]
      "magnetar: There is no cookie file none: make one that all nodes share, as by `(umask 077; openssl rand -hex 32 > none)`." ["--node" "till@shop" "--cookie-file" "none"]
      "magnetar: The options of a node need --node NAME, as in --node till@shop." ["--join" "127.0.0.1:1"]
      "magnetar: run --node was given twice, with a@b and till@shop: leave one out." (into ["--node" "a@b"] good)
      "magnetar: run --bind is an address host:port; this is \"7800\"." (conj good "--bind" "7800")
      "magnetar: run --advertise is an address with a port that is not 0; this is \"10.0.0.1:0\"." (conj good "--advertise" "10.0.0.1:0")
      "magnetar: A node that listens at 10.0.0.1, outside of the loopback address, needs TLS. If the network is trusted, allow it with --insecure."
      (conj good "--bind" "10.0.0.1:0")
      "magnetar: A node that dials the peer 10.0.0.1:7800, outside of the loopback address, needs TLS. If the network is trusted, allow it with --insecure."
      (conj good "--join" "10.0.0.1:7800")
      "magnetar: The peer 10.0.0.1:7800 cannot dial a node that listens at 127.0.0.1: give --bind an address of this machine that the peer can dial, or give such an address to --advertise."
      (conj good "--insecure" "--join" "10.0.0.1:7800")
      "magnetar: run takes --join or --dns, and not both." (conj good "--join" "127.0.0.1:1" "--dns" "shop")
      "magnetar: run --join needs a value, and this is \"--insecure\"." (conj good "--join" "--insecure"))))

(deftest a-program-that-needs-the-cluster-is-told-where-it-is
  (is (str/ends-with? (:err (magnetar "run" (write (temporary-folder) "p.clj" "(require 'magnetar.cluster)")))
                      "magnetar: magnetar.cluster is in magnetar/magnetar-cluster: run the program with --node NAME, or name that in a deps.edn beside the program.")))
