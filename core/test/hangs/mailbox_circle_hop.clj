;; What hangs: back pressure in a circle of three. The mailboxes hold one message each and let senders wait.
;; :camera sends frames to :encoder, :encoder sends packets to :uploader, :uploader sends credits to :camera.
;; Each sends a batch before it takes a message.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of three: room in the mailboxes of :encoder -> :uploader -> :camera
;;   names  :camera, :encoder, :uploader
;;   lines  [A] :camera sends; [B] :encoder sends; [C] :uploader sends
;;   should "capacity 1"
;;   never  any other process
(ns mailbox-circle-hop
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.inspect :as inspect]))

(defn- take-all []
  (receive _message (recur)))

(defn- film [began]
  @began
  (dotimes [n 3]
    (! :encoder [:frame n])) ; [A]
  (take-all))

(defn- encode [began]
  @began
  (dotimes [n 3]
    (! :uploader [:packet n])) ; [B]
  (take-all))

(defn- upload [began]
  @began
  (dotimes [n 3]
    (! :camera [:credit n])) ; [C]
  (take-all))

(def ^:private small {:capacity 1 :when-full :block})

(defn- waiting-senders [name]
  (some-> (actor/whereis name) inspect/mailbox :waiting-senders))

(defn start []
  (let [began (promise)]
    (actor/spawn-opt film began {:name :camera :mailbox small})
    (actor/spawn-opt encode began {:name :encoder :mailbox small})
    (actor/spawn-opt upload began {:name :uploader :mailbox small})
    (deliver began true)
    {:ready #(every? (fn [name] (= 1 (waiting-senders name))) [:camera :encoder :uploader])
     :stop #(doseq [name [:camera :encoder :uploader]]
              (some-> (actor/whereis name) (actor/exit :kill)))}))
