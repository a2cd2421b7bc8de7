(ns magnetar.impl.inspect.dump
  "All that inspection tells, as plain data that can be written and read."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.answer :as answer]
   [magnetar.impl.inspect.restarts :as restarts]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.runtime])
  (:import
   (java.lang ProcessHandle)
   (java.util Date)))

(set! *warn-on-reflection* true)

(def ^:private blocked-after-ms
  "For how many milliseconds a wait must have lasted to be told."
  1000)

(defn- plain-death
  "A death under a supervisor, whose reason and state may be anything."
  [death]
  (update-vals (dissoc death :at) shown/shown))

(defn- plain-restarts [restarts]
  (mapv (fn [supervisor] (update supervisor :history (partial mapv plain-death))) restarts))

(defn now
  "The state of the program: :at, :pid, :jdk, and what the functions of `magnetar.inspect` return that have the names of the other keys."
  []
  (let [snapshot (snapshot/now)
        look (stuck/look snapshot)]
    (answer/plain
      {:magnetar/dump 1
       :at (Date.)
       :pid (.pid (ProcessHandle/current))
       :jdk (System/getProperty "java.version")
       :deadlocks (stuck/lasting-deadlocks look)
       :why-stuck (stuck/blocked look blocked-after-ms)
       :restarts (plain-restarts (restarts/of snapshot))
       :tree (tree/tree snapshot tree/usual-limit)})))

(defn text
  "The state as EDN."
  []
  (answer/text (now)))
