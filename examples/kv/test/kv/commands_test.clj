(ns kv.commands-test
  "The commands, as functions of the data: the replies are as in Redis 7.0."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [kv.commands :as commands]
   [kv.db :as db]
   [kv.resp :as resp]))

(set! *warn-on-reflection* true)

(defn- run
  "Executes commands, each a text of words, at a time; returns [db replies logs]."
  [db now & lines]
  (reduce (fn [[db replies logs] line]
            (let [[db reply log] (commands/execute db (resp/words line))]
              [db (conj replies (if (instance? kv.resp.Failure reply) (:message reply) reply)) (into logs (map #(str/join " " %)) log)]))
          [(assoc db :now now) [] []]
          lines))

(defn- replies [& lines]
  (second (apply run db/empty-db 1000 lines)))

(defn- logs [& lines]
  (peek (apply run db/empty-db 1000 lines)))

(def ^:private wrong-type "WRONGTYPE Operation against a key holding the wrong kind of value")
(def ^:private no-integer "ERR value is not an integer or out of range")

(deftest strings
  (is (= [:OK "1" nil 1 0] (replies "set a 1" "GET a" "get b" "strlen a" "strlen b")))
  (is (= [nil :OK nil :OK "2" "2"] (replies "set a 1 xx" "set a 1 nx" "set a 3 nx" "set a 2 xx" "set a 4 nx get" "get a")))
  (is (= [nil "1" "2"] (replies "getset a 1" "getset a 2" "getdel a")))
  (is (= [1 0 "1"] (replies "setnx a 1" "setnx a 2" "get a")))
  (is (= [:OK ["1" "2" nil] 3 "1xy"] (replies "mset a 1 b 2" "mget a b c" "append a xy" "get a")))
  (is (= ["ERR syntax error" "ERR syntax error" "ERR syntax error" "ERR syntax error" no-integer
          "ERR invalid expire time in 'set' command" "ERR invalid expire time in 'setex' command"]
         (replies "set a 1 nx xx" "set a 1 ex" "set a 1 ex 1 px 1" "set a 1 foo" "set a 1 ex x" "set a 1 ex 0" "setex a -1 x")))
  (is (= [1 wrong-type wrong-type [nil] :OK] (replies "lpush l a" "get l" "append l x" "mget l" "set l 1"))))

(deftest counters
  (is (= [1 0 10 7 "7"] (replies "incr a" "decr a" "incrby a 10" "decrby a 3" "get a")))
  (is (= [:OK "ERR increment or decrement would overflow"] (replies "set a 9223372036854775807" "incr a")))
  (is (= [:OK no-integer no-integer "ERR decrement would overflow"]
         (replies "set a 1x" "incr a" "incrby b 1.5" "decrby b -9223372036854775808")))
  (is (= ["3.1" "5" "ERR value is not a valid float" "ERR value is not a valid float"]
         (replies "incrbyfloat a 3.1" "incrbyfloat a 1.9" "incrbyfloat a x" "incrbyfloat a 1e999999999"))))

(deftest lists
  (is (= [3 ["c" "b" "a"] 4 ["b" "a" "d"] "c" "d" "a" nil 4]
         (replies "lpush l a b c" "lrange l 0 -1" "rpush l d" "lrange l -3 10" "lindex l 0" "lindex l -1" "lindex l 2" "lindex l 9" "llen l")))
  (is (= [3 "a" "c" ["b"] 0 nil :nil-array :none]
         (replies "rpush l a b c" "lpop l" "rpop l" "lpop l 5" "llen l" "lpop l" "rpop l 2" "type l")))
  (is (= [2 [] "ERR value is out of range, must be positive" []] (replies "rpush l a b" "lpop l 0" "lpop l -1" "lrange l 5 9")))
  (is (= [nil 1 "ERR value is not an integer or out of range"] (replies "lindex l x" "rpush l a" "lindex l x")))
  (is (= [2 "a" nil nil] (replies "rpush l a b" "lpop l" "lindex l 9223372036854775807" "lindex l -9223372036854775808"))))

(deftest hashes
  (is (= [2 0 "2" nil ["2" nil] 1 0 2] (replies "hset h a 1 b 2" "hset h a 2" "hget h a" "hget h c" "hmget h a c" "hexists h a" "hexists h c" "hlen h")))
  (is (= [2 ["a" "1" "b" "2"] ["a" "b"] ["1" "2"] 2 [] :none] (replies "hset h a 1 b 2" "hgetall h" "hkeys h" "hvals h" "hdel h a b c" "hgetall h" "type h")))
  (is (= [5 3 1 "ERR hash value is not an integer" "ERR wrong number of arguments for 'hset' command"]
         (replies "hincrby h n 5" "hincrby h n -2" "hset h t x" "hincrby h t 1" "hset h a 1 b"))))

(deftest sets
  (is (= [2 1 3 1 0 1] (replies "sadd s a b" "sadd s b c" "scard s" "sismember s a" "sismember s z" "srem s a z")))
  (is (= [#{"b"} #{"a" "b" "c"} #{"a"} #{}]
         (drop 2 (replies "sadd s a b" "sadd t b c" "sinter s t" "sunion s t" "sdiff s t" "smembers u")))))

(deftest keys-of-any-type
  (is (= [:OK 2 1 ["ab"] 2 :string :none 2 0]
         (replies "mset ab 1 b 2" "exists ab b c" "exists b" "keys a*" "dbsize" "type b" "type c" "del ab b c" "dbsize")))
  (is (= [:OK :OK 0 "ERR syntax error"] (replies "set a 1" "flushall" "dbsize" "flushall now"))))

(deftest expiry
  (is (= [:OK 100 100000 1 -1 -1 -2 1 0] (replies "set a 1 ex 100" "ttl a" "pttl a" "persist a" "ttl a" "pttl a" "ttl b" "expire a 5" "expire b 5")))
  (is (= [:OK 1 -2 nil] (replies "set a 1" "expire a 0" "ttl a" "get a")))
  (is (= [:OK -1 :OK 10 :OK 10] (replies "set a 1" "ttl a" "set a 1 ex 10" "ttl a" "set a 2 keepttl" "ttl a")))
  (is (= [:OK 0 1 0 1 1 "ERR Unsupported option foo"]
         (replies "set a 1" "expire a 5 xx" "expire a 5 nx" "expire a 5 gt" "expire a 9 gt" "expire a 3 lt" "expire a 3 foo")))
  (is (= ["ERR invalid expire time in 'expire' command"] (replies "expire a 9223372036854775807")))
  (is (= [1 1 0 1 "ERR NX and XX, GT or LT options at the same time are not compatible"
          "ERR GT and LT options at the same time are not compatible"]
         (replies "incr a" "expire a 5 nx" "expire a 4 xx gt" "expire a 9 GT xx" "expire a 5 nx lt" "expire a 5 lt gt")))
  (let [[db] (run db/empty-db 1000 "set a 1 px 10" "set b 1" "sadd s x" "pexpire s 20")]
    (is (= ["1" 3] (second (run db 1010 "get a" "dbsize"))))
    (is (= [nil -2 ["b" "s"] 1] (update (second (run db 1011 "get a" "ttl a" "keys *" "exists a b")) 2 sort)))
    (is (= [3] (second (run db 1011 "dbsize"))) "as in Redis an expired key counts until it is removed")
    (is (= ["a" "s"] (db/expired-keys (assoc db :now 5000))))
    (is (= ["s"] (db/expired-keys (assoc (first (run db 1000 "set a 2")) :now 5000))))))

(deftest expired-keys-are-removed-in-batches
  (let [[db] (run db/empty-db 1000 "set a 1 px 3" "set b 1 px 1" "set c 1 px 2" "set d 1")
        [after log] (commands/delete-expired (assoc db :now 5000) 2)]
    (is (= [["DEL" "b"] ["DEL" "c"]] log))
    (is (= #{"a" "d"} (set (keys (:entries after)))))
    (is (= [["DEL" "a"]] (second (commands/delete-expired after 2))))))

(deftest an-expired-key-is-deleted-in-the-log-before-it-is-changed
  (let [[db] (run db/empty-db 1000 "set a 7 px 3" "mset b 7 c 7" "pexpire c 3")
        log #(peek (run db 5000 %))]
    (is (= ["DEL a" "incr a"] (log "incr a")))
    (is (= ["incr b"] (log "incr b")))
    (is (= ["DEL c" "DEL a" "mset c a a c"] (log "mset c a a c")))
    (is (= ["DEL c" "DEL a"] (log "del c a a")))
    (is (= [] (log "get a")))))

(deftest any-exception-of-a-command-is-its-reply
  (with-redefs-fn {#'commands/lookup (constantly {:arity 1 :read (fn [_] (Math/addExact Long/MAX_VALUE 1))})}
    #(is (= ["ERR the command failed: java.lang.ArithmeticException: long overflow"] (replies "boom"))))
  (with-redefs-fn {#'commands/lookup (constantly {:arity 1 :write (fn [_] (throw (StackOverflowError.)))})}
    #(is (thrown? StackOverflowError (replies "boom")) "an Error is one of the program")))

(deftest the-log-has-what-changed-in-words-that-mean-the-same-later
  (is (= ["SET a 1 PXAT 11000" "SET a 2 PXAT 3000" "SET a 3 KEEPTTL" "PEXPIREAT a 6000" "persist a" "DEL a"]
         (logs "set a 1 ex 10" "setex a 2 2" "set a 3 keepttl get" "expire a 5" "persist a" "persist a" "get a" "set a 9 nx" "expire a -1")))
  (is (= ["sadd s a"] (logs "del a" "hdel h f" "lpop l" "sadd s a" "sadd s a"))))

(deftest wrong-numbers-of-arguments-are-refused
  (is (= (repeat 5 true) (map #(str/starts-with? % "ERR wrong number of arguments for '") (replies "get" "get a b" "set a" "lpop l 1 2" "mset a"))))
  (is (= ["ERR wrong number of arguments for 'get' command"] (replies "GeT"))))
