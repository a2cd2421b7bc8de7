(ns kv.resp
  "RESP2: the bytes of a client in, commands out; replies in, bytes out. Pure.

  Inside the server a string of bytes is a String in Latin-1, with one character for each byte. So it
  compares, hashes and prints, and it takes no more memory than the bytes."
  (:require
   [clojure.string :as str])
  (:import
   (java.nio.charset StandardCharsets)
   (java.util Arrays)))

(set! *warn-on-reflection* true)

(defn bytes-of
  "The string as bytes."
  ^bytes [text]
  (.getBytes (str text) StandardCharsets/ISO_8859_1))

(defn text
  "The bytes as a string."
  ^String [^bytes bytes]
  (String. bytes StandardCharsets/ISO_8859_1))

(defn- slice ^String [^bytes bytes ^long from ^long to]
  (String. bytes (int from) (int (- to from)) StandardCharsets/ISO_8859_1))

(defn whole-number
  "The number in the text, nil unless it is written as Redis writes it: without a plus and without leading
  zeros."
  [^String text]
  (when-some [n (parse-long text)]
    (when (= text (str n))
      n)))

;; ---- commands in

(def ^:const most-max-bulk "The greatest :max-bulk that an option may set." 1073741824)

(def ^:private ^:const longest-line 65536)
(def ^:private ^:const most-arguments 1048576)

;; The bytes from `from` on are not parsed yet, and `base` is the place of the first byte of the array in the
;; stream. Inside a command `wanted` is the number of its arguments, and `args` has the ones that are there.
;; `next-command` sets one of `command`, a vector of strings, `error`, a message, and `missing`, the least
;; number of bytes that are missing.
(defrecord Parser [bytes base from wanted args command error missing options])

(defn parser
  "A parser that has seen nothing. Options: :max-bulk is the longest argument in bytes. With {:inline? false}
  a command is always an array."
  [options]
  (->Parser (byte-array 0) 0 0 nil [] nil nil 1 (merge {:max-bulk 536870912 :inline? true} options)))

(defn add
  "The parser with more bytes of its stream."
  [{:keys [^bytes bytes ^long base ^long from] :as parser} ^bytes more]
  (let [left (- (alength bytes) from)
        both (if (zero? left) more (Arrays/copyOfRange bytes from (+ from left (alength more))))]
    (when (pos? left)
      (System/arraycopy more 0 both left (alength more)))
    (assoc parser :bytes both :base (+ base from) :from 0)))

(defn size
  "How many bytes of the stream the parser has."
  [{:keys [^bytes bytes ^long base]}]
  (+ base (alength bytes)))

(defn position
  "The place in the stream behind the last command."
  [{:keys [^long base ^long from]}]
  (+ base from))

(defn- line-end
  "The place of the next line feed, or nil."
  [^bytes bytes ^long from]
  (loop [i from]
    (cond
      (= i (alength bytes)) nil
      (= 10 (aget bytes i)) i
      :else (recur (inc i)))))

(defn- line
  "The text before the line feed at `end`, without its carriage return."
  ^String [^bytes bytes ^long from ^long end]
  (slice bytes from (if (and (< from end) (= 13 (aget bytes (dec end)))) (dec end) end)))

(defn- failed [parser message]
  (assoc parser :error (str "ERR Protocol error: " message)))

(defn- advanced [parser from wanted args]
  (assoc parser :from from :wanted wanted :args args))

(defn- complete [parser from command]
  (assoc (advanced parser from nil []) :command command))

