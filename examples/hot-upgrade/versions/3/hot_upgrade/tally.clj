(ns hot-upgrade.tally
  "Version 3: has a mistake. It changes the state of the servers one after the other, until one has a client that it does not understand."
  {:version 3})

(defn init [_]
  [:ok []])

(defn handle-call [[_ client] _ visits]
  (let [visits (conj visits client)]
    [:reply {:version 3 :visits (count (filter #{client} visits))} visits]))

(defn code-change [_ {:keys [clients]} _]
  [:ok (vec (for [[client n] clients, _ (range n)]
              (if (= 3 client)
                (throw (ex-info "The client 3 was forgotten." {:client client}))
                client)))])
