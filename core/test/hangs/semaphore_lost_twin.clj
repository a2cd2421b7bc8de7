;; What hangs: a semaphore of two permits limits exports. Two exports fail, and their permits are never given
;; back. The next two exports wait for a permit.
;; Innocent beside it: another semaphore of one permit limits imports. Three importers use it in turn, each
;; for 3 ms, and release it in a `finally`. Two of them mostly wait.
;;
;; Expected answer
;;   kind   :stuck: the semaphore has no permit left, and no live fiber is seen that will release one
;;   names  the go blocks of [later], as a group with their number, 2; java.util.concurrent.Semaphore
;;   lines  [A] acquires
;;   should the go blocks of [failed], which took permits and ended by a failure; "0 permits"
;;   never  the go blocks of [importers]; the line [I]
(ns semaphore-lost-twin
  (:require
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.scope :as scope])
  (:import
   (java.util.concurrent Semaphore)))

(defn- export [^Semaphore exports rows]
  (.acquire exports) ; [A]
  (let [sum (reduce + rows)]
    (.release exports)
    sum))

(defn- import-all [^Semaphore imports running]
  (while @running
    (.acquire imports) ; [I]
    (try
      (scope/sleep 3)
      (finally (.release imports)))))

(defn start []
  (let [exports (Semaphore. 2)
        imports (Semaphore. 1 true) ; fair, so that no importer starves
        running (atom true)
        fibers (atom [])
        imported (vec (for [_ (range 3)]
                        (a/go ; [importers]
                          (import-all imports running))))
        failed (vec (for [_ (range 2)]
                      (a/go ; [failed]
                        (export exports [1 :two 3]))))]
    (dotimes [_ 2]
      (a/go ; [later]
        (swap! fibers conj (Thread/currentThread))
        (run! a/<! failed)
        (export exports [1 2 3])))
    {:ready #(and (every? channel/closed? failed) (= 2 (.getQueueLength exports)))
     :stop #(do
              (reset! running false)
              (run! a/<! imported)
              (doseq [^Thread fiber @fibers] (.interrupt fiber)))}))
