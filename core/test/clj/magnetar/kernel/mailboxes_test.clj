(ns magnetar.kernel.mailboxes-test
  "Invariants of Mailbox, OpenMailbox and BoundedMailbox, and decisions 8 and 9."
  (:require
   [clojure.test :refer [deftest]]
   [magnetar.kernel.checks :refer [green?]]))

;; Mailbox, invariants 1 and 2
(deftest what-several-send-is-received-once-each-in-order-and-who-waits-is-woken
  (green? 60 "mailbox-wake-up" "mailbox-order"))

;; Mailbox, invariants 2 to 4, and decision 8
(deftest a-wait-is-claimed-once-leaves-nothing-behind-begins-at-its-mark-and-ends-when-the-mailbox-closes
  (green? 60 "mailbox-claims" "mailbox-beside-channels" "mailbox-ghosts" "mailbox-marks" "mailbox-closed"))

;; Mailbox, invariants 1 and 2, and decision 8
(deftest who-asks-gets-its-own-answer-loses-no-other-message-and-can-wait-again
  (green? 60 "asks" "ask-ghosts" "ask-deaths" "ask-limits" "ask-shielded"))

;; BoundedMailbox, invariants 1 and 2, and decision 9
(deftest a-bounded-mailbox-keeps-its-bound-and-its-policy-spares-signals-and-wakes-a-thousand-senders
  (green? 60 "mailbox-policies" "mailbox-dropped" "mailbox-many-senders" "mailbox-giving-up"))

;; With ten thousand: magnetar.kernel.thousands-test.
(deftest a-thousand-processes-at-random-lose-no-message-and-double-none
  (green? 60 "mailbox-stress"))
