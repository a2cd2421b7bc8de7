(ns magnetar.http.events
  "Server-sent events: the text of an event, as in the HTML standard."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.http.refusals :as refusals]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

;; A body of a response: the events that come from a channel. A comment is sent when none came for so many milliseconds.
(deftype Events [ch heartbeat])

(def heartbeat
  "A comment, which clients ignore."
  ":\n\n")

(defn- refuse [what event]
  (throw (refusals/bad-response (str "An event is a string or a map of :data, :event, :id and :retry; " what ": " (arguments/show event)
                                     ". The connection is closed.") event)))

(defn- line [event [what value]]
  (if (= :retry what)
    (when-not (nat-int? value)
      (refuse "its :retry has to be a number of milliseconds" event))
    (when-not (and (string? value) (not (re-find #"[\r\n\u0000]" value)))
      (refuse (str "its " what " has to be a string of one line") event)))
  (str (name what) ": " value "\n"))

(defn- data-lines [event data]
  (when-not (string? data)
    (refuse "its :data has to be a string" event))
  (map #(str "data: " % "\n") (str/split data #"\r\n|\r|\n" -1)))

(defn text
  "The text of an event."
  [event]
  (let [fields (cond
                 (string? event) {:data event}
                 (and (map? event) (every? #{:data :event :id :retry} (keys event))) event
                 :else (refuse "this is none" event))
        data (some->> (:data fields) (data-lines event))]
    (str (apply str (map #(line event %) (dissoc fields :data)))
         (apply str data)
         "\n")))
