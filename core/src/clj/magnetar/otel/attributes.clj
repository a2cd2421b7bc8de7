(ns magnetar.otel.attributes
  "What spans and metrics say about a server, a message and a failure. Never a pid, and no part of a message."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.runtime])
  (:import
   (io.opentelemetry.api.common AttributeKey Attributes)
   (java.util.concurrent ConcurrentHashMap)
   (magnetar.kernel.fiber Exit)))

(set! *warn-on-reflection* true)

(defn- text-key ^AttributeKey [named]
  (AttributeKey/stringKey named))

(def ^:private system "magnetar")

(def ^:private rpc-system (text-key "rpc.system"))
(def ^:private rpc-service (text-key "rpc.service"))
(def ^:private rpc-method (text-key "rpc.method"))
(def ^:private messaging-system (text-key "messaging.system"))
(def ^:private messaging-name (text-key "messaging.operation.name"))
(def ^:private messaging-type (text-key "messaging.operation.type"))
(def ^:private destination (text-key "messaging.destination.name"))
(def ^:private server-module (text-key "magnetar.server.callback_module"))
(def ^:private server-name (text-key "magnetar.server.name"))
(def ^:private message-kind (text-key "magnetar.message.kind"))
(def ^:private message-name (text-key "magnetar.message.name"))
(def ^:private error-type (text-key "error.type"))
(def ^:private exception-type (text-key "exception.type"))
(def ^:private exception-message (text-key "exception.message"))
(def ^:private exception-stacktrace (text-key "exception.stacktrace"))

;; ---- names

(defn plain
  "A name of a program as text: `counter` of :counter, `my.app/counter` of :my.app/counter."
  [x]
  (if (keyword? x) (subs (str x) 1) (str x)))

(defn registered
  "The registered name as text; nil for a pid, and for a name in a registry, since a program may have any number of these."
  [who]
  (when (or (keyword? who) (symbol? who))
    (plain who)))

;; ---- what is said about each message of a server

;; What is said about a call or a message: the name and the attributes of its span, and those of its duration. They have no attribute without a value.
(deftype About [^String span-name ^Attributes span ^Attributes metric])

(defn- of-metric [module who kind]
  (Attributes/of server-module module, server-name who, message-kind kind))

(defn- of-call [module who method]
  (Attributes/of rpc-system system, rpc-service module, rpc-method method, server-name who))

(defn- of-message [module who kind named]
  (-> (Attributes/of messaging-system system, messaging-name "process", messaging-type "process", destination module, server-name who)
      (.toBuilder)
      (.putAll (Attributes/of message-kind kind, message-name named))
      (.build)))

(defn- call [module who named kind]
  (let [method (or named "call")]
    (About. (if module (str module "/" method) method) (of-call module who method) (of-metric module who kind))))

(defn- message [module who named kind]
  (About. (str "process " module) (of-message module who kind named) (of-metric module who kind)))

(defn- make [label who named kind]
  (let [module (some-> label str)]
    (case kind
      :calls (call module who named nil)
      :call (call module who named "call")
      (message module who named (name kind)))))

(def ^:private ^ConcurrentHashMap made (ConcurrentHashMap.))

(def ^:private most
  "How many are kept. Programs have few servers with names of their own, and may have any number."
  1000)

(defn about
  "What is said about a call, :calls at the caller, or a :call, :cast or :info at the server. The label is what its callback module is called, nil if that is
  not known; `who` is its registered name and `named` that of the message, texts or nil."
  ^About [label who named kind]
  (let [key [label who named kind]]
    (or (.get made key)
        (let [about (make label who named kind)]
          (when (< (.size made) (long most))
            (.put made key about))
          about))))

;; ---- restarts

(def ^:private supervisor-name (text-key "magnetar.supervisor.name"))
(def ^:private child-id (text-key "magnetar.child.id"))

(defn of-restart
  "The attributes of a restart: registered names, and ids that are keywords or symbols."
  ^Attributes [supervisor child]
  (Attributes/of supervisor-name (registered supervisor), child-id (registered child)))

;; ---- failures

(defn- type-of-reason [reason]
  (cond
    (codec/of-error? reason) (str (:type (first reason)))
    (or (keyword? reason) (symbol? reason)) (plain reason)
    (vector? reason) (recur (first reason))
    :else "_OTHER"))

(defn- reason-of [error]
  (cond
    (instance? Exit error) (.reason ^Exit error)
    (:reason (ex-data error)) (:reason (ex-data error))
    :else (symbol (.getName (class error)))))

(defn failure-type
  "The type of a failure: the class of the error that a callback threw, else the keyword of the reason."
  [error]
  (type-of-reason (reason-of error)))

(defn with-failure
  "The attributes with the type of the failure."
  ^Attributes [^Attributes attributes error]
  (-> (.toBuilder attributes)
      (.put ^AttributeKey error-type (failure-type error))
      (.build)))

(defn thrown
  "What a callback threw by which the server ends: the attributes of the event `exception`; nil if it threw no error."
  ^Attributes [error]
  (let [reason (reason-of error)]
    (when (codec/of-error? reason)
      (let [[{:keys [type message]} frames] reason]
        (Attributes/of
          exception-type (str type)
          exception-message message
          exception-stacktrace (str/join "\n" (cons (str type ": " message) (map #(str "\tat " %) frames))))))))
