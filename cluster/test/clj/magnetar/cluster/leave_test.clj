(ns magnetar.cluster.leave-test
  "A node that leaves is told from one that was lost, and what it had sent arrives."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.session :as session]
   [magnetar.cluster.simulated :refer [connected cookie full-name in-process losing-proofs nodes run-on start start-losing watch-nodes]]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.cluster.wire Stream)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 50))

(def ^:private many 40)

(defn- sink
  "Adds what comes to the atom."
  [got]
  (actor/register :sink (self))
  (loop []
    (swap! got conj (receive x x))
    (recur)))

(defn- send-and-stop
  "Sends many messages to the sink of a, which fill frames, and leaves."
  []
  (dotimes [n many]
    (! [:sink "a@sim"] [n (byte-array 1000)]))
  (cluster/stop))

(defn- leave-with-much-to-send
  "What the sink of a has got from b, which has left, and what a was told about b."
  [slowly]
  (let [net (mt/network {:detector 30000 :window 4096})
        got (atom [])
        told (atom [])]
    (run! #(start net %) [:a :b])
    (connected :a :b)
    (run-on :a sink got)
    (watch-nodes :a told)
    (when slowly
      (mt/slow net [:b] [:a] {:bytes-per-ms 20}))
    (mt/on-node :b send-and-stop)
    (mt/wait-until #(seq @told) {:timeout 60000})
    [(mapv first @got) @told]))

(deftest what-a-node-has-sent-arrives-before-it-is-gone
  (doseq [seed (range 5)
          slowly [false true]]
    (is (= [(vec (range many)) [[:nodedown "b@sim" {:reason :left}]]]
           (mt/simulate {:seed seed} (leave-with-much-to-send slowly))))))

(defn- ties
  "A process that is tied to the sink of a, and adds what fires, in order, to the atom."
  [fired]
  (actor/flag :trap-exit true)
  (! [:sink "a@sim"] (self))
  (receive :linked nil)
  (actor/monitor [:sink "a@sim"])
  (loop []
    (swap! fired conj (receive [:EXIT _ why] [:exit why] [:DOWN _ _ _ why] [:down why] x x))
    (recur)))

(defn- linking-sink []
  (actor/register :sink (self))
  (actor/flag :trap-exit true)
  (receive pid (do (actor/link pid) (! pid :linked)))
  (receive :never nil))

(deftest links-and-monitors-fire-on-the-node-that-leaves
  (is (= [#{[:exit :noconnection] [:down :noconnection]} [[:nodedown "a@sim" {:reason :left}]] "nonode@nohost"]
         (mt/simulate {:seed 1}
           (let [net (mt/network)
                 fired (atom [])
                 told (atom [])]
             (run! #(start net %) [:a :b])
             (connected :a :b)
             (run-on :a linking-sink)
             (watch-nodes :b told)
             (run-on :b ties fired)
             (scope/sleep 1000)
             (mt/on-node :b cluster/stop)
             (mt/wait-until #(and (= 2 (count @fired)) (seq @told)) {:timeout 10000})
             [(set @fired) @told (mt/on-node :b actor/node)])))))

(defn- told-when
  "What a was told about b, after f."
  [f]
  (let [net (mt/network)
        told (atom [])]
    (run! #(start net %) [:a :b])
    (connected :a :b)
    (watch-nodes :a told)
    (f net)
    (mt/wait-until #(seq @told) {:timeout 60000})
    @told))

(deftest a-node-that-has-crashed-or-is-cut-off-is-lost
  (is (= [[:nodedown "b@sim" {:reason :lost}]]
         (mt/simulate {:seed 1} (told-when (fn [_] (mt/crash-node :b))))
         (mt/simulate {:seed 1} (told-when #(mt/cut % [:b] [:a]))))))

(deftest two-nodes-that-leave-at-once-do-not-wait-for-each-other
  (doseq [seed (range 20)]
    (is (= [["nonode@nohost" "nonode@nohost"] true]
           (mt/simulate {:seed seed}
             (let [net (mt/network)]
               (run! #(start net %) [:a :b])
               (connected :a :b)
               (let [before (mt/now)]
                 (run-on :a cluster/stop)
                 (mt/on-node :b cluster/stop)
                 (mt/wait-until #(= "nonode@nohost" (mt/on-node :a actor/node)) {:timeout 60000})
                 [(mapv #(mt/on-node % actor/node) [:a :b]) (< (- (mt/now) before) 2000)])))))))

(defn- keep-hub
  "The process of a node that leaves when it is told to. It adds what the hub tells to the atom."
  [network name told]
  (actor/register :keeper (self))
  (actor/flag :trap-exit true)
  (Peers/setName name)
  (let [[_ hub] (hub/start-link {:network network
                                 :name name
                                 :cookie (.getBytes ^String cookie)
                                 :notify #(swap! told conj %)})]
    (receive :stop (hub/stop hub))))

(defn- start-hub
  "Starts a node with a sink and a hub, and without the services of a cluster. What the sink gets, and what the hub tells.
  The hub has the network that `change` makes of the node's."
  ([net node] (start-hub net node identity))
  ([net node change]
   (let [[got told] (repeatedly 2 #(atom []))]
     (mt/start-node node)
     (run-on node sink got)
     (run-on node keep-hub (change (mt/endpoint net node)) (full-name node) told)
     [got told])))

(defn- send-many [to]
  (dotimes [n many]
    (! [:sink (full-name to)] [n (byte-array 1000)])))

(defn- stop-hubs []
  (doseq [node [:a :b]]
    (mt/on-node node #(do (! :keeper :stop) nil))))

(defn- hubs-end?
  "Do the keepers of both nodes end soon?"
  []
  (let [began (mt/now)]
    (mt/wait-until (fn [] (not-any? #(mt/on-node % (fn [] (some? (actor/whereis :keeper)))) [:a :b])) {:timeout 60000})
    (< (- (mt/now) began) 2000)))

(defn- both-leave
  "Nodes a and b that leave at once. The senders have sent much to the other one, which has not left yet."
  [net senders]
  (let [[[_ a] [_ b] :as all] (mapv #(start-hub net %) [:a :b])
        other {:a :b :b :a}]
    (mt/wait-until #(and (seq @a) (seq @b)) {:timeout 60000})
    (mt/slow net [:a] [:b] {:bytes-per-ms 20})
    (mt/slow net [:b] [:a] {:bytes-per-ms 30})
    (doseq [node senders]
      (mt/on-node node (in-process #(send-many (other node)))))
    (stop-hubs)
    (mt/wait-until #(every? (comp #{:down} first peek deref) [a b]) {:timeout 60000})
    (for [[got told] all]
      [(mapv first @got) @told])))

(deftest what-two-nodes-that-leave-at-once-have-sent-arrives
  (doseq [seed (range 5)
          senders [[:a] [:b] [:a :b]]
          :let [numbers #(if (some #{%} senders) (range many) [])]]
    (is (= [[(numbers :b) [[:up "b@sim"] [:down "b@sim" :left]]]
            [(numbers :a) [[:up "a@sim"] [:down "a@sim" :left]]]]
           (mt/simulate {:seed seed} (both-leave (mt/network {:detector 30000 :window 4096}) senders))))))

(deftest two-nodes-that-leave-at-once-do-not-wait-if-only-one-is-connected
  (doseq [seed (range 5)
          [sends? why] [[false :left] [true :lost]]]
    (is (= [true [[:up "b@sim"] [:down "b@sim" why]] [[] []]]
           (mt/simulate {:seed seed}
             (let [net (mt/network)
                   [got told] (start-hub net :b)
                   [_ told-a] (start-hub net :a #(losing-proofs % (atom true)))]
               (mt/wait-until #(seq @told-a) {:timeout 60000})
               (when sends?
                 (mt/on-node :a (in-process #(send-many :b))))
               (stop-hubs)
               [(hubs-end?) @told-a [@got @told]]))))))

(deftest a-node-that-leaves-while-only-the-other-is-connected-is-not-lost
  (doseq [seed (range 5)]
    (is (= [[["b@sim"] []] [[:nodedown "b@sim" {:reason :left}]] [] true]
           (mt/simulate {:seed seed}
             (let [net (mt/network)
                   [a b] (repeatedly #(atom []))]
               (start net :b)
               (start-losing net :a (atom true))
               (let [before [(nodes :a) (nodes :b)]]
                 (watch-nodes :a a)
                 (watch-nodes :b b)
                 (let [began (mt/now)]
                   (mt/on-node :b cluster/stop)
                   (mt/wait-until #(seq @a) {:timeout 60000})
                   [before @a @b (< (- (mt/now) began) 2000)]))))))))

(deftest a-leave-does-not-wait-for-ever-for-a-node-that-does-not-answer
  (is (mt/simulate {:seed 1}
        (let [net (mt/network {:detector 600000})]
          (run! #(start net %) [:a :b])
          (connected :a :b)
          (mt/cut net [:a] [:b])
          (let [before (mt/now)]
            (mt/on-node :b cluster/stop)
            (< 4000 (- (mt/now) before) 7000))))))

(deftest what-does-not-answer-a-leave-has-not-received-all
  (is (= [[:nodedown "a@sim" {:reason :lost}]]
         (mt/simulate {:seed 1}
           (let [net (mt/network {:detector 600000})
                 told (atom [])]
             (run! #(start net %) [:a :b])
             (connected :a :b)
             (watch-nodes :b told)
             (mt/cut net [:a] [:b])
             (mt/on-node :b cluster/stop)
             (mt/wait-until #(seq @told) {:timeout 10000})
             @told)))))

;; ---- under faults

(defn- told-the-truth?
  "A node that is said to have left has sent all, and whatever happens a is told once."
  []
  (let [net (mt/network {:latency [1 50] :detector 200 :window 4096})
        got (atom [])
        told (atom [])]
    (run! #(start net %) [:a :b])
    (connected :a :b)
    (run-on :a sink got)
    (watch-nodes :a told)
    (mt/on-node :b send-and-stop)
    (scope/sleep 10000)
    (let [{:keys [nodeup nodedown] :or {nodeup 0}} (frequencies (map first @told))]
      (and (= 1 (- (long nodedown) (long nodeup)))
           (or (not= [[:nodedown "b@sim" {:reason :left}]] @told)
               (= (range many) (map first @got)))))))

(defn- checked [options]
  (mt/check* (merge {:faults #{:cut-link :flap} :fault-rate 0.02 :properties []} options) told-the-truth?))

(deftest a-node-that-is-said-to-have-left-has-sent-all
  (is (:passed (checked {:runs runs}))))

(defn- left-with-all?
  "A node that has said that the other one has left, while both leave, has got all, and so has the other one."
  []
  (let [all (both-leave (mt/network {:latency [1 50] :detector 200 :window 4096}) [:a :b])]
    (or (not-any? (fn [[_ told]] (some #{:left} (map peek told))) all)
        (some (fn [[_ told]] (< 2 (count told))) all) ; they were separated in between, and messages were lost
        (every? (fn [[got _]] (= (range many) got)) all))))

(deftest two-nodes-that-leave-at-once-tell-the-truth
  (is (:passed (mt/check* {:runs runs :faults #{:cut-link :flap} :fault-rate 0.02 :properties []} left-with-all?))))

(deftest a-stream-that-ends-before-it-is-drained-is-found
  (with-redefs [session/drained? (constantly true)
                session/finish (fn [stream] (.close ^Stream stream))]
    (is (not (:passed (checked {:runs 1000 :report (constantly nil)}))))))
