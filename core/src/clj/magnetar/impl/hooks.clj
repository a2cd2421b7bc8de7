(ns magnetar.impl.hooks
  "The functions that hear of failures, of reports and of ends of applications; see `magnetar.report`."
  {:no-doc true}
  (:refer-clojure :exclude [remove])
  (:require
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

;; From a kind to its functions, in the order in which they were added.
(defonce ^:private all (atom {}))

(defn of
  "The functions of the kind, in the order of their calls."
  [kind]
  (get @all kind))

(defn- without [functions f]
  (filterv #(not= f %) functions))

(defn- with [functions f]
  (if (some #(= f %) functions) functions (conj (vec functions) f)))

(defn add
  "Adds f to the functions of the kind, unless it is one of them."
  [kind f]
  (swap! all update kind with f))

(defn remove
  "Removes f from the functions of the kind."
  [kind f]
  (swap! all update kind without f))

;; ---- the setters of 0.1, where the last writer wins

;; From a kind to the function that a setter has added.
(defonce ^:private of-setters (atom {}))

(defn set-one
  "Puts f, nil for none, in the place of the function that this has added before, which it returns."
  [kind f]
  (let [before (get (first (swap-vals! of-setters assoc kind f)) kind)]
    (remove kind before)
    (when f
      (add kind f))
    before))
