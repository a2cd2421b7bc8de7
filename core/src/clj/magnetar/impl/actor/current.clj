(ns magnetar.impl.actor.current
  "The current process: its pid, and its dictionary, which only the process itself changes."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process LocalProcess Pid)))

(set! *warn-on-reflection* true)

(defn self
  "Its pid."
  ^Pid []
  (.pid (LocalProcess/require "self")))

;; ---- the dictionary

(defn pdict
  "All of it."
  []
  (or (.dictionary (LocalProcess/require "pdict")) {}))

(defn pget
  "The value of a key, or nil."
  [key]
  (get (.dictionary (LocalProcess/require "pget")) key))

(defn pput
  "Sets a key; returns what was there."
  [key value]
  (let [me (LocalProcess/require "pput")
        before (.dictionary me)]
    (.setDictionary me (assoc before key value))
    (get before key)))

(defn perase
  "Removes a key, or all; returns what was there."
  ([]
   (let [before (pdict)]
     (.setDictionary (LocalProcess/require "perase") nil)
     before))
  ([key]
   (let [me (LocalProcess/require "perase")
         before (.dictionary me)]
     (.setDictionary me (dissoc before key))
     (get before key))))
