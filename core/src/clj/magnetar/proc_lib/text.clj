(ns magnetar.proc-lib.text
  "Events of OTP's processes as text: first a sentence that says what happened and why, then the rest line by line, the state last."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defn value
  "A value as text of bounded length."
  [x]
  (if (string? x) x (codec/text x)))

(defn- line [what x]
  (when (some? x)
    (str "  " what ": " (value x))))

(defn- lines [& all]
  (str/join "\n" (remove nil? (flatten all))))

;; ---- a crash

(defn- who [{:keys [name pid callback-module data]}]
  (str (cond (not callback-module) "Process " data "State machine " :else "Server ")
       (cond
         (and (some? name) (not (instance? Pid name))) (codec/text name)
         :else (codec/text pid))))

(defn- what-happened [{:keys [reason frames] :as event}]
  (str (who event)
       (if (codec/of-error? reason)
         " crashed"
         (str " ended abnormally" (some->> (first frames) (str " at "))))
       ": "
       (reasons/sentence reason)))

(defn- message-text [message]
  (let [[word x y] (when (vector? message) message)]
    (case word
      :magnetar/call (str "call " (value y) (when (vector? x) (str " from " (value (first x)))))
      :magnetar/cast (str "cast " (value x))
      :init nil
      (some-> message value))))

(defn- frame-lines [{:keys [frames reason]}]
  (map #(str "    " (when-not (str/starts-with? % "(") "at ") %) (or (seq frames) (reasons/frames reason))))

;; The processes of an application that are no part of its tree.
(defn- of-magnetar? [ancestor]
  (and (instance? Pid ancestor) (re-find #"^(magnetar\.application|spawn magnetar/|spawn-link magnetar\.)" (str (.label ^Pid ancestor)))))

(defn- context-text [context]
  (if (map? context)
    (str/join ", " (for [[sym x] context] (str sym " " (value x))))
    context))

(defn- trace-text
  "The ids of the span, as logs have them by the conventions of OpenTelemetry."
  [{:keys [trace-id span-id]}]
  (when trace-id
    (str "trace_id=" trace-id " span_id=" span-id)))

(defn- crash [{:keys [pid name callback-module last-message context ancestors log state data queue postponed] :as event}]
  (lines (what-happened event)
         (frame-lines event)
         (reasons/more-lines (:reason event))
         (line "last message" (message-text last-message))
         (line "context" (context-text context))
         (line "trace" (trace-text event))
         (when-not (or (nil? name) (= name pid)) (line "process" pid))
         (line "callback module" callback-module)
         (line "started by" (not-empty (str/join ", " (map value (remove of-magnetar? ancestors)))))
         (line "queue" (not-empty queue))
         (line "postponed" (not-empty postponed))
         (line "log" (not-empty log))
         (line "data" data)
         (when (and (contains? event :state) (not= [:init] last-message)) (str "  state: " (value state)))))

;; ---- other events

(defn- title [{:keys [event supervisor child pid] :as data}]
  (let [words (str/replace (name event) "-" " ")]
    (if (and supervisor (contains? data :child))
      (str "Child " (value (if (nil? child) pid child)) " of " (value supervisor) " " (str/replace words #"^child " ""))
      (str/capitalize words))))

(defn- pairs [data]
  (when (some some? (vals data))
    (str " (" (str/join ", " (for [[k v] data :when (some? v)] (str (name k) " " (if (string? v) v (codec/text v))))) ")")))

;; What the message of an event says by itself.
(def ^:private said-by-message
  {:long-message-queue [:pid :messages :sender :line]
   :stop-timeout [:applications]})

(defn- other [{:keys [event name pid reason message supervisor] :as data}]
  (let [data (cond-> data (= name pid) (dissoc :name))
        said (if (string? message) message (when (some? reason) (reasons/sentence reason)))
        left (cond-> (apply dissoc data :event :reason (said-by-message event))
               (string? message) (dissoc :message)
               (and supervisor (contains? data :child)) (dissoc :supervisor :child))]
    (str (title data) (when said (str ": " said)) (pairs left))))

(defn event
  "The event as text: at most a screen, the sentence never cut."
  [{:keys [event] :as data}]
  (if (= :crash event) (crash data) (other data)))
