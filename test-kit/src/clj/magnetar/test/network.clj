(ns magnetar.test.network
  "A network of bytes between the nodes of a simulation."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.test.nodes :as nodes])
  (:import
   (magnetar.kernel.sim Nodes SimNetwork)))

(set! *warn-on-reflection* true)

(def ^:private longest-ms 1000000000)

(defn- latency [latency]
  (let [[least most] (if (sequential? latency) latency [latency latency])]
    (when-not (and (nat-int? least) (nat-int? most) (<= (long least) (long most) (long longest-ms)) (or (int? latency) (= 2 (count latency))))
      (arguments/misuse :magnetar/bad-option (str ":latency is milliseconds, as 5, or the least and the most, as [1 20]; this is " (arguments/show latency) ".")
                        {:latency latency}))
    [least most]))

(defn make
  "See `magnetar.test/network`."
  [{:keys [detector window] :or {detector 1000 window 262144} :as options}]
  (nodes/refuse-outside "network")
  (arguments/options "network" [:latency :detector :window] options)
  (let [[least most] (latency (:latency options [1 20]))]
    (SimNetwork/make least most (arguments/whole ":detector" detector longest-ms) (int (arguments/whole ":window" window Integer/MAX_VALUE)))))

(defn- check-network ^SimNetwork [operation network]
  (nodes/refuse-outside operation)
  (when-not (and (instance? SimNetwork network) (.isHere ^SimNetwork network))
    (throw (errors/illegal-argument :magnetar.test/no-network
                                    (str "`" operation "` wants a network of this simulation, as `network` returns it; this is " (arguments/show network) ".")
                                    {:value network})))
  network)

(defn endpoint
  "See `magnetar.test/endpoint`."
  [network node {:keys [as] :or {as (name node)} :as options}]
  (let [network (check-network "endpoint" network)]
    (arguments/options "endpoint" [:as] options)
    (when-not (string? as)
      (arguments/misuse :magnetar/bad-option (str ":as is the name of the member, a string; this is " (arguments/show as) ".") {:as as}))
    (.endpoint network (nodes/of-running "endpoint" node) as)))

(defn- texts [group]
  (when-not (and (sequential? group) (seq group))
    (arguments/misuse :magnetar.test/bad-group (str "A group of nodes is a vector of their names, as [:a :b]; this is " (arguments/show group) ".") {:group group}))
  (doseq [name group :when (not (Nodes/isKnown (nodes/text name)))]
    (throw (nodes/no-node name)))
  (mapv nodes/text group))

(defn- each-way
  "Calls f with the names of the groups, and the other way round."
  [from to {:keys [one-way]} f]
  (arguments/flag ":one-way" one-way)
  (let [[from to] [(texts from) (texts to)]]
    (f from to)
    (when-not one-way (f to from))
    nil))

(defn cut
  "See `magnetar.test/cut`."
  [network from to options]
  (let [network (check-network "cut" network)]
    (arguments/options "cut" [:one-way] options)
    (each-way from to options #(.cut network %1 %2))))

(defn heal
  "See `magnetar.test/heal`."
  ([network]
   (let [network (check-network "heal" network)
         all (.nodes network)]
     (.heal network all all)))
  ([network from to options]
   (let [network (check-network "heal" network)]
     (arguments/options "heal" [:one-way] options)
     (each-way from to options #(.heal network %1 %2)))))

(defn slow
  "See `magnetar.test/slow`."
  [network from to {:keys [bytes-per-ms] :as options}]
  (let [network (check-network "slow" network)]
    (arguments/options "slow" [:one-way :bytes-per-ms] options)
    (let [speed (if (nil? bytes-per-ms) 0 (arguments/whole ":bytes-per-ms" bytes-per-ms longest-ms))]
      (each-way from to options #(.slow network %1 %2 speed)))))

(defn end-faults
  "See `magnetar.test/end-faults`."
  [network]
  (let [network (check-network "end-faults" network)]
    (.endFaults network)
    (heal network)))
