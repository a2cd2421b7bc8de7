(ns magnetar.impl.inspect.overview
  "The part of a server's state that other threads read without a call to the server, so that a stuck server can be read as well."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.current :as current])
  (:import
   (java.util.function Consumer Supplier)))

(set! *warn-on-reflection* true)

;; A type of its own, because the dictionary of a process may be printed, and a state may be large.
(deftype Overview [^:volatile-mutable state]
  Supplier
  (get [_] state)
  Consumer
  (accept [_ value] (set! state value)))

(defn begin
  "Lets other threads read this state of the current process from now on; returns the state."
  [state]
  (current/pput ::overview (Overview. state))
  state)

(defn tell
  "Replaces the state that other threads read; returns it."
  [state]
  (.accept ^Overview (current/pget ::overview) state)
  state)

(defn of
  "The state that the process with this dictionary lets other threads read; nil without one."
  [dictionary]
  (when-some [overview (get dictionary ::overview)]
    (.get ^Overview overview)))
