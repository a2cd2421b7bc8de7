(ns magnetar.cluster.impl.claims
  "What a node knows of global names, as values: the claims of its own processes, and those that other nodes have told it.

  A claim is {:id [node creation number] :pid pid :rank random :over {id effect}}. It has beaten the claims whose ids are
  in :over. Of a state only :me, :own (name -> claim) and :claims (name -> node -> claim) are used."
  {:no-doc true})

(defn node-of
  "The node that has the claim."
  [{:keys [id]}]
  (first id))

(defn told
  "What other nodes are told of an own claim."
  [claim]
  (select-keys claim [:id :pid :rank :over]))

(defn known
  "All claims of the name."
  [{:keys [own claims]} name]
  (let [others (vals (claims name))]
    (if-some [mine (own name)] (cons mine others) others)))

(defn beaten
  "From the ids of beaten claims to what happens to their processes."
  [known]
  (into {} (map :over) known))

(defn live
  "The claims that no other one has beaten."
  [known]
  (let [over (beaten known)]
    (remove #(contains? over (:id %)) known)))

(defn stronger?
  "Is the first claim the one that stays, where chance decides? The order is total, so of several claims one is never beaten."
  [a b]
  (pos? (compare [(:rank a) (:id a)] [(:rank b) (:id b)])))

(defn best
  "The strongest claim, or nil."
  [claims]
  (when (seq claims)
    (reduce #(if (stronger? %1 %2) %1 %2) claims)))

(defn rivals
  "The pairs of claims that a resolver has to decide, each with the claim first whose node decides."
  [live]
  (let [sorted (sort-by :id live)]
    (for [[first-claim & others] (take-while seq (iterate rest sorted))
          other others]
      [first-claim other])))

(defn put
  "The state with the claim of another node."
  [state name node claim]
  (assoc-in state [:claims name node] claim))

(defn without
  "The state without the claim of another node."
  [state name node]
  (let [left (dissoc (get-in state [:claims name]) node)]
    (if (seq left) (assoc-in state [:claims name] left) (update state :claims dissoc name))))

(defn names-of
  "The names that the other node has claims of."
  [{:keys [claims]} node]
  (for [[name by-node] claims
        :when (contains? by-node node)]
    name))
