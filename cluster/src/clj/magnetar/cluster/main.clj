(ns magnetar.cluster.main
  "Asks a running node of a cluster from outside: `bin/magnetar cluster status`.

  It asks as `magnetar.inspect.main` does: by the JDK's `jcmd`, through the flight recorder. So it needs no
  cookie and opens no port, and the program's user and root may ask. Outside this repository:

    java -cp LIBRARIES clojure.main -m magnetar.cluster.main status PID

  See also `magnetar.cluster`, `magnetar.inspect.main`."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.impl.inspect.outside :as outside]
   [magnetar.impl.inspect.tree :as tree])
  (:import
   (java.io File IOException)
   (java.lang ProcessHandle)
   (java.util.concurrent TimeUnit TimeoutException)))

(set! *warn-on-reflection* true)

(def ^:private usage
  "usage: bin/magnetar cluster status|leave|stop [PID|NODE]")

;; ---- which program

(defn- command-line
  "The arguments of the process; none where they cannot be read."
  [^ProcessHandle process]
  (let [file (io/file "/proc" (str (.pid process)) "cmdline")]
    (try
      (if (.exists file)
        (str/split (slurp file) #"\u0000")
        (vec (.orElse (.arguments (.info process)) (make-array String 0))))
      (catch IOException _ []))))

(defn- node-of
  "The name of the node that `bin/magnetar run --node` has made of the process; nil if it is another process."
  [process]
  (some #(second (re-matches #"-Dmagnetar\.node=(.+)" %)) (command-line process)))

(defn- nodes-here
  "[pid name] of each program of this machine that runs with --node, by name."
  []
  (sort-by (juxt second first)
           (for [^ProcessHandle process (iterator-seq (.iterator (ProcessHandle/allProcesses)))
                 :let [name (node-of process)]
                 :when name]
             [(.pid process) name])))

(defn- listed [nodes]
  (str/join ", " (map (fn [[pid name]] (str pid " " name)) nodes)))

(defn- the-only [nodes what]
  (case (count nodes)
    1 (ffirst nodes)
    0 (outside/refuse "No program that runs with --node " what " is here. Name a process id, as `jps` lists them.")
    (outside/refuse "Several programs run with --node " what ": " (listed nodes) ". Name one of them.")))

(defn- process-id
  "The process id that the argument names; nil for the only node of this machine."
  [subject]
  (cond
    (nil? subject) (the-only (nodes-here) "NAME")
    (parse-long subject) (parse-long subject)
    (str/includes? subject "@") (the-only (filter #(= subject (second %)) (nodes-here)) subject)
    :else (outside/refuse "`cluster` wants a process id, as `jps` lists them, or the name of a node; this is " (pr-str subject) ".")))

;; ---- status

(defn- about-agreement
  "What hinders the node from being a member, or the others from having a leader; nil if nothing does."
  [{:keys [split-brain incompatible slow]} node]
  (cond
    (get incompatible node) (str ", incompatible: it has :split-brain " (incompatible node) ", and this node " split-brain)
    (= node (:node slow)) (str ", too slow: it took " (:took-ms slow) " ms to answer, more than a quarter of the :lease of "
                               (:lease split-brain) " ms")))

(defn- agreement-line
  "Whether this node is active, and the view."
  [{:keys [active leader members]}]
  (str (if active "active" "not active")
       (if leader
         (str ", leader " leader ", members " (str/join " " members))
         ", no leader yet")))

(defn- unkept-line
  "Which singletons do not run, though this node is active; nil if none is known."
  [{:keys [active leader unkept]}]
  (when (and active (seq unkept))
    (str (str/join ", " unkept) (if (next unkept) " do" " does") " not run: the leader " leader " has no keeper of "
         (if (next unkept) "them" "it"))))

(defn- rows
  "What is known of each other node, as [name text]."
  [{:keys [nodes lost refused agreement]}]
  (concat
   (for [{:keys [node since-ms queued]} nodes]
     [node (str "connected" (when since-ms (str " for " (tree/seconds since-ms))) (when queued (str ", " queued " bytes queued"))
                (about-agreement agreement node))])
   (for [{:keys [node since-ms why]} lost]
     [node (str (tree/lost why) " " (tree/seconds since-ms) " ago")])
   (for [{:keys [node why]} refused]
     [node (str "refused: " why)])))

(defn- status-lines [{:keys [node address since-ms agreement] :as status}]
  (let [rows (rows status)
        width (apply max 1 (map (comp count first) rows))]
    (concat [(str node " at " address ", in the cluster for " (tree/seconds since-ms))]
            (when agreement
              (map #(str "  " %) (keep #(% agreement) [agreement-line unkept-line])))
            (if (seq rows)
              (map (fn [[node text]] (format (str "  %-" width "s  %s") node text)) rows)
              ["  connected with no other node"]))))

;; ---- commands

(defn- ask [pid question what]
  (let [answer (outside/ask pid question what)]
    (when-not (:node answer)
      (outside/refuse "Process " pid " is in no cluster."))
    answer))

(defn- leave
  "The line that says how it went."
  [pid]
  (let [{:keys [node left again]} (ask pid :leave "leave")]
    (cond
      (= :late left) (outside/refuse node " has not left the cluster yet, and goes on trying.")
      again (str node " has left the cluster, and its supervisor has started it again.")
      :else (str node " has left the cluster."))))

(def ^:private end-limit-s 30)

(defn- end
  "Ends the process as SIGTERM does; the line that says so."
  [pid]
  (let [^ProcessHandle process (.orElseThrow (ProcessHandle/of pid))]
    (.destroy process)
    (try
      (.get (.onExit process) end-limit-s TimeUnit/SECONDS)
      (str "Process " pid " has ended.")
      (catch TimeoutException _
        (outside/refuse "Process " pid " was told to end by SIGTERM, and has not ended within " end-limit-s " s.")))))

(defn- run [[command subject & more]]
  (when (or more (not (#{"status" "leave" "stop"} command)))
    (outside/refuse usage))
  (let [pid (process-id subject)]
    (case command
      "status" (status-lines (ask pid :cluster "status"))
      "leave" [(leave pid)]
      "stop" [(leave pid) (end pid)])))

(defn -main
  "Prints what a node knows of its cluster, or has it leave, and ends this JVM.

  The first argument is a command:

    status  prints the node's name and address; whether it is active, and the leader and the members of the
            view (see `magnetar.cluster/active?`); which singletons do not run because the leader has no
            keeper of them, all that the leader knows, and on another node its own; and of each other node
            for how long it has been connected, how many bytes are queued for it, and why it is no member or
            hinders a lead, or that it was lost or refused, and why
    leave   has the node leave the cluster, as `magnetar.cluster/stop` does. The program goes on
    stop    has it leave, and then ends the program as SIGTERM does

  The second one is a process id, or the name of a node that `bin/magnetar run --node` has started
  on this machine. Without it, the only such node is asked.

  The exit code is 0. If the program does not answer, or is in no cluster, it is 2, after a sentence on
  standard error."
  {:added "0.2"}
  [& arguments]
  (outside/exit-after #(run! println (run arguments))))
