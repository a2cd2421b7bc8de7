(ns magnetar.faults.kv-test
  "The example kv, which syncs each change before it acknowledges it, and what is done to it."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.faults.client :as client :refer [resp]]
   [magnetar.faults.disk :as disk]
   [magnetar.faults.fault :as fault :refer [withstand withstand-flood]]
   [magnetar.faults.server :as server]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

;; ---- a client that remembers what was acknowledged

(def ^:private kv (atom nil))
(def ^:private folder (atom nil))
(def ^:private acknowledged "{key value}" (atom {}))
(def ^:private last-key (atom 0))

(defn- ask
  "The first line of the answer, without its end."
  [socket & words]
  (client/send-all socket (apply resp words))
  (str/trimr (client/read-line-of socket)))

(defn- read-value [socket]
  (when (not= "$-1" (str/trimr (client/read-line-of socket)))
    (str/trimr (client/read-line-of socket))))

(defn- value-of [socket k]
  (client/send-all socket (resp "GET" k))
  (read-value socket))

(defn- set-and-get [socket _]
  (let [n (swap! last-key inc)
        k (str "order-" n)]
    (client/right-or ["+OK" (str n)]
                     [(let [answer (ask socket "SET" k n)]
                        (when (= "+OK" answer)
                          (swap! acknowledged assoc k (str n)))
                        answer)
                      (value-of socket k)])))

