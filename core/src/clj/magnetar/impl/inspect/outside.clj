(ns magnetar.impl.inspect.outside
  "Asks another JVM what it does, through its flight recorder and the JDK's jcmd.

  If a JVM cannot be asked, the error is a refusal: its message is one sentence for the user that says why, see `refusal?`."
  {:no-doc true}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io File IOException)
   (java.lang ProcessHandle)
   (java.net URLEncoder)
   (java.nio.charset StandardCharsets)
   (java.nio.file Files Path)
   (java.util.concurrent TimeUnit)
   (jdk.jfr EventType)
   (jdk.jfr.consumer RecordedEvent RecordingFile)))

(set! *warn-on-reflection* true)

(defn refuse
  "Throws a refusal with this sentence, given in parts."
  [& words]
  (throw (ex-info (apply str words) {::refused true})))

(defn- no-answer
  "Throws a refusal of a program that is silent: one that does not answer in time."
  [& words]
  (throw (ex-info (apply str words) {::refused true ::silent true})))

(defn silence?
  "Is the error a refusal of a program that is silent?"
  [error]
  (::silent (ex-data error)))

(defn refusal?
  "Is the error a refusal?"
  [error]
  (::refused (ex-data error)))

(defn exit-after
  "Calls f and ends this JVM with the exit code 0. After a refusal it prints the sentence on standard error, and the code is 2. So it is if a temporary file
  cannot be written or read."
  [f]
  (let [refused (fn [sentence]
                  (binding [*out* *err*]
                    (println sentence))
                  2)
        code (try
               (f)
               0
               (catch clojure.lang.ExceptionInfo e
                 (if (refusal? e)
                   (refused (ex-message e))
                   (throw e)))
               (catch IOException e
                 (refused (str "A temporary file in " (System/getProperty "java.io.tmpdir") " cannot be written or read: " (ex-message e)))))]
    (shutdown-agents)
    (System/exit code)))

;; ---- the process

(defn- status
  "The content of this file under /proc of a process; nil where there is no such file."
  [pid file]
  (try
    (String. (Files/readAllBytes (Path/of (str "/proc/" pid "/" file) (make-array String 0))))
    (catch IOException _ nil)))

