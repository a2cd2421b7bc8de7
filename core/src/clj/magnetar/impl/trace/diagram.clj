(ns magnetar.impl.trace.diagram
  "Events of a trace of messages as a sequence diagram in the language of Mermaid."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.inspect.shown :as shown]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(def ^:private longest-label 80)

(def ^:private entities
  "Characters that Mermaid, or the page around it, would not take as text."
  {\" "#quot;", \; "#59;", \# "#35;", \< "#lt;", \> "#gt;", \& "#amp;", \% "#37;", \newline " ", \return " "})

(defn- label [text]
  (str/escape (reports/cut text longest-label) entities))

(defn- short-name
  "A pid without the tag of the reader."
  [text]
  (str/replace text #"^#magnetar/pid \"(.*)\"$" "$1"))

(defn- participants
  "The text and the id in the diagram of each sender and receiver, in the order of their first messages."
  [events]
  (let [texts (distinct (mapcat (juxt :by :to) (remove #(= :end (:event %)) events)))]
    (map-indexed (fn [i text] [text (str "p" (inc (long i)))]) (remove nil? texts))))

(defn- outcomes
  "From the number of a message to what became of it: :take, :lost or :unhandled."
  [events]
  (into {} (keep (fn [{:keys [event number]}]
                   (when (and number (#{:take :lost :unhandled} event)) [number event])))
        events))

(defn- arrow [kind outcome]
  (cond
    (and (= :lost outcome) (= :answer kind)) "--x"
    (= :lost outcome) "-x"
    (= :answer kind) "-->>"
    :else "->>"))

(defn- fate
  "What the label of a message says of what became of it."
  [outcome complete?]
  (case outcome
    :lost ", lost"
    :unhandled ", not handled"
    :take nil
    (if complete? ", not taken" ", not taken so far")))

(defn- send-line [ids outcomes complete? {:keys [number by to kind value cause]}]
  (let [outcome (get outcomes number)]
    (str (ids by) (arrow kind outcome) (ids to) ": "
         (label (str number (when-not (= :message kind) (str " " (name kind))) (fate outcome complete?)
                     (when cause (str ", because of " cause)) ": " (shown/shown value))))))

(defn- line
  "The line of an event; nil for one that a line of a message stands for."
  [ids outcomes complete? {:keys [event number by value] :as data}]
  (cond
    (= :send event) (send-line ids outcomes complete? data)
    (= :end event) nil
    (nil? number) (str "Note over " (ids by) ": " (label (str (if (= :take event) "takes " "does not handle ") (shown/shown value))))))

(defn- complete?
  "Has the trace ended, and not at its limit? Then a message that was not taken stays in its mailbox."
  [events]
  (let [{:keys [event reason]} (peek events)]
    (and (= :end event) (not= :limit reason))))

(defn text
  "The events as a sequence diagram."
  [events]
  (let [participants (participants events)
        ids (into {} participants)
        outcomes (outcomes events)
        complete? (complete? events)]
    (str/join "\n" (concat ["sequenceDiagram"]
                           (for [[text id] participants] (str "  participant " id " as " (label (short-name text))))
                           (keep #(some->> (line ids outcomes complete? %) (str "  ")) events)
                           [""]))))
