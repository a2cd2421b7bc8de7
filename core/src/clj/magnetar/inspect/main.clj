(ns magnetar.inspect.main
  "Asks a running program from outside what it does: `bin/magnetar inspect PID`.

  It needs the JDK's `jcmd` and the right to attach to the program, as the same user. The program needs
  nothing, and nothing in it listens: it is asked through the JDK's flight recorder. Outside this repository:

    java -cp LIBRARIES clojure.main -m magnetar.inspect.main PID

  See also `magnetar.inspect`."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.impl.inspect.text :as text]
   [magnetar.impl.inspect.tree :as tree])
  (:import
   (java.io File IOException)
   (java.lang ProcessHandle)
   (java.nio.file Files Path)
   (java.util.concurrent TimeUnit)
   (jdk.jfr.consumer RecordedEvent RecordingFile)))

(set! *warn-on-reflection* true)

(def ^:private usage
  "usage: bin/magnetar inspect PID [deadlocks|stuck|tree|restarts|dump]")

(defn- refuse [& words]
  (throw (ex-info (apply str words) {::refused true})))

;; ---- the process

(defn- number [word]
  (or (parse-long word)
      (refuse "`inspect` wants the number of a process, as `jps` lists them; this is " (pr-str word) ".")))

(defn- status
  "What the operating system tells of a process in this file of its own; nil where it does not."
  [pid file]
  (try
    (String. (Files/readAllBytes (Path/of (str "/proc/" pid "/" file) (make-array String 0))))
    (catch IOException _ nil)))

