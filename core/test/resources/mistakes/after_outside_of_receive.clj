(ns after-outside-of-receive
  (:require [magnetar.actor :refer [after receive self]]))

(defn wait-for-answer []
  (receive [:answer x] x)
  (after 100 :too-late))

(wait-for-answer)
