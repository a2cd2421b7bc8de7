(ns magnetar.impl.inspect.dump
  "The dump: deadlocks, blocked waits, restarts and the tree, as plain data that can be written and read."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.answer :as answer]
   [magnetar.impl.inspect.leaks :as leaks]
   [magnetar.impl.inspect.restarts :as restarts]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.standstill :as standstill]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.runtime])
  (:import
   (java.lang ProcessHandle)
   (java.util Date)))

(set! *warn-on-reflection* true)

(def ^:private blocked-after-ms
  "For how many milliseconds a wait must have lasted to be in :why-stuck."
  1000)

(defn- plain-death
  "A death under a supervisor, with each value as text, since its reason and state may be anything."
  [death]
  (update-vals (dissoc death :at) shown/shown))

(defn- plain-restarts [restarts]
  (mapv (fn [supervisor] (update supervisor :history (partial mapv plain-death))) restarts))

(defn now
  "The state of the program: :at, :pid, :jdk, :lost-go-blocks, and for each other key what the function of that name in `magnetar.inspect` returns."
  []
  (let [snapshot (snapshot/now)
        edged (stuck/with-edges snapshot)]
    (answer/plain
      {:magnetar/dump 1
       :at (Date.)
       :pid (.pid (ProcessHandle/current))
       :jdk (System/getProperty "java.version")
       :deadlocks (standstill/deadlocks edged)
       :why-stuck (stuck/blocked edged blocked-after-ms)
       :lost-go-blocks (leaks/lost-so-far)
       :restarts (plain-restarts (restarts/of snapshot))
       :tree (tree/tree snapshot tree/usual-limit)})))

(defn text
  "The state as EDN."
  []
  (answer/text (now)))