(defn- stopped? [pid]
  (some->> (status pid "stat") (re-find #"\) (\w)") second #{"T" "t"}))

(defn- user-of [^ProcessHandle process]
  (.orElse (.user (.info process)) nil))

(defn- own-user []
  (System/getProperty "user.name"))

(defn- other-user
  "The user of the process, if it is not the current user and the current user is not root."
  [process]
  (let [user (user-of process)]
    (when-not (or (nil? user) (contains? (hash-set user "root") (own-user)))
      user)))

(defn check-process
  "Refuses a process number unless a JVM with it runs that this user may ask."
  [pid]
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
  "How many seconds one command of jcmd may take."
  15)

(def ^:private stop-limit-s
  "How many seconds the command that stops a recording may take."
  5)

(defn- jcmd-file ^File []
  (let [file (io/file (System/getProperty "java.home") "bin" "jcmd")]
    (if (.exists file)
      file
      (refuse "`inspect` needs the JDK's jcmd, and " (System/getProperty "java.home") " has none: run it with a JDK."))))

(defn- in-words
  "The first message in what jcmd printed, without the names of Java classes."
  [printed]
  (let [lines (remove #(re-matches #"\d+:|\s*" %) (str/split-lines printed))]
    (str/replace (str/trim (or (first lines) "it says nothing")) #"(?:[\w.$]+(?:Exception|Error): *)+" "")))

(defn- refuse-because
  "Refuses a process after a failure of jcmd, for the reason that jcmd printed."
  [pid printed]
  (check-process pid) ; it may have ended or been stopped since
  (condp re-find printed
    #"AttachNotSupported|does not support the attach mechanism|doesn't respond"
    (refuse "Process " pid " cannot be asked: it was started with -XX:+DisableAttachMechanism, or it is no JVM that answers.")
    #"AccessDenied|well-known file .* is not secure|Operation not permitted"
    (refuse "Process " pid " belongs to another user: ask as that user.")
    #"(?i)unknown diagnostic command|jdk\.jfr"
    (refuse "Process " pid " is a JVM without the flight recorder, through which `inspect` asks: start it with the module jdk.jfr.")
    (refuse "Process " pid " cannot be asked, the JDK's jcmd says: " (in-words printed))))

(defn- run-jcmd
  "What jcmd prints for the process. If it takes more than so many seconds, the program counts as silent."
  [pid seconds words]
  (let [out (File/createTempFile "magnetar" ".txt")
        process (.start (doto (ProcessBuilder. ^java.util.List (into [(str (jcmd-file)) (str pid)] words))
                          (.redirectErrorStream true)
                          (.redirectOutput out)))]
    (try
      (when-not (.waitFor process (long seconds) TimeUnit/SECONDS)
        (.destroyForcibly process)
        (check-process pid)
        (no-answer "Process " pid " does not answer the JDK's jcmd within " seconds " s."))
      (let [printed (slurp out)]
        (when-not (zero? (.exitValue process))
          (refuse-because pid printed))
        printed)
      (finally (io/delete-file out true)))))

(defn- jcmd [pid & words]
  (run-jcmd pid limit-s words))

;; ---- the recording

(def ^:private questions
  "The event that answers each question, and for how many seconds the program may do nothing before it has answered. Collections of garbage do not count as
  something, and `leaks` makes some."
  {:dump {:event "magnetar.Dump" :patience-s 5}
   :top {:event "magnetar.Top" :patience-s 5}
   :leaks {:event "magnetar.Leaks" :patience-s 30}
   :why {:event "magnetar.Why" :patience-s 5}
   :cluster {:event "magnetar.Cluster" :patience-s 6}
   :leave {:event "magnetar.Cluster" :patience-s 30}})

(def ^:private answer-limit-s
  "How many seconds an answer may take in all."
  60)

(def ^:private pause-ms 100)

(defn- joined [parts]
  (apply str (map #(.getString ^RecordedEvent % "text") (sort-by #(.getInt ^RecordedEvent % "part") parts))))

(defn- answers
  "The texts of the answers of which all parts have been recorded, the newest first."
  [events]
  (let [answers (group-by #(.getLong ^RecordedEvent % "answer") events)
        whole? (fn [[_ [^RecordedEvent event :as parts]]] (= (.getInt event "parts") (count parts)))]
    (map (comp joined val) (reverse (sort-by key (filter whole? answers))))))

(defn- events-of
  "The events of this name that are left in the recording, which may have many others."
  [^RecordingFile recording event]
  (loop [found []]
    (if (.hasMoreEvents recording)
      (let [next (.readEvent recording)]
        (recur (cond-> found (= event (.getName (.getEventType next))) (conj next))))
      found)))

(defn- sign?
  "Does the event only say that the program computes the answer?"
  [^RecordedEvent event]
  (zero? (.getInt event "parts")))

(defn- read-recording
  "What the recording has of the event: {:known true if the program has registered the event, :signs how many, :texts the answers}."
  [^File file event]
  (with-open [recording (RecordingFile. (.toPath file))]
    (let [known (boolean (some #(= event (.getName ^EventType %)) (.readEventTypes recording)))
          {signs true, parts false} (group-by sign? (events-of recording event))]
      {:known known, :signs (count signs), :texts (answers parts)})))

(defn- with-written
  "Calls (write path), at which the process writes a file with this path. Calls f with the file, and removes it. A process in a container writes it in its own
  file system, which the operating system shows under /proc."
  [pid suffix write f]
  (let [file (io/file (System/getProperty "java.io.tmpdir") (str "magnetar-" (System/nanoTime) suffix)) ; not made here: it may run as another user
        of-container (io/file (str "/proc/" pid "/root" file))]
    (try
      (write (str file))
      (f (if (and (not (.exists file)) (.exists of-container)) of-container file))
      (finally
        (io/delete-file file true)
        (io/delete-file of-container true)))))

(defn- recorded-so-far [pid name event]
  (with-written pid ".jfr"
    (fn [path] (jcmd pid "JFR.dump" (str "name=" name) (str "filename=" path)))
    (fn [^File file]
      (when-not (pos? (.length file))
        (refuse "Process " pid " could not write its recording to " file ": has it room there, and may it write there?"))
      (read-recording file event))))

(defn- seconds-from [nanos seconds]
  (+ (long nanos) (* 1000000000 (long seconds))))

(defn- read-answer [pid text]
  (try
    (edn/read-string {:default tagged-literal} text)
    (catch RuntimeException _
      (refuse "The answer of process " pid " is no EDN: does it run another version of Magnetar?"))))

(defn- answers?
  "Is it an answer to a question about this name, or about none? One that failed says no name."
  [{:magnetar/keys [failed] :as answer} about]
  (or (nil? about) failed (= about (:name answer))))

(defn- await-answer
  "The answer that the program records; nil if it has not registered the event. Another recording may ask for another name at the same time, so answers to that
  are left out."
  [pid name {:keys [event patience-s]} about]
  (let [start (System/nanoTime)
        last-moment (long (seconds-from start answer-limit-s))]
    (loop [signs-before 0, deadline (long (seconds-from start patience-s))]
      (let [{:keys [known texts signs]} (recorded-so-far pid name event)
            answer (first (filter #(answers? % about) (map #(read-answer pid %) texts)))
            now (System/nanoTime)]
        (cond
          answer answer
          (not known) nil
          (< last-moment now) (no-answer "Process " pid " did not answer within " answer-limit-s " s.")
          (not= signs-before signs) (recur (long signs) (long (seconds-from now patience-s)))
          (< deadline now) (no-answer "Process " pid " did not answer within " patience-s " s.")
          :else (do (Thread/sleep (long pause-ms))
                    (recur signs-before deadline)))))))

(defn- stop-recording
  "Stops the recording. A refusal is dropped, since an earlier failure may have led here, which is the one to report."
  [pid name]
  (try
    (run-jcmd pid stop-limit-s ["JFR.stop" (str "name=" name)])
    (catch IOException _ nil)
    (catch clojure.lang.ExceptionInfo e
      (when-not (refusal? e)
        (throw e)))))

(defn- stopping
  "Calls f, then `stop`, also if this JVM ends meanwhile, so that no recording goes on in the other JVM. If that JVM is silent, it stops the recording when it
  answers again."
  [^Runnable stop f]
  (let [at-exit (Thread. stop)]
    (.addShutdownHook (Runtime/getRuntime) at-exit)
    (try
      (f)
      (finally
        (.run stop)
        (try
          (.removeShutdownHook (Runtime/getRuntime) at-exit)
          (catch IllegalStateException _ending))))))

(defn- recorded
  "What the program answers to the question, read from a recording; nil if it does not know the event. The program answers when the recording starts.
  The infinite period keeps it from answering again."
  [pid {:keys [event] :as question} about]
  (let [name (str "magnetar-" (System/nanoTime))
        settings (cond-> {"enabled" "true", "period" "infinity"} about (assoc "name" (URLEncoder/encode ^String about StandardCharsets/UTF_8)))]
    (stopping #(stop-recording pid name)
      (fn []
        (apply jcmd pid "JFR.start" (str "name=" name) "settings=none" (for [[setting value] settings] (str "+" event "#" setting "=" value)))
        (await-answer pid name question about)))))

(defn ask
  "What the program with this process number answers to the question: :dump, :top or :leaks, :why with the name that it is about, or :cluster or
  :leave with what is asked about the cluster."
  [pid question & [about]]
  (check-process pid)
  (let [{:magnetar/keys [failed] :as answer}
        (or (recorded pid (questions question) about)
            (refuse "Process " pid " runs no Magnetar 0.3 or newer, or has not loaded it yet. To see what its threads wait for, "
                    "run `jstack -l " pid " >FILE` and `bin/magnetar inspect FILE`."))]
    (when failed
      (refuse "Process " pid " did not answer: " failed))
    answer))

(defn with-thread-dump
  "Calls f with the file of a thread dump that the JDK makes of the process, and removes it."
  [pid f]
  (with-written pid ".txt"
    (fn [path] (jcmd pid "Thread.dump_to_file" "-overwrite" path))
    f))
