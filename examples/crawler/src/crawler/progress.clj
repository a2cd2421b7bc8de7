(ns crawler.progress
  "How far a job is: a bar that redraws itself on a terminal, a plain line now and then elsewhere."
  (:require
   [clojure.string :as str]
   [crawler.words :refer [fill]])
  (:import
   (java.io Console)))

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
  (fill "%d of %d pages seen so far, %d failed, %.1f MB" pages seen (- pages ok) (/ bytes 1e6)))

(defn- say
  "Writes `text` to stderr at once."
  [text]
  (binding [*out* *err*]
    (print text)
    (flush)))

(def ^:private erase-line "\r\u001b[2K")

(defn- draw [{:keys [pages seen] :as summary}]
  (say (str erase-line (bar pages seen) " " (line summary))))

(defn- write-line [summary]
  (say (str (line summary) "\n")))

(defn- at-most-every
  "Returns a function that calls `f` with its argument when it did not do so for `ms`."
  [ms f]
  (let [last-time (volatile! (System/nanoTime))]
    (fn [x]
      (when (> (- (System/nanoTime) (long @last-time)) (* (long ms) 1000000))
        (vreset! last-time (System/nanoTime))
        (f x)))))

(defn reporter
  "Returns a function of a summary so far that shows it, not more often than an eye can follow."
  []
  (if (terminal?)
    (at-most-every 100 draw)
    (at-most-every 1000 write-line)))

(defn counter
  "Returns a function that, called at each of `n` steps, moves a bar on a terminal and is silent elsewhere."
  [n]
  (let [done (volatile! 0)]
    (fn [_]
      (vswap! done inc)
      (when (terminal?)
        (say (str erase-line (bar @done n) " " @done " of " n))))))

(defn clear
  "Removes the bar from the terminal, so that what follows starts on a clean line."
  []
  (when (terminal?)
    (say erase-line)))
