(ns magnetar.inspect-main-test
  "A program that is asked from outside, and those that cannot be asked."
  {:slow true
   :limit 400000}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.impl.inspect.analysis :as analysis]
   [magnetar.impl.inspect.outside :as outside]
   [magnetar.impl.inspect.views :as views]
   [magnetar.inspect.main :as main]
   [magnetar.kernel.checks :as checks])
  (:import
   (java.io BufferedReader File)
   (java.lang Process ProcessBuilder ProcessHandle)))

(set! *warn-on-reflection* true)

(def ^:private java
  (str (io/file (System/getProperty "java.home") "bin" "java")))

(def ^:private locks-opens
  ["--add-opens" "java.base/java.util.concurrent.locks=ALL-UNNAMED"])

(defn- started
  "A process of this command, once it has said that it is ready."
  ^Process [command]
  (let [process (.start (doto (ProcessBuilder. ^java.util.List (vec command)) (.redirectErrorStream true)))
        ^BufferedReader out (io/reader (.getInputStream process))]
    (loop []
      (let [line (.readLine out)]
        (cond
          (nil? line) (throw (ex-info "The process ended before it was ready." {:command command}))
          (str/includes? line "ready") process
          :else (recur))))))

(defn- with-process [command f]
  (let [process (started command)]
    (try
      (f (str (.pid process)))
      (finally
        (.waitFor (.destroyForcibly process))
        (io/delete-file (io/file "/tmp" (str ".java_pid" (.pid process))) true))))) ; the JDK's, of a JVM that was asked and then killed

(defn- clojure-program [options form]
  (concat [java child/temp "-cp" (str/join File/pathSeparator (checks/class-path))] child/opens locks-opens options
          ["clojure.main" "-e" (pr-str form)]))

(defn- inspected [& words]
  (apply child/run (checks/class-path) 100 "clojure.main" "-m" "magnetar.inspect.main" words))

(defn- refused [& words]
  (let [{:keys [exit out]} (apply inspected words)]
    (is (= 2 exit) out)
    (str/trim out)))

(def ^:private deadlock
  '(do (require '[magnetar.async :as a])
       (let [[left right] [(java.util.concurrent.locks.ReentrantLock.) (java.util.concurrent.locks.ReentrantLock.)]
             meet (java.util.concurrent.CyclicBarrier. 2)
             both (fn [^java.util.concurrent.locks.ReentrantLock one ^java.util.concurrent.locks.ReentrantLock other]
                    (.lock one)
                    (.await meet)
                    (.lock other))]
         (a/go (both left right))
         (a/go (both right left))
         (while (not (and (.hasQueuedThreads left) (.hasQueuedThreads right))))
         (println "ready")
         @(promise))))

