(ns magnetar.faults.server
  "Starts a server in a JVM of its own, asks it what it holds, and ends it."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.test :as mt])
  (:import
   (java.io BufferedReader Writer)
   (java.lang ProcessBuilder$Redirect)
   (java.util List)
   (java.util.concurrent BlockingQueue LinkedBlockingQueue TimeUnit)))

(set! *warn-on-reflection* true)

(defn- command [server arguments]
  (let [home (System/getProperty "magnetar.home")]
    (into [(str (io/file (System/getProperty "java.home") "bin" "java"))
           (str "@" home "/kernel/java.options") "--enable-native-access=ALL-UNNAMED" "-Xmx256m" "-XX:+UseSerialGC"
           "-Dslf4j.internal.verbosity=ERROR" "-cp" (System/getProperty "java.class.path")
           "clojure.main" "-m" "magnetar.faults.program" server]
          arguments)))

(defn- read-lines
  "Puts the answers of the server on the queue, and what else it prints into the atom."
  [^BufferedReader output ^BlockingQueue answers said]
  (doseq [line (line-seq output)]
    (if-some [[_ answer] (re-find #"^counts (\{.*)" line)]
      (.put answers (edn/read-string answer))
      (swap! said conj line)))
  (.put answers :ended)
  (swap! said conj :ended))

(defn start-command
  "Starts the command, which starts a server in the end."
  [& command]
  (let [process (-> (ProcessBuilder. ^List (vec command)) (.redirectErrorStream true) (.redirectInput ProcessBuilder$Redirect/PIPE) (.start))
        answers (LinkedBlockingQueue.)
        said (atom [])]
    (.start (Thread. ^Runnable #(read-lines (io/reader (.getInputStream process)) answers said) "output of the server"))
    {:process process :input (io/writer (.getOutputStream process)) :answers answers :said said}))

(defn start
  "Starts the server of `magnetar.faults.program` with the name and arguments."
  [server & arguments]
  (apply start-command (command server arguments)))

(defn start-in
  "Does what `start` does, by a command that begins with these words."
  [words server & arguments]
  (apply start-command (concat words (command server arguments))))

(def ^:private port-pattern
  {"port" #"^port (\d+)|^Ready to accept connections on .*:(\d+)|^The shop is open at http://.*:(\d+)/"
   "tls-port" #"^tls-port (\d+)"})

(defn- await-said
  "Waits until (f lines) is not nil for what the server has printed; returns that value, nil after a minute."
  [{:keys [said]} f]
  (let [found (promise)
        look #(some->> (f %) (deliver found))]
    (add-watch said found (fn [_ _ _ lines] (look lines)))
    (try
      (look @said)
      (deref found 60000 nil)
      (finally (remove-watch said found)))))

(defn port
  "Waits until the server listens; returns its port."
  ([server] (port server "port"))
  ([{:keys [said] :as server} word]
   (let [port-in (fn [line] (if (= :ended line) line (second (remove nil? (re-find (port-pattern word) line)))))
         told (await-said server #(some port-in %))]
     (if (string? told)
       (parse-long told)
       (throw (ex-info "The server does not listen." {:said @said}))))))

(defn ask
  "The server's answer to the question."
  [{:keys [^Writer input ^BlockingQueue answers said]} question]
  (.write input (str question "\n"))
  (.flush input)
  (let [answer (.poll answers 30 TimeUnit/SECONDS)]
    (if (map? answer)
      answer
      (throw (ex-info "The server does not answer." {:answer answer :said (take-last 20 @said)})))))

(defn- descriptors [{:keys [^Process process]}]
  (count (.list (io/file "/proc" (str (.pid process)) "fd"))))

(defn held
  "What the server holds now: {:fibers :processes :descriptors :heap}."
  ([server] (held server "counts"))
  ([server question] (assoc (ask server question) :descriptors (descriptors server))))

(defn- settled
  "What the server holds once so many looks in a row have changed nothing: of each number what `choose` takes, of what was held and is.
  The heap is that after a collection."
  [server choose looks-wanted]
  (loop [held-so-far (held server) looks 0]
    (let [found (merge-with choose held-so-far (held server))]
      (cond
        (not= (dissoc held-so-far :heap) (dissoc found :heap)) (recur found 0)
        (< looks (long looks-wanted)) (recur found (inc looks))
        :else (assoc found :heap (:heap (held server "collect")))))))

(defn idle
  "What the server holds while it has no client: the least numbers, once 50 looks in a row have found no lower ones."
  [server]
  (settled server min 50))

(defn most-held
  "The most that the server holds: the greatest numbers, once 30 looks in a row have found no greater ones."
  [server]
  (settled server max 30))

(defn left
  "Waits until the server holds no more fibers, processes and descriptors than when it was idle. Returns what it holds beyond that, with the heap."
  [server idle timeout]
  (let [beyond #(merge-with - (held server %) idle)
        none? #(every? (fn [k] (<= (long (k %)) 0)) [:fibers :processes :descriptors])]
    (mt/wait-until #(none? (beyond "counts")) {:timeout timeout :else nil})
    (beyond "collect")))

(defn wait-for
  "Waits for the end of the server; returns its exit code."
  [{:keys [^Process process]}]
  (when-not (.waitFor process 60 TimeUnit/SECONDS)
    (.destroyForcibly process))
  (.waitFor process))

(defn terminate
  "Sends SIGTERM; returns the exit code. Process.destroy would close the streams as well, and the end of its input ends the server at once."
  [{:keys [^Process process] :as server}]
  (.destroy (.toHandle process))
  (wait-for server))

(defn kill
  "Sends SIGKILL, and waits."
  [{:keys [^Process process] :as server}]
  (.destroyForcibly (.toHandle process))
  (wait-for server))

(defn said
  "What the server has printed."
  [server]
  (str/join "\n" @(:said server)))
