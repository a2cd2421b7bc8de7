(ns magnetar.cluster.status-test
  "What a node tells of its cluster when it is asked from outside, on nodes of a simulation."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.questions :as questions]
   [magnetar.cluster.impl.trees :as trees]
   [magnetar.cluster.main :as main]
   [magnetar.cluster.simulated :as simulated :refer [start]]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.scope :as scope]
   [magnetar.sys :as sys]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(defn- asked [node question]
  (mt/on-node node #(questions/answer question)))

(defn- connected? [node n]
  (mt/wait-until #(= n (count (mt/on-node node cluster/nodes))) {:timeout 60000}))

(defn- names [{:keys [nodes lost refused]}]
  (mapv #(mapv :node %) [nodes lost refused]))

(deftest a-node-tells-which-others-are-connected-and-which-were-lost
  (let [[before during after] (mt/simulate {:seed 1}
                                (let [net (mt/network)]
                                  (run! #(start net %) [:a :b :c])
                                  (connected? :a 2)
                                  (let [before (asked :a "status")
                                        _ (mt/cut net [:a] [:b])
                                        _ (connected? :a 1)
                                        during (asked :a "status")]
                                    (mt/heal net)
                                    (connected? :a 2)
                                    [before during (asked :a "status")])))]
    (is (= ["a@sim" [["b@sim" "c@sim"] [] []]] [(:node before) (names before)]))
    (is (every? #(and (nat-int? (:since-ms %)) (nat-int? (:queued %))) (:nodes before)))
    (is (= [["c@sim"] ["b@sim"] []] (names during)))
    (is (= [["b@sim" "c@sim"] [] []] (names after)))
    (is (< (:since-ms (first (:nodes after))) (:since-ms (second (:nodes after)))))))

(deftest a-node-without-the-cookie-is-told-as-refused
  (let [hook (fn [_])]
    (report/add-hook :failure hook)
    (try
      (let [{[{:keys [node why]}] :refused :as status}
            (mt/simulate {:seed 1}
              (let [net (mt/network)]
                (run! #(start net %) [:a])
                (start net :b {:cookie "fedcba9876543210"})
                (mt/wait-until #(seq (:refused (asked :a "status"))) {:timeout 60000})
                (asked :a "status")))]
        (is (= [] (:nodes status)))
        (is (re-find #"has another cookie" (str why)) (str node)))
      (finally (report/remove-hook :failure hook)))))

(defn- lines
  "What `cluster status` prints of the node, without its first line and times."
  [node]
  (map #(str/replace % #"\d+\.\d s|\d+ bytes|took \d+" "_") (rest (#'main/status-lines (asked node "status")))))

(deftest a-node-tells-which-nodes-lead-and-which-are-members
  (is (= [["  active, leader a@sim, members a@sim b@sim" "  b@sim  connected for _, _ queued"]
          ["  not active, leader a@sim, members a@sim b@sim" "  a@sim  was lost _ ago"]]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (run! #(start net %) [:a :b])
             (mt/wait-until #(mt/on-node :b cluster/active?) {:timeout 60000})
             (let [before (lines :a)]
               (mt/cut net [:a] [:b])
               (connected? :b 0)
               (mt/wait-until #(not (mt/on-node :b cluster/active?)) {:timeout 60000})
               [before (lines :b)]))))))

(deftest a-node-tells-which-others-are-incompatible-or-too-slow
  (let [hindered (fn [latency options]
                   (simulated/silently
                     #(mt/simulate {:seed 1}
                        (let [net (mt/network {:latency latency :detector 5000})]
                          (start net :a {:split-brain {:policy :keep-majority :lease 1000}})
                          (mt/wait-until (fn [] (mt/on-node :a cluster/active?)) {:timeout 60000})
                          (start net :b {:split-brain options})
                          (connected? :a 1)
                          (scope/sleep 20000)
                          (lines :a)))))]
    (is (= ["  active, leader a@sim, members a@sim"
            (str "  b@sim  connected for _, _ queued, incompatible: it has :split-brain {:policy :keep-oldest, :lease 1000}, and this node "
                 "{:policy :keep-majority, :lease 1000}")]
           (hindered [1 20] {:policy :keep-oldest :lease 1000})))
    (is (= ["  active, leader a@sim, members a@sim"
            "  b@sim  connected for _, _ queued, too slow: it _ ms to answer, more than a quarter of the :lease of 1000 ms"]
           (hindered [400 450] {:policy :keep-majority :lease 1000})))))

(deftest a-node-tells-which-singletons-do-not-run
  (let [line #(#'main/unkept-line (merge {:active true :leader "a@sim"} %))]
    (is (= [nil nil] [(line {}) (line {:active false :unkept [":jobs"]})]))
    (is (= ":jobs does not run: the leader a@sim has no keeper of it" (line {:unkept [":jobs"]})))
    (is (= ":jobs, [:shelf 1] do not run: the leader a@sim has no keeper of them" (line {:unkept [":jobs" "[:shelf 1]"]})))))

(deftest a-program-reads-the-status-of-its-node
  (let [[alone status] (mt/simulate {:seed 1}
                         (let [net (mt/network)
                               _ (mt/start-node :c)
                               alone (mt/on-node :c cluster/status)]
                           (run! #(start net %) [:a :b])
                           (connected? :a 1)
                           (mt/wait-until #(mt/on-node :a cluster/active?) {:timeout 60000})
                           [alone (mt/on-node :a cluster/status)]))]
    (is (nil? alone))
    (is (= #{:node :address :since-ms :agreement :nodes :lost :refused} (set (keys status))))
    (is (= ["a@sim" [["b@sim"] [] []]] [(:node status) (names status)]))
    (is (= [true "a@sim"] ((juxt :active :leader) (:agreement status))))))

(deftest a-program-in-no-cluster-has-no-status
  (is (nil? (questions/answer "status")))
  (is (= [:ok nil]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (start net :a)
             [(mt/on-node :a cluster/stop) (asked :a "status")])))))

(deftest a-node-leaves-when-it-is-asked-to
  (is (= [{:node "a@sim" :left true} nil []]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (run! #(start net %) [:a :b])
             (connected? :b 1)
             (let [left (asked :a "leave")]
               (connected? :b 0)
               [left (asked :a "status") (mt/on-node :b cluster/nodes)]))))))

(defn- restarted
  "Kills the server on the node, and waits until there is another one."
  [node server]
  (let [before (mt/on-node node #(doto (actor/whereis server) (actor/exit :kill)))]
    (mt/wait-until (fn [] (mt/on-node node #(not (contains? #{before nil} (actor/whereis server))))))))

(deftest the-trees-of-the-other-nodes-are-shown-and-a-silent-one-as-silent
  (let [[[b c] [silent other] [longer _] nodes] (mt/simulate {:seed 1}
                                           (let [net (mt/network)
                                                 trees-of-others #(:trees (asked :a "trees"))]
                                             (run! #(start net %) [:a :b :c])
                                             (mt/on-node :b (fn [] (actor/register :counter (spawn #(actor/receive :end nil))) nil))
                                             (connected? :a 2)
                                             (let [before (trees-of-others)]
                                               (restarted :c trees/server-name)
                                               (mt/on-node :b #(sys/suspend trees/server-name))
                                               (let [during (trees-of-others)]
                                                 (trees-of-others)
                                                 [before during (trees-of-others) (:nodes (mt/on-node :a cluster/status))]))))]
    (is (= ["b@sim" "c@sim"] (map :node [b c])))
    (is (some #(str/includes? % ":counter") (:lines b)))
    (is (not-any? #(str/includes? % ":counter") (:lines c)))
    (is (= {:node "b@sim"} (dissoc silent :silent-ms)))
    (is (<= 3000 (long (:silent-ms silent)) 4000))
    (is (<= 6000 (long (:silent-ms longer)) 12000))
    (is (= ["b@sim"] (keep #(when (:silent-ms %) (:node %)) nodes)))
    (is (some #(str/includes? % "magnetar.cluster/trees") (:lines other)) "its server was started again")))

(deftest what-is-shown-is-bounded
  (is (= 501 (count (trees/bounded (str/join "\n" (range 10000))))))
  (is (= ".. and more" (peek (trees/bounded (str/join "\n" (range 10000))))))
  (is (= [200] (map count (trees/bounded (str/join (repeat 1000000 "x"))))))
  (is (= ["?[31mred :bö 日本"] (trees/bounded "\u001b[31mred :bö 日本")) "no command of a terminal"))

(deftest the-server-of-trees-knows-one-request
  (is (= [[:error :unknown-request] [:error :unknown-request] :tree]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (start net :a)
             (mt/on-node :a (fn []
                              (gs/cast trees/server-name :x)
                              [(gs/call trees/server-name 'clojure.core/eval)
                               (gs/call trees/server-name [:tree 1000000])
                               (first (gs/call trees/server-name :tree))])))))))
