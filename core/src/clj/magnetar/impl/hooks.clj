(ns magnetar.impl.hooks
  "The functions that hear of failures, of reports and of ends of applications; see `magnetar.report`."
  {:no-doc true}
  (:refer-clojure :exclude [remove])
  (:require
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

;; :all from a kind to its functions, in the order in which they were added; :one from a kind to the function that a setter of 0.1 has added.
(defonce ^:private state (atom {}))

(defn of
  "The functions of the kind, in the order of their calls."
  [kind]
  (get-in @state [:all kind]))

(defn- without [functions f]
  (filterv #(not= f %) functions))

(defn- with [functions f]
  (if (some #(= f %) functions) functions (conj (vec functions) f)))

(defn add
  "Adds f to the functions of the kind, unless it is one of them."
  [kind f]
  (swap! state update-in [:all kind] with f))

(defn remove
  "Removes f from the functions of the kind."
  [kind f]
  (swap! state update-in [:all kind] without f))

;; ---- the setters of 0.1, where the last writer wins

(defn- in-its-place [{:keys [all one] :as state} kind f]
  (let [others (without (kind all) (kind one))]
    (-> state
        (assoc-in [:all kind] (if f (with others f) others))
        (assoc-in [:one kind] (when-not (some #(= f %) others) f)))))

(defn set-one
  "Puts f, nil for none, in the place of the function that this has added before, which it returns."
  [kind f]
  (get-in (first (swap-vals! state in-its-place kind f)) [:one kind]))
