(ns magnetar.impl.reasons
  "Exit reasons in words: the innermost one in full, with the way to it. A sentence inside of a reason is never cut."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(defn- error? [x]
  (and (map? x) (contains? x :type) (contains? x :message)))

(defn- error-text [{:keys [type message]} frames]
  (str type ": " message (when (string? (first frames)) (str ", at " (first frames)))))

(defn- call-text [call]
  (if (sequential? call) (str "(" (str/join " " (map language/text call)) ")") (language/text call)))

(declare text)

(defn- returned [[call value hint]]
  (let [[word reason] (when (vector? value) value)]
    (if (= :EXIT word)
      (str (call-text call) " threw: " (text reason))
      (str (call-text call) " returned " (language/text value) (when (string? hint) (str "; " hint))))))

(defn- call?
  "Is it a call as the reason of a process has it that died of the failure of that call?"
  [x]
  (and (vector? x) (qualified-symbol? (first x))))

(defn- text-of-vector [[word x y :as reason]]
  (cond
    (and (= 2 (count reason)) (call? x)) (str (text word) ", in its call of " (language/text (second x)))
    (and (= :call-cycle word) (vector? x)) (str ":call-cycle " (str/join " -> " (map language/text x)))
    (error? word) (error-text word x)
    (and (map? x) (string? (:message x))) (:message x)
    (and (= :shutdown word) (vector? x)) (text x)
    (= :failed-to-start-child word) (str "its child " (language/text x) " did not start: " (text y))
    (and (= :bad-return word) (vector? x)) (returned x)
    (= :already-started word) (str (language/text x) " is running already")
    (= :not-started word) (str "it needs the application " (language/text x) ", which does not run")
    (= :not-loaded word) (str "the application " (language/text x) " is not loaded")
    (= :stopping word) (str "the application " (language/text x) " is being stopped")
    (and (= :not-linked word) (string? y)) (str (language/text x) " is not linked; " y)
    (and (keyword? word) (string? y)) (str word ", " y)
    :else (language/text reason)))

(defn- without-stop [^String text]
  (if (str/ends-with? text ".") (subs text 0 (dec (count text))) text))

(defn text
  "The reason in words, without a full stop."
  [reason]
  (without-stop
    (cond
      (error? reason) (error-text reason nil)
      (and (map? reason) (string? (:message reason))) (:message reason)
      (and (vector? reason) (<= 1 (count reason) 3)) (text-of-vector reason)
      :else (language/text reason))))

(defn- start?
  "Is it a start as the master of an application shows it?"
  [x]
  (and (vector? x) (symbol? (first x))))

(defn of-application
  "Why the application did not start, of [name why], or the flaw of its spec."
  [[name why :as reason]]
  (let [[inner start] (when (and (vector? why) (= 2 (count why)) (start? (second why))) why)]
    (cond
      (map? why) (str (text reason) ".")
      start (str "The application " (language/text name) " did not start: " (text inner) ". Its start is " (language/text (first start)) ".")
      :else (str "The application " (language/text name) " did not start: " (text why) "."))))
