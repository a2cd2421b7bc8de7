(ns magnetar.impl.actor.codec
  "Exit reasons, and the messages that the kernel itself sends, as Clojure writes Erlang's."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reports]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest])
  (:import
   (clojure.lang ExceptionInfo Iterate LazySeq MapEntry PersistentQueue)
   (java.time Instant)
   (java.util Date)
   (magnetar.kernel.fiber Cancelled Exit)
   (magnetar.kernel.process Codec Dialect Pid ProcessTable Ref)
   (magnetar.kernel.report Frames)))

(set! *warn-on-reflection* true)

;; ---- bounded, plain data

(def ^:private longest-text 1000)
(def ^:private most-elements 256) ; of a whole term
(def ^:private most-of-one 32)
(def ^:private deepest 5)
(def ^:private most-frames 12)

(defn- cut [^String s]
  (if (< (long longest-text) (.length s)) (str (subs s 0 longest-text) "...") s))

(defn- opaque
  "What stands for a value that is no data: looking into it would run code of the program, which may fail, wait, or never end."
  [x]
  (str "(" (.getName (class x)) ")"))

;; By class, since `inst?` asks a protocol, which searches all superclasses of a value that is no instant.
(defn- instant? [x]
  (or (instance? Date x) (instance? Instant x)))

(defn- atomic? [x]
  (or (nil? x) (keyword? x) (symbol? x) (number? x) (boolean? x) (char? x) (uuid? x) (instant? x) (instance? Pid x) (instance? Ref x)))

(defn- there?
  "True of a seq whose elements are there without code of the program being run."
  [x]
  (cond
    (instance? LazySeq x) (realized? x)
    (instance? Iterate x) false
    :else true))

(declare plain-within)

