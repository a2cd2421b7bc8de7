(ns magnetar.impl.inspect.snapshot
  "Snapshots of all that runs or waits, as nodes.

  A node is a map.

    :id      [:process pid], [:go 57], [:fork 58], [:fiber 59], [:thread 1], [:scope 3] or [:pool 4]
    :kind    the first element of its id
    :name    what the program calls it: a registered name, or what was started and where
    :owner   the id of the node that it belongs to, or nil
    :thread  its thread, or nil
    :pid     of a process
    :messages  how many a process has in its mailbox
    :taken   how many messages a process has taken so far
    :age-ms  how long ago the kernel started it, to about a tenth of a second; nil if the kernel has not
    :application  the name of the application whose master it is
    :overview     the part of a supervisor's state that it publishes
    :calls   the pid of the process that it calls
    :starts  the pid of the process that it has started and whose init it awaits
    :monitors  the pids and names of the processes that it monitors, a set
    :wait    what it waits for, as in `waits`; nil if it runs or is a scope
    :object  the process or the scope itself
    :ended   true of a thread that has ended and still owns a lock; it has no :thread

  A snapshot sends no message to what it shows. Its nodes are read one after the other, so two of them may show different instants."
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.overview :as overview]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.waits :as waits]
   [magnetar.impl.runtime]
   [magnetar.impl.threads :as threads])
  (:import
   (java.util IdentityHashMap)
   (java.util.concurrent ForkJoinWorkerThread)
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.process LocalProcess Pid ProcessInfo ProcessTable)
   (magnetar.kernel.scope Fork Scope)))

(set! *warn-on-reflection* true)

;; ---- ids

(defn number-of
  "The number of an object that has no number of its own: the same each time within a snapshot."
  [{:keys [^IdentityHashMap numbers]} x]
  (or (.get numbers x)
      (let [n (inc (.size numbers))]
        (.put numbers x n)
        n)))

(defn id-of-thread
  "The id of the node of this thread; nil without one."
  [{:keys [by-thread]} ^Thread thread]
  (when thread
    (by-thread (.threadId thread))))

(defn id-of-fork
  "The id of the node of this fork; nil if it has ended."
  [snapshot ^Fork fork]
  (some->> (.fiber fork) .get (id-of-thread snapshot)))

(defn- process-id [^Pid pid]
  [:process pid])

(defn id-of-process
  "The id of the node of the process with this pid; nil if it has ended."
  [{:keys [nodes]} pid]
  (let [id (process-id pid)]
    (when (contains? nodes id) id)))

(defn- scope-id [snapshot scope]
  [:scope (number-of snapshot scope)])

;; ---- platform threads

