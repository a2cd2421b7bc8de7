(ns magnetar.proc-lib.report
  "Where processes of OTP say what befell them: one event, as a map, for each thing."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.language :as language]
   [magnetar.impl.runtime]
   [magnetar.impl.worlds :as worlds])
  (:import
   (java.lang System$Logger$Level)))

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

(defn- to-system-logger [level ^String text]
  (.log (System/getLogger "magnetar") (if (= :error level) System$Logger$Level/ERROR System$Logger$Level/WARNING) text))

(defn- write [{:keys [level] :as event}]
  (let [told (dissoc event :level)]
    (if-some [present @logging]
      (to-tools-logging present level told)
      (to-system-logger level (language/text told)))))

(defn tell
  "Reports an event: {:event .. :level :error or :warning ..}. What goes wrong with that does not concern the caller."
  [event]
  (try
    ((or @hook write) event)
    (catch Exception e
      (binding [*out* *err*]
        (println "The hook of reports failed:" (ex-message e) "on" (language/text event))))))

;; ---- last words, which a supervisor keeps in its history

(def ^:private most-words 1000)

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

(defn words-of
  "The last message and the state of a process that crashed lately; nil if it did not."
  [pid]
  (get-in @(last-words) [:words pid]))

(defn silent?
  "Is this a reason for which processes end as they should?"
  [reason]
  (or (= :normal reason) (= :shutdown reason) (and (vector? reason) (= :shutdown (first reason)) (= 2 (count reason)))))
