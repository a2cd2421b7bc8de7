(ns magnetar.histories.holder
  "A singleton that holds an object: a server with its value in memory, over a storage outside of the cluster.

  It asks the storage for each operation if its token is the newest. With the defect :blind-reads it reads from memory."
  (:require
   [magnetar.gen-server :as gs]
   [magnetar.histories.objects :refer [objects]]))

(set! *warn-on-reflection* true)

(defn object
  "An object of the model, maybe with a defect, :no-tokens or :blind-reads."
  ([model] (object model :sound))
  ([model defect] {:name (keyword model (name defect)) :model model :defect defect}))

(defn- init [{:keys [connect token] {:keys [name model]} :object :as state}]
  (let [ask (connect)
        [_ value :as answer] (ask [:open name token])]
    (if (= :stale answer)
      [:stop :stale]
      [:ok (assoc state :ask ask :f (second (objects model)) :value value)])))

(defn- accepted?
  "Has the storage taken the value, which a read does not change?"
  [input next {:keys [ask token] {:keys [name defect]} :object}]
  (or (and (= :blind-reads defect) (= "read" (:f input)))
      (not= :stale (ask [:write name token next]))))

(defn- operate [input {:keys [f value] :as state}]
  (let [[next output] (f value input)]
    (if (accepted? input next state)
      [:reply output (assoc state :value next)]
      [:stop :stale :stale state])))

(def ^:private callbacks
  {:init init
   :handle-call (fn [input _ state] (operate input state))
   :handle-cast (fn [_ state] [:noreply state])})

(defn start-link
  "Starts the holder of the object. `connect` returns a function that asks the storage."
  [object connect token]
  (gs/start-link callbacks {:object object :connect connect :token token}))

(defn ask
  "What the holder at the address answers to the input, or nil if it is not known what has happened. It is :failed if nothing
  has: there was no holder, or the storage has refused the token."
  [address input timeout]
  (try
    (let [output (gs/call address input {:timeout timeout})]
      (if (= :stale output) :failed output))
    (catch clojure.lang.ExceptionInfo e
      (when (= :noproc (:reason (ex-data e))) :failed))
    (catch magnetar.TimeoutException _)))
