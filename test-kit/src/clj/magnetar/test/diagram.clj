(ns magnetar.test.diagram
  "A log as a sequence diagram, in the text of Mermaid."
  {:no-doc true}
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

(def ^:private most 150)

(defn- plain
  "Without what Mermaid takes for its own."
  [s]
  (-> (str s) (str/replace #"[;#:\r\n\"]" " ") (str/replace #"\s+" " ") str/trim))

(defn- id [thing]
  (str/replace (or (re-find #"^#?[\w-]+(?: (?:[\w.-]+/)?\d+)?" (str thing)) "nobody") #"[^\w]" "_"))

(defn- me [{:keys [fiber]}]
  (str "_" fiber))

(defn- arrow [from line to text]
  (str "    " from line to ": " (plain text)))

(defn- over [who text]
  (str "    Note over " who ": " (plain text)))

(defn- with-value [what value]
  (str what (when value (str " " value))))

(defn- line
  "The event as a line, or nil if the diagram does without it."
  [{:keys [what on value ms] :as event}]
  (case what
    ("message" "reply" "timer message" "exit signal" "down")
    (arrow (me event) (if (= "message" what) "->>" "-)") (id on) (with-value (when (not= "message" what) what) value))
    ("put" "put waits" "close") (arrow (me event) "->>" (id on) (with-value what value))
    "sends" (arrow (me event) "-)" (id on) (with-value what value))
    "gets" (arrow (id on) "-->>" (me event) (with-value what value))
    ("joins" "leaves" "view" "merged view") (over (id on) (with-value what value))
    "take" (arrow (id on) "->>" (me event) (with-value what value))
    "starts" (arrow (me event) "-->>" (id on) "starts")
    "is preempted by" (over (me event) "is preempted here")
    ("waits" "receives" "dies" "ends" "fails" "loses message" "delays" "kills" "boots" "crashes" "suspects" "cuts off" "is cut" "is healed" "is slow" "is fast")
    (over (me event) (str what " " on (when value (str " " value))))
    "time passes" (over (me event) (str "time passes, now " ms " ms"))
    nil))

(defn- simulators-own
  "The numbers of the simulator's own fibers: two of the body, and two of each node."
  [events]
  (into #{0 1}
        (keep (fn [{:keys [what on]}]
                (when (= "starts" what) (some-> (re-find #"^#(\d+) [\w.-]+/(?:timers|faults)$" (str on)) second parse-long))))
        events))

(defn- quiet? [own {:keys [fiber what on]}]
  (or (and (own fiber) (contains? #{"starts" "runs" "waits" "ends"} what))
      (and (= "starts" what) (own (some->> (str on) (re-find #"^#(\d+) ") second parse-long)))
      (neg? (long fiber))))

(defn- participants [events lines]
  (let [names (into {} (comp (filter #(= "starts" (:what %))) (map :on) (map (juxt id identity))) events)
        used (distinct (mapcat #(re-seq #"\b(?:_\d+|channel_\d+)\b" %) lines))]
    (for [p (sort-by (juxt count identity) used)]
      (str "    participant " p (when-let [n (or (names p) (when (str/starts-with? p "channel") (str/replace p "_" " ")))] (str " as " (plain n)))))))

(defn diagram
  "The log of a run as a sequence diagram; of a long one, its end."
  [events]
  (let [lines (take-last most (keep line (remove (partial quiet? (simulators-own events)) events)))]
    (str/join "\n" (concat ["sequenceDiagram"] (participants events lines) lines))))
