(ns magnetar.impl.inspect.overview
  "What a server lets others read of its state without asking it, so that also a stuck one tells."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.current :as current])
  (:import
   (java.util.function Consumer Supplier)))

(set! *warn-on-reflection* true)

;; Not printed: the dictionary of a process is, and a state may be large.
(deftype Overview [^:volatile-mutable state]
  Supplier
  (get [_] state)
  Consumer
  (accept [_ value] (set! state value)))

(defn begin
  "From now on the process of this fiber lets others read this state; returns it."
  [state]
  (current/pput ::overview (Overview. state))
  state)

(defn tell
  "Others read this state now; returns it."
  [state]
  (.accept ^Overview (current/pget ::overview) state)
  state)

(defn of
  "The state that the process with this dictionary lets others read; nil if it has not begun to."
  [dictionary]
  (when-some [overview (get dictionary ::overview)]
    (.get ^Overview overview)))
