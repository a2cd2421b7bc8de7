(ns magnetar.proc-lib.remote
  "Processes that other nodes start for a process of this one."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (magnetar.kernel.process LocalProcess Peer Ref Spawn)))

(set! *warn-on-reflection* true)

(defn request
  "Asks the node for a process, as this process, which the operation needs. Returns the reference that the answer has."
  ^Ref [operation ^Peer peer what {:keys [link monitor]}]
  (Spawn/request (LocalProcess/require operation) peer what (boolean link) (boolean monitor)))

(defn forget
  "Gives up a request, and what it has begun. Its answer may have come already. A process with a link ends."
  [^Peer peer ^Ref ref {:keys [link monitor]}]
  (when-not (Spawn/abandon (LocalProcess/current) peer ref)
    (scope/shield
      (receive
        [:spawn-reply ref :ok pid] (do
                                     (when monitor (actor/demonitor ref {:flush true}))
                                     (when link
                                       (actor/unlink pid)
                                       (actor/exit pid :abandoned)))
        [:spawn-reply ref :error _] nil
        (after 0 nil)))))

(defn start
  "Asks the node for a process, and waits for the answer: [:ok pid reference] or [:error why]."
  [operation peer what options]
  (let [ref (request operation peer what options)]
    (try
      (receive [:spawn-reply ref how x] [how x ref])
      (catch Throwable t
        (forget peer ref options)
        (throw t)))))
