(ns magnetar.cluster.connect-test
  "Nodes that a program disconnects, connects and pings."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.session :as session]
   [magnetar.cluster.simulated :refer [connected full-name in-process join nodes run-on start start-losing watch-nodes]]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.network Member Network)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 50))

(defn- three-nodes
  "A network with the nodes a, b and c, which are connected."
  ([] (three-nodes {}))
  ([options]
   (let [net (mt/network options)]
     (run! #(start net %) [:a :b :c])
     (connected :a :b :c)
     net)))

(defn- disconnect [from to] (mt/on-node from #(cluster/disconnect to)))

(defn- connect [from to] (mt/on-node from #(cluster/connect to)))

(defn- ping [from to] (mt/on-node from #(cluster/ping to)))

(def ^:private all-nodes (juxt #(nodes :a) #(nodes :b) #(nodes :c)))

(def ^:private apart [["c@sim"] ["c@sim"] ["a@sim" "b@sim"]])

(def ^:private together [["b@sim" "c@sim"] ["a@sim" "c@sim"] ["a@sim" "b@sim"]])

(deftest disconnected-nodes-stay-apart-until-one-connects
  (doseq [seed (range 5)
          by [:a :b]]
    (is (= [true apart false true together true]
           (mt/simulate {:seed seed}
             (three-nodes)
             (let [other {:a "b@sim" :b "a@sim"}
                   ended (disconnect :a "b@sim")]
               (scope/sleep 20000)
               (into [ended (all-nodes) (disconnect :a "b@sim") (connect by (other by))]
                     (do (connected :a :b :c)
                         [(all-nodes) (connect by (other by))]))))))))

(defn- tied-to-b
  "A process of a that is linked to :sink of b and monitors it, and adds what fires to the atom."
  [fired]
  (actor/flag :trap-exit true)
  (! [:sink "b@sim"] (self))
  (receive :linked nil)
  (actor/monitor [:sink "b@sim"])
  (loop []
    (swap! fired conj (receive [:EXIT _ why] [:exit why] [:DOWN _ _ _ why] [:down why] x x))
    (recur)))

(defn- sink [fired]
  (actor/register :sink (self))
  (actor/flag :trap-exit true)
  (receive pid (do (actor/link pid) (actor/monitor pid) (! pid :linked)))
  (loop []
    (swap! fired conj (receive [:EXIT _ why] [:exit why] [:DOWN _ _ _ why] [:down why] x x))
    (recur)))

(deftest ^{:spec ["C149"]} links-and-monitors-fire-on-both-sides
  (is (= [(repeat 2 #{[:exit :noconnection] [:down :noconnection]})
          [[:nodedown "b@sim" {:reason :disconnected}]]
          [[:nodedown "a@sim" {:reason :disconnected}]]]
         (mt/simulate {:seed 1}
           (three-nodes)
           (let [fired (repeatedly 2 #(atom []))
                 told (repeatedly 2 #(atom []))]
             (run-on :b sink (first fired))
             (run-on :a tied-to-b (second fired))
             (dorun (map watch-nodes [:a :b] told))
             (scope/sleep 1000)
             (disconnect :a "b@sim")
             (mt/wait-until #(every? seq (map deref told)) {:timeout 10000})
             (scope/sleep 1000)
             (into [(map (comp set deref) fired)] (map deref told)))))))

(deftest what-is-sent-to-a-disconnected-node-is-dropped
  (is (= [:noconnection :nothing apart]
         (mt/simulate {:seed 1}
           (three-nodes)
           (disconnect :a "b@sim")
           (run-on :b (fn [] (actor/register :sink (self)) (receive [x from] (! from x)) (receive :never nil)))
           (conj (mt/on-node :a
                   (in-process #(let [ref (actor/monitor [:sink "b@sim"])]
                                  (! [:sink "b@sim"] [:hello (self)])
                                  [(receive [:DOWN ref _ _ why] why)
                                   (receive x x (after 5000 :nothing))])))
                 (all-nodes))))))

(deftest a-ping-connects
  (is (= [:pong :pong :pong :pang]
         (mt/simulate {:seed 1}
           (three-nodes)
           (disconnect :a "b@sim")
           (scope/sleep 1000)
           [(ping :a "a@sim") (ping :b "a@sim") (ping :a "b@sim") (ping :a "d@sim")]))))

(deftest nodes-that-are-not-there
  (is (= [[false false] [true false] [false true :pang] [:ignored :ignored :pang]]
         (mt/simulate {:seed 1}
           (let [net (three-nodes {:detector 100000})]
             [[(connect :a "d@sim") (disconnect :a "d@sim")]
              [(connect :a "a@sim") (disconnect :a "a@sim")]
              (do (disconnect :a "b@sim")
                  (mt/cut net [:a] [:b])
                  [(connect :a "b@sim") (connect :a "c@sim") (ping :a "b@sim")])
              (do (mt/on-node :c cluster/stop)
                  [(connect :c "a@sim") (disconnect :c "a@sim") (ping :c "c@sim")])])))))

(deftest a-node-that-is-no-string-is-refused
  (is (thrown-with-msg? IllegalArgumentException #"A node is a string name@host; this is :till" (cluster/connect :till))))

(deftest a-call-does-not-wait-for-ever-for-a-connection
  (is (= [false true]
         (mt/simulate {:seed 1}
           (let [net (mt/network)
                 lossy (atom false)]
             (start net :b)
             (start-losing net :a lossy)
             (connected :a :b)
             (disconnect :b "a@sim")
             (reset! lossy true)
             (let [call (in-process #(gs/call hub/server-name [:connect "a@sim"] {:timeout 60000 :else :none}))
                   answer (mt/on-node :b call)]
               (reset! lossy false)
               [answer (mt/on-node :b call)]))))))

(deftest a-node-that-was-lost-and-found-is-connected-again
  (is (= together
         (mt/simulate {:seed 1}
           (let [net (three-nodes)]
             (disconnect :a "b@sim")
             (mt/cut net [:a] [:b])
             (scope/sleep 20000)
             (mt/heal net)
             (connected :a :b :c)
             (all-nodes))))))

(defn- lose
  "Lets the node, whose endpoint this is, lose the member with the name. The member does not lose the node, and is found again."
  [node ^Network network name]
  (mt/on-node node #(.cut network (first (filter (fn [^Member m] (= name (.name m))) (.members (.view network)))))))

(defn- sees? [node ^Network network name]
  (mt/on-node node #(boolean (some (fn [^Member m] (= name (.name m))) (.members (.view network))))))

(defn- found-again
  "Disconnects b from a. Then a loses b, which does not lose a, and finds it again."
  []
  (let [net (mt/network)
        [network] (mapv (fn [node]
                          (mt/start-node node)
                          (let [network (mt/endpoint net node {:as (full-name node)})]
                            (join net node {:network network})
                            network))
                        [:a :b])]
    (connected :a :b)
    (disconnect :a "b@sim")
    (mt/wait-until #(empty? (nodes :b)) {:timeout 10000})
    (lose :a network "b@sim")
    (mt/wait-until #(not (sees? :a network "b@sim")) {:timeout 10000})
    (mt/wait-until #(sees? :a network "b@sim") {:timeout 60000})))

(deftest a-node-that-only-one-side-has-lost-and-found-can-be-connected
  (doseq [seed (range 3)
          :let [seen (juxt #(nodes :a) #(nodes :b))]]
    (is (= [[[] []] true [["b@sim"] ["a@sim"]]]
           (mt/simulate {:seed seed}
             (found-again)
             (scope/sleep 20000)
             [(seen) (connect :a "b@sim") (do (connected :a :b) (seen))])))
    (is (= :pong
           (mt/simulate {:seed seed}
             (found-again)
             (ping :a "b@sim")))
        "it waits for the greeting of a node that was just found")))

;; ---- under faults

(defn- stays-apart?
  "After some connects and disconnects by both sides, and a cut or two, the last of them is what counts, on both sides."
  [last-one]
  (let [net (mt/network {:latency [1 50] :detector 200})]
    (run! #(start net %) [:a :b])
    (connected :a :b)
    (let [done (atom 0)
          busy (fn [other] (dotimes [_ 3]
                             (cluster/disconnect other)
                             (cluster/connect other))
                 (swap! done inc))]
      (run-on :a busy "b@sim")
      (run-on :b busy "a@sim")
      (mt/wait-until #(= 2 @done) {:timeout 200000})
      (scope/sleep 5000)
      (when (= :disconnect last-one)
        (disconnect :a "b@sim"))
      (scope/sleep 5000)
      (mt/end-faults net)
      (scope/sleep 5000)
      (if (= :disconnect last-one)
        (= (empty? (nodes :a)) (empty? (nodes :b)))
        (connected :a :b)))))

(defn- checked [more last-one]
  (mt/check* (merge {:runs runs :faults #{:cut-link :flap} :fault-rate 0.01 :properties []} more) #(stays-apart? last-one)))

(deftest both-sides-agree
  (doseq [last-one [:connect :disconnect]]
    (is (:passed (checked {} last-one)) last-one)))

(deftest a-node-that-is-not-told-that-it-is-apart-is-found
  (with-redefs [session/separated (fn [session _] session)]
    (is (not (:passed (checked {:runs 1000 :report (constantly nil)} :disconnect))))))
