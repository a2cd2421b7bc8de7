(ns magnetar.impl.actor.monitors
  "Monitors of processes, given by pid or name."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process LocalProcess Matcher Monitors Pid ProcessTable Ref Ref$Alias Refs RemoteName)))

(set! *warn-on-reflection* true)

(def ^:private alias-modes
  {nil Ref$Alias/NONE, :explicit-unalias Ref$Alias/OPEN, :demonitor Ref$Alias/DEMONITOR, :reply-demonitor Ref$Alias/REPLY_DEMONITOR})

(defn- alias-mode ^Ref$Alias [mode]
  (or (alias-modes mode)
      (arguments/misuse :magnetar/bad-alias
                        (str "The :alias of a monitor is :explicit-unalias, :demonitor or :reply-demonitor; this is " (arguments/show mode) ".")
                        {:alias mode})))

(defn- remote? [target]
  (or (instance? RemoteName target)
      (and (not (instance? Pid target)) (= :remote (first (address/parts target))))))

(defn- watched
  "The pid to watch, and how the message of its end names it."
  [to]
  (let [[kind plain] (when-not (instance? Pid to) (address/parts to))]
    (cond
      (instance? Pid to) [to to]
      (nil? to) [nil [nil (address/node)]]
      (= :local kind) [(ProcessTable/whereis plain) [plain (address/node)]]
      (= :via kind) [(address/find-pid to) to]
      :else (arguments/misuse :magnetar/not-a-process
                              (str "`monitor` wants a pid or a name of a process; this is " (arguments/show to) ".") {:value to}))))

(defn- monitor-elsewhere [^LocalProcess me target tag ^Ref$Alias mode waits?]
  (if-some [there (cond
                    (instance? RemoteName target) target
                    waits? (address/reach target)
                    :else (address/elsewhere target))]
    (Monitors/monitor me ^RemoteName there tag mode (boolean waits?))
    (Monitors/monitorUnreachable me address/nobody target tag mode :noconnection)))

(defn- watch ^Ref [target alias tag waits?]
  (let [me (LocalProcess/require "monitor")]
    (if (remote? target)
      (monitor-elsewhere me target tag (alias-mode alias) waits?)
      (let [[pid what] (watched target)]
        (Monitors/monitor me (or pid address/nobody) what tag (alias-mode alias) (boolean waits?))))))

(defn monitor
  "Watches the process; the reference. `alias` and `tag` are options of `magnetar.actor/monitor`, or nil."
  (^Ref [target] (watch target nil nil true))
  (^Ref [target alias tag] (watch target alias tag true)))

(defn monitor-at-once
  "Watches the process without a wait for room in the stream to its node: for a server that one slow node must not hold up."
  ^Ref [target]
  (watch target nil nil false))

(defn monitor-absent
  "Watches an address where no process was found, with the alias of an answer. The node of [name node] is not connected again."
  ^Ref [target]
  (if (remote? target)
    (Monitors/monitorUnreachable (LocalProcess/require "monitor") address/nobody target nil Ref$Alias/REPLY_DEMONITOR :noconnection)
    (watch (when (vector? target) target) :reply-demonitor nil true)))

(defn demonitor
  "Ends the monitor; true if it was active."
  [^Ref ref]
  (Monitors/demonitor (LocalProcess/require "demonitor") ref))

(defn- take-down [^LocalProcess me ref]
  (.receive me (reify Matcher
                 (match [_ message]
                   (when (and (vector? message) (= 5 (count message)) (= ref (nth message 1)))
                     true)))
            0 (Refs/mark me (object-array [ref]))))

(defn forget
  "Ends the monitor, and takes a message of it out of the mailbox; true if it was active."
  [ref]
  (let [active? (demonitor ref)]
    (when-not active?
      (take-down (LocalProcess/current) ref))
    active?))
