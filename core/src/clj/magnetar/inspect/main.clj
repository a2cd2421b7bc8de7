(ns magnetar.inspect.main
  "Asks a running program from outside what it does: `bin/magnetar inspect PID`.

  It needs the JDK's `jcmd` and the right to attach to the program, which the program's user and root have.
  The program needs no option and opens no port: `jcmd` asks it through the JDK's flight recorder. Outside
  this repository:

    java -cp LIBRARIES clojure.main -m magnetar.inspect.main PID

  See also `magnetar.inspect`."
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.analysis :as analysis]
   [magnetar.impl.inspect.outside :as outside]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.inspect.views :as views])
  (:import
   (java.io File)
   (magnetar MisuseException)))

(set! *warn-on-reflection* true)

(def ^:private usage
  "usage: bin/magnetar inspect PID [deadlocks|stuck|tree|restarts|mailboxes|top|leaks|dump]\n       bin/magnetar inspect PID [tree] --nodes\n       bin/magnetar inspect PID stuck NAME\n       bin/magnetar inspect FILE [deadlocks|stuck|tree|restarts|mailboxes|dump]")

;; ---- a running program

(defn- from-thread-dump
  "What the JDK's thread dump says of a program that does not answer."
  [pid]
  (try
    (outside/with-thread-dump pid analysis/of)
    (catch Exception e
      (if (or (outside/silence? e) (instance? MisuseException e))
        (outside/refuse "Process " pid " does not answer, and the JDK could not write a thread dump of it: `kill -QUIT " pid "` makes it print its stacks.")
        (throw e)))))

(defn- of-program
  "[answer line]: the answer of the program and nil, or the analysis of its thread dump and a line that says so."
  [pid question about]
  (try
    [(outside/ask pid question about) nil]
    (catch clojure.lang.ExceptionInfo e
      (cond
        (not (outside/silence? e)) (throw e)
        (= :dump question) [(from-thread-dump pid) (str (ex-message e) " This is what the JDK's thread dump says.")]
        :else (outside/refuse (ex-message e) " `bin/magnetar inspect " pid "` analyses the JDK's thread dump of it.")))))

;; ---- a file

(defn- of-file [file question view]
  (when (not= :dump question)
    (outside/refuse "A file has no answer to `" view "`: ask a running program.\n" usage))
  (try
    [(analysis/of file) nil]
    (catch MisuseException e
      (outside/refuse (ex-message e)))))

;; ---- the other nodes of its cluster

(defn- of-node [{:keys [node lines silent-ms]}]
  (cond
    silent-ms [(str "Node " node " is silent: it has not answered for " (tree/seconds silent-ms) ".")]
    (empty? lines) [(str "Node " node " shows no tree.")]
    :else (cons (str "Node " node ":") (map #(str "  " %) lines))))

(defn- of-lost [{:keys [node since-ms why]}]
  (str "Node " node " " (tree/lost why) " " (tree/seconds since-ms) " ago."))

(defn- of-nodes
  "The lines about the other nodes, which the program asks."
  [pid]
  (let [{:keys [node nodes trees lost]} (outside/ask pid :cluster "trees")
        more (- (count nodes) (count trees))]
    (if node
      (concat (mapcat of-node trees)
              (when (pos? more) [(str more " more nodes are connected.")])
              (map of-lost lost))
      [(str "Process " pid " is in no cluster.")])))

(defn- nodes-asked?
  "Is `--nodes` among the words? It stands beside a process, and the tree or no view."
  [words]
  (let [[subject view & more] (remove #{"--nodes"} words)]
    (when (some #{"--nodes"} words)
      (when (or more (not (contains? #{nil "tree"} view)) (nil? (some-> subject parse-long)))
        (outside/refuse "`--nodes` goes with a process id, and the view tree or none.\n" usage))
      true)))

;; ---- what is printed

(defn- lines-of [view before {:keys [source] :as answer}]
  (cond
    (nil? view) (views/overview answer)
    (and (= :jdk source) (#{"restarts" "mailboxes"} view)) (outside/refuse (when before (str before " "))
                                                                           "A thread dump of the JDK does not show " view ": choose another view.\n" usage)
    :else (views/lines [view] answer)))

(defn- view-of
  "The view that these arguments ask for; nil for the usual ones."
  [view about]
  (cond
    (nil? view) nil
    (or (not (views/all view)) (= "stuck NAME" view)) (outside/refuse "`inspect` does not know " view ".\n" usage)
    (nil? about) view
    (not= "stuck" view) (outside/refuse "Only stuck takes a name, and not " view ".\n" usage)
    (str/blank? about) (outside/refuse "The name after stuck is empty.\n" usage)
    :else "stuck NAME"))

(defn- of-subject [[subject view about & more]]
  (when (or (nil? subject) (#{"-h" "--help"} subject) more)
    (outside/refuse usage))
  (let [view (view-of view about)
        question (first (views/all view [:dump]))
        pid (parse-long subject)
        [answer before] (cond
                          pid (of-program pid question about)
                          (and (seq subject) (.exists (File. ^String subject))) (of-file subject question view)
                          :else (outside/refuse "`inspect` wants a process id, as `jps` lists them, or a file with a dump; this is "
                                                (pr-str subject) "."))]
    (cond->> (lines-of view before answer) before (cons before))))

(defn- answer [words]
  (let [nodes? (nodes-asked? words)
        [pid :as words] (remove #{"--nodes"} words)
        lines (of-subject words)]
    (cond-> lines nodes? (concat (of-nodes (parse-long pid))))))

(defn -main
  "Prints what a program does, or what a dump says, and ends this JVM.

  The first argument is a process id, or a file with a dump as `magnetar.inspect/analyze` reads it.
  The second one is a view: deadlocks, stuck, tree, restarts, mailboxes, top, leaks, or dump, which is EDN.
  Without it, deadlocks, stuck, restarts and tree are printed. The third one, after stuck, is the name of a
  process, fiber or thread, as the tree prints it: then only what those with that name wait for is printed.

  With `--nodes` after a process, the trees of the other nodes of its cluster follow. The program asks them
  for at most some seconds. A node that does not answer is printed as silent, with for how long. Of each
  node there are at most 500 lines.

  A thread dump that the JDK makes of the program is analysed if the program neither answers nor works on the
  answer for 5 seconds, or has no answer after 60, or if `jcmd` takes 15. That has no answer to top, leaks,
  restarts, mailboxes and about a name. The exit code is 0. If there is nothing to print, it is 2, after a
  sentence on standard error."
  {:added "0.2"}
  [& arguments]
  (outside/exit-after #(run! println (answer arguments))))
