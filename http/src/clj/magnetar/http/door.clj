(ns magnetar.http.door
  "Admits a bounded number of requests. A bounded number of others waits; beyond that the request that has waited longest is shed.

  Invariants:
    1. `running` is the number of requests that were admitted and have not left. It is never above `most`.
    2. A request waits only while `running` is `most`. A request that leaves hands its place to the request that has waited longest.
    3. The lock decides about each waiter once: it is taken out of the queue to be admitted, to be shed, or because it gave up. A request that
       takes out a waiter to admit or shed it also tells the waiter, even if that request is cancelled itself."
  {:no-doc true}
  (:require
   [magnetar.channel :as channel]
   [magnetar.http.signal :as signal]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (java.util ArrayDeque)
   (java.util.concurrent.locks ReentrantLock)))

(set! *warn-on-reflection* true)

;; `running` is a long-array of one, guarded by the lock, as is the queue of waiters: channels of one answer, :admitted or :shed.
(deftype Door [^ReentrantLock lock ^longs running ^ArrayDeque waiting ^long most ^long most-waiting])

(defn door
  "A door that admits so many requests, while so many wait."
  ^Door [most most-waiting]
  (Door. (ReentrantLock.) (long-array 1) (ArrayDeque.) most most-waiting))

(defmacro ^:private locked [door & body]
  `(let [^ReentrantLock lock# (.-lock ~door)]
     (.lock lock#)
     (try
       ~@body
       (finally (.unlock lock#)))))

(defn- queued
  "Under the lock: the waiter that was added; the oldest one, if it was shed."
  [^Door door]
  (let [^ArrayDeque waiting (.-waiting door)
        waiter (channel/chan {:size 1})
        oldest (when (<= (.-most-waiting door) (.size waiting)) (.poll waiting))]
    (.add waiting waiter)
    [waiter oldest]))

(defn- knock
  "True if the request is admitted, false if it is shed at once; else [waiter oldest]."
  [^Door door]
  (locked door
    (let [^longs running (.-running door)
          n (aget running 0)]
      (cond
        (< n (.-most door)) (do (aset running 0 (inc n)) true)
        (zero? (.-most-waiting door)) false
        :else (queued door)))))

(defn leave
  "Gives the place of an admitted request to the one that has waited longest."
  [^Door door]
  (let [next (locked door
               (or (.poll ^ArrayDeque (.-waiting door))
                   (let [^longs running (.-running door)]
                     (aset running 0 (dec (aget running 0)))
                     nil)))]
    (when next
      (signal/send-now next :admitted))))

;; T1 waits and is cancelled, T2 has taken it out of the queue and admits it. Then T1 has a place that it does not use, and leaves.
(defn- give-up [^Door door waiter]
  (let [answered? (locked door (not (.remove ^ArrayDeque (.-waiting door) waiter)))]
    (when (and answered? (= :admitted (channel/take waiter)))
      (leave door))))

(defn- await-answer [door waiter]
  (try
    (= :admitted (channel/take waiter))
    (catch Throwable t
      (scope/shield (give-up door waiter))
      (throw t))))

(defn enter
  "Waits until the request is admitted: true. False if it is shed. Each request that was admitted has to `leave`."
  [door]
  (let [answer (knock door)]
    (if (boolean? answer)
      answer
      (let [[waiter oldest] answer]
        (when oldest
          (signal/send-now oldest :shed))
        (await-answer door waiter)))))

(defn look
  "How many requests were admitted, and how many wait."
  [^Door door]
  (locked door
    {:running (aget ^longs (.-running door) 0)
     :waiting (.size ^ArrayDeque (.-waiting door))}))
