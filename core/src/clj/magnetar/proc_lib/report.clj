(ns magnetar.proc-lib.report
  "Where processes of OTP say what befell them: one event, as a map, for each thing."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.runtime]
   [magnetar.impl.worlds :as worlds])
  (:import
   (java.lang System$Logger$Level)
   (java.util.function Consumer)
   (magnetar.kernel.park Cancelled Exit)
   (magnetar.kernel.process LongQueues LongQueues$Warning)))

(set! *warn-on-reflection* true)

;; ---- where events go

(defonce ^:private hook (atom nil))

(defn set-hook
  "Sends events to f, or with nil to the log again; returns what was before."
  [f]
  (first (reset-vals! hook f)))

(defn- tools-logging []
  (try
    (require 'clojure.tools.logging)
    {:log (resolve 'clojure.tools.logging/log*)
     :factory (resolve 'clojure.tools.logging/*logger-factory*)
     :logger (resolve 'clojure.tools.logging.impl/get-logger)
     :enabled? (resolve 'clojure.tools.logging.impl/enabled?)}
    (catch java.io.FileNotFoundException _)))

(def ^:private logging (delay (tools-logging)))

(defn- to-tools-logging
  "The event goes as the map that it is: a back end that takes data gets data, and the others print it."
  [{:keys [log factory logger enabled?]} level event]
  (let [to (logger @factory "magnetar")]
    (when (enabled? to level)
      (log to level nil event))))

(def ^:private levels
  {:error System$Logger$Level/ERROR, :warning System$Logger$Level/WARNING, :info System$Logger$Level/INFO})

(defn- to-system-logger [level ^String text]
  (.log (System/getLogger "magnetar") ^System$Logger$Level (levels level System$Logger$Level/WARNING) text))

(defn- write [{:keys [level] :as event}]
  (let [told (dissoc event :level)]
    (if-some [present @logging]
      (to-tools-logging present level told)
      (to-system-logger level (language/text told)))))

(defn tell
  "Reports an event: {:event .. :level :error, :warning or :info ..}. What goes wrong with that does not concern the caller."
  [event]
  (try
    ((or @hook write) event)
    (catch Throwable t
      (when (or (instance? Exit t) (instance? Cancelled t))
        (throw t))
      (binding [*out* *err*]
        (println "The hook of reports failed:" (ex-message t) "on" (language/text event))))))

;; ---- long mailboxes

(defn- tell-long-queue [^LongQueues$Warning warning]
  (tell {:event :long-message-queue
         :level :warning
         :pid (.pid warning)
         :messages (.messages warning)
         :sender (.sender warning)
         :line (.line warning)
         :message (.text warning)}))

(LongQueues/setHook (reify Consumer (accept [_ warning] (tell-long-queue warning))))

;; ---- last words, which a supervisor keeps in its history

;; Each may be some hundred kilobytes, and nobody may ever ask for those of a server without a supervisor.
(def ^:private most-words 100)

(def ^:private no-words {:order clojure.lang.PersistentQueue/EMPTY :words {}})

(defonce ^:private real-words (atom no-words))

(defn- last-words []
  (worlds/of-world real-words ::words no-words))

(defn- keep-words [{:keys [order words]} pid event]
  (let [order (conj order pid)
        words (assoc words pid event)]
    (if (< (long most-words) (count order))
      {:order (pop order) :words (dissoc words (peek order))}
      {:order order :words words})))

(defn crash
  "Reports the crash of a process, and keeps what it last did for its supervisor."
  [{:keys [pid] :as event}]
  (swap! (last-words) keep-words pid (select-keys event [:last-message :state]))
  (tell (assoc event :event :crash :level :error)))

(defn take-words
  "The last message and the state of a process that crashed lately, once: they are forgotten then. Nil if it did not crash."
  [pid]
  (let [words (last-words)]
    (when (contains? (:words @words) pid)
      (let [[before _] (swap-vals! words update :words dissoc pid)]
        (get-in before [:words pid])))))

(defn silent?
  "Is this a reason for which processes end as they should?"
  [reason]
  (or (= :normal reason) (= :shutdown reason) (and (vector? reason) (= :shutdown (first reason)) (= 2 (count reason)))))
