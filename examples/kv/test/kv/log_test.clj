(ns kv.log-test
  "The append-only file: synced before an acknowledgement, read again, torn, damaged, and on a disk that is full."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [are deftest is]]
   [kv.listener :as listener]
   [kv.log :as log]
   [kv.resp :as resp]
   [kv.support :as support :refer [client exchange send-words with-server]]
   [magnetar.actor :as actor]
   [magnetar.net :as net])
  (:import
   (java.io IOException)
   (java.nio ByteBuffer)))

(set! *warn-on-reflection* true)

;; A file whose appends and syncs are events, which fails where `trouble` says so.
(defrecord Watched [disk events trouble]
  log/Disk
  (length [_] (log/length disk))
  (read-at [_ buffer place] (log/read-at disk buffer place))
  (append [_ buffer]
    (when (= :full @trouble)
      (log/append disk (.limit (.duplicate ^ByteBuffer buffer) 3))
      (throw (IOException. "No space left on device")))
    (swap! events conj [:append (.remaining ^ByteBuffer buffer)])
    (log/append disk buffer))
  (cut [_ size] (log/cut disk size))
  (sync [_]
    (swap! events conj [:sync])
    (when (= :bad @trouble)
      (throw (IOException. "Input/output error")))
    (log/sync disk))
  (close [_] (log/close disk)))

(defn- watched [folder events trouble]
  #(->Watched (log/open-file folder) events trouble))

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
    (with-server {:open-disk (watched folder events (atom nil)) :appendfsync :always}
      (let [conn (client)]
        (is (= "+OK\r\n" (exchange conn "+OK\r\n" "set a 1")))
        (is (= [[:append 27] [:sync]] @events))
        (is (= "$1\r\n1\r\n" (exchange conn "$1\r\n1\r\n" "get a")))
        (is (= 2 (count @events)) "what changes nothing is not synced")
        (is (= "+OK\r\n:2\r\n:3\r\n" (exchange conn "+OK\r\n:2\r\n:3\r\n" "set a 1" "incr a" "incr a")))
        (is (= [:append :sync] (map first (drop 2 @events))) "what comes together is synced once")))))

