;; What hangs: back pressure in a circle. The mailboxes of :parser and :writer hold one message each and let
;; senders wait. :parser sends a batch of rows to :writer before it takes an acknowledgement. :writer sends
;; the acknowledgements of the last batch before it takes a row. Each waits for room in the mailbox of the
;; other.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of two: room in the mailbox of :writer -> room in the mailbox of :parser
;;   names  :parser, :writer
;;   lines  [A] :parser sends; [B] :writer sends
;;   should "capacity 1"
;;   never  any other process
(ns mailbox-circle-plain
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.inspect :as inspect]))

(defn- take-acks []
  (receive [:ack _n] (recur)))

(defn- parse [began]
  @began
  (doseq [row ["a" "b" "c"]]
    (! :writer [:row row])) ; [A]
  (take-acks))

(defn- take-rows []
  (receive [:row _row] (recur)))

(defn- write [began]
  @began
  (dotimes [n 3]
    (! :parser [:ack n])) ; [B]
  (take-rows))

(def ^:private small {:capacity 1 :when-full :block})

(defn- waiting-senders [name]
  (some-> (actor/whereis name) inspect/mailbox :waiting-senders))

(defn start []
  (let [began (promise)]
    (actor/spawn-opt parse began {:name :parser :mailbox small})
    (actor/spawn-opt write began {:name :writer :mailbox small})
    (deliver began true)
    {:ready #(and (= 1 (waiting-senders :parser)) (= 1 (waiting-senders :writer)))
     :stop #(doseq [name [:parser :writer]]
              (some-> (actor/whereis name) (actor/exit :kill)))}))