(defn- lost
  "The keys of the map whose value the server at the port does not have."
  [port values]
  (with-open [socket (client/connect port)]
    (let [found (fn [ks]
                  (client/send-all socket (apply str (map #(resp "GET" %) ks)))
                  (zipmap ks (repeatedly (count ks) #(read-value socket))))
          there (into {} (map found) (partition-all 50 (keys values)))]
      (remove #(= (values %) (there %)) (keys values)))))

(defn- options [folder]
  ["--port" "0" "--appendonly" "yes" "--appendfsync" "always" "--dir" folder "--proto-max-bulk-len" "4194304" "--pubsub-buffer" "1048576"])

(defn- start [folder]
  (apply server/start "kv" (options folder)))

(use-fixtures :once (fault/with-server-on-disk "The example kv" kv folder start set-and-get))

;; ---- clients

(deftest slow-commands
  (is (= {:open 100}
         (withstand @kv "100 clients send a command a byte at a time" "waits, as Redis does without a `timeout`" nil
                    (fn [port at-peak]
                      (let [looked (delay (future (at-peak 100)))]
                        (client/dribble port 100 "*2\r\n$3\r\nGET\r\n$100000\r\n" "x" #(realized? @looked))))))))

(deftest half-closed-sockets
  (is (= {["+PONG\r\n" :closed] 200}
         (withstand-flood @kv "200 clients shut their sending side and read" "answers, then closes" nil
           (fn [port]
             (frequencies (client/in-parallel 200 (fn [_] (client/half-close port (resp "PING"))))))))))

(deftest connects-and-resets
  (let [texts ["" "*2\r\n$3\r\nGE" (resp "SET" "reset" "1") (resp "SUBSCRIBE" "news") (resp "GET" "reset")]]
    (withstand-flood @kv "2,000 connections are reset, at five places of a command" "ends their processes" nil
      (fn [port]
        (client/in-parallel 2000 (fn [i] (doto (client/connect port)
                                           (client/send-all (texts (rem (long i) 5)))
                                           (client/reset))))))))

(deftest oversized-commands
  (let [mega (apply str (repeat 1048576 "x"))
        texts [["*2\r\n$3\r\nGET\r\n$999999999\r\n" "-ERR Protocol error: invalid bulk length\r\n"]
               ["*99999999\r\n" "-ERR Protocol error: invalid multibulk length\r\n"]
               [mega "-ERR Protocol error: too big inline request\r\n"]
               [(str "*" mega) "-ERR Protocol error: too big mbulk count string\r\n"]]
        answers (withstand-flood @kv "200 arguments, arrays and lines that are too long" "a protocol error, then closes" nil
                  (fn [port]
                    (client/in-parallel 200 (fn [i]
                                              (let [[text expected] (texts (rem (long i) 4))]
                                                [expected (client/exchange port text)])))))]
    (is (= [] (remove (fn [[expected [text end]]] (or (= [expected :closed] [text end]) (= ["" :reset] [text end]))) answers)))))

(deftest announced-arguments
  (let [text (str "*3\r\n$3\r\nSET\r\n$4\r\nlong\r\n$4194304\r\n" (apply str (repeat 1000 "x")))]
    (withstand @kv "50 clients announce 4 MiB, and send 1,000 bytes of it" "keeps what has come, no more" nil
               (fn [port at-peak]
                 (let [clients (client/in-parallel 50 (fn [_] (doto (client/connect port) (client/send-all text))))]
                   (at-peak 50)
                   (client/close-all clients))))))

(deftest garbage
  (let [answers (withstand-flood @kv "200 clients send 32 KiB of random bytes, and one sends a TLS handshake" "an error for each line, or a protocol error and the end" nil
                  (fn [port]
                    (conj (client/in-parallel 200 #(client/half-close port (client/garbage % 32768)))
                          (client/half-close port client/client-hello))))]
    (is (every? (fn [[text end]] (and (#{:closed :reset} end) (or (= "" text) (str/starts-with? text "-ERR ")))) answers))))

(deftest subscribers-that-never-read
  (let [clients (atom [])]
    (is (= :cut
           (withstand @kv "50 subscribers never read what is published" "cuts each at the 1 MiB of its `--pubsub-buffer`" {:most-held (* 96 1048576)}
                      (fn [port at-peak]
                        (reset! clients (vec (repeatedly 50 #(client/open-deaf port (resp "SUBSCRIBE" "news")))))
                        (with-open [publisher (client/connect port)]
                          (mt/wait-until #(= ":50" (ask publisher "PUBLISH" "news" "x")) {:timeout 20000})
                          (let [text (apply str (repeat 65536 "x"))]
                            (dotimes [_ 20] (ask publisher "PUBLISH" "news" text))
                            (at-peak)
                            (loop [] (when (not= ":0" (ask publisher "PUBLISH" "news" text)) (recur)))))
                        (let [cut? (fault/cut @kv)]
                          (client/close-all @clients)
                          (if cut? :cut :open))))))))

(deftest clients-that-never-read
  (withstand @kv "50 clients ask for 64 KiB again and again, and never read" "stops reading them, until they leave" nil
             (fn [port at-peak]
               (with-open [socket (client/connect port)]
                 (ask socket "SET" "page" (apply str (repeat 65536 "x"))))
               (let [clients (vec (repeatedly 50 #(client/open-deaf port "")))]
                 (client/in-parallel 50 #(client/fill (clients %) (resp "GET" "page")))
                 (at-peak)
                 (client/close-all clients)))))

(deftest nothing-acknowledged-is-lost-by-kill-9
  (server/kill @kv)
  (fault/with-port (start @folder) #(is (= [] (lost % @acknowledged))))
  (fault/print-row "then SIGKILL, and a start" "reads its file" (str "all " (count @acknowledged) " acknowledged writes are there")))

;; ---- SIGTERM under load

(defn- count-until-ended
  "Increments a key of its own until the connection ends; returns the last number that was acknowledged. The atom counts all of them."
  [port k total]
  (with-open [socket (client/connect port)]
    (loop [n 0]
      (let [answer (try (ask socket "INCR" k) (catch java.io.IOException _ ""))]
        (if (str/starts-with? answer ":")
          (do (swap! total inc)
              (recur (long (parse-long (subs answer 1)))))
          n)))))

(deftest sigterm-under-load
  (disk/with-folder
    (fn [folder]
      (let [total (atom 0)
            {:keys [took clients]} (fault/terminate-under-load (start folder) {:n 50 :busy? #(<= 500 (long @total)) :most-ms 10000}
                                     (fn [port i] (count-until-ended port (str "n" i) total)))]
        (fault/with-port (start folder)
          (fn [port]
            (with-open [socket (client/connect port)]
              (is (every? (fn [[i n]] (<= (long n) (long (parse-long (value-of socket (str "n" i)))) (inc (long n))))
                          (map-indexed vector clients))))))
        (fault/print-row "SIGTERM while 50 clients write" (str "ends with exit code 0 after " took " ms")
                         (str "all " (apply + clients) " acknowledged writes are there after a start"))))))

;; ---- a full disk

(defn- fill-disk
  "Writes values of 1 KiB until one is refused, and then 20 more; returns [acknowledged refused answers]."
  [socket word]
  (loop [n 0 yes {} no [] answers #{}]
    (let [k (str word n)
          v (apply str k (repeat 1024 "x"))
          answer (ask socket "SET" k v)]
      (cond
        (= "+OK" answer) (recur (inc n) (assoc yes k v) no answers)
        (< (count no) 20) (recur (inc n) yes (conj no k) (conj answers answer))
        :else [yes no answers]))))

(defn- on-full-disk [disk place]
  (let [start #(apply server/start-in (:words disk) "kv" (options (str place)))
        ballast (str (io/file place "ballast"))
        _ (disk/run disk "dd" "if=/dev/zero" (str "of=" ballast) "bs=1k" "count=1024")
        running (start)
        port (server/port running)
        _ (with-open [socket (client/connect port)] (ask socket "SET" "page" "home"))
        watched (fault/warmed-up running (fn [socket _] (= "home" (value-of socket "page"))))
        fill (fn [word] (with-open [socket (client/connect port)] (fill-disk socket word)))
        [yes no answers] (withstand-flood watched "the disk of the file is full (tmpfs of 2 MiB)" "refuses writes with `-MISCONF`, answers reads" nil
                           (fn [_] (fill "full-")))]
    (is (= #{"-MISCONF Errors writing to the AOF file: No space left on device"} answers))
    (is (= 0 (disk/run disk "rm" ballast)))
    (let [[more] (fill "again-")
          values (merge yes more)]
      (is (< 100 (count more)) "writes go on when there is room")
      (server/kill running)
      (fault/with-port (start)
        (fn [port]
          (is (= [] (lost port values)))
          (is (= [] (lost port (zipmap no (repeat nil)))) "a refused write is not there")))
      (fault/print-row "then room on it, SIGKILL, and a start" "accepts writes again" (str "all " (count values) " acknowledged writes are there")))))

(if @disk/possible?
  (deftest a-full-disk
    (disk/with-folder
      (fn [folder]
        (let [disk (disk/mount folder 2048)]
          (try
            (on-full-disk disk folder)
            (finally (disk/unmount disk)))))))
  (println "A full disk is not tested here: it needs `unshare -rm`, and a user who may mount a tmpfs with it."))
