(ns magnetar.impl.actor.dictionary
  "The dictionary of the current process. Only the process itself changes it."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Processes)))

(set! *warn-on-reflection* true)

(defn pdict
  "All of it."
  []
  (or (.dictionary (Processes/requireCurrent "pdict")) {}))

(defn pget
  "The value of a key, or nil."
  [key]
  (get (.dictionary (Processes/requireCurrent "pget")) key))

(defn pput
  "Sets a key; returns what was there."
  [key value]
  (let [me (Processes/requireCurrent "pput")
        before (.dictionary me)]
    (.setDictionary me (assoc before key value))
    (get before key)))

(defn perase
  "Removes a key, or all; returns what was there."
  ([]
   (let [before (pdict)]
     (.setDictionary (Processes/requireCurrent "perase") nil)
     before))
  ([key]
   (let [me (Processes/requireCurrent "perase")
         before (.dictionary me)]
     (.setDictionary me (dissoc before key))
     (get before key))))