(def ^:private word
  #"(?s)(?:\"([^\"\\]*+(?:\\.[^\"\\]*+)*+)\"|'([^'\\]*+(?:\\.[^'\\]*+)*+)'|([^\s\"']\S*+))(?:\s++|$)")

(defn- unescape [text]
  (str/replace text #"(?s)\\(?:x(\p{XDigit}{2})|(.))"
    (fn [[_ hex c]]
      (if hex
        (str (char (Integer/parseInt hex 16)))
        (get {"n" "\n" "r" "\r" "t" "\t" "b" "\b" "a" "\u0007"} c c)))))

(defn words
  "The words of a line, nil if its quotes are not balanced."
  [line]
  (loop [left (str/triml line) found []]
    (if (= "" left)
      found
      (let [matcher (re-matcher word left)]
        (when (.lookingAt matcher)
          (let [[_ double single plain] (re-groups matcher)]
            (recur (subs left (.end matcher))
                   (conj found (or (some-> double unescape)
                                   (some-> single (str/replace "\\'" "'"))
                                   plain)))))))))

(defn- unfinished-line [{:keys [^bytes bytes ^long from wanted] :as parser}]
  (cond
    (<= (- (alength bytes) from) longest-line) (assoc parser :missing 1)
    wanted (failed parser "too big bulk count string")
    (= 42 (aget bytes from)) (failed parser "too big mbulk count string")
    :else (failed parser "too big inline request")))

(defn- inline-command [{:keys [bytes from options] :as parser} ^long end]
  (let [command (when (:inline? options) (words (line bytes from end)))]
    (cond
      (not (:inline? options)) (failed parser "expected '*'")
      (nil? command) (failed parser "unbalanced quotes in request")
      (empty? command) (advanced parser (inc end) nil [])
      :else (complete parser (inc end) command))))

(defn- array-header [{:keys [bytes ^long from] :as parser} ^long end]
  (let [n (whole-number (line bytes (inc from) end))]
    (cond
      (or (nil? n) (< most-arguments (long n))) (failed parser "invalid multibulk length")
      (pos? (long n)) (advanced parser (inc end) n [])
      :else (advanced parser (inc end) nil []))))

(defn- argument [{:keys [^bytes bytes ^long from wanted args options] :as parser} ^long end]
  (let [n (when (= 36 (aget bytes from)) (whole-number (line bytes (inc from) end)))
        start (inc end)
        after (+ start (long (or n 0)) 2)]
    (cond
      (not= 36 (aget bytes from))
      (failed parser (str "expected '$', got '" (slice bytes from (inc from)) "'"))

      (not (<= 0 (long (or n -1)) (long (:max-bulk options)))) (failed parser "invalid bulk length")
      (< (alength bytes) after) (assoc parser :missing (- after (alength bytes)))

      (not (and (= 13 (aget bytes (- after 2))) (= 10 (aget bytes (dec after)))))
      (failed parser "expected CRLF after an argument")

      :else (let [args (conj args (slice bytes start (- after 2)))]
              (if (= wanted (count args))
                (complete parser after args)
                (advanced parser after wanted args))))))

(defn- step
  "The parser after one more line or argument."
  [{:keys [^bytes bytes ^long from wanted] :as parser}]
  (let [end (line-end bytes from)]
    (cond
      (nil? end) (unfinished-line parser)
      wanted (argument parser end)
      (= 42 (aget bytes from)) (array-header parser end)
      :else (inline-command parser end))))

(defn next-command
  "The parser after one more command, which is its :command; or with an :error; or with the number of bytes
  that are :missing."
  [parser]
  (loop [parser (step (assoc parser :command nil :missing nil))]
    (if (or (:command parser) (:error parser) (:missing parser))
      parser
      (recur (step parser)))))

(defn torn?
  "Is what is left after the last command the beginning of a well-formed one? `next-command` has said that
  bytes are missing."
  [{:keys [^bytes bytes ^long from wanted ^long missing]}]
  (let [size (alength bytes)
        start (slice bytes from (min size (+ from 20)))]
    (if (and wanted (line-end bytes from))
      (or (< 1 missing) (= 13 (aget bytes (dec size))))
      (some? (re-matches (if wanted #"\$?|\$(0|[1-9]\d{0,9})\r?" #"\*?|\*[1-9]\d{0,6}\r?") start)))))

;; ---- replies out

(defrecord Failure [message])

(defn fail
  "Ends a command with an error, as in \"ERR syntax error\"."
  [message]
  (throw (ex-info message {:reply (->Failure message)})))

(defn- write-bulk [^StringBuilder out ^String text]
  (-> out (.append "$") (.append (.length text)) (.append "\r\n") (.append text) (.append "\r\n")))

(defn write
  "Appends a reply: a string, a number, nil, a sequence, a keyword for a status as :OK, :nil-array, or a
  Failure."
  [^StringBuilder out reply]
  (cond
    (string? reply) (write-bulk out reply)
    (nil? reply) (.append out "$-1\r\n")
    (int? reply) (-> out (.append ":") (.append (long reply)) (.append "\r\n"))
    (= :nil-array reply) (.append out "*-1\r\n")
    (keyword? reply) (-> out (.append "+") (.append (name reply)) (.append "\r\n"))
    (instance? Failure reply) (let [line (str/replace (:message reply) #"[\r\n]" " ")]
                                (-> out (.append "-") (.append line) (.append "\r\n")))
    :else (do (-> out (.append "*") (.append (count reply)) (.append "\r\n"))
              (run! #(write out %) reply)))
  out)

(defn written
  "The text of a reply, or of a command, which is an array of strings."
  ^String [reply]
  (str (write (StringBuilder.) reply)))
