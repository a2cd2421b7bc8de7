(ns magnetar.net.group
  "The open connections of a listener. One that is closed leaves the group, so that no closed connection is kept."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime]
   [magnetar.net.transport :as transport])
  (:import
   (java.util.concurrent CompletableFuture TimeoutException)
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(defn group
  "A group without members: an atom of :members, :over? once nothing may join, and :left, a future that the last member completes."
  []
  (atom {:members #{}}))

(defn join
  "Adds a member; false if the group is over."
  [group member]
  (not (:over? (swap! group #(if (:over? %) % (update % :members conj member))))))

(defn leave
  "Removes a member, if it is one."
  [group member]
  (let [{:keys [members left]} (swap! group update :members disj member)]
    (when (and left (empty? members))
      (.complete ^CompletableFuture left true))))

(defn await-empty
  "Waits until there is no member, or until the deadline."
  [group deadline]
  (let [{:keys [members left]} (swap! group update :left #(or % (CompletableFuture.)))]
    (when (seq members)
      (try
        (transport/get-until left deadline)
        (catch TimeoutException _)
        (catch InterruptedException e
          (.check (Fiber/current))
          (throw e))))))

(defn end
  "Lets nothing join any more; returns the members."
  [group]
  (:members (swap! group assoc :over? true)))
