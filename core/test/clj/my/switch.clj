(ns my.switch
  "The state machine of the examples in docstrings."
  (:require
   [magnetar.match :refer [match]]))

(def callback-mode :state-functions)
(defn init [n] [:ok :off n])
(defn off [_type _content n] [:next-state :on (inc n)])

(defn on [type _content n]
  (match type
    :cast [:next-state :off n]
    [:call from] [:keep-state n [:reply from n]]))
