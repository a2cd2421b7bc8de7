(ns magnetar.inspect-main-test
  "A program that is asked from outside, and those that cannot be asked."
  {:slow true
   :limit 180000}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.dev.child :as child]
   [magnetar.impl.inspect.outside :as outside]
   [magnetar.kernel.checks :as checks])
  (:import
   (java.io BufferedReader File)
   (java.lang Process ProcessBuilder)))

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
        (.waitFor (.destroyForcibly process))))))

(defn- clojure-program [options form]
  (concat [java "-cp" (str/join File/pathSeparator (checks/class-path))] child/opens locks-opens options
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

(deftest a-program-tells-from-outside-what-it-waits-for
  (with-process (clojure-program [] deadlock)
    (fn [pid]
      (let [{:keys [exit out]} (inspected pid)]
        (is (= 0 exit) out)
        (is (re-find #"(?s)Deadlocks:\n  go .* waits .* for a ReentrantLock of go .*, which waits .* for a ReentrantLock of go .*thread main" out) out))
      (testing "one view, and again"
        (is (= "No supervisor." (str/trim (:out (inspected pid "restarts"))))))
      (testing "what takes a while"
        (is (re-find #"(?s)CPU messages/s.* thread main " (:out (inspected pid "top"))))
        (is (= "No leak." (str/trim (:out (inspected pid "leaks"))))))
      (testing "as data"
        (let [state (edn/read-string {:default tagged-literal} (:out (inspected pid "dump")))]
          (is (= [1 (parse-long pid) 1] [(:magnetar/dump state) (:pid state) (count (:deadlocks state))]))
          (is (= [:deadlock :exact 2] ((juxt :kind :grade (comp count :chain)) (first (:deadlocks state)))))
          (is (seq (:tree state))))))))

(deftest what-cannot-be-asked-is-told-in-a-sentence
  (is (str/starts-with? (refused) "usage: bin/magnetar inspect PID"))
  (is (= "`inspect` wants the number of a process, as `jps` lists them, or a file with a dump; this is \"shop\"." (refused "shop")))
  (let [file (File/createTempFile "magnetar" ".txt")]
    (is (str/starts-with? (refused (str file)) (str file " is empty. It wants what `inspect/dump` returns")))
    (is (str/starts-with? (refused (str file) "top") "A file has no answer to this view"))
    (.delete file))
  (is (str/starts-with? (refused "1" "three") "`inspect` does not know three."))
  (is (= "There is no process 2147483646." (refused "2147483646")))
  (with-process ["sh" "-c" "echo ready; exec sleep 1000"]
    (fn [pid]
      (is (= (str "Process " pid " is no JVM.") (refused pid)))))
  (with-process (clojure-program [] '(do (println "ready") @(promise)))
    (fn [pid]
      (is (= (str "Process " pid " runs no Magnetar, or has not loaded it yet.") (refused pid)))
      (.waitFor (.exec (Runtime/getRuntime) ^"[Ljava.lang.String;" (into-array String ["kill" "-STOP" pid])))
      (is (= (str "Process " pid " is stopped, so it cannot answer: let it go on with `kill -CONT " pid "`.") (refused pid)))))
  (with-process (clojure-program ["-XX:+DisableAttachMechanism"] deadlock)
    (fn [pid]
      (is (str/starts-with? (refused pid) (str "Process " pid " cannot be asked: it was started with -XX:+DisableAttachMechanism"))))))

(deftest the-jdk-answers-for-a-program-that-does-not
  (with-process (clojure-program [] '(do (require 'magnetar.async)
                                         (println "ready")
                                         ;; what answers has to load a namespace
                                         (locking clojure.lang.RT/REQUIRE_LOCK @(promise))))
    (fn [pid]
      (let [{:keys [exit out]} (inspected pid)]
        (is (= 0 exit) out)
        (is (str/includes? out (str "Process " pid " did not answer within 5 s. This is what the JDK's thread dump tells.")) out)
        (is (re-find #"thread main waits at \S+ for a CountDownLatch" out) out))
      (is (= (str "Process " pid " did not answer within 8 s.") (refused pid "top"))))))

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
              (is (str/includes? out "No deadlock.") out)
              (is (= shown? (boolean (re-find #"go NO_SOURCE_PATH:1 waits at \S+ for" out))) out))))))))
