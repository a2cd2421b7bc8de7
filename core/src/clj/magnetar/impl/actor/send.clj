(ns magnetar.impl.actor.send
  "Sends messages to addresses of all kinds, in a transaction at its commit."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions])
  (:import
   (magnetar.kernel.process Address Pid Ref RemoteName Send)))

(set! *warn-on-reflection* true)

(defn check-address
  "What the kernel sends to when the time has come; refuses what is no address."
  [operation to]
  (let [to (if (vector? to) (address/later to) to)]
    (when-not (or (instance? Pid to) (instance? Ref to) (address/plain? to) (instance? RemoteName to) (instance? Address to))
      (arguments/misuse :magnetar/no-such-name
                        (str "`" operation "` wants a pid, an alias or a name to send to; this is " (arguments/show to) ".") {:to to}))
    to))

(declare !)

(defn on-commit
  "Sends the message when the transaction has committed; returns it."
  [to message]
  (check-address "!" to)
  (transactions/on-commit #(! to message))
  message)

(defmacro sending
  "The code of a send, for the two functions that are one: a call between them would be a part of each message's price."
  [to message]
  `(if (transactions/running?)
     (on-commit ~to ~message)
     (Send/send (if (vector? ~to) (address/reached-target ~to) ~to) ~message)))

(defn !
  "Sends the message, as `magnetar.actor/!`; returns it."
  [to message]
  (sending to message))
