(ns magnetar.gen-server.behaviour
  "What a server does: callbacks, from a map of functions or from the vars of a namespace."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(def ^:private required
  [:init :handle-call :handle-cast])

(def ^:private optional
  [:handle-info :handle-continue :terminate :code-change :format-status])

(def known
  "The names of callbacks."
  (into required optional))

(def ^:private callback?
  (set known))

(deftype Behaviour
  [label       ; what it is called in reports: the symbol of the namespace, or of the var
   source      ; a map, a var that holds one, or a namespace
   handle-call handle-cast])

;; ---- near misses

(defn- swapped? [a b ^long i ^long j]
  (and (pos? i) (pos? j) (= (nth a i) (nth b (dec j))) (= (nth a (dec i)) (nth b j))))

(defn- cheapest
  "The edits up to the letters i of a and j of b, from those before."
  [before last-row row a b i j]
  (let [changed (+ (long (nth last-row j)) (if (= (nth a i) (nth b j)) 0 1))
        best (min changed (inc (long (peek row))) (inc (long (nth last-row (inc (long j))))))]
    (if (swapped? a b i j)
      (min best (inc (long (nth before (dec (long j))))))
      best)))

(defn- edits
  "How many letters have to change, or to swap with their neighbours, to come from a to b."
  ^long [a b]
  (loop [i 0 before nil last-row (vec (range (inc (count b))))]
    (if (= i (count a))
      (peek last-row)
      (recur (inc i) last-row
             (reduce (fn [row j] (conj row (cheapest before last-row row a b i j))) [(inc i)] (range (count b)))))))

(defn near
  "The one of these keywords that x may have been meant to be, or nil."
  [x keywords]
  (when (or (keyword? x) (symbol? x) (string? x))
    (let [text #(str/replace (name %) "_" "-")
          [distance best] (first (sort (map #(vector (edits (text x) (text %)) %) keywords)))]
      (when (and best (<= (long distance) (min 2 (quot (count (text x)) 3))))
        best))))

;; ---- where callbacks come from

(defn- from-namespace [ns word]
  (get (ns-publics ns) (symbol (name word))))

(defn- lookup [source word]
  (cond
    (map? source) (source word)
    (var? source) (@source word)
    :else (from-namespace source word)))

(defn- found [source]
  (cond
    (map? source) (keys source)
    (var? source) (keys @source)
    :else (sort (keys (ns-publics source)))))

(defn- names [xs]
  (if (seq xs) (str/join ", " (map pr-str xs)) "nothing"))

(defn- missing [label source word]
  (let [names-found (found source)
        meant (near word (remove callback? (map keyword names-found)))]
    (throw (errors/illegal-argument :magnetar/missing-callback
                                    (str "The behaviour " label " has no " (name word) ", which a server needs; found: " (names (take 30 names-found)) "."
                                         (when meant (str " Is " (name meant) " meant to be it?")))
                                    {:behaviour label :missing word :found (vec names-found)}))))

(defn- misspelt [label source]
  (doseq [word (when-not (or (instance? clojure.lang.Namespace source) (every? callback? (found source)))
                 (remove callback? (found source)))
          :let [meant (near word (remove (set (found source)) known))]
          :when meant]
    (arguments/misuse :magnetar/unknown-callback
                      (str "The behaviour " label " has " (pr-str word) ", which is no callback: " meant " is. The callbacks are " (names known) ".")
                      {:behaviour label :unknown word :meant meant})))

(defn- load-namespace [symbol]
  (try
    (require symbol)
    (catch java.io.FileNotFoundException e
      (when-not (find-ns symbol)
        (arguments/misuse :magnetar/no-such-behaviour
                          (str "The behaviour " symbol " is no namespace that can be loaded: " (ex-message e)) {:behaviour symbol}))))
  (the-ns symbol))

(defn- source-of [behaviour]
  (cond
    (symbol? behaviour) (load-namespace behaviour)
    (or (map? behaviour) (instance? clojure.lang.Namespace behaviour) (and (var? behaviour) (map? @behaviour))) behaviour
    :else (arguments/misuse :magnetar/bad-behaviour
                            (str "A behaviour is a map of functions, a var that holds one, or the symbol of a namespace; this is "
                                 (arguments/show behaviour) ".")
                            {:behaviour behaviour})))

(defn- label-of [behaviour]
  (cond
    (map? behaviour) (:name behaviour "(a map)")
    (var? behaviour) (symbol behaviour)
    (symbol? behaviour) behaviour
    :else (ns-name behaviour)))

(defn- checked [label source]
  (misspelt label source)
  (doseq [word required]
    (when-not (ifn? (lookup source word))
      (missing label source word))))

(defn- hot
  "The callback as a function that follows what it is redefined to."
  [source word]
  (if (var? source)
    (fn [& args] (apply (lookup source word) args))
    (lookup source word)))

(defn- made ^Behaviour [x]
  (let [source (source-of x)
        label (label-of x)]
    (checked label source)
    (Behaviour. label source (hot source :handle-call) (hot source :handle-cast))))

;; The last map that a server was started with: a million servers of one map share what was made of it. A map does not change.
(def ^:private latest (atom nil))

(defn behaviour
  "The behaviour of a server, checked: an error names what is missing, and what was found."
  ^Behaviour [x]
  (let [^Behaviour shared @latest]
    (cond
      (instance? Behaviour x) x
      (not (map? x)) (made x)
      (and shared (identical? x (.-source shared))) shared
      :else (reset! latest (made x)))))

(defn callback
  "The callback of this name, or nil; looked up each time, so that it follows what is redefined."
  [^Behaviour behaviour word]
  (lookup (.-source behaviour) word))
