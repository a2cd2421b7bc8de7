(ns magnetar.kernel.mailboxes-test
  "Invariants of Mailbox, OpenMailbox and BoundedMailbox."
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

;; Mailbox, invariants 1 and 2
(deftest what-several-send-is-received-once-each-in-order-and-who-waits-is-woken
  (green? 60 "mailbox-wake-up" "mailbox-order"))

;; Mailbox, invariants 2 to 4. A mailbox's waiter is claimed in the same way as a channel's, so one receive can wait for both.
(deftest a-wait-is-claimed-once-leaves-nothing-behind-begins-at-its-mark-and-ends-when-the-mailbox-closes
  (green? 60 "mailbox-claims" "mailbox-beside-channels" "mailbox-ghosts" "mailbox-marks" "mailbox-closed"))

;; Mailbox, invariants 1 and 2. Answer, time-out, death and interrupt compete for one claim.
(deftest who-asks-gets-its-own-answer-loses-no-other-message-and-can-wait-again
  (green? 60 "asks" "ask-ghosts" "ask-deaths" "ask-limits" "ask-shielded"))

;; BoundedMailbox, invariants 1 to 4. The bound is for messages of other processes: a full mailbox must not hold up an exit.
(deftest a-bounded-mailbox-keeps-its-bound-and-its-policy-spares-signals-and-wakes-a-thousand-senders
  (green? 60 "mailbox-policies" "mailbox-dropped" "mailbox-many-senders" "mailbox-giving-up"))

;; With ten thousand: magnetar.kernel.thousands-test.
(deftest a-thousand-processes-at-random-lose-no-message-and-double-none
  (green? 60 "mailbox-stress"))
