(ns magnetar.impl.otp.reply
  "Sends the answer to a call or to a system message."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.send :refer [!]]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions])
  (:import
   (clojure.lang MapEntry)
   (magnetar.kernel.process Calls Pid Ref)))

(set! *warn-on-reflection* true)

(defn reply
  "Answers a call or a system message with [tag value], to the alias that the tag is; to the process, if the tag never
  was an alias. An answer that is not waited for any more is dropped, and so is one to what is no process: another node
  may have sent any `from`."
  [from value]
  (when-some [tag (if (instance? MapEntry from) (.val ^MapEntry from) (when (vector? from) (nth from 1 nil)))]
    (let [caller (nth from 0)
          answer (MapEntry/create tag value)] ; [tag value], in half the bytes
      (cond
        (and (instance? Ref tag) (instance? Pid caller) (not (transactions/running?))) (Calls/answer caller tag answer)
        (and (instance? Ref tag) (not (.isPlain ^Ref tag))) (! tag answer)
        (instance? Pid caller) (! caller answer))))
  nil)
