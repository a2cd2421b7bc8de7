(ns magnetar.dev.run
  "Runs a program's file as clojure.main does, and then its -main with the arguments; reports what it throws in the user's own terms."
  (:require
   [clojure.java.io :as io]
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.dev.node :as node]
   [magnetar.impl.reports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang ArityException)
   (magnetar.kernel.process ProcessTable)
   (magnetar.kernel.report Failures Frames)
   (magnetar.kernel.scope Scope)))

(set! *warn-on-reflection* true)

(def ^:private most-frames 20)

(defn user-frames
  "Lines of the frames of `e` that belong to the user's program, innermost first."
  [^Throwable e]
  (map #(str (if (str/starts-with? % "(") "    " "    at ") %) (Frames/ofProgram (.getStackTrace e) most-frames)))

(defn- data-line [e]
  (when-let [data (when-not (:magnetar/reason (ex-data e)) (not-empty (ex-data e)))] ; our sentences say it all
    (binding [*print-length* 20 *print-level* 5]
      [(str "    data: " (pr-str data))])))

(defn- headline [^Throwable e]
  (str (or (ex-message e) "No message") " (" (.getSimpleName (class e)) ")"))

(defn- describe [e]
  (concat [(headline e)] (data-line e) (user-frames e)))

(defn- thrown-by-program? [e]
  (= :execution (:clojure.error/phase (ex-data e))))

(defn- unwrap
  "The program's own exception: the compiler wraps what the top level of a file throws, once per file."
  [e]
  (if (and (thrown-by-program? e) (ex-cause e)) (recur (ex-cause e)) e))

(defn- compiler-report [e]
  (when (:clojure.error/phase (ex-data e))
    [(str/trim (main/ex-str (main/ex-triage (Throwable->map e))))]))

(defn- tell
  "The lines of `e`, of its causes and of what it suppressed, each error once."
  [seen label ^Throwable e]
  (when (and e (not (@seen e)))
    (vswap! seen conj e)
    (let [[headline & more] (describe e)]
      (vec (concat [(str label headline)]
                   more
                   (tell seen "caused by: " (ex-cause e))
                   (mapcat #(tell seen "suppressed: " %) (.getSuppressed e)))))))

(defn- own-folders
  "Folders of the class path that are not Magnetar's."
  []
  (let [home (str (System/getProperty "magnetar.home") "/")]
    (remove #(or (str/ends-with? % ".jar") (str/starts-with? % home))
            (str/split (System/getProperty "java.class.path") #":"))))

(defn- missing-file-lines
  "What to do where a namespace was not found: where it was looked for, and how more is named."
  [e]
  (when-some [[_ path] (some #(re-find #"^Could not locate (\S+)__init\.class" (str (ex-message %)))
                             (take-while some? (iterate ex-cause e)))]
    (if (str/starts-with? path "magnetar/cluster")
      ["magnetar: magnetar.cluster is in magnetar/magnetar-cluster: run the program with --node NAME, or name that in a deps.edn beside the program."]
      [(str "magnetar: the namespace " (str/replace (str/replace path "/" ".") "_" "-") " was looked for in "
            (str/join ", " (filter #(.isDirectory (io/file %)) (own-folders)))
            " and in the libraries. `--paths DIR` names a further folder of sources, a deps.edn beside the program its libraries.")])))

(defn report
  "Lines that tell a user what `e` is: message, data and own frames of it, of each cause, and of what these suppressed."
  [e]
  (let [e (unwrap e)]
    (concat (or (compiler-report e)
                (tell (volatile! #{}) "" e))
            (missing-file-lines e))))

(defn- leave [status]
  (flush)
  (shutdown-agents)
  (when-not (zero? (long status)) (System/exit status)))

(defn- calls-itself?
  "True if the file calls its -main, as a script does."
  [path]
  (some? (re-find #"(?m)^\((apply\s+)?-main[\s)]" (slurp path))))

(defn- defined-in
  "Vars of that name which the file defines, in the order of its lines. `load-file` keeps the absolute path with each."
  [path var-name]
  (let [file (.getAbsolutePath (io/file path))]
    (->> (all-ns)
         (keep #(get (ns-interns %) var-name))
         (filter #(= file (:file (meta %))))
         (sort-by (comp :line meta)))))

(defn- entry
  "The -main of the file that was loaded, wherever it stands; nil if it has none, or calls it itself."
  [path]
  (when-some [main (last (defined-in path '-main))]
    (when-not (calls-itself? path) main)))

(defn- forms
  "Top-level forms of the file, read as in the namespace that it has made."
  [path]
  (with-open [reader (java.io.PushbackReader. (io/reader path))]
    (let [read-form #(read {:eof ::end :read-cond :allow} reader)]
      (loop [forms []]
        (let [form (read-form)]
          (cond
            (= ::end form) forms
            (and (seq? form) (= 'ns (first form)) (find-ns (second form)))
            (do (in-ns (second form)) (recur (conj forms form)))
            :else (recur (conj forms form))))))))

(def ^:private declarations
  "Heads of forms that run nothing, except the ones that begin with `def`."
  #{"ns" "in-ns" "comment" "declare" "set!" "import" "alias"})

(defn- declaration? [form]
  (and (seq? form)
       (symbol? (first form))
       (or (declarations (name (first form)))
           (str/starts-with? (name (first form)) "def"))))

(defn- only-declares?
  "Are there forms in the file, and all of them declarations? False if it cannot be read a second time."
  [path]
  (try
    (binding [*ns* *ns*, *read-eval* false]
      (let [forms (forms path)]
        (and (seq forms) (every? declaration? forms))))
    (catch RuntimeException _ false)))

(defn- nothing-to-run
  "The sentence for a file that has no -main and does nothing, or nil."
  [path]
  (when (and (empty? (defined-in path '-main)) (only-declares? path))
    (str "magnetar: there is nothing to run in " path ": it has no -main, and its top level only declares. "
         (if (seq (defined-in path 'main))
           "It has a `main`: name it `-main`."
           "Name the function that begins the program `-main`."))))

(defn- wrong-arguments
  "The sentence for a -main that does not take so many arguments; nil if the error comes from another call."
  [path main args ^ArityException e]
  (let [{:keys [arglists line]} (meta main)
        n (count args)]
    (when (and (= n (.-actual e)) (= (.-name e) (.getName (class @main))))
      (str "magnetar: " (symbol main) " at " path ":" line " was called with " n (if (= 1 n) " argument" " arguments")
           (when (seq arglists) (str ", and takes " (str/join " or " (map pr-str arglists))))
           ". What stands after the file is passed to it: magnetar run " path " ARGUMENT .."))))

(defn- call-main
  "Calls -main with the arguments; returns the sentence to end with when it does not take so many."
  [path main args]
  (try
    (apply main args)
    nil
    (catch ArityException e
      (or (wrong-arguments path main args e) (throw e)))))

(defn- run-program
  "Loads the file and calls its -main; returns the sentence to end with when there is nothing to run, else nil."
  [path args]
  (main/with-bindings
    (binding [*command-line-args* args]
      (in-ns 'user)
      (load-file path)
      (if-some [main (entry path)]
        (call-main path main args)
        (nothing-to-run path)))))

(def ^:private pause-ms 20)

(defn- await-end
  "Fibers are daemons: waits while a process that has a name, or a scope, is alive. The names of before the program do not count."
  [before]
  (while (or (seq (remove before (ProcessTable/names))) (pos? (Scope/alive)))
    (Thread/sleep (long pause-ms))))

(defn- complain [lines]
  (flush)
  (binding [*out* *err*] (run! println lines) (flush))
  1)

(defn- run-file
  "The status of the program."
  [path args wait?]
  (try
    (let [before (set (ProcessTable/names))]
      (if-some [sentence (run-program path args)]
        (complain [sentence])
        (do (when wait? (await-end before))
            0)))
    (catch OutOfMemoryError e ; a report needs memory, which the kernel reserves
      (Failures/report (Thread/currentThread) e)
      1)
    (catch Throwable e
      (complain (report e)))))

(defn- start-node
  "Starts the node; returns the function that makes it leave. If it does not start, ends the JVM with 2, after a sentence."
  [options]
  (try
    (node/start options)
    (catch clojure.lang.ExceptionInfo e
      (when-not (node/refusal? e)
        (throw e))
      (complain [(str "magnetar: " (ex-message e))])
      (leave 2))))

(defn- run-on-node [options path args wait?]
  (let [stop (start-node options)
        status (run-file path args wait?)]
    (flush)
    (stop)
    status))

(defn -main
  "Runs the file with its arguments, and waits until no process with a name and no scope is alive, unless --no-wait stands before the
  file. The JVM ends with 0, 1 when the program throws, or as the program says. With --on-node and the options of a node, each a line and
  its value one, before all that, the program runs on a node of a cluster, which leaves at the end."
  [& arguments]
  (let [node (when (= "--on-node" (first arguments)) (second arguments))
        arguments (cond-> arguments node nnext)
        wait? (not= "--no-wait" (first arguments))
        [path & args] (if wait? arguments (rest arguments))]
    (leave (if node
             (run-on-node node path args wait?)
             (run-file path args wait?)))))
