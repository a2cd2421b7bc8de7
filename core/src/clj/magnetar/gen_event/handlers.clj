(ns magnetar.gen-event.handlers
  "Handlers of events: what they are known by, and their callbacks."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Namespace)))

(set! *warn-on-reflection* true)

(def ^:private of-gen-event
  {:kind "a handler of events"
   :required [:init :handle-event]
   :optional [:handle-call :handle-info :terminate :code-change :format-status]
   :arguments '{:init [argument], :handle-event [event state], :handle-call [request state], :handle-info [message state], :terminate [why state]
                :code-change [old state extra], :format-status [status]}})

;; What a handler is known by, and what it does.
(deftype Spec [known-by behaviour])

;; A handler that is there; `supervisor` is the pid of the process that it goes with, or nil; `version` is what its state was made by.
(defrecord Handler [known-by behaviour state supervisor version])

;; ---- names

(defn- behaviour? [x]
  (or (symbol? x) (map? x) (var? x) (instance? Namespace x)))

(defn- name-of [x]
  (cond
    (var? x) (symbol x)
    (instance? Namespace x) (ns-name x)
    (map? x) (:name x x)
    :else x))

(defn- parts
  "[callback-module id?]; nil if it is no handler."
  [x]
  (cond
    (behaviour? x) [x]
    (and (vector? x) (= 2 (count x))) x))

(defn- refuse [operation x]
  (arguments/misuse :magnetar/bad-handler
                    (str "`" operation "` wants a handler as the symbol of a namespace, a var, a map of functions, or [one of these and an id]; this is "
                         (arguments/show x) ".")
                    {:handler x}))

(defn known-by
  "What the handler is known by; it may already be that."
  [operation x]
  (let [[base & id] (parts x)]
    (cond
      (keyword? x) x
      (nil? base) (refuse operation x)
      id [(name-of base) (first id)]
      :else (name-of base))))

(defn spec
  "The handler, checked: an error names what is missing."
  ^Spec [operation x]
  (let [base (first (parts x))]
    (cond
      (instance? Spec x) x
      (behaviour? base) (Spec. (known-by operation x) (behaviour/of-kind of-gen-event base))
      :else (refuse operation x))))
