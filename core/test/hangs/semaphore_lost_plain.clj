;; What hangs: a semaphore of two permits limits downloads. Two pages have no body: parsing them throws, and
;; their permits are never given back, because `release` is not in a `finally`. All later downloads wait for a
;; permit.
;;
;; Expected answer
;;   kind   :stuck: the semaphore has no permit left, and no live fiber is seen that will release one
;;   names  the go blocks of [later], as a group with their number, 2; java.util.concurrent.Semaphore
;;   lines  [A] acquires
;;   should the go blocks of [failed], which took permits and ended by a failure; "0 permits"
;;   never  any other fiber
(ns semaphore-lost-plain
  (:require
   [clojure.string :as str]
   [magnetar.async :as a]
   [magnetar.channel :as channel])
  (:import
   (java.util.concurrent Semaphore)))

(defn- parse [page]
  (str/split-lines (:body page))) ; [T]

(defn- download [^Semaphore slots page]
  (.acquire slots) ; [A]
  (let [lines (parse page)]
    (.release slots)
    lines))

(defn start []
  (let [slots (Semaphore. 2)
        fibers (atom [])
        failed (vec (for [n [1 2]]
                      (a/go ; [failed]
                        (download slots {:number n :body nil}))))]
    (doseq [n [3 4]]
      (a/go ; [later]
        (swap! fibers conj (Thread/currentThread))
        (run! a/<! failed)
        (download slots {:number n :body "a\nb"})))
    {:ready #(and (every? channel/closed? failed) (= 2 (.getQueueLength slots)))
     :stop #(doseq [^Thread fiber @fibers] (.interrupt fiber))}))