(defn- elements
  "Some of the elements, each plain; the left budget is shared by the whole term."
  ([left depth coll] (elements plain-within left depth coll))
  ([plain-one left depth coll]
   (loop [out [] coll (seq coll)]
     (cond
       (nil? coll) out
       (or (= most-of-one (count out)) (not (pos? (long @left)))) (conj out '...)
       :else (do (vreset! left (dec (long @left)))
                 (let [out (conj out (plain-one left (inc (long depth)) (first coll)))
                       more (rest coll)]
                   (if (there? more) (recur out (seq more)) (conj out '...))))))))

(defn- plain-entry [left depth entry]
  (if (< (long deepest) (long depth))
    '...
    [(plain-within left depth (key entry)) (plain-within left depth (val entry))]))

(defn- pairs [left depth m]
  (into {} (filter vector?) (elements plain-entry left depth m)))

(defn- plain-within [left depth x]
  (cond
    (atomic? x) x
    (string? x) (cut x)
    (< (long deepest) (long depth)) '...
    (map? x) (pairs left depth x)
    (set? x) (set (elements left depth x))
    (vector? x) (elements left depth x)
    (instance? PersistentQueue x) (elements left depth x)
    (instance? Throwable x) (opaque x)
    (and (seq? x) (there? x)) (seq (elements left depth x))
    :else (opaque x)))

(defn plain
  "The value as plain data of bounded size: what is no data, lies too deep, is too much, or is lazy and not there yet, is left out."
  [x]
  (plain-within (volatile! most-elements) 0 x))

(defn text
  "The value as text of bounded length, made without running code of the program."
  [x]
  (try
    (binding [*print-length* nil, *print-level* nil, *print-meta* false, *print-dup* false, *print-readably* true]
      (cut (pr-str (plain x))))
    (catch Exception e (str (opaque x) ", which does not print: " (.getName (class e))))))

;; ---- exit reasons

(defn frames
  "The frames of the error that belong to the program, as lines."
  [^Throwable error]
  (vec (Frames/ofProgram (.getStackTrace error) most-frames)))

(def ^:private most-causes 4)

(defn- said
  "What a cause says, with its class unless it is an ex-info."
  [^Throwable cause]
  (let [of (class cause)
        message (some-> (ex-message cause) cut)]
    (cond
      (nil? message) (.getName of)
      (= ExceptionInfo of) message
      :else (str message " (" (.getName of) ")"))))

(defn- deeper-causes
  "What the causes of this cause say, from the outside in. The last of them is the root, also where the middle of a long chain is left out."
  [cause]
  (let [known (volatile! #{cause}) ; a chain that leads back to itself ends there
        new? #(when-not (@known %) (vswap! known conj %))
        chain (vec (take-while new? (take 1000 (take-while some? (rest (iterate ex-cause cause))))))
        room (dec (long most-causes))]
    (mapv said (if (< room (count chain))
                 (conj (subvec chain 0 (dec room)) (peek chain))
                 chain))))

(defn- causes
  "The :cause of an error, in the words of that, and if that has causes too, what they say as :causes."
  [cause]
  (let [deeper (deeper-causes cause)]
    (cond-> {:cause (or (some-> (ex-message cause) cut) (said cause))}
      (seq deeper) (assoc :causes deeper))))

(defn error-term
  "What an error says, as plain data."
  [^Throwable error]
  (cond-> {:type (symbol (.getName (class error)))
           :message (some-> (ex-message error) cut)}
    (ex-data error) (assoc :data (plain (ex-data error)))
    (ex-cause error) (merge (causes (ex-cause error)))))

(defn reason
  "The exit reason of a process that threw this: that of an exit, or of an error that has one as :magnetar/exit, else [what the error says,
  its frames]."
  [error]
  (cond
    (instance? Exit error) (.reason ^Exit error)
    (instance? Cancelled error) :cancelled
    (contains? (ex-data error) :magnetar/exit) (:magnetar/exit (ex-data error))
    :else [(error-term error) (frames error)]))

(defn of-error?
  "True of the reason of a process that threw an error: [what the error says, its frames]."
  [reason]
  (and (vector? reason) (= 2 (count reason))
       (map? (nth reason 0)) (contains? (nth reason 0) :type) (contains? (nth reason 0) :message)
       (vector? (nth reason 1)) (every? string? (nth reason 1))))

(defn- meant
  "What is asked about a name that no process has and that is nearly another's."
  [^String text]
  (when-some [near (when (str/starts-with? text ":") (suggest/closest (keyword (subs text 1)) (filter keyword? (ProcessTable/names))))]
    (str " Is " near " meant?")))

;; ---- calls

;; The pairs that each call makes are entries of a map: equal to the vectors, and vectors to patterns, `nth` and destructuring, in half the bytes; they
;; take no metadata.
(defn request
  "The request of a call, as a server takes it."
  [from ref message]
  [:magnetar/call (MapEntry/create from ref) message])

(defn request?
  "Is the message the request with this reference?"
  [ref message]
  (and (vector? message) (= 3 (count message)) (= :magnetar/call (nth message 0))
       (let [from (nth message 1)] ; another node may send anything
         (and (vector? from) (identical? ref (nth from 1 nil))))))

;; A server answers with a [ref value] of two entries in one object. This is for a vector that a process has sent by hand.
(defn- reply? [ref message]
  (and (vector? message) (< 1 (count message)) (identical? ref (nth message 0))))

(defn- down? [ref message]
  (and (vector? message) (= 5 (count message)) (identical? ref (nth message 1))))

(def ^:private codec
  (reify Codec
    (constant [_ name] (keyword name))
    (exit [_ from reason] [:EXIT from reason])
    (down [_ tag ref object reason] [tag ref :process object reason])
    (spawned [_ ref result] [:spawn-reply ref (if (instance? Pid result) :ok :error) result])
    (request [_ from ref message] (request from ref message))
    (isRequest [_ ref message] (request? ref message))
    (isReply [_ ref message] (reply? ref message))
    (replied [_ message] (nth message 1))
    (isDown [_ ref message] (down? ref message))
    (reasonOfDown [_ message] (nth message 4))
    (timeout [_ ref message] [:timeout ref message])
    (trace [_ who message to] (if (nil? to) [:trace who :receive message] [:trace who :send message to]))
    (reason [_ thrown] (reason thrown))
    (noMemory [_] [{:type 'java.lang.OutOfMemoryError, :message "Java heap space"} []])
    (isName [_ x] (or (keyword? x) (symbol? x)))
    (misuse [_ kind sentence data]
      (errors/illegal-argument (keyword "magnetar" kind) (str sentence (when (= "no-such-name" kind) (meant (get data "to")))) (update-keys data keyword)))
    (given [_ reason] (if (instance? Throwable reason) (error-term reason) reason))
    (text [_ x] (text x))))

(Dialect/use codec)
