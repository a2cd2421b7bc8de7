(ns magnetar.gen-event.erlang
  "Requests to event managers, in the words of this library and of Erlang. Handlers of Erlang are atoms, which are keywords here, or
  [atom id]."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.otp.erlang :as erlang]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

;; ---- to a manager of Erlang

(defn- handler [operation x]
  (let [[base id :as pair] (if (vector? x) x [x])]
    (if (and (or (keyword? base) (symbol? base)) (<= (count pair) 2))
      (if (vector? x) [(keyword base) id] (keyword base))
      (arguments/misuse :magnetar/bad-handler
                        (str "`" operation "` wants a handler of Erlang as a keyword, the name of its module, or [keyword id]; this is "
                             (arguments/show x) ".")
                        {:handler x}))))

(defn asked
  "The request in Erlang's words; `operation` names the function that the program called."
  [operation [word a b c d e]]
  (let [named #(handler operation %)]
    [:magnetar/event
     (case word
       :add-handler (if c [:add_sup_handler (named a) b c] [:add_handler (named a) b])
       :swap-handler (cond-> [(if e :swap_sup_handler :swap_handler) (named a) b (named c) d] e (conj e))
       :delete-handler [:delete_handler (named a) b]
       :which-handlers :which_handlers
       :sync-notify [:sync_notify a]
       :call [:call (named a) b])]))

(def ^:private own-errors
  {[:error :bad_module] [:error :bad-module], [:error :module_not_found] [:error :module-not-found]})

(defn answered
  "The answer of a manager of Erlang to the request of this library."
  [[word] value]
  (if (= :which-handlers word)
    (vec value)
    (own-errors value value)))

;; ---- to a manager here

(defn index-of
  "Where the handler is that Erlang means; nil if it is not there."
  [handlers x]
  (first (keep-indexed (fn [at {:keys [known-by]}] (when (= x (erlang/term known-by)) at)) handlers)))

(defn undefined
  "What Erlang answers if a handler has no code there. No node can start a handler on another one by its name."
  [handler argument]
  (let [module (if (vector? handler) (first handler) handler)]
    [:EXIT [:undef (list [module :init (list argument) ()])]]))

(defn names
  "The handlers as Erlang lists them."
  [handlers]
  (apply list (map #(erlang/term (:known-by %)) handlers)))

(defn states
  "The states of the handlers as the `sys` of Erlang shows them: {Module, Id, State}, with the id false for a handler without one."
  [handlers]
  (apply list (for [{:keys [known-by state]} handlers
                    :let [[module id] (if (vector? known-by) known-by [known-by false])]]
                [(erlang/term module) (erlang/term id) state])))
