(ns magnetar.impl.inspect.waits
  "What a thread waits for, in an operation of this library or of the JDK.

  A wait is a map.

    :why       :channel-take, :mailbox and so on, as the kernel names them; of the JDK's :lock, :condition, :latch, :semaphore, :monitor, :sleep and
               :park
    :words     the same in words
    :on        the object waited on: a channel, a Select, a pid, a fork, a scope, the synchronizer of a lock; nil if it is not known
    :since-ms  for how many milliseconds the wait has lasted; nil for a wait in the JDK
    :left-ms   the milliseconds until its time limit or the deadline of a scope around it; :some if it has a limit that is not known; nil if it has none, or if
               a wait in the JDK is in a scope with a deadline
    :number    identifies the wait; nil for a wait in the JDK"
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.runtime])
  (:import
   (java.util Map)
   (java.util.concurrent CountDownLatch Semaphore)
   (java.util.concurrent.locks AbstractOwnableSynchronizer AbstractQueuedSynchronizer$ConditionObject LockSupport)
   (magnetar.kernel.fiber Environment Fiber)
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.scope Scope)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(defn limits
  "From the number of each wait in the kernel that has a limit to the nanoseconds that are left; an argument of `of`."
  ^Map []
  (FiberInfo/limits))

(def ^{:arglists '([reason])} keyword-of
  "The keyword for a name of the kernel, such as :channel-take for CHANNEL_TAKE. There are few names, and many waits."
  (memoize (fn [reason] (keyword (str/replace (str/lower-case reason) "_" "-")))))

(defn fiber-of
  "The fiber of the thread; nil if the thread has ended, or if the kernel has not started it."
  ^Fiber [^Thread thread]
  (let [handler (.getUncaughtExceptionHandler thread)]
    (when (instance? Fiber handler) handler)))

(defn- left-in-scopes
  "The nanoseconds until the deadline of a scope in which the thread works cancels it; nil without such a deadline, or if the kernel has not started the
  thread."
  [thread]
  (when-some [fiber (fiber-of thread)]
    (let [deadline (Scope/deadlineOf fiber)]
      (when-not (= Durations/INFINITE deadline)
        (max 0 (- deadline (.nanoTime (Environment/current))))))))

(defn at-socket?
  "Is it a wait of `magnetar.net` at a socket, or for the address of a host? What is outside of the program can end it."
  [wait]
  (contains? #{:socket-accept :socket-connect :socket-read :socket-write :host-lookup} (:why wait)))

(defn of-kernel
  "The thread's wait in the kernel; nil if it does not wait there."
  [^FiberInfo info ^Map limits]
  (when-some [reason (.reason info)]
    (let [lefts (filterv some? [(.get limits (.number info)) (left-in-scopes (.thread info))])
          left (when (seq lefts) (apply min lefts))]
      (cond-> {:why (keyword-of reason)
               :words (.waitsFor info)
               :on (.on info)
               :since-ms (quot (.waitedNanos info) 1000000)
               :number (.number info)}
        left (assoc :left-ms (quot (long left) 1000000))))))

(defn- with-limit-of-socket
  "The wait. The limit of a wait at a socket is the JDK's, and its length is not known."
  [wait ^Thread thread]
  (if (and (at-socket? wait) (identical? Thread$State/TIMED_WAITING (.getState thread)))
    (update wait :left-ms #(or % :some))
    wait))

;; ---- the JDK's

(defn- enclosing [x]
  (or (.getEnclosingClass (class x)) (class x)))

(defn- synchronizer [x]
  (let [^Class outer (enclosing x)
        name (.getSimpleName outer)]
    (cond
      (= CountDownLatch outer) {:why :latch :words "a CountDownLatch" :on x}
      (= Semaphore outer) {:why :semaphore :words "a permit of a Semaphore" :on x}
      :else {:why :lock :words (awaited/with-article name) :on x})))

(defn- parked [blocker]
  (cond
    (nil? blocker) {:why :park :words "an unpark"}
    (instance? AbstractQueuedSynchronizer$ConditionObject blocker) {:why :condition :words "a signal of a Condition" :on blocker}
    (instance? AbstractOwnableSynchronizer blocker) (synchronizer blocker)
    :else {:why :park :words (awaited/with-article (.getSimpleName ^Class (enclosing blocker))) :on blocker}))

(defn- blocker-of
  "What a wait in the JDK blocks on. The sign of an earlier wait in the kernel stays the blocker of its thread, and says nothing of this one."
  [thread]
  (let [blocker (LockSupport/getBlocker thread)]
    (when-not (some-> blocker class .getPackageName (= "magnetar.kernel.park"))
      blocker)))

(defn- of-jdk [^Thread thread]
  (let [state (.getState thread)
        blocker (blocker-of thread)]
    (condp = state
      Thread$State/BLOCKED {:why :monitor :words "the monitor of an object"}
      Thread$State/WAITING (parked blocker)
      Thread$State/TIMED_WAITING (assoc (if blocker (parked blocker) {:why :sleep :words "time to pass"}) :left-ms :some)
      nil)))

;; A thread that was woken is RUNNABLE at once, and leaves its wait in the kernel only when it runs. Without the check of the state, two servers that call each
;; other in turn would both seem to wait while computations occupy the carriers.
(defn of
  "What the thread waits for; nil if it runs, or was woken and is about to run."
  [^FiberInfo info limits]
  (let [^Thread thread (.thread info)]
    (when-not (identical? Thread$State/RUNNABLE (.getState thread))
      (or (some-> (of-kernel info limits) (with-limit-of-socket thread))
          (of-jdk thread)))))
