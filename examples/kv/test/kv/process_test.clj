(ns kv.process-test
  "The server as a program: its command line, kill -9, SIGTERM."
  {:slow true}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is]]
   [kv.main :as main]
   [kv.resp :as resp]
   [kv.support :as support]
   [magnetar.net :as net])
  (:import
   (java.io BufferedReader InputStreamReader)
   (java.util List)
   (java.util.concurrent TimeUnit)))

(set! *warn-on-reflection* true)

(deftest a-wrong-command-line-is-answered-in-a-sentence
  (are [words sentence] (str/includes? (:error (main/plan words)) sentence)
    ["--port" "70000"]          "it must be a whole number from 0 to 65535"
    ["--appendonly" "maybe"]    "it must be one of no, yes"
    ["--appendfsync" "never"]   "it must be one of always, everysec, no"
    ["--maxclients" "0"]        "it must be a whole number from 1"
    ["--sideways"]              "Unknown option: \"--sideways\""
    ["redis.conf"]              "There is no argument \"redis.conf\""))

(defn- start-program
  "Starts the server as a program. :output reads what it prints."
  [& options]
  (let [home (System/getProperty "magnetar.home")
        command (into [(str home "/bin/magnetar") "run" (str home "/examples/kv/src/kv/main.clj") "--port" "0"] options)
        process (.start (.redirectErrorStream (ProcessBuilder. ^List command) true))]
    {:process process :output (BufferedReader. (InputStreamReader. (.getInputStream process)))}))

(defn- port-of
  "Waits until the server is ready; returns its port."
  [{:keys [^BufferedReader output]}]
  (loop [lines []]
    (let [line (.readLine output)
          [_ port] (some->> line (re-find #"Ready to accept connections on .*:(\d+)"))]
      (cond
        port (parse-long port)
        line (recur (conj lines line))
        :else (throw (ex-info "The server has ended." {:output lines}))))))

(defn- connect [port]
  (net/connect "127.0.0.1" port {:packet :line :as :string :active false}))

(defn- ask [conn & words]
  (net/send conn (resp/bytes-of (resp/written words)))
  (net/recv conn))

(defn- wait-for [{:keys [^Process process]}]
  (when-not (.waitFor process 60 TimeUnit/SECONDS)
    (.destroyForcibly process))
  (.waitFor process))

(defn- increment-until-killed
  "Sends INCR without end, and kills the server at the nth answer; returns the last number that was acknowledged."
  [{:keys [^Process process] :as program} n]
  (let [conn (connect (port-of program))]
    (try
      (loop [acknowledged 0]
        (let [answer (try
                       (ask conn "INCR" "n")
                       (catch clojure.lang.ExceptionInfo _ nil))]
          (when (= n acknowledged)
            (.destroyForcibly process))
          (if answer
            (recur (long (parse-long (str/trim (subs answer 1)))))
            acknowledged)))
      (finally
        (net/close conn)
        (wait-for program)))))

(deftest ^{:limit 300000} kill-9-loses-nothing-that-was-acknowledged
  (let [folder (support/temporary-folder)
        options ["--appendonly" "yes" "--appendfsync" "always" "--dir" folder]
        acknowledged (long (increment-until-killed (apply start-program options) 500))
        {:keys [^Process process] :as program} (apply start-program options)
        conn (connect (port-of program))]
    (is (<= 500 acknowledged))
    (ask conn "GET" "n")
    (is (<= acknowledged (long (parse-long (str/trim (net/recv conn)))) (inc acknowledged)))
    (.destroy process)
    (is (= 0 (wait-for program)) "SIGTERM stops it in order")
    (net/close conn)))

(deftest a-server-that-cannot-start-says-why
  (let [listener (net/listen 0 {:host "127.0.0.1"})
        {:keys [output] :as program} (start-program "--port" (str (net/port listener)))
        lines (slurp output)]
    (net/close listener)
    (is (= 1 (wait-for program)))
    (is (str/includes? lines "another socket has that port. Stop its program, or listen on port 0"))))

(deftest ^{:limit 200000} a-second-server-on-the-same-file-is-refused
  (let [options ["--appendonly" "yes" "--dir" (support/temporary-folder)]
        {:keys [^Process process] :as first-program} (apply start-program options)]
    (port-of first-program)
    (let [{:keys [output] :as second-program} (apply start-program options)
          lines (slurp output)]
      (is (= 1 (wait-for second-program)))
      (is (str/includes? lines "appendonly.aof open. Stop it, or choose another --dir.")))
    (.destroy process)
    (is (= 0 (wait-for first-program)))))
