(ns magnetar.impl.actor.global
  "The tables behind `magnetar.global` on one node: the names of its own processes, the names of processes on other
  nodes, and locks. The server of a cluster fills the second one, and is asked instead where all nodes have to know.

  An own claim goes when its process dies, before links and monitors are told. So the node of a process is the one that
  can say whether a name is taken."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; From a name to the claim of its process, {:pid :clean-up :number :rank :resolve}. The process owns the clean-up.
(defonce ^:private real-names (atom {}))

;; From a name to the pid of a process on another node.
(defonce ^:private real-others (atom {}))

;; From a resource to its lock, {:requester :holders}. The holders are a map from a pid to {:times :clean-up}.
(defonce ^:private real-locks (atom {}))

;; The server of the cluster as {:pid :ask}, or nil. (ask node request) calls the server of the node.
(defonce ^:private real-server (atom nil))

(defn names
  "The claims of processes of this node."
  []
  (environment/local real-names ::names {}))

(defn others
  "The names that processes of other nodes have."
  []
  (environment/local real-others ::others {}))

(defn locks
  "The locks that this node keeps."
  []
  (environment/local real-locks ::locks {}))

(defn- server []
  (environment/local real-server ::server nil))

;; ---- the server of the cluster

(defn- without-holder
  "The locks when the process has ended each of its holds."
  [locks resource pid]
  (let [{:keys [holders]} (locks resource)
        left (dissoc holders pid)]
    (if (seq left) (assoc-in locks [resource :holders] left) (dissoc locks resource))))

(defn- without-others
  "The locks without the holds of processes on other nodes."
  [locks]
  (reduce (fn [locks [resource pid]] (without-holder locks resource pid))
          locks
          (for [[resource {:keys [holders]}] locks
                ^Pid pid (keys holders)
                :when (pos? (.node pid))]
            [resource pid])))

(defn serve
  "Makes the process the server of this node's cluster, until it ends. (ask node request) calls the server of a node."
  [pid ask]
  (let [entry {:pid pid :ask ask}
        server (server)
        others (others)
        locks (locks)]
    (reset! server entry)
    (owned/own pid (owned/clean-up (fn [_]
                                     (when (compare-and-set! server entry nil)
                                       (reset! others {})
                                       (swap! locks without-others)))))))

(defn asker
  "The function that calls the server of a node, or nil if this node is in no cluster."
  []
  (:ask @(server)))

;; ---- names

(defn holder
  "The process of the claim if it is alive, else nil."
  [{:keys [^Pid pid]}]
  (when (and pid (.isAlive pid)) pid))

(defn forget
  "Removes the name if it belongs to the process."
  [names name pid]
  (swap! names #(if (= pid (:pid (% name))) (dissoc % name) %)))

(defn- put
  "Puts the claim unless another process has the name, or in any case: :yes or :no."
  [names name {:keys [pid clean-up] :as claim} force?]
  (let [[before after] (swap-vals! names #(if (and (not force?) (holder (% name))) % (assoc % name claim)))
        mine? (identical? claim (after name))
        {lost :pid clean-up' :clean-up} (if mine? (before name) {:pid pid :clean-up clean-up})]
    (when lost
      (owned/disown lost clean-up'))
    (when (owned/dying? pid)
      (forget names name pid))
    (if mine? :yes :no)))

(defn claim
  "Gives the name to a process of this node: :yes, or :no if a process has it, unless it is taken from that one by force. :yes also for a dead
  process, whose name is free again."
  [name pid resolve force?]
  (let [names (names)
        clean-up (owned/clean-up #(forget names name %))
        fiber (Fiber/current)]
    (cond
      (and (not force?) (holder (@names name))) :no
      (owned/own pid clean-up) (put names name
                                    {:pid pid
                                     :clean-up clean-up
                                     :number (.nextId fiber)
                                     :rank (.random fiber Integer/MAX_VALUE)
                                     :resolve resolve}
                                    force?)
      :else :yes)))

(defn release
  "Takes the name of a process of this node back, if the claim has the number; any number for nil."
  [name number]
  (let [[before after] (swap-vals! (names) #(if (or (nil? number) (= number (:number (% name)))) (dissoc % name) %))]
    (when (and (before name) (not (after name)))
      (owned/disown (:pid (before name)) (:clean-up (before name))))))

(defn find-name
  "The pid of the process that has the name, or nil. A process whose node is lost has none, also before the server has heard of it."
  [name]
  (or (holder (@(names) name))
      (when-some [pid (@(others) name)]
        (when (nodes/connected? pid) pid))))

(defn known-names
  "All names that live processes have."
  []
  (into [] (distinct) (concat (eduction (comp (filter (comp holder val)) (map key)) @(names)) (eduction (comp (filter (comp nodes/connected? val)) (map key)) @(others)))))

;; ---- locks

(defn- with-holder [locks [resource requester] pid clean-up]
  (if (contains? #{nil requester} (:requester (locks resource) requester))
    (-> locks
        (assoc-in [resource :requester] requester)
        (update-in [resource :holders pid] (fn [hold] {:times (inc (long (:times hold 0))) :clean-up (:clean-up hold clean-up)})))
    locks))

(defn- times-of [locks [resource requester] pid]
  (let [{holder :requester :keys [holders]} (locks resource)]
    (if (and holders (= holder requester)) (long (:times (holders pid) 0)) 0)))

(defn free
  "Ends all holds of the process on the resource."
  [resource pid]
  (swap! (locks) without-holder resource pid))

(defn lock
  "Lets the process hold the lock once more; false if another requester has it. `clean-up` is what a process of this node owns, else nil."
  [[resource :as id] pid clean-up]
  (let [[before after] (swap-vals! (locks) with-holder id pid clean-up)
        locked? (< (long (times-of before id pid)) (long (times-of after id pid)))]
    (when (and locked? clean-up (owned/dying? pid))
      (free resource pid))
    locked?))

(defn lock-here
  "`lock` for a process of this node, whose holds end with it."
  [[resource :as id] pid]
  (let [locks (locks)
        clean-up (owned/clean-up #(swap! locks without-holder resource %))]
    (if (or (pos? (long (times-of @locks id pid))) (owned/own pid clean-up))
      (let [locked? (lock id pid clean-up)]
        (when-not (identical? clean-up (get-in @locks [resource :holders pid :clean-up]))
          (owned/disown pid clean-up))
        locked?)
      true))) ; dead: the lock is free again

(defn- one-less [locks [resource :as id] pid]
  (case (long (times-of locks id pid))
    0 locks
    1 (without-holder locks resource pid)
    (update-in locks [resource :holders pid :times] dec)))

(defn unlock
  "Ends one hold of the process, if it has one; true if it has no hold on the resource now."
  [[resource :as id] pid]
  (let [[before after] (swap-vals! (locks) one-less id pid)
        gone? (nil? (get-in after [resource :holders pid]))]
    (when-let [clean-up (and gone? (get-in before [resource :holders pid :clean-up]))]
      (owned/disown pid clean-up))
    gone?))
