(ns magnetar.test.nodes
  "The nodes of a simulation."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.sim NodeCall Nodes Simulation)))

(set! *warn-on-reflection* true)

(defn refuse-outside
  "Refuses an operation on nodes outside of a simulation."
  [operation]
  (when-not (Simulation/isInside)
    (throw (errors/illegal-state :magnetar.test/not-simulated
                                 (str "`" operation "` was called outside of a simulation, where there are no nodes: call it in the body of `simulate` or `check`.")
                                 {}))))

(defn text
  "The name as the simulator has it."
  ^String [name]
  (when-not (and (keyword? name) (nil? (namespace name)) (re-matches #"[\w.-]+" (clojure.core/name name)))
    (arguments/misuse :magnetar.test/bad-node-name
                      (str "The name of a node is a keyword of letters, digits, `-`, `_` and `.`, as :a; this is " (arguments/show name) ".") {:name name}))
  (clojure.core/name name))

(defn running
  "The names of the nodes that run."
  []
  (mapv keyword (Nodes/names)))

(defn- running? [name]
  (boolean (some #{name} (running))))

(defn no-node
  "The error that there is no such node."
  [name]
  (errors/illegal-state :magnetar.test/no-node
                        (str "There is no node " name (if (Nodes/isKnown (text name)) ", because it has crashed: start it again with `restart-node`." ": start it with `start-node`.")
                             (if-let [others (seq (running))] (str " These run: " (str/join ", " others) ".") " No node runs."))
                        {:name name}))

(defn of-running
  "The name as the simulator has it, of a node that runs."
  ^String [operation name]
  (refuse-outside operation)
  (let [text (text name)]
    (when-not (running? name) (throw (no-node name)))
    text))

(defn- skew-nanos
  "By how many nanoseconds the clock is ahead."
  ^long [skew]
  (when-not (and (int? skew) (< -1000000000000 (long skew) 1000000000000))
    (arguments/misuse :magnetar/bad-option (str ":skew is a whole number of milliseconds, also below 0; this is " (arguments/show skew) ".") {:skew skew}))
  (* 1000000 (long skew)))

(defn- drift
  "By how many parts of a million the clock is faster."
  ^long [rate]
  (when-not (and (number? rate) (<= 1/2 rate 2))
    (arguments/misuse :magnetar/bad-option (str ":rate is a number from 0.5 to 2, where 1 is the clock of the simulation; this is " (arguments/show rate) ".") {:rate rate}))
  (Math/round (* 1e6 (- (double rate) 1))))

(defn start
  "See `magnetar.test/start-node`."
  [name {:keys [skew rate] :or {skew 0 rate 1} :as options}]
  (refuse-outside "start-node")
  (arguments/options "start-node" [:skew :rate] options)
  (let [text (text name)]
    (when (running? name)
      (throw (errors/illegal-state :magnetar.test/node-runs (str "There is a node " name " already: give this one another name, or crash the first with `crash-node`.")
                                   {:name name})))
    (Nodes/start text (skew-nanos skew) (drift rate))
    name))

(defn restart
  "See `magnetar.test/restart-node`."
  [name]
  (refuse-outside "restart-node")
  (let [text (text name)]
    (when-not (Nodes/isKnown text) (throw (no-node name)))
    (Nodes/restart text)
    name))

(defn crash
  "See `magnetar.test/crash-node`."
  [name]
  (Nodes/crash (of-running "crash-node" name))
  nil)

(defn call
  "See `magnetar.test/on-node`."
  [name f]
  (let [text (of-running "on-node" name)
        _ (arguments/function "on-node" f "(on-node :a #(spawn server))")
        ^NodeCall call (Nodes/call text (bound-fn* f))]
    (cond
      (.hasCrashed call) (throw (errors/illegal-state :magnetar.test/node-crashed
                                                      (str "The node " name " crashed before the function had ended. What the function has sent is not undone.") {:name name}))
      (.error call) (throw (.error call))
      :else (.value call))))
