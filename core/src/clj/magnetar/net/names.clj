(ns magnetar.net.names
  "Looks up names of hosts. The JDK's resolver holds its thread, so threads of their own do it, and a caller
  waits until its deadline.

  Callers that ask for one name at the same time share a look-up. One that no caller waits for any more is
  dropped from the queue if it has not begun. Else it goes on without a caller, and a later caller joins it.
  So a name whose server does not answer holds one thread.

  The monitor of `asked` guards the look-ups by name in it, and :waiting of each, an atom, the number of
  callers. :done is a latch, which is released when the look-up has ended."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.impl.waits :as waits]
   [magnetar.net.refusals :as refusals]
   [magnetar.net.threads :as threads]
   [magnetar.net.transport :as transport])
  (:import
   (java.net InetAddress UnknownHostException)
   (java.util HashMap)
   (java.util.concurrent ExecutionException FutureTask ThreadPoolExecutor)))

(set! *warn-on-reflection* true)

(def ^:private ^:const most-threads 32)

(defonce ^:private ^ThreadPoolExecutor pool (threads/pool "magnetar-names" most-threads))
(defonce ^:private ^HashMap asked (HashMap.))

(defn- forget [host]
  (locking asked (.remove asked host)))

(defn- look-up [host done]
  (try
    (vec (InetAddress/getAllByName host))
    (finally
      (forget host)
      (waits/release done))))

(defn- begun [host]
  (let [done (waits/latch)
        task (FutureTask. #(look-up host done))
        entry {:task task :done done :waiting (atom 0)}]
    (.execute pool task)
    (.put asked host entry)
    entry))

(defn- join
  "The look-up of the name, which waits for one caller more."
  [host]
  (locking asked
    (doto (or (.get asked host) (begun host))
      (-> :waiting (swap! inc)))))

(defn- leave
  "One caller less waits for the look-up."
  [host {:keys [task waiting]}]
  (locking asked
    (when (and (zero? (long (swap! waiting dec))) (.remove pool task))
      (.remove asked host))))

(defn- found [operation host ^FutureTask task]
  (try
    (.get task)
    (catch ExecutionException e
      (throw (if (instance? UnknownHostException (ex-cause e))
               (refusals/unknown-host operation host (ex-cause e))
               (ex-cause e))))))

(defn- result [operation host {:keys [task done]} deadline]
  (if (waits/released? done waits/for-address host (clock/left deadline))
    (found operation host task)
    ::transport/timeout))

(defn- literal ^InetAddress [^String host]
  (try
    (InetAddress/ofLiteral host)
    (catch IllegalArgumentException _ nil)))

(defn addresses
  "The addresses of a host; ::transport/timeout after the deadline."
  [operation host deadline]
  (if-some [address (literal host)]
    [address]
    (let [entry (join host)]
      (try
        (result operation host entry deadline)
        (finally (leave host entry))))))

(defn address
  "The first address of a host."
  ^InetAddress [operation host]
  (first (addresses operation host clock/infinite)))
