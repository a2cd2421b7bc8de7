(ns kv.server-test
  "The server, driven over a socket."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [kv.db :as db]
   [kv.listener :as listener]
   [kv.resp :as resp]
   [kv.store :as store]
   [kv.support :as support :refer [client exchange receive-text send-words with-server]]
   [magnetar.actor :as actor]
   [magnetar.net :as net]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

(defmacro ^:private answers?
  "Do the lines, sent in one piece, get this answer?"
  [conn answer & lines]
  `(is (= ~answer (exchange ~conn ~answer ~@lines))))

(deftest commands-that-come-together-are-answered-in-their-order
  (with-server {}
    (let [conn (client)]
      (answers? conn "+PONG\r\n" "ping")
      (answers? conn "+OK\r\n:2\r\n$1\r\n2\r\n+PONG\r\n:3\r\n$-1\r\n" "set a 1" "incr a" "get a" "ping" "incr a" "get b")
      (answers? conn "$5\r\nhello\r\n+OK\r\n-ERR DB index is out of range\r\n" "echo hello" "select 0" "select 1")
      (net/send conn "get a\r\n")
      (is (= "$1\r\n3\r\n" (receive-text conn "$1\r\n3\r\n"))))))

(deftest errors-are-those-of-redis
  (with-server {:proto-max-bulk-len 100}
    (let [conn (client)]
      (answers? conn "-ERR unknown command 'foo', with args beginning with: 'bar' 'baz' \r\n" "foo bar baz")
      (answers? conn "-ERR wrong number of arguments for 'get' command\r\n-ERR wrong number of arguments for 'ping' command\r\n" "get" "ping 1 2")
      (answers? conn "-NOPROTO unsupported protocol version\r\n" "hello 3")
      (testing "a protocol error is answered after the commands before it, and ends the connection"
        (net/send conn "ping\r\n*1\r\n$101\r\n")
        (let [answer "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"]
          (is (= answer (receive-text conn answer)))
          (is (nil? (net/recv conn))))))))

(deftest the-clients-of-redis-find-what-they-ask-for-first
  (with-server {:maxclients 7}
    (let [conn (client)]
      (answers? conn "*0\r\n" "command docs")
      (answers? conn "*2\r\n$4\r\nsave\r\n$0\r\n\r\n" "config get save")
      (answers? conn "*2\r\n$10\r\nmaxclients\r\n$1\r\n7\r\n" "CONFIG GET maxc*")
      (send-words conn "info")
      (is (str/includes? (resp/text (net/recv conn)) "redis_version:"))
      (answers? conn "+OK\r\n" "quit")
      (is (nil? (net/recv conn))))))

(deftest a-large-value-comes-back
  (with-server {}
    (let [conn (client)
          value (apply str (repeat 3000000 "x"))
          answer (str "+OK\r\n" (resp/written value))]
      (net/send conn (resp/bytes-of (resp/written ["SET" "big" value])))
      (send-words conn "get big")
      (is (= answer (receive-text conn answer))))))

(deftest one-client-at-a-time-changes-the-data
  (with-server {}
    (let [adders (mapv (fn [_] (actor/spawn (fn []
                                              (let [conn (net/connect "127.0.0.1" (support/port) {:active false :packet :line})]
                                                (dotimes [_ 50]
                                                  (send-words conn "incr n" "rpush l x")
                                                  (dotimes [_ 2] (net/recv conn)))))))
                       (range 10))]
      (run! actor/join adders)
      (answers? (client) "$3\r\n500\r\n:500\r\n" "get n" "llen l"))))

(deftest expired-keys-are-removed-though-nobody-asks-for-them
  (let [now (atom 1000)
        published (atom db/empty-db)]
    (with-server {:clock #(deref now) :published published}
      (let [conn (client)]
        (answers? conn "+OK\r\n+OK\r\n" "set a 1 px 50" "set b 1")
        (is (= 2 (count (:entries @published))))
        (reset! now 2000)
        (answers? conn "$-1\r\n" "get a")
        (let [removed (promise)]
          (add-watch published :removed (fn [_ _ _ db] (when (= 1 (count (:entries db))) (deliver removed true))))
          (when (= 1 (count (:entries @published))) (deliver removed true))
          (is (deref removed 20000 false)))))))

;; ---- publish and subscribe

(deftest what-is-published-reaches-the-subscribers
  (with-server {}
    (let [reader (client)
          writer (client)]
      (answers? reader "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n" "subscribe a b")
      (answers? reader "*3\r\n$10\r\npsubscribe\r\n$2\r\na*\r\n:3\r\n" "psubscribe a*")
      (answers? writer ":2\r\n:0\r\n" "publish a hi" "publish c hi")
      (let [text "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n*4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$1\r\na\r\n$2\r\nhi\r\n"]
        (is (= text (receive-text reader text))))
      (answers? reader "*2\r\n$4\r\npong\r\n$0\r\n\r\n" "ping")
      (answers? reader "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n" "get a")
      (answers? reader "*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:2\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$12\r\npunsubscribe\r\n$2\r\na*\r\n:0\r\n"
                "unsubscribe b" "unsubscribe" "punsubscribe")
      (answers? reader "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n$-1\r\n" "unsubscribe" "get a")
      (answers? writer ":0\r\n" "publish a hi"))))

(deftest a-subscriber-that-does-not-read-is-disconnected
  (with-server {:pubsub-buffer 1000000}
    (let [reader (client)
          writer (client)
          publish (resp/bytes-of (resp/written ["PUBLISH" "a" (apply str (repeat 100000 "x"))]))]
      (answers? reader "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n" "subscribe a")
      (loop []
        (net/send writer publish)
        (when (= ":1\r\n" (receive-text writer ":1\r\n"))
          (recur)))
      (is (= "+PONG\r\n" (exchange writer "+PONG\r\n" "ping")) "the publisher goes on"))))

;; ---- limits, faults

(deftest one-client-too-many-is-told
  (with-server {:maxclients 1}
    (let [first-conn (client)]
      (answers? first-conn "+PONG\r\n" "ping")
      (let [second-conn (client)
            answer "-ERR max number of clients reached\r\n"]
        (is (= answer (receive-text second-conn answer)))
        (is (nil? (net/recv second-conn))))
      (answers? first-conn "+PONG\r\n" "ping"))))

(deftest a-port-in-use-is-told-in-a-sentence
  (let [listener (net/listen 0 {:host "127.0.0.1"})]
    (try
      (let [outcome (promise)]
        (is (= [:start-error] (map :event (support/reports-of #(deliver outcome (support/start {:port (net/port listener)}))))))
        (is (str/includes? (pr-str @outcome) (str "`listen` on port 127.0.0.1:" (net/port listener) ": another socket has that port."))))
      (finally
        (support/stop)
        (net/close listener)))))

(deftest a-write-is-executed-once-however-many-writers-there-are
  (let [attempts (atom 0)
        options {:published (atom db/empty-db) :clock #(swap! attempts inc)}
        writers (mapv (fn [_] (actor/spawn (fn [] (dotimes [_ 2000] (store/execute-writes options [["INCR" "n"]]))))) (range 4))]
    (run! actor/join writers)
    (is (= "8000" (first (store/execute-reads options [["GET" "n"]]))))
    (is (= 8001 @attempts))))

(deftest the-data-outlive-the-process-that-owns-them
  (with-server {}
    (let [conn (client)
          store (actor/whereis :kv/store)]
      (answers? conn "+OK\r\n" "set a 1")
      (is (= [:child-terminated]
             (map :event (support/reports-of (fn []
                                               (actor/exit store :kill)
                                               (is (nil? (net/recv conn)) "the clients follow it")
                                               (support/await-restart store))))))
      (answers? (client) "$1\r\n1\r\n" "get a")
      (is (= 1 (count (sup/which-children :kv/connections)))))))

(deftest a-listener-whose-socket-was-closed-ends
  (let [socket (net/listen 0 {:host "127.0.0.1" :active false})
        said (atom [])]
    (net/close socket)
    (is (thrown-with-msg? clojure.lang.ExceptionInfo #"^`accept` on .*, which is closed"
                          (#'listener/accept-all socket {:tell #(swap! said conj %)})))
    (is (= [] @said))))

(deftest a-connection-that-cannot-be-accepted-leaves-the-listener-open
  (let [accept net/accept
        problem (promise)]
    (with-redefs [net/accept (fn [& arguments]
                               (if (deliver problem "The connection was aborted.")
                                 (throw (ex-info @problem {:reason :econnaborted}))
                                 (apply accept arguments)))]
      (with-server {}
        (let [listener (actor/whereis :kv/listener)]
          (answers? (client) "+PONG\r\n" "ping")
          (is (= listener (actor/whereis :kv/listener)))
          (is (= @problem (last (support/said-by-server)))))))))
