(ns magnetar.impl.reasons
  "Exit reasons in words: the innermost one in full, with the way to it. A sentence inside of a reason is never cut."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(declare sentence text)

(defn- error-words [{:keys [type message]} [place]]
  (str (or message "without a message")
       (when type (str " (" (str/replace (str type) #"^(java\.lang|clojure\.lang|magnetar)\." "") ")"))
       (when (string? place) (str " at " place))))

;; ---- calls

(defn- call?
  "Is it a call as the reason of a process has it that died of the failure of that call?"
  [x]
  (and (vector? x) (= 3 (count x)) (symbol? (nth x 0)) (keyword? (nth x 1)) (vector? (nth x 2))))

(defn- call-words [call]
  (cond
    (call? call) (let [[module function args] call] (str "(" module "/" (name function) (str/join (map #(str " " (codec/text %)) args)) ")"))
    (sequential? call) (str "(" (str/join " " (map codec/text call)) ")")
    :else (codec/text call)))

(def ^:private why-calls-fail
  {:calling-self "it would wait for its own answer (:calling-self): call the function that does the work, or cast"
   :noproc "there is no such process (:noproc)"
   :timeout "no answer came in time (:timeout)"})

(defn- cycle-words [way]
  (str "each waits for the answer of the next, " (str/join " -> " (map codec/text way))
       " (:call-cycle): let one of them cast, or answer its caller first"))

(defn- returned [[call value hint]]
  (let [[word reason] (when (vector? value) value)]
    (if (= :EXIT word)
      (str (call-words call) " threw: " (text reason))
      (str (call-words call) " returned " (codec/text value) (when (string? hint) (str "; " hint))))))

;; ---- reasons

(defn- words-of-pair [word y]
  (case word
    :call-cycle (when (vector? y) (cycle-words y))
    :shutdown (when (vector? y) (text y))
    :bad-return (when (vector? y) (returned y))
    :already-started (str (codec/text y) " is running already")
    :not-started (str "it needs the application " (codec/text y) ", which does not run")
    :not-loaded (str "the application " (codec/text y) " is not loaded")
    :stopping (str "the application " (codec/text y) " is being stopped")
    nil))

(defn- words-of-vector [[word x y :as reason]]
  (cond
    (codec/of-error? reason) (error-words word x)
    (and (= 2 (count reason)) (call? x)) (str (call-words x) " failed: " (or (why-calls-fail word) (text word)))
    (and (map? x) (string? (:message x))) (:message x)
    (= :failed-to-start-child word) (str "its child " (codec/text x) " did not start: " (text y))
    (and (= :not-linked word) (string? y)) (str (codec/text x) " is not linked; " y)
    (and (#{:bad-return-value :undef} word) (string? (peek reason))) (peek reason)
    (and (keyword? word) (string? y)) (str word ", " y)
    :else (words-of-pair word x)))

(defn sentence
  "The reason as the beginning of a sentence: what an error says comes first, and is not cut."
  [reason]
  (cond
    (and (map? reason) (string? (:message reason))) (if (:type reason) (error-words reason nil) (:message reason))
    (and (vector? reason) (<= 1 (count reason) 3)) (or (words-of-vector reason) (codec/text reason))
    :else (codec/text reason)))

(defn text
  "The reason as a part of a sentence that goes on: without a full stop."
  [reason]
  (str/replace (sentence reason) #"\.$" ""))

;; ---- what else an error says

(defn frames
  "The frames of the error that the reason is; nil if it is not an error."
  [reason]
  (when (codec/of-error? reason)
    (nth reason 1)))

(defn more-lines
  "What else is known of the error that the reason is, as lines."
  [reason]
  (when (codec/of-error? reason)
    (let [{:keys [data cause causes]} (nth reason 0)]
      (cond-> []
        (seq data) (conj (str "  data: " (codec/text data)))
        cause (into (map #(str "  caused by: " %)) (cons cause causes))))))

;; ---- applications

(defn- start?
  "Is it a start as the master of an application shows it?"
  [x]
  (and (vector? x) (symbol? (first x))))

(defn of-application
  "Why the application did not start, of [name why], or the error in its spec."
  [[name why :as reason]]
  (let [[inner start] (when (and (vector? why) (= 2 (count why)) (start? (second why))) why)]
    (cond
      (map? why) (str (text reason) ".")
      start (str "The application " (codec/text name) " did not start: " (text inner) ". Its start is " (codec/text (first start)) ".")
      :else (str "The application " (codec/text name) " did not start: " (text why) "."))))
