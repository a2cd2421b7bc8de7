(ns magnetar.impl.stamped
  "The request of a call of a server that sheds: it carries when it was sent, and when its caller gives up."
  {:no-doc true}
  (:import
   (java.io Writer)))

(set! *warn-on-reflection* true)

(deftype Stamped [request ^long sent ^long due])

(defmethod print-method Stamped [^Stamped stamped ^Writer out]
  (print-method (.-request stamped) out))
