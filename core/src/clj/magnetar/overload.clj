(ns magnetar.overload
  "Deprecated: shedding is the option :shed of `magnetar.gen-server/start-link`.

  These are the names of version 0.1."
  {:deprecated "0.2"}
  (:require
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.sys :as sys]))

(set! *warn-on-reflection* true)

(defn shedding
  "Deprecated, and refused: start the callback module with the option :shed.

  An example is (gs/start-link 'my.search nil {:shed {:target 20}})."
  {:deprecated "0.2"}
  ([behaviour] (shedding behaviour nil))
  ([behaviour options]
   (arguments/misuse :magnetar/moved
                     (str "`overload/shedding` is an option of the server now: start the callback module itself, as in "
                          "(gs/start-link callback-module argument {:shed " (arguments/show (or options {})) "}), and call it by `gs/call`.")
                     {:callback-module behaviour :options options})))

(defn call
  "Deprecated: use `magnetar.gen-server/call`, which is the same."
  {:deprecated "0.2"}
  ([server request] (gs/call server request))
  ([server request options] (gs/call server request options)))

(defn overloaded?
  "Deprecated: ask (= :magnetar/overloaded (:magnetar/reason (ex-data e)))."
  {:deprecated "0.2"}
  [e]
  (= :magnetar/overloaded (:magnetar/reason (ex-data e))))

(defn status
  "Deprecated: use (:shed (magnetar.sys/get-status server))."
  {:deprecated "0.2"}
  [server]
  (:shed (sys/get-status server)))
