(ns magnetar.histories
  "Histories of operations on shared objects, and whether a sequential model explains them."
  (:require
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Cancelled Exit)))

(set! *warn-on-reflection* true)

(defn history
  "An empty history."
  []
  (volatile! {:clock 0 :ops []}))

(defn- tick [history]
  (:clock (vswap! history update :clock inc)))

(defn record
  "Does the operation f, and writes into the history when it began, when it ended, and its result; one that was cancelled or has not ended may or may
  not have had its effect."
  [history op f]
  (let [from (tick history)
        i (count (:ops @history))]
    (vswap! history update :ops conj {:op op :from from})
    (let [result (try (f) (catch Cancelled _ ::gone) (catch Exit _ ::gone))
          to (tick history)]
      (vswap! history update-in [:ops i] assoc :to to :result result)
      result)))

(defn- ended? [{:keys [to result]}]
  (and to (not= ::gone result)))

(defn- minimal
  "Those operations that no other one has ended before."
  [ops]
  (let [first-end (reduce min Long/MAX_VALUE (keep #(when (ended? %) (:to %)) ops))]
    (filter #(< (long (:from %)) (long first-end)) ops)))

(defn- without [ops op]
  (vec (remove #(identical? op %) ops)))

(defn- next-states
  "What the model can make of doing the operation next; one without a result may have any."
  [step state {:keys [op result] :as operation}]
  (for [[state' result'] (step state operation)
        :when (or (not (ended? operation)) (= result result'))]
    state'))

(defn linearizable?
  "True if the operations of the history, in some order that respects which ended before which began, are what the model does: `step` gives of a
  state and an operation (with its :op, :from and :to) all [state result] that may follow, none if it has to wait. `final?` says in which states all may rest."
  [history initial step final?]
  (let [seen (volatile! #{})
        explain (fn explain [state ops]
                  (when-not (@seen [state ops])
                    (vswap! seen conj [state ops])
                    (or (and (final? state) (not-any? ended? ops))
                        (some (fn [op] (some #(explain % (without ops op)) (next-states step state op)))
                              (minimal ops)))))]
    (boolean (explain initial (:ops @history)))))

;; --- the model of channels

(def channels
  "The initial state of the model of channels; a put without a buffer has to be followed by its take,
  which began before it ended."
  {:owed nil})

(defn- put-step [{:keys [owed] :as state} [_ c v capacity] to]
  (let [{:keys [queue closed]} (get state c {:queue []})]
    (cond
      owed []
      closed [[state false]]
      (pos? (long capacity)) (if (< (count queue) (long capacity)) [[(assoc state c {:queue (conj queue v)}) true]] [])
      :else [[(assoc state :owed [c v (or to Long/MAX_VALUE)]) true]])))

(defn- take-step [{:keys [owed] :as state} c from]
  (let [{:keys [queue closed]} (get state c {:queue []})]
    (cond
      owed (if (and (= c (first owed)) (< (long from) (long (nth owed 2)))) [[(assoc state :owed nil) (second owed)]] [])
      (seq queue) [[(assoc-in state [c :queue] (subvec queue 1)) (first queue)]]
      closed [[state nil]]
      :else [])))

(defn- close-step [{:keys [owed] :as state} c]
  (if owed [] [[(-> state (update-in [c :queue] #(or % [])) (assoc-in [c :closed] true)) nil]]))

(defn channel-step
  "[:put c v capacity], [:take c], [:close c], [:alts [c ..]], whose result is [value c]."
  [state {[kind c :as op] :op :keys [from to]}]
  (case kind
    :put (put-step state op to)
    :take (take-step state c from)
    :close (close-step state c)
    :alts (for [c c, [state' v] (take-step state c from)] [state' [v c]])))

(defn explained?
  "True if the model of channels explains the history."
  [history]
  (linearizable? history channels channel-step #(nil? (:owed %))))
