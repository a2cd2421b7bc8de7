(ns magnetar.cluster.contract-test
  "The contract of a network on three real nodes of JGroups."
  {:slow true
   :wakes false
   :limit 300000}
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.cluster.support :refer [alone-ms crash limit-ms mend quick-ms settings sever with-refusals]]
   [magnetar.network-contract :as contract])
  (:import
   (java.net ServerSocket)
   (java.util.concurrent.locks LockSupport)
   (magnetar.cluster.impl JGroupsNetwork)
   (magnetar.kernel.network Member View)))

(set! *warn-on-reflection* true)

(defn- until
  "Looks every millisecond."
  [pred]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long limit-ms)))]
    (while (not (pred))
      (when (pos? (- (System/nanoTime) deadline))
        (throw (ex-info "what has to come did not come" {})))
      (LockSupport/parkNanos 1000000))))

(defn- settle
  "Waits longer than detectors, verifications and merges take."
  []
  (let [end (+ (System/nanoTime) 2000000000)]
    (while (neg? (- (System/nanoTime) end))
      (LockSupport/parkNanos 10000000))))

(defn- member-named [^JGroupsNetwork network name]
  (some #(when (= name (Member/.name %)) %) (some-> network .view View/.members)))

(defn- cut [networks from to one-way?]
  (doseq [i from, j to
          :let [sender (networks i)
                receiver (networks j)]]
    (when-let [other (member-named receiver (str "n" i))]
      (sever receiver other true (not one-way?)))
    (when-let [other (member-named sender (str "n" j))]
      (sever sender other (not one-way?) true))))

(defn- made
  "A network that has not joined. The first one listens at the port, at which the others look for it."
  ^JGroupsNetwork [port first? name]
  (JGroupsNetwork. (settings name {:port (if first? port 0), :peers [(str "127.0.0.1:" port)], :discover (if first? alone-ms 5000), :detect quick-ms})))

(defn- world [n f]
  (let [port (with-open [socket (ServerSocket. 0)] (.getLocalPort socket))
        networks (mapv #(made port (zero? (long %)) (str "n" %)) (range n))
        others (atom [])]
    (try
      (f {:networks networks
          :another (fn [_ name] (peek (swap! others conj (made port false name))))
          :on (fn [_ f] (f))
          :start (fn [_ f] (Thread/startVirtualThread f) nil)
          :cut (fn [from to one-way?] (cut networks from to one-way?))
          :heal (fn [] (run! mend networks))
          :crash (fn [i] (crash (networks i)))
          :until until
          :settle settle
          :window (bit-shift-left 1 22)})
      (finally (run! JGroupsNetwork/.leave (concat @others networks))))))

(defn- checked
  "Runs an item of the contract, and returns what is broken, or nil."
  [item]
  (with-refusals
    (try
      (contract/run world item)
      nil
      (catch clojure.lang.ExceptionInfo e
        [(ex-message e) (ex-data e)]))))

(deftest jgroups-keeps-the-contract
  (doseq [item (sort (keys contract/items))]
    (testing item
      (is (nil? (checked item))))))
