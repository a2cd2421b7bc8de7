(ns hot-upgrade.tally
  "Version 2: keeps the sum of all visits beside them; the state has another shape."
  {:version 2})

(defn init [_]
  [:ok {:clients {} :sum 0}])

(defn handle-call [[_ client] _ state]
  (let [state (-> state (update-in [:clients client] (fnil inc 0)) (update :sum inc))]
    [:reply {:version 2 :visits (get-in state [:clients client]) :sum (:sum state)} state]))

(defn code-change [old state _]
  (case (long old)
    1 [:ok {:clients state :sum (reduce + (vals state))}]
    2 [:ok state]))