(deftest changes-that-wait-together-are-synced-once
  (let [events (atom [])
        folder (support/temporary-folder)]
    (with-server {:open-disk (watched folder events (atom nil)) :appendfsync :always}
      (let [gate (promise)
            clients (mapv (fn [_] (actor/spawn (fn []
                                                 (let [conn (net/connect "127.0.0.1" (listener/port) {:active false :packet :line})]
                                                   @gate
                                                   (dotimes [_ 20]
                                                     (send-words conn "incr n")
                                                     (net/recv conn))))))
                          (range 20))]
        (deliver gate true)
        (run! actor/join clients)
        (is (= "$3\r\n400\r\n" (exchange (client) "$3\r\n400\r\n" "get n")))
        (is (<= (count (filter #{[:sync]} @events)) 400))))
    (is (= 400 (count (re-seq #"incr" (text-of folder)))))))

(deftest the-other-settings-do-not-sync-before-an-answer
  (doseq [appendfsync [:everysec :no]]
    (let [events (atom [])]
      (with-server {:open-disk (watched (support/temporary-folder) events (atom nil)) :appendfsync appendfsync}
        (is (= "+OK\r\n" (exchange (client) "+OK\r\n" "set a 1")))
        (is (= [:append 27] (first @events))))
      (is (= [:sync] (peek @events)) "the stop syncs"))))

(deftest everysec-syncs-without-being-asked
  (let [events (atom [])
        synced (promise)]
    (add-watch events :sync (fn [_ _ _ now] (when (some #{[:sync]} now) (deliver synced true))))
    (with-server {:open-disk (watched (support/temporary-folder) events (atom nil)) :appendfsync :everysec}
      (is (= "+OK\r\n" (exchange (client) "+OK\r\n" "set a 1")))
      (is (deref synced 60000 false)))))

(deftest the-file-gives-the-data-back
  (let [folder (support/temporary-folder)]
    (with-server {:appendonly true :dir folder}
      (is (= "+OK\r\n:3\r\n:1\r\n:1\r\n+OK\r\n" (exchange (client) "+OK\r\n:3\r\n:1\r\n:1\r\n+OK\r\n" "set a 1" "rpush l a b c" "hset h f v" "sadd s m" "set t x ex 1000"))))
    (with-server {:appendonly true :dir folder}
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
        (log/close disk)
        (is (= whole (text-of folder)))))))

(defn- refusal [text]
  (let [disk (log/open-file (folder-with text))]
    (try
      (ex-message (is (thrown? clojure.lang.ExceptionInfo (log/open disk (fn [_])))))
      (finally (log/close disk)))))

(deftest damage-elsewhere-is-refused-with-its-place
  (are [text place] (str/starts-with? (refusal text) (str "The append-only file is damaged at byte " place ":"))
    (str (records 0) "garbage\r\n" (records 1))             27
    (str (records 0) "*3\r\n$x\r\n" (records 1))            27
    (str (records 0) (resp/written ["NONSENSE"]) (records 1)) 27
    (str (records 0) (resp/written ["INCR" "l" "x"]))       27
    (str (records 0) (str/replace (records 1) "$3" "$4") (records 2)) 27
    (str (records 0) (str/replace (records 1) "$3" "$999") (records 2)) 27
    "\u0000\u0000\u0000\n"                                  0))

(deftest a-server-with-a-damaged-file-does-not-start
  (let [outcome (promise)]
    (is (= [:start-error]
           (map :event
                (support/reports-of #(deliver outcome (support/start {:appendonly true :dir (folder-with (str (records 0) "garbage\r\n"))}))))))
    (support/stop)
    (is (str/includes? (pr-str @outcome) "damaged at byte 27: ERR Protocol error: expected '*'."))))

(deftest on-a-full-disk-writes-are-refused-and-what-was-acknowledged-stays
  (let [folder (support/temporary-folder)
        trouble (atom nil)]
    (with-server {:open-disk (watched folder (atom []) trouble) :appendfsync :always}
      (let [conn (client)
            refused "-MISCONF Errors writing to the AOF file: No space left on device\r\n$1\r\n1\r\n"]
        (is (= "+OK\r\n" (exchange conn "+OK\r\n" "set a 1")))
        (reset! trouble :full)
        (is (= refused (exchange conn refused "incr a" "get a")))
        (is (= (resp/written ["SET" "a" "1"]) (text-of folder)) "what was written in part is cut")
        (reset! trouble nil)
        (is (= ":2\r\n" (exchange conn ":2\r\n" "incr a")))
        (is (= (str (resp/written ["SET" "a" "1"]) (resp/written ["incr" "a"])) (text-of folder)))))))

(deftest what-could-not-be-synced-is-not-acknowledged
  (let [folder (support/temporary-folder)
        trouble (atom nil)
        said (atom [])
        ended (promise)]
    (with-server {:open-disk (watched folder (atom []) trouble) :appendfsync :always :tell #(swap! said conj %)}
      (let [conn (client)
            store (actor/whereis :kv/store)]
        (actor/spawn #(let [ref (actor/monitor store)]
                        (reset! trouble :bad)
                        (deliver ended (actor/receive [:DOWN ref :process _ why] why))))
        (while (nil? @trouble) (Thread/onSpinWait))
        (is (seq (support/reports-of (fn []
                                       (is (nil? (exchange conn "+OK\r\n" "set a 1")))
                                       (is (= :log-broken (deref ended 20000 :late)))
                                       (reset! trouble nil)
                                       (support/await-restart store)))))
        (is (some #{"The append-only file cannot be synced: Input/output error. The server ends."} @said))))))
