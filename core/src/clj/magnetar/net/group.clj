(ns magnetar.net.group
  "The open connections of a listener. One that is closed leaves the group, so that no closed connection is
  kept."
  {:no-doc true}
  (:require
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.net.transport :as transport])
  (:import
   (java.util.concurrent CompletableFuture Semaphore TimeUnit TimeoutException)))

(set! *warn-on-reflection* true)

(def ^:private ^:const more-than-wait "More than there are threads that wait for a place." 1000000000)

;; A semaphore counts to 2^31 - 1, and `end-waits` adds to it.
(defn group
  "A group without members: an atom of :members, :over? once nothing may join, :left, a future that the last
  member completes, and :places, a semaphore, if there may be so many members alone."
  [most]
  (atom {:members #{} :places (when most (Semaphore. (int (min (long most) more-than-wait)) true))}))

;; ---- places

(defn- take-place
  "Takes a place; false if none is free before the deadline."
  [^Semaphore places deadline]
  (let [left (clock/left deadline)]
    (transport/interruptible
      (if (= clock/infinite left)
        (do (.acquire places) true)
        (.tryAcquire places left TimeUnit/NANOSECONDS)))))

(defn- with-place [^Semaphore places f]
  (let [outcome (try
                  (f)
                  (catch Throwable e
                    (.release places)
                    (throw e)))]
    (when (= ::transport/timeout outcome)
      (.release places))
    outcome))

(defn in-place
  "Calls f, which lets a member join or returns ::transport/timeout, when there is a place for a member;
  ::transport/timeout after the deadline."
  [group deadline f]
  (let [places (:places @group)]
    (cond
      (nil? places) (f)
      (take-place places deadline) (with-place places f)
      :else ::transport/timeout)))

(defn end-waits
  "Lets all that wait for a place go on, as the listener is closed."
  [group]
  (some-> ^Semaphore (:places @group) (.release more-than-wait)))

;; ---- members

(defn join
  "Adds a member; false if the group is over."
  [group member]
  (not (:over? (swap! group #(if (:over? %) % (update % :members conj member))))))

(defn withdraw
  "Removes a member, if it is one: then true. Its place is not free yet."
  [group member]
  (let [[before {:keys [members left]}] (swap-vals! group update :members disj member)]
    (when (and left (empty? members))
      (.complete ^CompletableFuture left true))
    (contains? (:members before) member)))

(defn leave
  "Removes a member, if it is one, and frees its place."
  [group member]
  (when (withdraw group member)
    (some-> ^Semaphore (:places @group) .release)))

(defn await-empty
  "Waits until there is no member, or until the deadline."
  [group deadline]
  (let [{:keys [members left]} (swap! group update :left #(or % (CompletableFuture.)))]
    (when (seq members)
      (try
        (transport/await-future left deadline)
        (catch TimeoutException _)))))

(defn end
  "Lets nothing join any more; returns the members."
  [group]
  (:members (swap! group assoc :over? true)))
