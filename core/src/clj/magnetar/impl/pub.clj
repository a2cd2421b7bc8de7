(ns magnetar.impl.pub
  "Sends each value of a channel to the subscribers of its topic."
  {:no-doc true}
  (:require
   [magnetar.impl.fibers :refer [background]]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(def ^:private no-topic (Object.))

(defn- topic-of
  "The topic of the value; if the program's function throws, that is reported and the value has none."
  [topic-fn value]
  (try
    (topic-fn value)
    (catch Throwable e
      (reports/report e)
      no-topic)))

(defn- publish [mults muxch topic value]
  (when-some [mult (get @mults topic)]
    (when-not (ports/put (muxch mult) value)
      (swap! mults dissoc topic))))

(defn start
  "Starts the fiber that sends the values of `ch` to the mults in the atom `mults` (topic -> mult); `muxch` gives the channel
  of a mult. Closes those when `ch` closes."
  [site ch topic-fn mults muxch]
  (background site
    (loop []
      (let [value (ports/take ch)]
        (if (nil? value)
          (run! (comp ports/close muxch) (vals @mults))
          (do (publish mults muxch (topic-of topic-fn value) value)
              (recur)))))))
