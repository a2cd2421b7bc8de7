(ns magnetar.impl.inspect.dump
  "The dump: deadlocks, blocked waits, restarts, long mailboxes and the tree, as plain data that can be written and read."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.answer :as answer]
   [magnetar.impl.inspect.leaks :as leaks]
   [magnetar.impl.inspect.mailbox :as mailbox]
   [magnetar.impl.inspect.restarts :as restarts]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.standstill :as standstill]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.top :as top]
   [magnetar.impl.inspect.tree :as tree]
   [magnetar.impl.runtime])
  (:import
   (java.lang ProcessHandle)
   (java.util Date)
   (magnetar.kernel.process LocalProcess ProcessTable)))

(set! *warn-on-reflection* true)

(def ^:private blocked-after-ms
  "For how many milliseconds a wait must have lasted to be in :why-stuck."
  1000)

(defn- plain-death
  "A death under a supervisor, with each value as text, since its reason and state may be anything."
  [death]
  (update-vals (dissoc death :at) shown/shown))

(def ^:private most-mailboxes 20)

(defn- mailboxes
  "The longest mailboxes in which there are messages. A process that has ended meanwhile is left out."
  [{:keys [nodes]}]
  (into []
        (comp (filter #(pos? (long (:messages % 0))))
              (take most-mailboxes)
              (keep (fn [{:keys [pid] :as node}]
                      (when-some [^LocalProcess process (ProcessTable/reach pid)]
                        (merge (select-keys node [:id :name]) (mailbox/of process))))))
        (sort-by #(- (long (:messages % 0))) (vals nodes))))

(defn- measured
  "What needs time, or collections of garbage, and is read before a snapshot holds what could be collected."
  [{:keys [leaks? top-nanos]}]
  (cond-> {}
    leaks? (assoc :leaks (leaks/now nil))
    top-nanos (assoc :top (top/rows (top/measure top-nanos) :cpu top/usual-most))))

(defn now
  "The state of the program: :at, :pid, :jdk, :lost-go-blocks, :mailboxes, and for each other key what the function of that name in `magnetar.inspect` returns. It
  has :leaks with :leaks?, and :top with :top-nanos, for how long that measures."
  ([] (now {}))
  ([options]
   (let [measured (measured options)
         snapshot (snapshot/now)
         edged (stuck/with-edges snapshot)]
     (answer/plain
       (merge
         {:magnetar/dump 1
          :at (Date.)
          :pid (.pid (ProcessHandle/current))
          :jdk (System/getProperty "java.version")
          :deadlocks (standstill/deadlocks edged)
          :why-stuck (stuck/blocked edged blocked-after-ms)
          :lost-go-blocks (leaks/lost-so-far)
          :restarts (restarts/of snapshot plain-death)
          :mailboxes (mailboxes snapshot)
          :tree (tree/tree snapshot tree/usual-limit)}
         measured)))))

(defn text
  "The state as EDN."
  []
  (answer/text (now)))
