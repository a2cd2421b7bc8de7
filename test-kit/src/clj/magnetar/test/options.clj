(ns magnetar.test.options
  "What may be asked of a simulation or a search; what will not do is refused before anything runs."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]))

(set! *warn-on-reflection* true)

(def ^:private of-a-run
  #{:seed :strategy :depth :length :max-steps :patience-ms :grace-ms :log :faults :fault-rate :max-faults :victims :schedule :repeats})

(def ^:private of-a-search
  (into of-a-run [:runs :properties :preemptions :replay :report]))

(def ^:private fault-kinds
  #{:kill :crash-node :cut-link :flap :lose-message :delay-signals :early-timers :late-timers})

(def ^:private choice-kinds
  (into fault-kinds [:kill-passivated :preempt :prefer]))

(defn- refuse [reason k wanted value]
  (arguments/misuse reason (str k " is " wanted "; this is " (arguments/show value) ".") {k value}))

(defn- listed [ks]
  (str/join ", " (sort ks)))

(defn- seed [{:keys [seed] :as options}]
  (when (and (contains? options :seed) (not (int? seed)))
    (refuse :magnetar/bad-option :seed "a whole number, as the report of a run gives it" seed)))

(defn- counts [options ks]
  (doseq [k ks :when (contains? options k)]
    (arguments/whole (str k) (get options k) Integer/MAX_VALUE)))

(defn- counts-from-0 [options ks]
  (doseq [k ks :let [n (get options k)] :when (and (contains? options k) (not (and (nat-int? n) (<= (long n) Integer/MAX_VALUE))))]
    (refuse :magnetar/bad-option k "a whole number from 0 up" n)))

(defn- faults [{:keys [faults fault-rate victims]}]
  (when-not (or (nil? faults) (set? faults) (sequential? faults))
    (refuse :magnetar/bad-option :faults (str "a set of " (listed fault-kinds)) faults))
  (when-let [unknown (first (remove fault-kinds faults))]
    (arguments/misuse :magnetar.test/unknown-fault
                      (str "There is no fault " (arguments/show unknown) "; there are " (listed fault-kinds) ".") {:fault unknown}))
  (when-not (or (nil? fault-rate) (and (number? fault-rate) (<= 0 fault-rate 1)))
    (refuse :magnetar/bad-option :fault-rate "a probability from 0 to 1" fault-rate))
  (arguments/option-function ":victims" victims "{:victims #(re-find #\"server\" %)}"))

(defn- choice? [{:keys [fiber point what target]}]
  (and (nat-int? fiber) (pos-int? point) (choice-kinds what) (or (nil? target) (nat-int? target))))

(defn- schedule [schedule]
  (when-not (or (nil? schedule) (and (sequential? schedule) (every? map? schedule) (every? choice? schedule)))
    (refuse :magnetar/bad-option :schedule "the :schedule of a run or of a report, a vector of maps" schedule)))

(defn- strategy [known {:keys [strategy]}]
  (when-not (or (nil? strategy) (contains? known strategy))
    (arguments/misuse :magnetar.test/unknown-strategy
                      (str "There is no strategy " (arguments/show strategy) " here; there are :uniform and :priorities, and :exhaustive for `check`.")
                      {:strategy strategy})))

(defn- a-run [operation known strategies options]
  (arguments/options operation known options)
  (seed options)
  (counts options [:depth :length :max-steps :patience-ms])
  (counts-from-0 options [:grace-ms :max-faults :repeats])
  (faults options)
  (strategy strategies options)
  (schedule (:schedule options)))

(defn of-simulate
  "Refuses what `simulate` does not take."
  [options]
  (a-run "simulate" of-a-run #{:uniform :priorities} options))

(defn- replay [options]
  (when-some [again (:replay options)]
    (when-not (and (map? again) (int? (:seed again)) (:schedule again))
      (refuse :magnetar/bad-option :replay "{:seed n :schedule [..]}, as a report gives it" again))
    (schedule (:schedule again))))

(defn of-check
  "Refuses what `check` does not take."
  [options]
  (a-run "check" of-a-search #{:uniform :priorities :exhaustive} options)
  (counts options [:runs])
  (counts-from-0 options [:preemptions])
  (when-not (or (nil? (:properties options)) (coll? (:properties options)))
    (refuse :magnetar/bad-option :properties "a vector, as in [:no-leaked-fiber]" (:properties options)))
  (arguments/option-function ":report" (:report options) "{:report println}")
  (replay options))
