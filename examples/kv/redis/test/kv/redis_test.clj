(ns kv.redis-test
  "The server, driven by redis-cli and redis-benchmark, and beside a real Redis. `bin/magnetar test --redis` fetches them."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is]]
   [kv.programs :as programs]
   [kv.support :as support :refer [with-server]]
   [magnetar.net :as net]))

(set! *warn-on-reflection* true)

(defn- cli [port & words]
  (apply programs/output "redis-cli" "-p" port words))

(deftest redis-cli-shows-the-replies
  (with-server {}
    (are [words output] (= output (apply cli (support/port) words))
      ["PING"]                     "PONG"
      ["SET" "a" "1" "EX" "100"]   "OK"
      ["INCR" "a"]                 "2"
      ["RPUSH" "l" "x" "y"]        "2"
      ["LRANGE" "l" "0" "-1"]      "x\ny"
      ["GET" "l"]                  "WRONGTYPE Operation against a key holding the wrong kind of value"
      ["NONSENSE" "a"]             "ERR unknown command 'NONSENSE', with args beginning with: 'a'"
      ["CONFIG" "GET" "appendonly"] "appendonly\nno")))

(deftest redis-benchmark-runs-its-own-tests
  (with-server {}
    (let [output (programs/output "redis-benchmark" "-p" (support/port) "-n" 2000 "--csv" "-P" 4
                                  "-t" "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,lrange_100,mset")]
      (is (= 15 (count (re-seq #"(?m)^\"" output))) output)
      (is (not (re-find #"(?i)error|warning" output)) output))))

(defn- free-port []
  (let [listener (net/listen 0 {:host "127.0.0.1"})
        port (net/port listener)]
    (net/close listener)
    port))

(defn- call-with-redis
  "Calls f with the port of a real Redis, which has its data in the folder."
  [folder f]
  (let [port (free-port)
        process (.start (programs/builder "redis-server" "--port" port "--save" "" "--dir" folder))]
    (try
      (programs/await-port process port)
      (f port)
      (finally
        (.destroy process)
        (.waitFor process)))))

(def ^:private same-in-both
  "Commands, one after the other, whose replies have to be the same in both."
  (str/split-lines
    "SET a 1
SET a 2 NX
SET a 3 XX GET
SET a 1 EX 0
SET a 1 PX x
SET a 1 FOO
TTL a
EXPIRE a 100 XX
EXPIRE a 100 NX
TTL a
PERSIST a
GETSET a 10
INCRBY a 5
INCRBY a 1.5
DECRBY a 20
INCRBYFLOAT a 0.5
APPEND a x
INCR a
STRLEN a
MSET b 1 c
MGET a b l
RPUSH l a b c d
LPUSH l z
LRANGE l -3 -2
LRANGE l 3 1
LINDEX l -1
LINDEX l 9
LPOP l 2
LPOP l -1
RPOP l
LPOP nothing 2
LPUSH a x
HSET h f 1 g 2
HSET h f 3
HSET h f
HMGET h f x
HINCRBY h f 4
HINCRBY h g x
HGETALL nothing
HDEL h f x
HKEYS h
SADD s a a b
SCARD s
SINTER s nothing
SREM s a z
SMEMBERS s
TYPE s
TYPE nothing
EXISTS a a h
DEL a l nothing
KEYS [h]
KEYS s*
DBSIZE
SELECT 1000
SELECT x
GET
LPOP l 1 2
PUBLISH c hello
ECHO hello
NONSENSE a b
CONFIG NONSENSE
FLUSHALL x
FLUSHALL
DBSIZE
HELLO x
HELLO 9
HELLO 2 FOO
CONFIG
CONFIG GET
CONFIG GET save
CONFIG GET savx
LINDEX nothing x
RPUSH l a b
LINDEX l x
LINDEX l 9223372036854775807
LINDEX l -9223372036854775808
LRANGE l 0 x
LRANGE l -9223372036854775808 9223372036854775807
SADD s a
LINDEX s x
LRANGE s x y
EXPIRE s 10 NX XX
EXPIRE s 10 LT NX
EXPIRE s 10 GT LT
EXPIRE s 10 nx foo
EXPIRE s x foo
EXPIRE s 10 XX GT
EXPIRE s 10 NX NX
EXPIRE s 20 GT XX
EXPIRE nothing 10 XX LT
TTL s
SET a 1 EX 10 PX 10
SET a 1 EX 10 KEEPTTL
SET a 1 EX
SET a 9223372036854775807
INCR a
DECRBY a -9223372036854775808
HSET h f 9223372036854775807
HINCRBY h f 1
EXPIRE a 9223372036854775807"))

(def ^:private long-words
  "Unknown commands with long arguments."
  (for [lengths [[1 150 1] [100 50 1] [127] [128 3] [60 60 60] [200]]]
    (into [(apply str (repeat (peek lengths) "N"))] (map #(apply str (repeat % "a"))) lengths)))

(deftest the-replies-are-those-of-redis
  (call-with-redis (support/temporary-folder)
    (fn [redis]
      (with-server {}
        (doseq [words (concat (map #(str/split % #" ") same-in-both) long-words)]
          (is (= (apply cli redis words) (apply cli (support/port) words)) (str/join " " words)))))))

;; Redis lists settings in the order of its hash table, whose seed differs from run to run.
(deftest several-settings-are-those-of-redis
  (call-with-redis (support/temporary-folder)
    (fn [redis]
      (with-server {}
        (letfn [(settings [port]
                  ;; redis-cli's last line is empty if `save` comes last, and is trimmed
                  (->> (str/split-lines (cli port "CONFIG" "GET" "appendonly" "save"))
                       (partition 2 2 [""])
                       (into {} (map vec))))]
          (is (= {"appendonly" "no" "save" ""} (settings redis) (settings (support/port)))))))))

(deftest hello-tells-the-number-of-the-client
  (with-server {}
    (let [lines (str/split-lines (cli (support/port) "HELLO"))]
      (is (= ["server" "version" "proto" "id" "mode" "role" "modules"] (take-nth 2 lines)))
      (is (parse-long (nth lines 7))))))