(defn- root-group ^ThreadGroup []
  (last (take-while some? (iterate #(.getParent ^ThreadGroup %) (.getThreadGroup (Thread/currentThread))))))

(defn- works-for-program?
  "Is it a thread that the JDK has made, as for CompletableFuture or for a Timer, and that is in code of the program now?"
  [^Thread thread]
  (and (or (instance? ForkJoinWorkerThread thread)
           (= "java.util.TimerThread" (.getName (class thread))))
       (not= "jdk.internal.misc.CarrierThread" (.getName (class thread)))
       (some? (stacks/line-of (.getStackTrace thread)))))

(defn- of-program?
  "Is it a platform thread of the program, and not of the JVM or of this library?"
  [^Thread thread]
  (let [of (class thread)]
    (not (or (= "system" (some-> (.getThreadGroup thread) .getName))
             (.startsWith (.getName thread) "magnetar-")
             (.startsWith (.getName thread) "JFR ")
             (and (not= Thread of) (nil? (.getClassLoader of)) (not (works-for-program? thread)))))))

(defn- platform-threads []
  (let [group (root-group)
        ^"[Ljava.lang.Thread;" found (make-array Thread (+ 16 (* 2 (.activeCount group))))
        n (.enumerate group found)]
    (filterv of-program? (take n found))))

;; ---- nodes

(defn- kind [^FiberInfo info]
  (let [^Thread thread (.thread info)]
    (cond
      (instance? Scope (.home info)) :fork
      (not (.isVirtual thread)) :thread
      (.startsWith (.getName thread) "go ") :go
      :else :fiber)))

(defn- age-ms [^FiberInfo info]
  (let [age (.ageNanos info)]
    (when-not (neg? age)
      (quot age 1000000))))

(defn- name-of
  "What is done on the thread, else its name, else its number: a virtual thread of the JDK has no name as a rule."
  [^Thread thread]
  (let [name (or (threads/site-of thread) (.getName thread))]
    (if (= "" name)
      (str (if (.isVirtual thread) "virtual thread " "thread ") (.threadId thread))
      name)))

(defn- thread-node [snapshot limits ^FiberInfo info]
  (let [^Thread thread (.thread info)
        kind (kind info)]
    {:id [kind (.threadId thread)]
     :kind kind
     :name (name-of thread)
     :thread thread
     :owner (when (= :fork kind) (scope-id snapshot (.home info)))
     :age-ms (age-ms info)
     :wait (waits/of info limits)}))

(defn parent-of
  "The id of the process that started this one, if it lives and the process knows it."
  [^ProcessInfo info]
  (when-some [parent (first (get-in (.dictionary info) [:magnetar.proc-lib/family :ancestors]))]
    (let [pid (if (instance? Pid parent) parent (ProcessTable/whereis parent))]
      (when (and pid (ProcessTable/live pid))
        (process-id pid)))))

(defn- process-wait [^Pid pid ^FiberInfo fiber limits]
  (if fiber
    (waits/of fiber limits)
    {:why :mailbox :words "message" :on pid}))

(defn- process-node [limits ^LocalProcess process]
  (let [^ProcessInfo info (.info process)
        ^Pid pid (.pid info)
        fiber (some-> (.thread info) FiberInfo/of)]
    {:id (process-id pid)
     :kind :process
     :name (str (or (.name info) (.label pid) pid))
     :thread (.thread info)
     :pid pid
     :owner (parent-of info)
     :calls (.calls info)
     :monitors (set (.monitors info))
     :starter (first (get (.dictionary info) :magnetar.proc-lib/ack))
     :messages (.messages info)
     :taken (.taken info)
     :age-ms (some-> fiber age-ms)
     :application (get (.dictionary info) :magnetar.application.master/name)
     :overview (overview/of (.dictionary info))
     :wait (process-wait pid fiber limits)
     :object process}))

(defn- with-starts
  "The process nodes, each with :starts if it awaits the init of a process. Only that other process, the one that is not ready yet, knows it: by :starter."
  [nodes]
  (let [starts (into {} (keep (fn [{:keys [starter pid]}] (when starter [starter pid]))) nodes)]
    (for [{:keys [pid] :as node} nodes]
      (cond-> (dissoc node :starter)
        (starts pid) (assoc :starts (starts pid))))))

(defn- owner-of-scope [by-thread ^Scope scope]
  (when-some [thread (.ownerThread scope)]
    (by-thread (.threadId thread))))

(defn- scope-node [snapshot by-thread ^Scope scope]
  {:id (scope-id snapshot scope)
   :kind :scope
   :name (.site scope)
   :owner (owner-of-scope by-thread scope)
   :object scope})

(defn- scopes [infos]
  (into #{} (keep #(let [home (.home ^FiberInfo %)] (when (instance? Scope home) home))) infos))

(defn- thread-ids [nodes]
  (into {} (keep (fn [{:keys [id ^Thread thread]}] (when thread [(.threadId thread) id]))) nodes))

(defn- owner-node
  "The node of a thread that owns a lock and has no node yet: the kernel has not started it, or it has ended."
  [limits ^Thread thread]
  (if (.isAlive thread)
    (thread-node nil limits (FiberInfo/of thread))
    {:id [:thread (.threadId thread)]
     :kind :thread
     :name (name-of thread)
     :ended true}))

(defn- unseen-owners
  "The nodes of the owners of the locks for which these nodes wait that are not in `by-thread`, and of the owners for which
  these wait in turn."
  [by-thread limits nodes]
  (loop [found {}, nodes nodes]
    (let [owners (into {} (for [{{:keys [why on]} :wait} nodes
                                :when (= :lock why)
                                :let [^Thread owner (locks/owner on)]
                                :when (and owner (not (by-thread (.threadId owner))) (not (found (.threadId owner))))]
                            [(.threadId owner) (owner-node limits owner)]))]
      (if (empty? owners)
        (vals found)
        (recur (into found owners) (vals owners))))))

(defn unread
  "The snapshot with empty caches, in which `stacks` and `locks` keep what they have read."
  [snapshot]
  (assoc snapshot :stacks (IdentityHashMap.) :traces (IdentityHashMap.) :queues (IdentityHashMap.)))

(defn now
  "Takes a snapshot: {:nodes {id node}, :by-thread {thread-id id}}, with the numbers of `number-of` and the caches of `unread`."
  []
  (let [snapshot (unread {:numbers (IdentityHashMap.)})
        limits (waits/limits)
        processes (with-starts (mapv #(process-node limits %) (ProcessTable/all)))
        taken (set (keys (thread-ids processes)))
        infos (into (vec (FiberInfo/all)) (map #(FiberInfo/of %)) (platform-threads))
        threads (into [] (comp (remove #(taken (.threadId (.thread ^FiberInfo %)))) (map #(thread-node snapshot limits %))) infos)
        seen (concat threads processes)
        owners (unseen-owners (thread-ids seen) limits seen)
        by-thread (into (thread-ids seen) (map (fn [{[_ number :as id] :id}] [number id])) owners)
        scopes (mapv #(scope-node snapshot by-thread %) (scopes infos))]
    (assoc snapshot
           :by-thread by-thread
           :nodes (into {} (map (juxt :id identity)) (concat seen owners scopes)))))

(defn again
  "A snapshot of the nodes with these ids alone, with what they wait for now."
  [{:keys [nodes] :as snapshot} ids]
  (let [limits (waits/limits)
        waiting (fn [{:keys [^Thread thread] :as node}]
                  (cond-> node thread (assoc :wait (waits/of (FiberInfo/of thread) limits))))]
    (assoc (unread snapshot) :nodes (into {} (map (fn [id] [id (waiting (nodes id))])) ids))))
