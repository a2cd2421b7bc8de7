(ns magnetar.impl.mix
  "Mixes many channels into one, each of them to be soloed, muted or paused."
  {:no-doc true}
  (:require
   [magnetar.impl.environment :as environment]
   [magnetar.impl.fibers :refer [background]]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.refusals :as refusals]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.channel Buffer Channel)))

(set! *warn-on-reflection* true)

(def solo-modes #{:mute :pause})

(defn state
  "The state of a mix: what is mixed in (channel -> modes, with a number for their order), the solo mode, and the channel that says that it changed."
  []
  {:inputs (atom {})
   :solo-mode (atom :mute)
   :change (Channel/of (Buffer/sliding 1))})

(defn changed [{:keys [change]}]
  (ports/offer change true))

(defn modes
  "The argument of `toggle`, or throws."
  [state-map]
  (when-not (or (nil? state-map) (map? state-map))
    (throw (refusals/wrong-value "toggle" "a map of channels to modes" state-map)))
  (run! #(when-not (or (nil? %) (map? %)) (throw (refusals/wrong-kind "toggle" "a map for each channel, as in {:mute true}" %))) (vals state-map))
  state-map)

(defn- numbered [inputs]
  (reduce-kv (fn [all ch modes] (if (::number modes) all (assoc-in all [ch ::number] (environment/number)))) inputs inputs))

(defn change-inputs [{:keys [inputs] :as mix} f & args]
  (swap! inputs #(numbered (apply f % args)))
  (changed mix))

(defn change-solo-mode [{:keys [solo-mode] :as mix} mode]
  (assert (solo-modes mode) (str "mode must be one of: " solo-modes))
  (reset! solo-mode mode)
  (changed mix))

(defn- with-mode [mode inputs]
  (into #{} (keep (fn [[ch modes]] (when (mode modes) ch))) inputs))

(defn- in-order
  "The channels among the inputs, in an order that a simulation repeats."
  [inputs chs]
  (environment/in-order #(::number (inputs %)) chs))

(defn- plan [{:keys [inputs solo-mode change]}]
  (let [inputs @inputs
        solos (with-mode :solo inputs)]
    {:solos solos
     :mutes (with-mode :mute inputs)
     :reads (conj (if (and (= :pause @solo-mode) (seq solos))
                    (vec (in-order inputs solos))
                    (into [] (remove (with-mode :pause inputs)) (in-order inputs (keys inputs))))
                  change)}))

(defn- heard? [{:keys [solos mutes]} ch]
  (or (solos ch)
      (and (empty? solos) (not (mutes ch)))))

(defn- give
  "Puts the value on `out`; false once that is closed. If code of its own throws, that is reported, and the mix goes on."
  [out value]
  (try
    (ports/put out value)
    (catch Throwable e
      (reports/report e)
      true)))

(defn start
  "Starts the fiber that mixes into `out` until that is closed."
  [site {:keys [inputs change] :as mix} out]
  (background site
    (loop [now (plan mix)]
      (let [[value ch] (ports/alts (:reads now) {})]
        (cond
          (identical? ch change) (recur (plan mix))
          (nil? value) (do (swap! inputs dissoc ch) (recur (plan mix)))
          (not (heard? now ch)) (recur now)
          (give out value) (recur now))))))
