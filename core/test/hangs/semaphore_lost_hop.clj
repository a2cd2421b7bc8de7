;; What hangs: a semaphore of one permit limits the calls of a geocoder. The first address cannot be parsed,
;; and its permit is never given back. The second call waits for a permit, and the fiber that draws the map
;; waits for the second call.
;;
;; Expected answer
;;   kind   :stuck: map -> call -> semaphore, which has no permit left, and no live fiber is
;;          seen that will release one
;;   names  the go block of [call]; java.util.concurrent.Semaphore
;;   lines  [A] acquires
;;   should the go block of [failed], which took the permit and ended by a failure; "0 permits"
;;   victim the process :map-maker, which takes from the channel of the call at [B]
;;   never  any other fiber; :map-maker must not be the cause
(ns semaphore-lost-hop
  (:require
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.channel :as channel])
  (:import
   (java.util.concurrent Semaphore)))

(defn- locate [^Semaphore slots address]
  (.acquire slots) ; [A]
  (let [number (Long/parseLong address)]
    (.release slots)
    [number number]))

(defn- draw-map [place]
  (if-some [point (a/<! place)] ; [B]
    [:map point]
    :no-place))

(defn start []
  (let [slots (Semaphore. 1)
        caller (promise)
        failed (a/go ; [failed]
                 (locate slots "Main Street"))
        place (a/go ; [call]
                (deliver caller (Thread/currentThread))
                (a/<! failed)
                (locate slots "17"))
        pid (actor/spawn-opt draw-map place {:name :map-maker})]
    {:ready #(and (channel/closed? failed)
                  (= 1 (.getQueueLength slots))
                  (= :waiting (actor/process-info pid :status)))
     :stop #(do
              (.interrupt ^Thread @caller)
              (actor/exit pid :kill))}))
