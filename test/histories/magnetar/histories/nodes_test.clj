(ns magnetar.histories.nodes-test
  "A register, a counter and a set that singletons of three JVMs hold, over a storage outside of the cluster, while nodes are
  cut off, suspended for longer than the lease, and killed.

  The histories are linearizable under each policy, since the storage refuses old tokens. Without tokens they are so under
  each policy except :allow, unless a node is suspended. A script shows what is found then."
  {:limit 400000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.histories.checker :as checker]
   [magnetar.histories.holder :as holder]
   [magnetar.histories.machines :as machines :refer [ask wait-until with-nodes]]
   [magnetar.histories.objects :refer [inputs objects]]
   [magnetar.histories.record :as record]
   [magnetar.histories.store :as store]
   [magnetar.histories.strikes :as strikes]
   [magnetar.scope :as scope :refer [fork with-scope]])
  (:import
   (java.util Random)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 2))

(def ^:private lease-ms 2000)

(defn- options [policy]
  {:detect {:after 2000 :every 500}
   :split-brain {:policy policy :quorum (when (= :static-quorum policy) 2) :lease lease-ms}})

;; ---- clients

(defn- histories
  "An empty history for each of the objects."
  [objects]
  (into {} (map (fn [{:keys [name model]}] [name (record/history model #(System/nanoTime))])) objects))

(defn- finished [histories]
  (mapv (fn [[name history]] (record/finished history name)) histories))

(defn- acknowledged
  "Tries the operation again and again, until the client learns that it happened."
  [history client input f]
  (wait-until #(map? (record/operate history client input f))))

(defn- told-again
  "Does the inputs with (ask input). After one of which a client is told nothing, it reads until it is told something."
  [history client over ask]
  (let [told (atom true)]
    (fn [input]
      (when-not @told
        (wait-until #(or @over (map? (record/operate history client {:f "read"} (fn [] (ask {:f "read"})))))))
      (let [output (ask input)]
        (reset! told (map? output))
        output))))

(defn- client
  "Works on the object over the node until `over` is true, and reads it at last."
  [machines history {:keys [name model]} number over]
  (let [node (machines/nodes number)
        asked #(ask machines node [:ask name %])
        inputs (take-while (fn [_] (not @over)) (inputs model number 1000))]
    (record/client history number inputs (told-again history number over asked) {:pause-ms 100 :rest-ms 100 :most-unknown 6})
    (wait-until #(deref over))
    (acknowledged history number {:f "read"} #(asked {:f "read"}))))

;; ---- strikes at random

(def ^:private damage-ms
  "Longer than a lease, and than the time of the detector."
  4500)

(defn- target
  "The node that has the object, or any."
  [machines random object]
  (let [node (strikes/drawn random machines/nodes)]
    (if (.nextBoolean ^Random random)
      (or (machines/holder machines node object) node)
      node)))

(defn- strike [machines random kind object]
  (let [node (target machines random object)]
    (case kind
      :halves (strikes/cut-off machines node damage-ms :both)
      :cut (strikes/cut-off machines node damage-ms (strikes/drawn random [:both :sends :gets]))
      :pair (strikes/cut-pair machines node (strikes/drawn random (remove #{node} machines/nodes)) damage-ms)
      :suspend (strikes/suspend machines node damage-ms)
      :kill (strikes/kill machines node damage-ms))
    (wait-until #(machines/served? machines))))

(defn- cut
  "How connections are cut. With :allow, in a way after which each part has a singleton for certain."
  [policy random]
  (if (= :allow policy) :halves (strikes/drawn random [:cut :pair])))

(defn- strike-all
  "A kill and a cut, during which objects without tokens have clients too; then a node is suspended."
  [machines random policy objects over]
  (doseq [kind (strikes/shuffled random [:kill (cut policy random)])]
    (strike machines random kind (first objects)))
  (reset! (over :no-tokens) true)
  (strike machines random :suspend (first objects))
  (reset! (over :sound) true))

(defn- struck
  "The histories of the objects, while nodes are struck three times."
  [policy seed objects]
  (let [random (Random. seed)
        histories (histories objects)
        over {:sound (atom false) :no-tokens (atom false)}]
    (with-nodes [machines {:objects objects :options (options policy)}]
      (with-scope [s]
        (doseq [{:keys [name defect] :as object} objects
                number (range 3)]
          (fork s client machines (histories name) object number (over defect)))
        (strike-all machines random policy objects over)))
    (mapv #(record/finished (histories (:name %)) (:name %)) objects)))

(defn- policy-of
  "The default first, and then the others in turn, from one that the seed says."
  [i seed]
  (if (zero? (long i))
    :keep-majority
    (nth [:static-quorum :keep-oldest :allow] (mod (long seed) 3))))

(defn- promised
  "The verdict of an object under the policy. Without tokens it shows if two singletons ran at once."
  [policy {:keys [defect]}]
  (if (= [:allow :no-tokens] [policy defect]) :illegal :ok))

(deftest a-policy-keeps-its-promise-whatever-happens-to-nodes
  (doseq [[i seed] (map-indexed vector (strikes/seeds runs))]
    (let [policy (policy-of i seed)
          objects (for [model (keys objects), defect [:sound :no-tokens]] (holder/object model defect))
          histories (struck policy seed objects)
          expected (mapv #(promised policy %) objects)
          verdicts (checker/verdicts histories)]
      (println (str "-Dmagnetar.seed=" seed ", " (name policy) ": " (reduce + (map (comp count :operations) histories)) " operations"))
      (is (= expected verdicts)
          (str policy ", seed " seed ", see " (checker/keep-wrong histories seed expected verdicts))))))

;; ---- a script: a write that is on its way when the next singleton begins

(def ^:private late-and-next
  "Two operations of each model. If the first one writes what it has made of the value before both, the second one is lost."
  {"register" [{:f "cas" :expected 0 :value 1} {:f "write" :value 2}]
   "counter" [{:f "add" :value 1} {:f "add" :value 10}]
   "set" [{:f "add" :value 1} {:f "add" :value 2}]})

(defn- token [{:keys [server]} {:keys [name]}]
  (get-in @(:store server) [name :token]))

(defn- overwritten?
  "Has the store taken the late write, if it takes old tokens?"
  [{:keys [server]} {:keys [name model defect]}]
  (let [[before f] (objects model)]
    (or (not= :no-tokens defect)
        (= (first (f before (first (late-and-next model)))) (get-in @(:store server) [name :value])))))

(def ^:private read-it {:f "read"})

(defn- old-and-other
  "The node that has the objects, and another one."
  [machines objects]
  (let [old (machines/holder machines "a" (first objects))]
    [old (first (remove #{old} machines/nodes))]))

(defn- operate
  "Lets the client of the node do something to the object: with :ask, or with :ask-kept by the pid that it has kept."
  [{:keys [machines histories]} node how {:keys [name]} input]
  (record/operate (histories name) (.indexOf ^java.util.List machines/nodes node) input #(ask machines node [how name input])))

(defn- do-told [world node how object input]
  (wait-until #(map? (operate world node how object input))))

(defn- during-late-writes
  "Calls f while the node is suspended, and its writes of the objects wait in front of the store. They go on after it, and the node."
  [{:keys [machines] :as world} node objects f]
  (with-scope [s]
    (let [gates (mapv #(store/hold (:server machines) (:name %)) objects)]
      (doseq [{:keys [model] :as object} objects]
        (fork s operate world node :ask object (first (late-and-next model))))
      (run! #(wait-until (fn [] (realized? (:reached %)))) gates)
      (ask machines node [:suspend-keepers])
      (let [go-on (machines/suspend machines node)]
        (f)
        (run! #(deliver (:opened %) true) gates)
        (go-on)))))

(defn- operate-on-next
  "Does an operation on each object when another node has it."
  [{:keys [machines] :as world} old other objects]
  (doseq [{:keys [model] :as object} objects]
    (wait-until #(not (contains? #{nil old} (machines/holder machines other object))))
    (do-told world other :ask object (second (late-and-next model)))))

(defn- read-from-old
  "Lets the client of the old node ask the singleton that it knew. One that answers without the store answers for certain."
  [world old objects]
  (doseq [{:keys [defect] :as object} objects]
    ((if (= :blind-reads defect) do-told operate) world old :ask-kept object read-it)))

(defn- read-from-store
  "Lets a singleton begin that reads what is in the store, and asks it."
  [{:keys [machines] :as world} node objects]
  (doseq [{:keys [name] :as object} objects
          :let [before (long (token machines object))]]
    (ask machines node [:kill-holder name])
    (wait-until #(< before (long (token machines object))))
    (do-told world node :ask object read-it)))

(defn- play
  "The node with the objects is suspended in the middle of writes. The next singletons begin, and do operations. Then the node goes on,
  and its client asks the old singletons. At last third ones begin. The keepers of the first are suspended, so that it does not
  depend on luck how long these live."
  [{:keys [machines] :as world} objects]
  (let [[old other] (old-and-other machines objects)]
    (run! #(ask machines old [:keep (:name %)]) objects)
    (during-late-writes world old (remove #(= :blind-reads (:defect %)) objects)
                        #(operate-on-next world old other objects))
    (run! #(wait-until (fn [] (overwritten? machines %))) objects)
    (read-from-old world old objects)
    (read-from-store world other objects)))

(deftest a-lost-write-and-a-stale-read-of-a-suspended-node-are-found
  (let [objects (for [model (keys objects), defect [:sound :no-tokens :blind-reads]] (holder/object model defect))
        histories (histories objects)]
    (with-nodes [machines {:objects objects :options (options :keep-majority)}]
      (play {:machines machines :histories histories} objects))
    (is (= (into {} (map (fn [{:keys [name defect]}] [name (if (= :sound defect) :ok :illegal)])) objects)
           (zipmap (keys histories) (checker/verdicts (finished histories)))))))
