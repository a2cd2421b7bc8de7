(ns magnetar.async.lab
  "Deprecated: require `clojure.core.async.lab`, which has the same four names."
  {:deprecated "0.2"}
  (:require
   [clojure.core.async.lab]
   [magnetar.compat.vars :as vars]))

(set! *warn-on-reflection* true)

(declare ->MultiplexingReadPort multiplex ->BroadcastingWritePort broadcast)

(vars/show 'clojure.core.async.lab 'magnetar.async.lab)
