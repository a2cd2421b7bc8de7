(ns magnetar.resilience.breaker
  "A circuit breaker as a value: {:state :since :epoch :results :trials}, and what a call that begins and a call that ends make of it.

  An epoch lasts as long as a state. What a call of an earlier epoch comes to does not count."
  {:no-doc true})

(set! *warn-on-reflection* true)

(def closed
  "A breaker that has seen no call."
  {:state :closed :epoch 0 :since 0 :results [] :trials 0})

(defn- turned
  "The breaker in a new state."
  [breaker state at]
  (-> (select-keys breaker [:epoch])
      (update :epoch inc)
      (assoc :state state :since at :results [] :trials 0)))

(defn admit
  "The breaker after a call has asked to pass; :pass? says whether it may."
  [{:keys [state ^long since trials] :as breaker} {:keys [delay success-threshold]} ^long at]
  (cond
    (= :closed state) (assoc breaker :pass? true)
    (and (= :open state) (< (- at since) (long delay))) (assoc breaker :pass? false)
    (= :open state) (assoc (turned breaker :half-open at) :trials 1 :pass? true)
    :else (let [pass? (< (+ (long trials) (count (:results breaker))) (long success-threshold))]
            (cond-> (assoc breaker :pass? pass?)
              pass? (update :trials inc)))))

(defn- settle-closed [{:keys [results] :as breaker} {:keys [failure-threshold]} good? at]
  (let [[limit window] failure-threshold
        results (vec (take-last window (conj results good?)))]
    (if (<= (long limit) (count (remove true? results)))
      (turned breaker :open at)
      (assoc breaker :results results))))

(defn- settle-half-open [{:keys [results] :as breaker} {:keys [success-threshold]} good? at]
  (let [breaker (-> breaker (update :trials dec) (update :results conj good?))]
    (cond
      (not good?) (turned breaker :open at)
      (<= (long success-threshold) (inc (count results))) (turned breaker :closed at)
      :else breaker)))

(defn settle
  "The breaker after a call that it let pass in this epoch has ended; good? is nil for one that was cancelled."
  [{:keys [state] :as breaker} how epoch good? at]
  (cond
    (not= epoch (:epoch breaker)) breaker
    (nil? good?) (cond-> breaker (= :half-open state) (update :trials dec))
    (= :closed state) (settle-closed breaker how good? at)
    :else (settle-half-open breaker how good? at)))

(defn failures
  "How many of the calls that count have failed."
  [{:keys [results]}]
  (count (remove true? results)))
