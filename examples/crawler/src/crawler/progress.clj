(ns crawler.progress
  "How far a job is: a bar that redraws itself on a terminal, a plain line now and then elsewhere."
  (:require [clojure.string :as str])
  (:import (java.io Console)))

(set! *warn-on-reflection* true)

(def ^:private width 30)

(defn terminal?
  "True when a person watches: input and output are both a terminal."
  []
  (boolean (some-> ^Console (System/console) .isTerminal)))

(defn- bar
  "Returns a bar filled for `done` of `total`."
  [done total]
  (let [filled (if (pos? total) (quot (* width (min done total)) total) 0)]
    (str "[" (str/join (repeat filled "#")) (str/join (repeat (- width filled) ".")) "]")))

(defn line
  "Returns in words how far the crawl of `summary` is."
  [{:keys [pages seen ok bytes]}]
  (format "%d of %d pages seen so far, %d failed, %.1f MB" pages seen (- pages ok) (/ bytes 1e6)))

(defn- say
  "Writes `text` to stderr at once."
  [text]
  (binding [*out* *err*]
    (print text)
    (flush)))

(defn- drawing [{:keys [pages seen] :as summary}]
  (say (str "\r\u001b[2K" (bar pages seen) " " (line summary))))

(defn- writing [summary]
  (say (str (line summary) "\n")))

(defn- at-most-every
  "Returns a function that calls `f` with its argument unless it did so less than `ms` ago."
  [ms f]
  (let [next-time (volatile! (System/nanoTime))]
    (fn [x]
      (when (neg? (- (long @next-time) (System/nanoTime)))
        (vreset! next-time (+ (System/nanoTime) (* ms 1000000)))
        (f x)))))

(defn reporter
  "Returns a function of a summary so far that shows it, not more often than an eye can follow."
  []
  (if (terminal?)
    (at-most-every 100 drawing)
    (at-most-every 1000 writing)))

(defn clear
  "Removes the bar from the terminal, so that what follows starts on a clean line."
  []
  (when (terminal?)
    (say "\r\u001b[2K")))
