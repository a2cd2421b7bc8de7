(ns magnetar.impl.otp.behaviour
  "What a server of some kind does: callbacks, from a map of functions or from the vars of a namespace."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest])
  (:import
   (clojure.lang ArityException Namespace Var)))

(set! *warn-on-reflection* true)

;; A kind of server is a map of :kind, its name in a sentence; :required, :expected and :optional, its callbacks; :arguments, what each callback is
;; called with; and, if it has expected callbacks, :whole, the kind with all of them required. A server starts without an expected callback, and
;; fails when a message needs it.

(deftype Behaviour
  [label       ; what it is called in reports: the symbol of the namespace, or of the var
   source      ; a map, a var that holds one, or a namespace
   handle-call handle-cast ; the callbacks of a gen-server; other kinds look theirs up, or keep them elsewhere
   details     ; what else a kind knows of it
   kind])

(defn known
  "The names of the callbacks of a kind."
  [{:keys [required expected optional]}]
  (-> [] (into required) (into expected) (into optional)))

;; ---- where callbacks come from

(defn- from-namespace [^Namespace ns word]
  (let [x (.getMapping ns (symbol (name word)))]
    (when (and (var? x) (identical? ns (.ns ^Var x)) (.isPublic ^Var x))
      x)))

(defn lookup
  "What the source has under the name."
  [source word]
  (cond
    (map? source) (get source word)
    (var? source) (get @source word)
    :else (from-namespace source word)))

(defn- found [source]
  (cond
    (map? source) (keys source)
    (var? source) (keys @source)
    :else (sort (keys (ns-publics source)))))

(defn names
  "These, as a sentence lists them."
  [xs]
  (if (seq xs) (str/join ", " (map pr-str xs)) "nothing"))

(defn- value-of
  "What the source has under the name; the value of a var in place of the var."
  [source word]
  (let [x (lookup source word)]
    (if (var? x) (when (.hasRoot ^Var x) @x) x)))

(defn- meant-for
  "The public name of the source that the callback may have been meant to be; nil if no name is similar."
  [kind source word]
  (suggest/closest word (remove (set (known kind)) (map keyword (found source)))))

(defn- no-function [label word x]
  (str "The " (name word) " of the callback module " label " is no function: it is " (arguments/show x) "."))

(defn- not-there [kind label source word]
  (let [meant (meant-for kind source word)]
    (str "The callback module " label " has no " (name word) ", which " (:kind kind) " needs; found: "
         (names (take 30 (found source))) "." (when meant (str " Is " (name meant) " meant to be it?")))))

