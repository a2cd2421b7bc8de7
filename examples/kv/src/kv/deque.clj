(ns kv.deque
  "The value of a Redis list: an immutable sequence with access by index, which grows and shrinks at both
  ends."
  (:refer-clojure :exclude [count nth])
  (:require
   [clojure.core :as core]))

(set! *warn-on-reflection* true)

;; `items` is a map of numbers to elements, from `start` without gaps.
(defrecord Deque [start items])

(def empty-deque
  "A list without elements."
  (->Deque 0 {}))

(defn count
  "Its number of elements."
  ^long [{:keys [items]}]
  (core/count items))

(defn nth
  "The element at the index, or nil."
  [{:keys [^long start items]} ^long i]
  (when (< -1 i (core/count items)) ; also because a client's index may be too large to add
    (get items (+ start i))))

(defn push-left
  "The list with x before its first element."
  [{:keys [^long start items]} x]
  (->Deque (dec start) (assoc items (dec start) x)))

(defn push-right
  "The list with x behind its last element."
  [{:keys [^long start items]} x]
  (->Deque start (assoc items (+ start (core/count items)) x)))

(defn pop-left
  "The list without its first element."
  [{:keys [^long start items]}]
  (->Deque (inc start) (dissoc items start)))

(defn pop-right
  "The list without its last element."
  [{:keys [^long start items]}]
  (->Deque start (dissoc items (+ start (dec (core/count items))))))
