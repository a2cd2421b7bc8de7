(ns magnetar.gen-statem.mermaid
  "The state diagram of a machine that is declared as data, as the text that Mermaid draws."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(defn- text
  "Without what ends a label or a line of Mermaid."
  [x]
  (-> (cond
        (keyword? x) (subs (str x) 1)
        (nil? x) "nil"
        :else (str x))
      (str/replace #"[\s:;#\"]+" " ")
      (str/trim)))

(defn- function-name
  "What a function is called in the source; nil if it has no name."
  [f]
  (cond
    (var? f) (text (name (symbol f)))
    (or (keyword? f) (symbol? f)) (text f)
    (map? f) nil
    :else (let [last-part (peek (str/split (str/replace (main/demunge (.getName (class f))) #"--\d+$" "") #"/"))]
            (when-not (re-find #"^(fn|eval)?[-_\d]*$|^fn--|^eval\d+" last-part)
              last-part))))

(defn- plain-word
  "The state as an id of Mermaid; nil if it cannot be one."
  [state]
  (let [word (text state)]
    (when (and (re-matches #"[A-Za-z][A-Za-z0-9_]*" word) (not (#{"end" "state" "note"} (str/lower-case word))))
      word)))

(defn- ids
  "Ids that Mermaid takes for the states: their names where these are plain words that no other state has."
  [states]
  (let [words (frequencies (map plain-word states))]
    (into {} (map-indexed (fn [i state]
                            (let [word (plain-word state)]
                              [state (if (and word (= 1 (words word)) (not (re-matches #"s\d+" word))) word (str "s" (inc (long i))))])))
          states)))

(defn- guard-text [guard]
  (str " [" (or (function-name guard) "condition") "]"))

(defn- arrow
  "One transition of the state, for the event as text."
  [ids from event {:keys [to label] :as t}]
  (str "    " (ids from) " --> " (ids (if (contains? t :to) to from)) " : "
       (if label
         (text label)
         (str event (some-> (:when t) guard-text) (some->> (:do t) function-name (str " / "))))))

(defn- arrows [ids state {:keys [on after]}]
  (concat (for [[event transitions] on, t transitions] (arrow ids state (text event) t))
          (for [t (second after)] (arrow ids state (text (str "after " (first after) (when (number? (first after)) " ms"))) t))))

(defn- state-lines [ids state {:keys [enter postpone final label] :as here}]
  (let [id (ids state)]
    (concat (when (or label (not= id (text state))) [(str "    state \"" (text (or label state)) "\" as " id)])
            (when-some [word (some-> enter function-name)] [(str "    " id " : enter / " word)])
            (when (seq postpone) [(str "    " id " : postpones " (str/join ", " (sort (map text postpone))))])
            (arrows ids state here)
            (when final [(str "    " id " --> [*]")]))))

(defn- decides?
  "Does the state alone say what becomes of the event?"
  [{:keys [final postpone on]} event]
  (or final (contains? postpone event) (some (complement :when) (get on event))))

(defn diagram
  "The text for a machine in its full form."
  [{:keys [initial states on]}]
  (let [ids (ids (keys states))
        everywhere (for [[state here] states, [event transitions] on, t transitions
                         :when (not (decides? here event))]
                     (arrow ids state (text event) t))]
    (str/join "\n" (concat ["stateDiagram-v2" (str "    [*] --> " (ids initial))]
                           (mapcat (fn [[state here]] (or (seq (state-lines ids state here)) [(str "    " (ids state))])) states)
                           everywhere
                           [""]))))