(defn- stopped? [pid]
  (some->> (status pid "stat") (re-find #"\) (\w)") second #{"T" "t"}))

(defn- other-user
  "The user to whom the process belongs, if that is another one and this one is not root."
  [^ProcessHandle process]
  (let [user (.orElse (.user (.info process)) nil)
        own (System/getProperty "user.name")]
    (when-not (or (nil? user) (= own user) (= "root" own))
      user)))

(defn- check-process [pid]
  (let [process (.orElse (ProcessHandle/of pid) nil)]
    (when (nil? process)
      (refuse "There is no process " pid "."))
    (when (stopped? pid)
      (refuse "Process " pid " is stopped, so it cannot answer: let it go on with `kill -CONT " pid "`."))
    (when-some [user (other-user process)]
      (refuse "Process " pid " belongs to the user " user ": ask as that user."))
    (when-some [maps (status pid "maps")]
      (when-not (str/includes? maps "libjvm.so")
        (refuse "Process " pid " is no JVM.")))))

;; ---- jcmd

(def ^:private limit-s
  "How long one command of jcmd may take. The program itself gives up earlier."
  15)

(defn- jcmd-file ^File []
  (let [file (io/file (System/getProperty "java.home") "bin" "jcmd")]
    (if (.exists file)
      file
      (refuse "`inspect` needs the JDK's jcmd, and " (System/getProperty "java.home") " has none: run it with a JDK."))))

(defn- jcmd
  "What jcmd prints for the process."
  [pid & words]
  (let [out (File/createTempFile "magnetar" ".txt")
        process (.start (doto (ProcessBuilder. ^java.util.List (into [(str (jcmd-file)) (str pid)] words))
                          (.redirectErrorStream true)
                          (.redirectOutput out)))]
    (try
      (when-not (.waitFor process limit-s TimeUnit/SECONDS)
        (.destroyForcibly process)
        (refuse "Process " pid " does not answer the JDK's jcmd within " limit-s " s: the JVM itself may hang. `kill -QUIT " pid "` makes it print its stacks."))
      (slurp out)
      (finally (io/delete-file out true)))))

(defn- check-answer
  "Refuses what jcmd prints where the JVM cannot be asked."
  [pid answer]
  (cond
    (re-find #"AttachNotSupported|does not support the attach mechanism|doesn't respond" answer)
    (refuse "Process " pid " cannot be asked: it was started with -XX:+DisableAttachMechanism, or it is no JVM that answers.")
    (re-find #"AccessDenied|well-known file .* is not secure|Operation not permitted" answer)
    (refuse "Process " pid " belongs to another user: ask as that user.")
    (re-find #"(?i)unknown diagnostic command" answer)
    (refuse "Process " pid " is a JVM without the flight recorder, through which `inspect` asks.")))

;; ---- the recording

(defn- parts [^File file]
  (filter #(= "magnetar.Dump" (.getName (.getEventType ^RecordedEvent %)))
          (RecordingFile/readAllEvents (.toPath file))))

(defn- joined
  "The text of the newest answer whose parts are all there; nil if there is none."
  [events]
  (let [answers (group-by #(.getLong ^RecordedEvent % "answer") events)
        whole? (fn [[_ [^RecordedEvent event :as parts]]] (= (.getInt event "parts") (count parts)))
        [_ newest] (last (sort-by key (filter whole? answers)))]
    (when newest
      (apply str (map #(.getString ^RecordedEvent % "text") (sort-by #(.getInt ^RecordedEvent % "part") newest))))))

(defn- recorded
  "The text that the program gives while it is recorded; nil if it gives none."
  [pid]
  (let [name (str "magnetar-" (System/nanoTime))
        file (File/createTempFile "magnetar" ".jfr")]
    (try
      (check-answer pid (jcmd pid "JFR.start" (str "name=" name) "settings=none" "+magnetar.Dump#enabled=true" "+magnetar.Dump#period=endChunk"))
      (jcmd pid "JFR.dump" (str "name=" name) (str "filename=" file))
      (jcmd pid "JFR.stop" (str "name=" name))
      (when (pos? (.length file))
        (joined (parts file)))
      (finally (io/delete-file file true)))))

(defn- ask
  "The state of the program, as `magnetar.inspect/dump` returns it there."
  [pid]
  (check-process pid)
  (let [text (or (recorded pid)
                 (refuse "Process " pid " runs no Magnetar, or has not loaded it yet."))
        {:magnetar/keys [failed] :as state} (edn/read-string {:default tagged-literal} text)]
    (when failed
      (refuse "Process " pid " did not answer: " failed))
    state))

;; ---- what is printed

(defn- findings [title none found]
  (if (seq found)
    (cons (str title ":") (map text/line found))
    [none]))

(def ^:private views
  {"deadlocks" (fn [{:keys [deadlocks]}] (findings "Deadlocks" "No deadlock." deadlocks))
   "stuck" (fn [{:keys [why-stuck]}] (findings "Kept up" "Nobody is kept up." why-stuck))
   "tree" (fn [{:keys [tree]}] [(tree/text tree)])
   "restarts" (fn [{:keys [restarts]}] (if (seq restarts) (map text/restarts restarts) ["No supervisor."]))
   "dump" (fn [state] [(pr-str state)])})

(defn- overview [state]
  (mapcat #((views %) state) ["deadlocks" "stuck" "restarts" "tree"]))

(defn- answer [[pid view & more]]
  (cond
    (or (nil? pid) more) (refuse usage)
    (not (or (nil? view) (views view))) (refuse "`inspect` does not know " view ".\n" usage)
    :else (let [state (ask (number pid))]
            ((views view overview) state))))

(defn -main
  "Prints what the program with this process number does, and ends this JVM.

  The views are deadlocks, stuck, tree, restarts and dump, which is EDN; without one all but the dump. The
  exit code is 0, or 2 with a sentence on standard error if the program cannot be asked."
  {:added "0.3"}
  [& arguments]
  (let [code (try
               (run! println (answer arguments))
               0
               (catch clojure.lang.ExceptionInfo e
                 (if (::refused (ex-data e))
                   (binding [*out* *err*]
                     (println (ex-message e))
                     2)
                   (throw e))))]
    (shutdown-agents)
    (System/exit code)))
