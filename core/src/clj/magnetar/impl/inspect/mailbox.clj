(ns magnetar.impl.inspect.mailbox
  "The messages in the mailbox of a process, and the clauses that they do not match."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.waits :as waits]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.process Clauses LocalProcess MailboxInfo ProcessInfo)))

(set! *warn-on-reflection* true)

(def ^:private most-messages 10)

(defn- receives?
  "Does the thread wait in a receive?"
  [thread]
  (and thread (= "MAILBOX" (.reason (FiberInfo/of thread)))))

(defn- texts [^Clauses clauses]
  (mapv #(.text clauses %) (range (.size clauses))))

(defn- receive
  "Where the thread receives, and the clauses that no message matches. These are known where local variables can be read."
  [thread]
  (let [snapshot (snapshot/unread {})
        node {:thread thread}
        clauses (first (filter #(instance? Clauses %) (stacks/locals-of-class snapshot node "magnetar.kernel.process.Receiver")))]
    (cond-> {:at (stacks/line snapshot node)}
      clauses (assoc :clauses (texts clauses)))))

(defn of
  "What `magnetar.inspect/mailbox` returns of the process."
  [^LocalProcess process]
  (let [^MailboxInfo info (.mailboxInfo process)
        thread (.thread ^ProcessInfo (.info process))
        messages (.messages info)]
    (cond-> {:messages messages
             :capacity (when (pos? (.capacity info)) (.capacity info))
             :when-full (some-> (.whenFull info) waits/keyword-of)
             :dropped (.dropped info)
             :waiting-senders (.senders info)
             :oldest (mapv shown/shown (.messages process most-messages))}
      (and (pos? messages) (receives? thread)) (assoc :skipped-by (receive thread)))))