(defn missing
  "Throws that the callback module lacks what a server of the kind needs."
  [kind label source word]
  (let [x (value-of source word)]
    (throw (errors/illegal-argument :magnetar/missing-callback
                                    (if (or (some? x) (some #{word} (map keyword (found source))))
                                      (no-function label word x)
                                      (not-there kind label source word))
                                    {:callback-module label :missing word :found (vec (found source))}))))

(defn place
  "Where the callback module is written, as far as its first callback tells."
  [source]
  (when-some [f (value-of source :init)]
    (when (fn? f)
      (str " Its init is " (reports/function-name (.getName (class f))) "."))))

(defn- misspelt [kind label source]
  (let [callback? (set (known kind))
        words (when-not (instance? Namespace source) (found source))]
    (doseq [word (remove callback? words)
            :let [meant (suggest/closest word (remove (set words) (known kind)))]
            :when meant]
      (arguments/misuse :magnetar/unknown-callback
                        (str "The callback module " label " has " (pr-str word) ", which is no callback: " meant " is. The callbacks are "
                             (names (known kind)) ".")
                        {:callback-module label :unknown word :meant meant}))))

(defn- load-namespace [symbol]
  (try
    (require symbol)
    (catch java.io.FileNotFoundException e
      (when-not (find-ns symbol)
        (arguments/misuse :magnetar/no-such-callback-module
                          (str "The callback module " symbol " is no namespace that can be loaded: " (ex-message e)) {:callback-module symbol}))))
  (the-ns symbol))

(defn- source-of [behaviour]
  (cond
    (symbol? behaviour) (load-namespace behaviour)
    (or (map? behaviour) (instance? Namespace behaviour) (and (var? behaviour) (map? @behaviour))) behaviour
    :else (arguments/misuse :magnetar/bad-callback-module
                            (str "A callback module is a map of functions, a var that holds one, or the symbol of a namespace; this is "
                                 (arguments/show behaviour) ".")
                            {:callback-module behaviour})))

(defn- map-label
  "A map is called after the namespace that its init was written in."
  [{:keys [init]}]
  (let [place (when (fn? init) (namespace (symbol (main/demunge (.getName (class init))))))]
    (if place (str "(a map of " place ")") "(a map)")))

(defn- label-of [behaviour]
  (cond
    (map? behaviour) (:name behaviour (map-label behaviour))
    (var? behaviour) (symbol behaviour)
    (symbol? behaviour) behaviour
    :else (ns-name behaviour)))

(defn- callable? [source word]
  (let [x (lookup source word)]
    (and (ifn? x) (or (not (var? x)) (not (.hasRoot ^Var x)) (ifn? @x)))))

(defn- check-callback
  "Refuses a callback that is there and cannot be called, and a near miss of one that is not."
  [kind label source word]
  (when-not (callable? source word)
    (when (or (some? (value-of source word)) (meant-for kind source word))
      (missing kind label source word))))

(defn- checked [kind label source]
  (misspelt kind label source)
  (doseq [word (:required kind)]
    (when-not (callable? source word)
      (missing kind label source word)))
  (run! #(check-callback kind label source %) (:expected kind)))

(defn- as-found
  "The kind of this very callback module: the expected callbacks that it has are required when it is redefined."
  [{:keys [expected whole] :as kind} source]
  (let [found (filterv #(callable? source %) expected)]
    (cond
      (empty? found) kind
      (= found expected) whole ; shared by all such servers
      :else (assoc kind :required (into [:init] found) :expected (vec (remove (set found) expected))))))

(defn- lost [source word]
  (throw (ex-info (str "The callback module " (symbol source) " has no " (name word) " any more, which a server needs; found: " (names (found source)) ".")
                  {:magnetar/reason :magnetar/missing-callback :missing word})))

(defn hot
  "The callback as a function that follows redefinitions; nil if there is no such callback."
  [source word]
  (if (and (var? source) (callable? source word))
    (fn [& args] (apply (or (lookup source word) (lost source word)) args))
    (lookup source word)))

(defn of-kind
  "The callback module of a server of the kind, checked: an error names what is missing, and what was found. (details label source), if given, is
  what else the kind knows of it."
  (^Behaviour [kind x] (of-kind kind x (fn [_ _])))
  (^Behaviour [kind x details]
   (let [source (source-of x)
         label (label-of x)]
     (checked kind label source)
     (Behaviour. label source (hot source :handle-call) (hot source :handle-cast) (details label source)
                 (as-found kind source)))))

;; ---- a wrong number of arguments

(defn- states-of
  "The functions of states by their names, where the kind has some."
  [{:keys [of-states]} source]
  (when of-states
    (if (instance? Namespace source)
      (update-vals (apply dissoc (ns-publics source) '[init callback-mode handle-event terminate code-change format-status]) deref)
      (value-of source :states))))

(defn- called
  "The functions that a server of the kind calls: [name, what it is called with, function] of each."
  [{:keys [arguments of-states] :as kind} source]
  (concat (for [[word args] arguments] [(name word) args (value-of source word)])
          (for [[state f] (states-of kind source)] [(arguments/show state) of-states f])))

(defn wrong-arity
  "What the error says, if it is that a callback does not take the arguments that it is called with; nil of other errors."
  [^Behaviour behaviour t]
  (when (instance? ArityException t)
    (let [^ArityException t t]
      (some (fn [[word args f]]
              (when (and (fn? f) (= (count args) (.-actual t)) (= (.-name t) (.getName (class f))))
                (str (ex-message t) ": the callback " word " of " (.-label behaviour) " is called with " args ".")))
            (called (.-kind behaviour) (.-source behaviour))))))

(defn recheck
  "Refuses a callback module that has lost a callback since it was checked."
  [^Behaviour behaviour]
  (checked (.-kind behaviour) (.-label behaviour) (.-source behaviour)))

(defn callback
  "The callback of this name, or nil; looked up each time, so that it follows what is redefined."
  [^Behaviour behaviour word]
  (lookup (.-source behaviour) word))
