;; What hangs: back pressure in a circle. The mailboxes of :planner and :builder hold one message each and let
;; senders wait. :planner sends its plans before it takes a report, :builder sends its reports before it takes
;; a plan.
;; Innocent beside it: :scanner sends pages to :indexer, whose mailbox holds one message too. :indexer works
;; for 3 ms on each page, so :scanner mostly waits for room. :indexer sends nothing back.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of two: room in the mailbox of :builder -> room in the mailbox of :planner
;;   names  :planner, :builder
;;   lines  [A] :planner sends; [B] :builder sends
;;   should "capacity 1"
;;   never  :scanner, :indexer; the line [S]
(ns mailbox-circle-twin
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]))

(defn- take-all []
  (receive _message (recur)))

(defn- plan [began]
  @began
  (dotimes [n 3]
    (! :builder [:plan n])) ; [A]
  (take-all))

(defn- build [began]
  @began
  (dotimes [n 3]
    (! :planner [:report n])) ; [B]
  (take-all))

(defn- scan [running]
  (loop [n 0]
    (when @running
      (! :indexer [:page n]) ; [S]
      (recur (inc n)))))

(defn- index-pages []
  (receive
    [:page _n] (do (scope/sleep 3)
                   (recur))))

(def ^:private small {:capacity 1 :when-full :block})

(defn- waiting-senders [name]
  (some-> (actor/whereis name) inspect/mailbox :waiting-senders))

(defn start []
  (let [began (promise)
        running (atom true)]
    (actor/spawn-opt plan began {:name :planner :mailbox small})
    (actor/spawn-opt build began {:name :builder :mailbox small})
    (actor/spawn-opt index-pages {:name :indexer :mailbox small})
    (let [scanner (actor/spawn-opt scan running {:name :scanner})]
      (deliver began true)
      {:ready #(and (= 1 (waiting-senders :planner)) (= 1 (waiting-senders :builder)))
       :stop #(do
                (reset! running false)
                (actor/join scanner)
                (doseq [name [:planner :builder :indexer]]
                  (some-> (actor/whereis name) (actor/exit :kill))))})))