(deftest ^{:spec ["C33"]} a-program-tells-from-outside-what-it-waits-for
  (with-process (clojure-program [] deadlock)
    (fn [pid]
      (let [{:keys [exit out]} (inspected pid)]
        (is (= 0 exit) out)
        (is (re-find #"(?s)Deadlocks:\n  go .* waits .* for a ReentrantLock of go .*, which waits .* for a ReentrantLock of go .*thread main" out) out))
      (testing "one view, and again"
        (is (= "No supervisor." (str/trim (:out (inspected pid "restarts")))))
        (is (= ["No process has messages."] (@#'main/answer [pid "mailboxes"]))))
      (testing "about those with a name"
        (is (= 2 (count (re-seq #"  go \S+ waits at \S+ for a ReentrantLock of go " (:out (inspected pid "stuck" "go NO_SOURCE_PATH:1"))))))
        (doseq [name ["main" "thread main"]]
          (is (re-find #"^  main waits at \S+ for a promise\." (:out (inspected pid "stuck" name)))))
        (is (= "No process, fiber or thread has the name :a b=ü; the view tree shows the names." (str/trim (:out (inspected pid "stuck" ":a b=ü"))))))
      (testing "about two names at the same time"
        (doseq [[name answer] (doall (for [name ["main" "go NO_SOURCE_PATH:1"]] [name (future (:out (inspected pid "stuck" name)))]))]
          (is (str/starts-with? @answer (str "  " name " waits")) name)))
      (testing "what takes a while"
        (is (re-find #"(?s)CPU messages/s.* thread main " (:out (inspected pid "top"))))
        (is (= "No leak." (str/trim (:out (inspected pid "leaks"))))))
      (testing "as data"
        (let [state (edn/read-string {:default tagged-literal} (:out (inspected pid "dump")))]
          (is (= [1 (parse-long pid) 1] [(:magnetar/dump state) (:pid state) (count (:deadlocks state))]))
          (is (= [:deadlock :exact 2] ((juxt :kind :grade (comp count :chain)) (first (:deadlocks state)))))
          (is (seq (:tree state))))))))

(defn- sentence
  "What is told instead of an answer, and nil if there is one. It is asked here, which takes less time than a JVM of its own."
  [& words]
  (try
    (@#'main/answer words)
    nil
    (catch Exception e
      (is (outside/refusal? e) (str e))
      (ex-message e))))

(defn- stop [pid]
  (let [^java.util.List command ["kill" "-STOP" pid]]
    (.waitFor (.start (ProcessBuilder. command)))))

(deftest what-is-told-instead-of-an-answer-has-an-exit-code
  (is (= "There is no process 2147483646." (refused "2147483646")))
  (is (str/starts-with? (refused) "usage: bin/magnetar inspect PID")))

(deftest nonsense-is-told-in-a-sentence
  (is (str/starts-with? (sentence "--help") "usage: bin/magnetar inspect PID"))
  (doseq [subject ["shop" "" "3.5" "99999999999999999999" "no-such-file"]]
    (is (= (str "`inspect` wants a process id, as `jps` lists them, or a file with a dump; this is " (pr-str subject) ".")
           (sentence subject))))
  (doseq [pid ["0" "-1" "2147483646" "9999999999"]]
    (is (= (str "There is no process " pid ".") (sentence pid))))
  (is (str/starts-with? (sentence "1" "three") "`inspect` does not know three."))
  (doseq [view ["tree" "top"]]
    (is (str/starts-with? (sentence "1" view "main") (str "Only stuck takes a name, and not " view "."))))
  (is (str/starts-with? (sentence "1" "stuck NAME") "`inspect` does not know stuck NAME."))
  (is (str/starts-with? (sentence "1" "stuck" "main" "leaks") "usage: bin/magnetar inspect PID")))

(defn- with-file [text f]
  (let [file (File/createTempFile "magnetar" ".txt")]
    (try
      (spit file text)
      (f (str file))
      (finally (.delete file)))))

(deftest a-file-that-is-no-dump-is-told-in-a-sentence
  (doseq [[text words] [["" "is empty."] ["shop" "is no dump."] ["\u0000\u0001" "is no dump."] ["{:magnetar/dump 1" "is cut off, or is not EDN."]
                        ["{:magnetar/dump 99}" "was written by another version of Magnetar"]]]
    (with-file text
      (fn [file]
        (is (str/starts-with? (sentence file) (str file " " words))))))
  (with-file "" #(is (str/starts-with? (sentence % "top") "A file has no answer to `top`: ask a running program.")))
  (with-file "" #(is (str/starts-with? (sentence % "stuck" "main") "A file has no answer to `stuck NAME`: ask a running program.")))
  (is (str/starts-with? (sentence "1" "stuck" "") "The name after stuck is empty."))
  (let [folder (str (child/temp-folder "magnetar"))]
    (is (str/starts-with? (sentence folder) (str folder " is a folder."))))
  (with-redefs [analysis/room-for-each-byte Long/MAX_VALUE]
    (with-file "shop" #(is (re-find #"has more than 0 MB, for which this JVM has no room: give it more" (sentence %))))))

(deftest a-process-that-cannot-be-asked-is-told-in-a-sentence
  (with-process ["sh" "-c" "echo ready; exec sleep 1000"]
    (fn [pid]
      (is (= (str "Process " pid " is no JVM.") (sentence pid)))))
  (with-process (clojure-program [] '(do (println "ready") @(promise)))
    (fn [pid]
      (is (str/starts-with? (sentence pid) (str "Process " pid " runs no Magnetar 0.3 or newer, or has not loaded it yet.")))
      (testing "of another user"
        (with-redefs [outside/user-of (constantly "billing"), outside/own-user (constantly "shop")]
          (is (= (str "Process " pid " belongs to the user billing: ask as that user.") (sentence pid)))))
      (testing "stopped"
        (stop pid)
        (is (= (str "Process " pid " is stopped, so it cannot answer: let it go on with `kill -CONT " pid "`.") (sentence pid))))
      (testing "stopped while it is asked, and for its thread dump"
        (with-redefs [outside/check-process (constantly nil), outside/limit-s 1, outside/stop-limit-s 1]
          (is (= (str "Process " pid " does not answer, and the JDK could not write a thread dump of it: `kill -QUIT " pid "` makes it print its stacks.")
                 (sentence pid)))
          (is (= (str "Process " pid " does not answer the JDK's jcmd within 1 s. `bin/magnetar inspect " pid "` analyses the JDK's thread dump of it.")
                 (sentence pid "leaks")))))))
  (with-process (clojure-program ["-XX:+DisableAttachMechanism"] deadlock)
    (fn [pid]
      (is (str/starts-with? (sentence pid) (str "Process " pid " cannot be asked: it was started with -XX:+DisableAttachMechanism"))))))

(deftest what-jcmd-says-is-told-without-names-of-classes
  (let [pid (.pid (ProcessHandle/current))
        told (fn [printed] (try (@#'outside/refuse-because pid printed) (catch Exception e (ex-message e))))]
    (is (= (str "Process " pid " belongs to another user: ask as that user.")
           (told "1:\njava.io.IOException: well-known file /tmp/.java_pid1 is not secure: file should be owned by the current user\n\tat jdk.attach/sun.tools")))
    (is (str/includes? (told "1:\njava.lang.IllegalArgumentException: Unknown diagnostic command\n") "without the flight recorder"))
    (is (= (str "Process " pid " cannot be asked, the JDK's jcmd says: No room")
           (told "1:\njava.lang.RuntimeException: java.io.IOException: No room\n\tat java.base/java.io.File")))))

(deftest an-error-of-what-answers-is-told-without-names-of-classes
  (with-process (clojure-program [] '(do (require 'magnetar.inspect)
                                         (alter-var-root (requiring-resolve 'magnetar.impl.inspect.leaks/text)
                                                         (constantly #(throw (RuntimeException. (java.io.IOException. "No leaks today.")))))
                                         (println "ready")
                                         @(promise)))
    (fn [pid]
      (is (= (str "Process " pid " did not answer: No leaks today.") (sentence pid "leaks"))))))

(defn- slow-jcmd
  "A jcmd that never ends with a command of the flight recorder."
  ^File [folder]
  (doto (io/file folder "jcmd")
    (spit (str "#!/bin/sh\ncase $2 in JFR.*) exec sleep 1000 ;; esac\nexec " (io/file (System/getProperty "java.home") "bin" "jcmd") " \"$@\"\n"))
    (.setExecutable true)))

(deftest the-jdk-answers-where-its-recorder-hangs
  (with-process (clojure-program [] deadlock)
    (fn [pid]
      (with-redefs [outside/jcmd-file (constantly (slow-jcmd (child/temp-folder "jcmd"))), outside/stop-limit-s 1]
        (let [[first :as lines] (@#'main/answer [pid])]
          (is (= (str "Process " pid " does not answer the JDK's jcmd within 15 s. This is what the JDK's thread dump says.") first))
          (is (some #(str/includes? % "thread main waits") lines) lines))))))

(deftest the-jdk-answers-for-a-program-that-does-not
  (with-process (clojure-program [] '(do (require 'magnetar.async)
                                         (println "ready")
                                         ;; what answers has to load a namespace
                                         (locking clojure.lang.RT/REQUIRE_LOCK @(promise))))
    (fn [pid]
      (let [{:keys [exit out]} (inspected pid)]
        (is (= 0 exit) out)
        (is (str/includes? out (str "Process " pid " did not answer within 5 s. This is what the JDK's thread dump says.")) out)
        (is (re-find #"thread main waits at \S+ for a CountDownLatch" out) out))
      (is (= (str "Process " pid " did not answer within 5 s. `bin/magnetar inspect " pid "` analyses the JDK's thread dump of it.")
             (sentence pid "top"))))))

;; Its leaks are how often it was asked for them. It is ready once its own recording, if it has one, has asked some times.
(defn- counting [recording least]
  (list 'do
        '(require 'magnetar.inspect)
        '(def asked (atom 0))
        '(alter-var-root (requiring-resolve 'magnetar.impl.inspect.leaks/text)
                         (constantly #(pr-str {:magnetar/leaks 1 :leaks [{:text (str "asked " (swap! asked inc))}]})))
        recording
        (list 'while (list '< '@asked least))
        '(println "ready")
        '@(promise)))

(defn- times-asked [pid]
  (parse-long (second (re-find #"asked (\d+)" (:text (first (:leaks (outside/ask (parse-long pid) :leaks))))))))

(deftest a-question-is-answered-once
  (testing "reading the answer does not ask again"
    (with-process (clojure-program [] (counting nil 0))
      (fn [pid]
        (is (= [1 2 3] [(times-asked pid) (times-asked pid) (times-asked pid)])))))
  (testing "a recording of the program sets a period, and the question from outside leaves it alone"
    (with-process (clojure-program [] (counting '(doto (jdk.jfr.Recording. {"magnetar.Leaks#enabled" "true" "magnetar.Leaks#period" "10 ms"}) .start) 3))
      (fn [pid]
        (let [first (times-asked pid)]
          (is (loop [n 1] ; each question adds one, and the period more
                (or (< (+ first n) (times-asked pid)) (recur (inc n))))))))))

(def ^:private computing
  '(do (require '[magnetar.async :as a])
       (let [going (atom true)
             locked (java.util.concurrent.CountDownLatch. 1)
             monitor (Object.)
             waiting (Thread. #(do (.await locked) (locking monitor)))]
         (.start waiting)
         (a/go (locking monitor (.countDown locked) (while @going)))
         (a/go (while @going))
         (while (not= Thread$State/BLOCKED (.getState waiting)))
         (println "ready")
         @(promise))))

(deftest go-blocks-that-compute-are-counted-in-the-dump-of-the-jdk
  (with-process (clojure-program ["-Djdk.virtualThreadScheduler.parallelism=2"] computing)
    (fn [pid]
      (outside/with-thread-dump pid
        (fn [file]
          (let [answer (analysis/of (str file))]
            (is (= 2 (:go-blocks-not-shown-at-least answer)))
            (is (str/ends-with? (last (views/overview answer)) " At least 2 go blocks that are not shown ran or held a monitor.")))))))
  (with-process (clojure-program ["-Dmagnetar.track-go-blocks=true" "-Djdk.virtualThreadScheduler.parallelism=2"] computing)
    (fn [pid]
      (testing "nothing is hidden where go blocks are tracked"
        (outside/with-thread-dump pid
          (fn [file]
            (is (= 0 (:go-blocks-not-shown-at-least (analysis/of (str file)))) (slurp file))))))))

(def ^:private go-block
  '(do (require '[magnetar.async :as a])
       (def c (a/chan))
       (a/go (a/<! c))
       (println "ready")
       @(promise)))

(deftest a-property-shows-go-blocks-in-the-dump-of-the-jdk
  (doseq [[options shown?] [[[] false] [["-Dmagnetar.track-go-blocks=true"] true]]]
    (with-process (clojure-program options go-block)
      (fn [pid]
        (outside/with-thread-dump pid
          (fn [file]
            (is (= shown? (str/includes? (slurp file) "go NO_SOURCE")))
            (let [{:keys [exit out]} (inspected (str file))]
              (is (= 0 exit) out)
              (is (str/includes? out "No deadlock over monitors and locks.") out)
              (is (= shown? (boolean (re-find #"go NO_SOURCE_PATH:1 waits at \S+ for" out))) out))))))))
