(ns magnetar.impl.actor.language
  "Exit reasons, and the messages that the kernel itself sends, as Clojure writes Erlang's."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [magnetar.impl.actor.text]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.park Cancelled Exit)
   (magnetar.kernel.process Language Words)))

(set! *warn-on-reflection* true)

;; ---- bounded, plain data

(def ^:private longest-text 1000)
(def ^:private most-elements 32)
(def ^:private deepest 5)
(def ^:private most-frames 12)

(defn- cut [^String s]
  (if (< (long longest-text) (count s)) (str (subs s 0 longest-text) "...") s))

(defn text
  "The value as text of bounded length, whatever it is."
  [x]
  (try
    (binding [*print-length* most-elements
              *print-level* deepest
              *print-meta* false
              *print-dup* false
              *print-readably* true]
      (cut (pr-str x)))
    (catch Throwable e
      (str "(does not print: " (ex-message e) ")"))))

(declare plain)

(defn- plain-elements [^long depth coll]
  (let [elements (mapv #(plain (inc depth) %) (take most-elements coll))]
    (cond-> elements (seq (drop most-elements coll)) (conj '...))))

(defn- plain-map [^long depth m]
  (into {} (map (fn [[k v]] [(plain (inc depth) k) (plain (inc depth) v)])) (take most-elements m)))

(defn plain
  "The value as plain data of bounded size: what is no data, or lies too deep, becomes text."
  ([x] (plain 0 x))
  ([^long depth x]
   (cond
     (or (nil? x) (keyword? x) (symbol? x) (number? x) (boolean? x) (char? x) (uuid? x) (inst? x)) x
     (string? x) (cut x)
     (or (instance? magnetar.kernel.process.Pid x) (instance? magnetar.kernel.process.Ref x)) x
     (< (long deepest) depth) (text x)
     (record? x) (text x)
     (map? x) (plain-map depth x)
     (set? x) (set (plain-elements depth x))
     (or (vector? x) (list? x)) (plain-elements depth x)
     :else (text x))))

;; ---- exit reasons

(defn- frame-text [^StackTraceElement frame]
  (let [class-name (.getClassName frame)
        place (str " (" (.getFileName frame) ":" (.getLineNumber frame) ")")]
    (str (if (re-find #"\$" class-name) (main/demunge class-name) (str class-name "/" (.getMethodName frame))) place)))

(defn- of-program? [^StackTraceElement frame]
  (not (re-find #"^(clojure|java|jdk|magnetar\.(kernel|impl|actor\$))" (.getClassName frame))))

(defn- frames [^Throwable error]
  (let [all (.getStackTrace error)]
    (into [] (comp (filter of-program?) (map frame-text) (take most-frames)) all)))

(defn error-term
  "What an error says, as plain data."
  [^Throwable error]
  (cond-> {:type (symbol (.getName (class error)))
           :message (some-> (ex-message error) cut)}
    (ex-data error) (assoc :data (plain (ex-data error)))
    (ex-cause error) (assoc :cause (text (ex-message (ex-cause error))))))

(defn reason
  "The exit reason of a process that threw this: that of an exit, else [what the error says, its frames]."
  [error]
  (cond
    (instance? Exit error) (.reason ^Exit error)
    (instance? Cancelled error) :cancelled
    :else [(error-term error) (frames error)]))

(def ^:private language
  (reify Language
    (constant [_ name] (keyword name))
    (exit [_ from reason] [:EXIT from reason])
    (down [_ tag ref object reason] [tag ref :process object reason])
    (timeout [_ ref message] [:timeout ref message])
    (trace [_ who message to] (if (nil? to) [:trace who :receive message] [:trace who :send message to]))
    (reason [_ thrown] (reason thrown))
    (misuse [_ kind sentence data]
      (errors/illegal-argument (keyword "magnetar" kind) sentence (update-keys data keyword)))
    (text [_ x] (text x))))

(Words/speak language)
