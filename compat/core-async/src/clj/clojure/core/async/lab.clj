(ns clojure.core.async.lab
  "The names of core.async's lab, bound to `magnetar.async.lab`."
  (:require
   [clojure.core.async]
   [magnetar.async.lab]
   [magnetar.compat.vars :as vars]))

(set! *warn-on-reflection* true)

(declare ->MultiplexingReadPort multiplex ->BroadcastingWritePort broadcast)

(vars/show 'magnetar.async.lab 'clojure.core.async.lab)
