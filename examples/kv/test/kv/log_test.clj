(ns kv.log-test
  "The append-only file: synced before an acknowledgement, read again, torn, damaged, and on a disk that is full."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is]]
   [kv.app :as app]
   [kv.log :as log]
   [kv.resp :as resp]
   [kv.support :as support :refer [client exchange send-words with-server]]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.application :as application]
   [magnetar.gen-server :as gs]
   [magnetar.net :as net])
  (:import
   (java.io IOException)
   (java.nio ByteBuffer)
   (java.nio.channels FileChannel)))

(set! *warn-on-reflection* true)

(defn- append [^FileChannel file ^ByteBuffer buffer]
  (let [n (.remaining buffer)]
    (while (.hasRemaining buffer)
      (.write file buffer))
    n))

(defn- watched
  "Opens a file whose appends and syncs are events. :trouble is an atom with :full, :bad-sync or :bad-cut for what fails.
  :on-sync is called before a sync."
  [folder {:keys [events trouble on-sync] :or {events (atom []) trouble (atom nil) on-sync (fn [])}}]
  (fn []
    (let [file (log/open-file folder)
          event #(swap! events conj %)
          fail-if #(when (= %1 @trouble) (throw (IOException. ^String %2)))]
      (proxy [FileChannel] []
        (size [] (.size file))
        (read
          ([buffer] (.read file ^ByteBuffer buffer))
          ([buffer place] (.read file ^ByteBuffer buffer (long place))))
        (write [^ByteBuffer buffer]
          (when (#{:full :bad-cut} @trouble)
            (append file (.limit (.duplicate buffer) 3))
            (throw (IOException. "No space left on device")))
          (event [:append (.remaining buffer)])
          (append file buffer))
        (truncate [size]
          (fail-if :bad-cut "Read-only file system")
          (.truncate file (long size)))
        (position [place] (.position file (long place)))
        (force [_]
          (on-sync)
          (event [:sync])
          (fail-if :bad-sync "Input/output error")
          (.force file false))
        (implCloseChannel [] (.close file))))))

(defn- file-of [folder]
  (io/file folder "appendonly.aof"))

(defn- text-of [folder]
  (slurp (file-of folder) :encoding "ISO-8859-1"))

(defn- get-a
  "What a server that starts with the file says to GET a."
  [folder]
  (with-server {:appendonly true :dir folder}
    (exchange (client) "$1\r\n1\r\n" "get a")))

(deftest an-acknowledgement-comes-after-the-sync
  (let [events (atom [])
        folder (support/temporary-folder)]
    (with-server {:open-file (watched folder {:events events}) :appendfsync :always}
      (let [conn (client)]
        (is (= "+OK\r\n" (exchange conn "+OK\r\n" "set a 1")))
        (is (= [[:append 27] [:sync]] @events))
        (is (= "$1\r\n1\r\n" (exchange conn "$1\r\n1\r\n" "get a")))
        (is (= 2 (count @events)) "what changes nothing is not synced")
        (is (= "+OK\r\n:2\r\n:3\r\n" (exchange conn "+OK\r\n:2\r\n:3\r\n" "set a 1" "incr a" "incr a")))
        (is (= [:append :sync] (map first (drop 2 @events))) "what comes together is synced once")))))

(deftest nothing-is-acknowledged-or-seen-before-the-sync-has-ended
  (let [seen (atom [])
        [writer reader] (repeatedly promise)
        look #(swap! seen conj (exchange @reader "$-1\r\n" "get a") (net/recv @writer {:timeout 100 :else :nothing}))]
    (with-server {:open-file (watched (support/temporary-folder) {:on-sync #(when (realized? writer) (look))})
                  :appendfsync :always}
      (deliver reader (client))
      (deliver writer (client))
      (is (= "+OK\r\n" (exchange @writer "+OK\r\n" "set a 1")))
      (is (= ["$-1\r\n" :nothing] @seen)))))

(deftest changes-that-wait-together-are-synced-once
  (let [events (atom [])
        folder (support/temporary-folder)
        [first-sync go-on] (repeatedly promise)
        on-sync #(do (deliver first-sync true) @go-on)]
    (with-server {:open-file (watched folder {:events events :on-sync on-sync}) :appendfsync :always}
      (actor/with-process {}
        (let [ask #(gs/send-request :kv/store [["incr" "n"]])
              one (ask)
              others (do @first-sync
                         (vec (repeatedly 19 ask)))] ; they wait behind the first sync
          (deliver go-on true)
          (is (= (map #(vector :reply [%]) (range 1 21)) (map gs/wait-response (cons one others))))
          ;; the sync of the first one, and one of the others; a tick among them divides these
          (is (<= 2 (count (filter #{[:sync]} @events)) 4)))))
    (is (= 20 (count (re-seq #"incr" (text-of folder)))))))

(deftest the-other-settings-do-not-sync-before-an-answer
  (doseq [appendfsync [:everysec :no]]
    (let [events (atom [])]
      (with-server {:open-file (watched (support/temporary-folder) {:events events}) :appendfsync appendfsync}
        (is (= "+OK\r\n" (exchange (client) "+OK\r\n" "set a 1")))
        (is (= [:append 27] (first @events))))
      (is (= [:sync] (peek @events)) "the stop syncs"))))

(deftest everysec-syncs-without-being-asked
  (let [synced (promise)]
    (with-server {:open-file (watched (support/temporary-folder) {:on-sync #(deliver synced true)}) :appendfsync :everysec}
      (is (= "+OK\r\n" (exchange (client) "+OK\r\n" "set a 1")))
      (is (deref synced 60000 false)))))

(deftest everysec-delays-writes-while-a-sync-lasts-for-seconds
  (let [[began go] (repeatedly promise)
        events (atom [])]
    (with-server {:open-file (watched (support/temporary-folder) {:events events :on-sync #(do (deliver began true) @go)})
                  :appendfsync :everysec}
      (let [conn (client)]
        (is (= "+OK\r\n" (exchange conn "+OK\r\n" "set a 1")))
        (is (deref began 60000 false))
        (is (= ":2\r\n" (exchange conn ":2\r\n" "incr a")) "a write goes on beside a sync")
        (dotimes [_ 2] (! :kv/store :tick))
        (send-words conn "incr a")
        (is (= "$1\r\n2\r\n" (exchange (client) "$1\r\n2\r\n" "get a")) "a read does not wait")
        (is (= :late (net/recv conn {:timeout 100 :else :late})))
        (is (not-any? #{[:sync]} @events))
        (deliver go true)
        (is (= ":3\r\n" (support/receive-text conn ":3\r\n")))))))

(deftest the-file-gives-the-data-back
  (let [folder (support/temporary-folder)]
    (with-server {:appendonly true :dir folder :clock (constantly 1000)}
      (is (= "+OK\r\n:3\r\n:1\r\n:1\r\n+OK\r\n" (exchange (client) "+OK\r\n:3\r\n:1\r\n:1\r\n+OK\r\n" "set a 1" "rpush l a b c" "hset h f v" "sadd s m" "set t x ex 1000"))))
    (with-server {:appendonly true :dir folder :clock (constantly 1000)}
      (let [answer "$1\r\n1\r\n$1\r\nc\r\n$1\r\nv\r\n:1\r\n:1000\r\n"]
        (is (= answer (exchange (client) answer "get a" "lindex l 2" "hget h f" "sismember s m" "ttl t")))))))

(deftest an-expired-key-is-deleted-in-the-log
  (let [folder (support/temporary-folder)
        now (atom 1000)]
    (with-server {:appendonly true :dir folder :clock #(deref now)}
      (is (= "+OK\r\n" (exchange (client) "+OK\r\n" "set a 9 px 10")))
      (reset! now 5000)
      (is (= ":1\r\n" (exchange (client) ":1\r\n" "incr a"))))
    (is (str/ends-with? (text-of folder) (str (resp/written ["SET" "a" "9" "PXAT" "1010"]) (resp/written ["DEL" "a"]) (resp/written ["incr" "a"]))))
    (is (= "$1\r\n1\r\n" (get-a folder)))))

;; ---- files that are not as they were written

(def ^:private records
  (mapv resp/written [["SET" "a" "1"] ["SET" "b" "2"] ["SET" "c" "3"]]))

(defn- folder-with [text]
  (let [folder (support/temporary-folder)]
    (spit (file-of folder) text :encoding "ISO-8859-1")
    folder))

(deftest a-torn-record-at-the-end-is-cut
  (let [whole (str (records 0) (records 1))]
    (doseq [n (range 1 (count (records 2)))]
      (let [folder (folder-with (str whole (subs (records 2) 0 n)))
            said (atom [])
            disk (log/open-file folder)]
        (is (= ["a" "b"] (keys (:entries (second (log/open disk #(swap! said conj %)))))))
        (is (= [(str "The append-only file ended inside a record: its last " n " bytes were cut at byte 54.")] @said))
        (.close disk)
        (is (= whole (text-of folder)))))))

(deftest a-torn-record-is-cut-whatever-is-in-its-value
  (let [value (apply str (repeat 100 (records 1)))
        record (resp/written ["SET" "c" value])]
    (doseq [n [1 5 20 40 100 1000 (- (count record) 2) (dec (count record))]]
      (let [folder (folder-with (str (records 0) (subs record 0 n)))]
        (is (= "$1\r\n1\r\n" (get-a folder)))
        (is (= (records 0) (text-of folder)))))
    (let [file (log/open-file (folder-with (str (records 0) record)))]
      (is (= value (get-in (log/replay file) [:db :entries "c"])))
      (.close file))))

(defn- refusal [text]
  (let [disk (log/open-file (folder-with text))]
    (try
      (ex-message (is (thrown? clojure.lang.ExceptionInfo (log/open disk (fn [_])))))
      (finally (.close disk)))))

(deftest damage-elsewhere-is-refused-with-its-place
  (are [text place] (str/starts-with? (refusal text) (str "The append-only file is damaged at byte " place ":"))
    (str (records 0) "garbage\r\n" (records 1))             27
    (str (records 0) "*3\r\n$x\r\n" (records 1))            27
    (str (records 0) (resp/written ["NONSENSE"]) (records 1)) 27
    (str (records 0) (resp/written ["INCR" "l" "x"]))       27
    (str (records 0) (str/replace (records 1) "$3" "$4") (records 2)) 27
    (str (records 0) (str/replace (records 1) "$3" "$1073741825") (records 2)) 27
    (str (records 0) "garbage")                             27
    (str (records 0) "*x")                                  27
    (str (records 0) "*12345678")                           27
    (str (records 0) "*3\r\n3")                             27
    (str (records 0) "*3\r\n$3\r\nSETx")                    27
    (str (records 0) "\u0000\u0000\u0000")                  27
    "\u0000\u0000\u0000\n"                                  0))

(deftest a-server-with-a-damaged-file-does-not-start
  (let [outcome (promise)
        folder (folder-with (str (records 0) "garbage\r\n"))]
    (is (= [:start-error]
           (map :event (support/reports-of #(deliver outcome (support/start {:appendonly true :dir folder}))))))
    (support/stop)
    (is (str/includes? (pr-str @outcome) "damaged at byte 27: ERR Protocol error: expected '*'."))
    (.close (log/open-file folder))))

(deftest a-file-that-a-server-has-open-is-refused
  (let [folder (support/temporary-folder)]
    (with-server {:appendonly true :dir folder}
      (is (thrown-with-msg? clojure.lang.ExceptionInfo
                            #"^Another server has the append-only file .*appendonly.aof open. Stop it, or choose another --dir.$"
                            (log/open-file folder))))
    (.close (log/open-file folder))))

(deftest a-store-that-is-killed-starts-again-from-the-file
  (let [folder (support/temporary-folder)]
    (with-server {:appendonly true :dir folder}
      (let [store (actor/whereis :kv/store)]
        (is (= "+OK\r\n" (exchange (client) "+OK\r\n" "set a 1")))
        (is (= [:child-terminated] (map :event (support/reports-of #(do (actor/exit store :kill)
                                                                        (support/await-restart store))))))
        (is (= ":2\r\n" (exchange (client) ":2\r\n" "incr a")))))
    (is (= (str (resp/written ["set" "a" "1"]) (resp/written ["incr" "a"])) (text-of folder)))))

(deftest the-folder-is-synced-at-each-start-and-those-that-were-made
  (let [synced (atom [])
        parent (io/file (support/temporary-folder))
        folder (io/file parent "data" "kv")]
    (with-redefs-fn {#'log/sync-folder #(swap! synced conj (str %))}
      #(dotimes [_ 2]
         (.close (log/open-file (str folder)))))
    (is (= (map str [parent (io/file parent "data") folder folder]) @synced))))

(deftest what-was-read-is-synced-before-it-is-served
  (let [events (atom [])]
    (with-server {:open-file (watched (folder-with (str (records 0) "*3\r\n")) {:events events}) :appendfsync :always}
      (is (= [[:sync]] @events)))))

(deftest on-a-full-disk-writes-are-refused-and-what-was-acknowledged-stays
  (let [folder (support/temporary-folder)
        trouble (atom nil)]
    (with-server {:open-file (watched folder {:trouble trouble}) :appendfsync :always}
      (let [conn (client)
            refused "-MISCONF Errors writing to the AOF file: No space left on device\r\n$1\r\n1\r\n"]
        (is (= "+OK\r\n" (exchange conn "+OK\r\n" "set a 1")))
        (reset! trouble :full)
        (is (= refused (exchange conn refused "incr a" "get a")))
        (is (= (resp/written ["set" "a" "1"]) (text-of folder)) "what was written in part is cut")
        (reset! trouble nil)
        (is (= ":2\r\n" (exchange conn ":2\r\n" "incr a")))
        (is (= (str (resp/written ["set" "a" "1"]) (resp/written ["incr" "a"])) (text-of folder)))))))

(deftest a-failed-sync-ends-the-service-and-is-not-tried-again
  (let [folder (support/temporary-folder)
        trouble (atom nil)
        events (atom [])]
    (with-server {:open-file (watched folder {:trouble trouble :events events}) :appendfsync :always}
      (let [conn (client)
            store (actor/whereis :kv/store)]
        (is (= "+OK\r\n" (exchange conn "+OK\r\n" "set a 1")))
        (reset! trouble :bad-sync)
        (send-words conn "set a 2")
        (is (= :nothing (net/recv conn {:timeout 100 :else :nothing})))
        (reset! trouble nil)
        (send-words (client) "set a 3")
        (is (= "$1\r\n1\r\n" (exchange (client) "$1\r\n1\r\n" "get a")))
        (is (= store (actor/whereis :kv/store)) "it is not restarted")))
    (is (= ["The append-only file cannot be synced: Input/output error. The server ends."] (rest (support/said-by-server))))
    (is (= [:append :sync :append :sync] (map first @events)))))

(deftest a-failed-sync-in-the-background-ends-the-service-too
  (let [trouble (atom :bad-sync)
        failing (promise)]
    (with-server {:open-file (watched (support/temporary-folder) {:trouble trouble :on-sync #(deliver failing true)})
                  :appendfsync :everysec}
      (let [store (actor/whereis :kv/store)
            conn (client)]
        (is (= "+OK\r\n" (exchange conn "+OK\r\n" "set a 1")))
        (is (deref failing 60000 false))
        (support/await-saying "The append-only file cannot be synced: Input/output error. The server ends.")
        (reset! trouble nil)
        (send-words conn "set a 2")
        (is (= :nothing (net/recv conn {:timeout 100 :else :nothing})))
        (is (= store (actor/whereis :kv/store)))))))

(deftest a-sync-that-failed-while-the-store-ended-is-not-forgotten
  (let [trouble (atom nil)
        outcome (promise)]
    (with-server {:open-file (watched (support/temporary-folder) {:trouble trouble}) :appendfsync :no}
      (let [store (actor/whereis :kv/store)]
        (is (= "+OK\r\n" (exchange (client) "+OK\r\n" "set a 1")))
        (reset! trouble :bad-sync)
        (support/reports-of #(do (! store [:stop nil :bug])
                                 (deliver outcome (support/await-end-or-restart store))))
        (is (= :ended @outcome) "no other store acknowledges what may not be on the disk")))
    (is (some #{"The append-only file cannot be synced: Input/output error. The server ends."} (support/said-by-server)))))

(deftest nothing-is-written-after-a-failed-sync-that-the-store-has-not-heard-of
  (let [failure (atom nil)
        events (atom [])]
    (with-server {:open-file (watched (support/temporary-folder) {:events events}) :appendfsync :no :failure failure}
      (reset! failure (ex-info "The append-only file cannot be synced." {}))
      (let [conn (client)]
        (send-words conn "set a 1")
        (support/await-saying "The append-only file cannot be synced.")
        (! :kv/store [:synced @failure])
        (is (= "$-1\r\n" (exchange (client) "$-1\r\n" "get a")))
        (is (= :nothing (net/recv conn {:timeout 100 :else :nothing})))))
    (is (= [] @events))
    (is (= 2 (count (support/said-by-server))))))

(deftest a-file-that-cannot-be-repaired-ends-the-service
  (let [trouble (atom nil)]
    (with-server {:open-file (watched (support/temporary-folder) {:trouble trouble}) :appendfsync :no}
      (let [conn (client)]
        (reset! trouble :bad-cut)
        (send-words conn "set a 1")
        (is (= :nothing (net/recv conn {:timeout 100 :else :nothing})))))
    (is (= ["The append-only file cannot be repaired after a failed write: Read-only file system. The server ends."]
           (rest (support/said-by-server))))))

(deftest a-failed-sync-ends-the-program-with-status-1
  (let [trouble (atom nil)
        ready (promise)
        status (promise)
        options {:port 0 :appendfsync :always :open-file (watched (support/temporary-folder) {:trouble trouble})
                 :tell #(some->> (re-find #"Ready .*:(\d+)$" %) second parse-long (deliver ready))}]
    (doto (Thread. #(deliver status (application/run (app/application options) {:exit identity})))
      (.setDaemon true)
      (.start))
    (let [conn (net/connect "127.0.0.1" @ready {:active false})]
      (reset! trouble :bad-sync)
      (send-words conn "set a 1")
      (is (nil? (net/recv conn)))
      (is (= 1 (deref status 60000 :late))))
    (application/unload :kv)))
