(ns magnetar.histories.record
  "Notes what clients do and are told, and when, as a history that a checker can judge.

  Times are numbers that grow: the order of events in one JVM, or nanoseconds of a clock that several JVMs share."
  (:require
   [magnetar.scope :as scope])
  (:import
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

(defn history
  "A history of the model that the checker calls so. `now` returns the time."
  ([model]
   (let [events (AtomicLong.)]
     (history model #(.incrementAndGet events))))
  ([model now]
   {:model model :now now :operations (atom [])}))

(defn- begin
  "Notes an operation without its end, which may never come. Returns its place."
  [{:keys [now operations]} client input]
  (let [operation {:client client :call (now) :return nil :input input :output {:known false}}]
    (dec (count (swap! operations conj operation)))))

(defn operate
  "Does an operation: f returns what the client is told, a map. It returns nil if it cannot know whether it happened, and :failed if it
  knows that it did not. Returns that."
  [{:keys [now operations] :as history} client input f]
  (let [place (begin history client input)
        output (f)
        end (now)]
    (cond
      (= :failed output) (swap! operations update place assoc :failed true)
      output (swap! operations update place assoc :return end :output (assoc output :known true)))
    output))

(defn- looks?
  "Does the input change nothing?"
  [{:keys [f]}]
  (contains? #{"read" "whereis"} f))

(defn client
  "Does the inputs one after the other, with (ask input), and pauses between them. It rests after each that failed, or that it knows
  nothing of. It ends after so many of the latter that may have changed something: each of these doubles the work of the checker."
  [history number inputs ask {:keys [pause-ms rest-ms most-unknown]}]
  (loop [[input & more] inputs
         unknown 0]
    (when (and input (< unknown (long most-unknown)))
      (let [output (operate history number input #(ask input))]
        (scope/sleep (if (map? output) pause-ms rest-ms))
        (recur more (if (or output (looks? input)) unknown (inc unknown)))))))

(defn- without-effect?
  "Does the operation say nothing? A client that was told nothing may have changed something, except by looking."
  [{:keys [return input failed]}]
  (or failed (and (nil? return) (looks? input))))

(defn finished
  "The history as a map of data, under a name."
  [{:keys [model operations]} name]
  {:name name :model model :operations (into [] (remove without-effect?) @operations)})

(defn done
  "How often a client was told in the finished history that something was done."
  [{:keys [operations]}]
  (count (filter (comp :done :output) operations)))
