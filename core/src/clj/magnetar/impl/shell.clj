(ns magnetar.impl.shell
  "What the prompts share: bin/magnetar repl, its socket, and the sessions of nREPL.

  The thread that evaluates is a process. When the process exits, the thread goes on as a new one, as Erlang's shell does."
  {:no-doc true}
  (:require
   [magnetar.impl.explain :as explain]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Exit Fiber)
   (magnetar.kernel.process Hosting Pid Spawn Spawn$Guest Spawn$Options)))

(set! *warn-on-reflection* true)

(defn over?
  "True once the process of this thread has to exit."
  []
  (.isCancelled (Fiber/current)))

(defn cause-of
  "The error or the first of its causes that is of the class, or nil."
  [kind thrown]
  (first (filter #(instance? kind %) (explain/causes thrown))))

(defn exit-of
  "The exit that the evaluation of a form ended by, or nil."
  [thrown]
  (cause-of Exit thrown))

(defn refusal-of
  "Says why `continue` does not work at this place, such as \"the prompt\"; nil for another error."
  [thrown place]
  (when (Hosting/isContinue thrown)
    (str "`continue` drops the stack of its process, which is that of " place " here: call it in a process of its own, as in (spawn #(continue f)).")))

(defn farewell
  "The line that says that the process has exited."
  [reason]
  (str "** exited: " (reasons/sentence reason)))

(defn host
  "Runs `work` in a process on this thread, and again in a new process as long as `again?` returns true for the exit reason.
  `work` returns the Exit that it was ended by, or nil."
  [label work again?]
  (let [^Spawn$Guest guest (Spawn/host (Spawn$Options. label) #(some-> ^Throwable (work) throw))]
    (when (again? (.reason (.ended ^Pid (.pid guest))))
      (recur label work again?))))
