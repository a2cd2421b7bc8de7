(ns kv.resp-test
  "The parser, with its bytes cut anywhere; replies; patterns."
  (:require
   [clojure.test :refer [are deftest is testing]]
   [kv.glob :as glob]
   [kv.resp :as resp]))

(set! *warn-on-reflection* true)

(defn- commands-of
  "The commands in the pieces of a stream, and the error at its end if there is one."
  [options pieces]
  (loop [found [] parser (resp/parser options) pieces pieces]
    (let [{:keys [command error] :as parser} (resp/next-command parser)]
      (cond
        command (recur (conj found command) parser pieces)
        error (conj found error)
        (seq pieces) (recur found (resp/add parser (resp/bytes-of (first pieces))) (rest pieces))
        :else found))))

(def ^:private stream
  (str (resp/written ["SET" "a key" "\r\n$5\r\n\u0000\u00ff"]) "PING\r\n" "*0\r\n\r\n" (resp/written ["GET" ""]) "echo \"a b\" 'c'\n" "*-1\r\n"))

(def ^:private commands
  [["SET" "a key" "\r\n$5\r\n\u0000\u00ff"] ["PING"] ["GET" ""] ["echo" "a b" "c"]])

(deftest commands-are-found-wherever-their-bytes-are-cut
  (is (= commands (commands-of {} [stream])))
  (is (= commands (commands-of {} (map str stream))))
  (doseq [i (range (count stream))]
    (is (= commands (commands-of {} [(subs stream 0 i) (subs stream i)]))))
  (doseq [n (range 2 20)]
    (is (= commands (commands-of {} (map #(apply str %) (partition-all n stream)))))))

(deftest a-command-may-have-very-many-arguments
  (is (= [100001] (map count (commands-of {} [(resp/written (cons "MSET" (repeat 100000 "x")))]))))
  (is (= [["PING"]] (commands-of {} [(apply str (repeat 100000 "\r\n")) "PING\r\n"]))))

(deftest the-place-behind-a-command-is-known
  (let [parser (resp/add (resp/parser {}) (resp/bytes-of "PING\r\n*1\r\n$4\r\nPI"))
        parser (resp/next-command parser)]
    (is (= 6 (resp/position parser)))
    (let [parser (resp/next-command parser)]
      (is (= 4 (:missing parser)))
      (is (= 20 (resp/position (resp/next-command (resp/add parser (resp/bytes-of "NG\r\n")))))))))

(deftest protocol-errors-are-those-of-redis
  (are [text error] (= [(str "ERR Protocol error: " error)] (commands-of {:max-bulk 10} [text]))
    "*x\r\n"                    "invalid multibulk length"
    "*1048577\r\n"              "invalid multibulk length"
    "*+1\r\n"                   "invalid multibulk length"
    "*1\r\nGET\r\n"             "expected '$', got 'G'"
    "*1\r\n$-1\r\n"             "invalid bulk length"
    "*1\r\n$11\r\n"             "invalid bulk length"
    "*1\r\n$a\r\n"              "invalid bulk length"
    "*1\r\n$4\r\nPINGxx"        "expected CRLF after an argument"
    "get \"a\r\n"               "unbalanced quotes in request"
    "get \"a\"b\r\n"            "unbalanced quotes in request"
    (apply str (repeat 65537 "a"))            "too big inline request"
    (apply str "*" (repeat 65537 "1"))        "too big mbulk count string"
    (apply str "*1\r\n$" (repeat 65537 "1"))  "too big bulk count string")
  (is (= ["ERR Protocol error: expected '*'"] (commands-of {:inline? false} ["PING\r\n"]))))

(deftest words-may-be-quoted
  (are [line words] (= words (resp/words line))
    ""                      []
    "  set  a\tb "          ["set" "a" "b"]
    "a \"\\x41\\n\\\"\" b"  ["a" "A\n\"" "b"]
    "'it\\'s' \"\""         ["it's" ""]))

(deftest replies-are-written-in-resp2
  (are [reply text] (= text (resp/written reply))
    "a\u00ff"                       "$2\r\na\u00ff\r\n"
    nil                             "$-1\r\n"
    -7                              ":-7\r\n"
    :OK                             "+OK\r\n"
    :nil-array                      "*-1\r\n"
    ["a" [1 nil]]                   "*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n"
    #{}                             "*0\r\n"
    (resp/->Failure "ERR a\r\n+OK") "-ERR a  +OK\r\n")
  (is (= [0 -1 127] (mapv long (resp/bytes-of "\u0000\u00ff\u007f")))))

(deftest patterns-are-those-of-redis
  (testing "fits"
    (are [pattern text] (true? ((glob/matcher pattern) text))
      "*" ""
      "h?llo" "hello"
      "h*llo" "heeeello"
      "h[ae]llo" "hallo"
      "h[^e]llo" "hallo"
      "h[a-c]llo" "hbllo"
      "h[c-a]llo" "hbllo"
      "h\\*llo" "h*llo"
      "a.b" "a.b"
      "a*b*c" "aXbbYbc"
      "[\\]]" "]"
      "a*" "a\nb"))
  (testing "does not fit"
    (are [pattern text] (false? ((glob/matcher pattern) text))
      "" "a"
      "h?llo" "hllo"
      "h[ae]llo" "hillo"
      "h[^e]llo" "hello"
      "h\\*llo" "hello"
      "a.b" "axb"
      "[]" "a"
      "a*b*c" "aXbbYb"
      "[a-c]" "-"))
  (testing "many stars"
    (is (not ((glob/matcher (str (apply str (repeat 1000 "a*")) "b")) (apply str (repeat 5000 "a")))))
    (is ((glob/matcher (apply str (repeat 100000 "?"))) (apply str (repeat 100000 "a"))))))
