(ns mount.core
  "A stand-in for mount where that cannot be fetched: as much of its public protocol as the guide uses.")

(defonce ^:private states (atom []))

(defn ^:no-doc add
  "Makes a state known."
  [v start stop]
  (swap! states conj {:var v :start start :stop stop}))

(defmacro defstate
  "Defines a state that `start` makes and `stop` ends."
  [state & {:keys [start stop]}]
  `(do
     (def ~state)
     (add (var ~state) (fn [] ~start) (fn [] ~stop))))

(defn- chosen [vars]
  (filter #(some #{(:var %)} vars) @states))

(defn start
  "Starts the states, in the order of their definitions."
  [& vars]
  (doseq [{:keys [var start]} (chosen vars)]
    (let [value (start)]
      (alter-var-root var (constantly value)))))

(defn stop
  "Stops the states, in reverse."
  [& vars]
  (doseq [{:keys [stop]} (reverse (chosen vars))]
    (stop)))
