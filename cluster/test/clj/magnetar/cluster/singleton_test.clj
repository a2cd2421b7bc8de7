(ns magnetar.cluster.singleton-test
  "Singletons on nodes of a simulation: where they run, how they move, and what their tokens are good for."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.agreement :as agreement]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.leader :as leader]
   [magnetar.cluster.impl.policy :as policy]
   [magnetar.cluster.impl.status :as status]
   [magnetar.cluster.simulated :as simulated]
   [magnetar.cluster.singleton :as singleton]
   [magnetar.gen-server :as gs]
   [magnetar.impl.environment :as environment]
   [magnetar.report :as report]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.sys :as sys]
   [magnetar.test :as mt])
  (:import
   (magnetar.cluster.impl Cookie)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 5))

(use-fixtures :once
  (fn [f]
    (let [hook (fn [_])] ; servers that are killed at the end of a run say so
      (report/add-hook :report hook)
      (try
        (f)
        (finally (report/remove-hook :report hook))))))

(defn- reports-of
  "What is reported while f runs."
  [f]
  (let [reported (atom [])
        hook (fn [{:keys [error]}] (swap! reported conj (ex-message error)))]
    (report/add-hook :failure hook)
    (try
      (f)
      (finally (report/remove-hook :failure hook)))
    @reported))

;; ---- a cluster with one singleton, that writes to a register outside

(defn- start
  "Joins the cluster on the node, which is started if need be."
  [net node split-brain]
  (when-not (some #{node} (mt/nodes))
    (mt/start-node node))
  (simulated/join net node {:split-brain (merge {:policy :keep-majority :lease 2000} split-brain)}))

(def ^:private teller
  {:init (fn [[node token]] [:ok [node token]])
   :handle-call (fn [request _ s] (case request :who [:reply s s] :crash [:stop :crashed s s]))
   :handle-cast (fn [_ s] [:noreply s])})

(defn- start-teller [node token]
  (gs/start-link teller [node token]))

(defn- keep-on
  "Starts a supervisor on the node with the singleton."
  [node spec]
  (simulated/run-on node (fn []
                           (sup/start-link {:intensity 100 :children [{:id :singleton :start [singleton/start-link spec]}]})
                           (receive :never nil))))

(defn- keep-teller [node]
  (keep-on node {:name :teller :start [start-teller node] :shutdown 200}))

(defn- who [node]
  (mt/on-node node #(let [pid (singleton/whereis :teller)]
                      (when pid
                        (try (gs/call pid :who) (catch clojure.lang.ExceptionInfo _))))))

(defn- started [nodes options]
  (let [net (mt/network {:latency [1 20] :detector 1000})]
    (run! #(start net % options) nodes)
    (run! keep-teller nodes)
    (mt/wait-until #(every? who nodes) {:timeout 30000})
    net))

(deftest a-singleton-runs-on-one-node-and-is-found-from-each
  (doseq [seed (range 3)]
    (let [[a b c] (mt/simulate {:seed seed}
                    (started [:a :b :c] {})
                    (mapv who [:a :b :c]))]
      (is (= a b c))
      (is (= :a (first a))))))

(deftest a-look-up-does-not-wait-for-the-server-that-keeps-the-lease
  (is (= [[true :a] [false nil] [:ok :a]]
         (mt/simulate {:seed 1}
           (started [:a :b] {})
           (let [stuck (mt/on-node :b #(actor/whereis leader/server-name))
                 seen #(mt/on-node :b (fn []
                                        [(cluster/active?)
                                         (when-some [pid (singleton/whereis :teller)] (first (gs/call pid :who)))]))]
             (mt/on-node :b #(actor/with-process {} (sys/suspend stuck)))
             (let [before (seen)]
               (scope/sleep 3000)
               (let [during (seen)]
                 (mt/on-node :b #(actor/with-process {} (sys/resume stuck)))
                 (mt/wait-until #(who :b) {:timeout 30000})
                 [before during [:ok (first (mt/on-node :b (fn [] (gs/call (singleton/address :teller) :who))))]])))))))

(deftest a-crash-of-the-singleton-restarts-it-with-a-greater-token
  (let [[[node token] [node-after token-after]]
        (mt/simulate {:seed 1}
          (started [:a :b] {})
          (let [before (who :b)]
            (mt/on-node :b #(gs/call (singleton/address :teller) :crash))
            (mt/wait-until #(let [now (who :b)] (and now (not= now before))) {:timeout 20000})
            [before (who :b)]))]
    (is (= [:a :a] [node node-after]))
    (is (< token token-after))))

(deftest a-node-that-leaves-hands-over-at-once
  (let [[[before token] [after token-after] ms]
        (mt/simulate {:seed 2}
          (mt/start-node :a {:skew 3600000})
          (started [:a :b :c] {:lease 20000})
          (let [before (who :b)
                begin (mt/now)]
            (mt/on-node :a cluster/stop)
            (mt/wait-until #(= :b (first (who :c))) {:timeout 60000})
            [before (who :c) (- (mt/now) begin)]))]
    (is (= [:a :b] [before after]))
    (is (< token token-after))
    (is (< ms 10000) "no wait for the lease")))

(deftest a-node-that-left-and-joined-again-leads-when-its-turn-comes
  (is (= [:a :b]
         (mt/simulate {:seed 1}
           (let [net (started [:a :b] {})
                 before (first (who :b))]
             (mt/on-node :b cluster/stop)
             (start net :b {})
             (mt/wait-until #(= :a (first (who :b))) {:timeout 60000})
             (mt/on-node :a cluster/stop)
             (mt/wait-until #(who :b) {:timeout 60000})
             [before (first (who :b))])))))

(deftest a-name-has-one-keeper-on-a-node
  (is (= :second
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (start net :a {})
             (mt/on-node :a
               #(actor/with-process {}
                  (actor/flag :trap-exit true)
                  (let [spec {:name :teller :start [start-teller :a]}
                        [first-one second-one] (mapv second (repeatedly 2 (fn [] (singleton/start-link spec))))]
                    (receive [:EXIT second-one [:already-started first-one]] :second)))))))))

(deftest what-cannot-be-the-name-of-a-singleton-is-refused
  (doseq [name [(Object.) [:a inc] {:a 1} 1.5]]
    (is (thrown-with-msg? IllegalArgumentException #":name is a keyword, a symbol, a string, an integer or a vector of these; this is "
                          (singleton/start-link {:name name :start [start-teller :a]})))))

(defn- ended-keeper
  "What f returns, in the simulation, for the reason with which the keeper of a singleton has ended that the function starts."
  [start-singleton f]
  (mt/simulate {:seed 1}
    (start (mt/network) :a {})
    (mt/on-node :a
      #(actor/with-process {}
         (actor/flag :trap-exit true)
         (singleton/start-link {:name :teller :start [start-singleton]})
         (receive [:EXIT _ why] (f why))))))

(deftest a-start-that-gives-no-process-is-the-reason
  (is (= [:singleton-not-started :ignore] (ended-keeper (constantly :ignore) identity))))

(deftest a-singleton-without-a-link-is-killed-and-reported
  (let [unlinked (fn [_] [:ok (actor/spawn (fn [] (receive :never nil)))])
        seen (atom nil)
        reported (reports-of
                   (fn []
                     (reset! seen (ended-keeper unlinked (fn [[what [why pid]]] [what why (actor/alive? pid)])))))]
    (is (= [:singleton-not-started :not-linked false] @seen))
    (is (= 1 (count reported)))
    (is (re-find (re-pattern (str "^The start function of the singleton :teller returned #magnetar/pid .+, which has no link to its caller, "
                                  "so it was killed\\. Let the function spawn it with a link, as `magnetar\\.gen-server/start-link` does\\.$"))
                 (str (first reported))))))

(deftest a-singleton-that-has-ended-is-not-taken-for-one-without-a-link
  (let [brief (fn [_] (let [[pid ref] (actor/spawn-monitor (fn []))]
                        (receive [:DOWN ref _ _ _] [:ok pid])))
        seen (atom nil)]
    (is (= [] (reports-of #(reset! seen (ended-keeper brief identity)))))
    (is (= :noproc @seen))))

(deftest a-node-alone-waits-for-the-lease-and-runs-it
  (is (= [[:a true] false]
         (mt/simulate {:seed 3}
           (let [alone (mt/network)]
             (start alone :a {})
             (keep-teller :a)
             (mt/wait-until #(who :a) {:timeout 20000})
             [[(first (who :a)) (mt/on-node :a cluster/active?)] (cluster/active?)])))))

(defn- join-without-a-leader-server
  "Connects the node with the others, as one of an earlier version."
  [net node]
  (mt/start-node node)
  (simulated/run-on node (fn []
                           (actor/flag :trap-exit true)
                           (Peers/setName (simulated/full-name node))
                           (hub/start-link {:network (mt/endpoint net node)
                                            :name (simulated/full-name node)
                                            :cookie (.keyFor (Cookie/of simulated/cookie) "session")
                                            :notify (fn [_])})
                           (receive :never nil))))

(defn- beside-an-earlier-node
  "The nodes that a is connected with when it runs the singleton, and the member that joins when the node has one more server."
  []
  (let [net (mt/network {:latency [1 20] :detector 1000})]
    (join-without-a-leader-server net :c)
    (start net :a {})
    (keep-teller :a)
    (mt/wait-until #(who :a) {:timeout 30000})
    (let [beside [(simulated/nodes :a) (first (who :a))]]
      (simulated/run-on :c (fn []
                             (leader/start-link {:name (simulated/full-name :c) :policy {:kind :keep-majority} :lease-ms 2000})
                             (receive :never nil)))
      (mt/wait-until #(mt/on-node :c cluster/active?) {:timeout 30000})
      beside)))

(deftest a-node-without-a-leader-server-does-not-hinder-the-first-view
  (doseq [seed (range 3)]
    (is (= [["c@sim"] :a] (mt/simulate {:seed seed} (beside-an-earlier-node))))))

(defn- after-a-cut
  "Where the singleton runs, seen from a and from b, and whether they are active, when a was cut off from b and c."
  [policy]
  (let [net (started [:a :b :c] policy)]
    (mt/cut net [:a] [:b :c])
    (scope/sleep 15000)
    (let [cut (mapv (comp first who) [:a :b])
          active (mapv #(mt/on-node % cluster/active?) [:a :b :c])]
      (mt/heal net)
      (mt/wait-until #(let [all (mapv who [:a :b :c])] (and (first all) (apply = all))) {:timeout 60000})
      [cut active (first (who :a))])))

(deftest the-policy-decides-which-part-goes-on
  (doseq [[policy answer] {{:policy :keep-majority} [[nil :b] [false true true] :b]
                           {:policy :static-quorum :quorum 2} [[nil :b] [false true true] :b]
                           {:policy :static-quorum :quorum 3} [[nil nil] [false false false] :a]
                           {:policy :keep-oldest} [[nil :b] [false true true] :b]}]
    (is (= #{answer} (set (for [seed (range 3)] (mt/simulate {:seed seed} (after-a-cut policy))))) (pr-str policy)))
  (let [[cut active after] (mt/simulate {:seed 4} (after-a-cut {:policy :allow}))]
    (is (= [[:a :b] [true true true]] [cut active]))
    (is (some? after))))

(deftest a-minority-knows-no-singleton-of-the-others
  (is (= [true nil true]
         (mt/simulate {:seed 1}
           (let [net (started [:a :b :c] {})
                 known #(mt/on-node % (fn [] (some? (singleton/whereis :teller))))
                 before (known :c)]
             (mt/cut net [:a :b] [:c])
             (scope/sleep 2000)
             [before (mt/on-node :c #(singleton/whereis :teller)) (known :b)])))))

(defn- after-a-start-in-parts
  "Where the singleton runs, seen from a and from b, when a has never reached the others; and from all when it has."
  [policy]
  (let [net (mt/network {:latency [1 20] :detector 1000})
        nodes [:a :b :c]]
    (run! mt/start-node nodes)
    (mt/cut net [:a] [:b :c])
    (run! #(start net % policy) nodes)
    (run! keep-teller nodes)
    (scope/sleep 15000)
    (let [apart (mapv (comp first who) [:a :b])]
      (mt/heal net)
      (mt/wait-until #(let [all (mapv who nodes)] (and (first all) (apply = all))) {:timeout 60000})
      [apart (first (who :a))])))

(deftest nodes-that-start-apart-have-one-each-except-with-a-static-quorum
  (doseq [seed (range 3)]
    (let [[apart after] (mt/simulate {:seed seed} (after-a-start-in-parts {:policy :keep-majority}))]
      (is (= [:a :b] apart))
      (is (#{:a :b} after)))
    (is (= [[nil :b] :b] (mt/simulate {:seed seed} (after-a-start-in-parts {:policy :static-quorum :quorum 2}))))))

;; ---- a name that is started again while its old node runs on: the one case in which a partition leads to two at once

(defn- with-a-name-started-again
  "What the singletons on both sides answer when a was cut off, and a node elsewhere has its name."
  []
  (let [net (started [:a :b] {})
        old (who :a)]
    (mt/start-node :elsewhere)
    (mt/cut net [:a] [:b :elsewhere])
    (mt/wait-until #(empty? (simulated/nodes :b)) {:timeout 30000})
    (simulated/join net :elsewhere {:name (simulated/full-name :a) :split-brain {:policy :keep-majority :lease 2000}})
    (keep-teller :elsewhere)
    (mt/wait-until #(let [new (who :b)] (and new (not= old new))) {:timeout 60000})
    [old (who :a) (who :b)]))

(deftest a-name-that-is-started-again-too-early-leads-to-two-with-different-tokens
  (doseq [seed (range 3)]
    (let [[[_ old] [cut-off still] [_ new]] (mt/simulate {:seed seed} (with-a-name-started-again))]
      (is (= [:a old] [cut-off still]) "it runs on, as a half with the oldest node")
      (is (< old new)))))

;; ---- keepers that are killed while their singletons go on

(defn- go-on
  "A singleton that ends by a kill only, and notes its token as often as it can."
  [notes token]
  (actor/flag :trap-exit true)
  (loop []
    (swap! notes conj token)
    (receive [:EXIT _ _] nil (after 10 nil))
    (recur)))

(defn- start-stubborn [notes token]
  [:ok (actor/spawn-link go-on notes token)])

(defn- start-slowly
  "Starts such a singleton, and returns it after more time than a keeper lives."
  [notes token]
  (let [answer (start-stubborn notes token)]
    (scope/sleep 300)
    answer))

(defn- start-for-ever
  "Starts such a singleton, and does not return."
  [notes token]
  (start-stubborn notes token)
  (receive :never nil))

(defn- keep-stubborn [node start notes]
  (keep-on node {:name :stubborn :start [start notes] :shutdown 800}))

(defn- kill-keeper [node]
  (mt/on-node node #(run! (fn [pid] (actor/exit pid :kill)) (keys (:keepers (sys/get-state leader/server-name))))))

(defn- noted-by-two?
  "Has a token been noted behind a greater one?"
  [notes]
  (not (apply <= 0 notes)))

(defn- notes-when-killed
  "What is noted when the keeper is killed some time after its singleton has begun."
  [start-singleton ms]
  (let [net (mt/network {:latency [1 20] :detector 1000})
        notes (atom [])]
    (start net :a {})
    (keep-stubborn :a start-singleton notes)
    (mt/wait-until #(seq @notes) {:timeout 30000})
    (scope/sleep ms)
    (kill-keeper :a)
    (mt/wait-until #(apply not= ((juxt first peek) @notes)) {:timeout 30000})
    (scope/sleep 300)
    @notes))

(deftest the-next-singleton-of-a-node-starts-when-the-one-of-a-killed-keeper-has-ended
  (doseq [start-singleton [start-stubborn start-slowly start-for-ever]
          ms [0 50 200 500]]
    (is (not (noted-by-two? (mt/simulate {:seed 1} (notes-when-killed start-singleton ms)))) [start-singleton ms])))

(defn- notes-when-killed-and-left
  "What is noted when the keeper is killed, and the node then leaves."
  []
  (let [net (mt/network {:latency [1 20] :detector 1000})
        notes (atom [])]
    (run! #(start net % {}) [:a :b])
    (mt/wait-until #(mt/on-node :b cluster/active?) {:timeout 30000})
    (run! #(keep-stubborn % start-stubborn notes) [:a :b])
    (mt/wait-until #(seq @notes) {:timeout 30000})
    (kill-keeper :a)
    (mt/on-node :a cluster/stop)
    (mt/wait-until #(apply not= ((juxt first peek) @notes)) {:timeout 30000})
    (scope/sleep 300)
    @notes))

(deftest a-node-leaves-when-the-singleton-of-a-killed-keeper-has-ended
  (doseq [seed (range 5)]
    (is (not (noted-by-two? (mt/simulate {:seed seed} (notes-when-killed-and-left)))) seed)))

;; ---- singletons whose starter ends

(defn- notes-when
  "What is noted when f is called with the network while the first singleton runs, until another one does."
  [start-singleton f]
  (let [net (mt/network {:latency [1 20] :detector 1000})
        notes (atom [])]
    (run! #(start net % {}) [:a :b :c])
    (mt/wait-until #(mt/on-node :c cluster/active?) {:timeout 30000})
    (run! #(keep-stubborn % start-singleton notes) [:a :b :c])
    (mt/wait-until #(if (= start-for-ever start-singleton)
                      (seq @notes)
                      (mt/on-node :a (fn [] (singleton/whereis :stubborn))))
                   {:timeout 30000})
    (f net)
    (mt/wait-until #(apply not= ((juxt first peek) @notes)) {:timeout 30000})
    (scope/sleep 3000)
    @notes))

(defn- kill-runner
  "Kills the process on a that has started the singleton."
  [_]
  (mt/on-node :a (fn []
                   (let [running (:running (sys/get-state leader/server-name))
                         [runner] (first (remove (comp :singleton val) running))]
                     (actor/exit runner :kill)))))

(defn- cut-off [net]
  (mt/cut net [:a] [:b :c]))

(deftest a-singleton-ends-with-the-lease-and-with-its-starter
  (doseq [[start-singleton f] [[start-stubborn cut-off] [start-for-ever cut-off] [start-stubborn kill-runner]]
          seed (range 2)]
    (is (not (noted-by-two? (mt/simulate {:seed seed} (notes-when start-singleton f)))) seed)))

;; ---- a JVM that is stopped between the token and the start

(defn- leave-running
  "An `end` of the keeper that leaves the singleton running, as if its JVM had been stopped until later."
  [state]
  (dissoc state :runner :ref :singleton))

(defn- held-back
  "An `ask` of the leader server whose first call to begin waits until another singleton has begun. `held` is true from then on."
  [ask held notes]
  (fn [request otherwise]
    (when (and (vector? request) (compare-and-set! held false true))
      (while (empty? @notes)
        (scope/sleep 50)))
    (ask request otherwise)))

(defn- cut-off-when
  "What is noted when the node whose singleton is about to begin is cut off, until some time after another node's has begun."
  [held notes]
  (let [net (mt/network {:latency [1 20] :detector 1000})]
    (run! #(start net % {}) [:a :b :c])
    (mt/wait-until #(mt/on-node :c cluster/active?) {:timeout 30000})
    (run! #(keep-stubborn % start-stubborn notes) [:a :b :c])
    (mt/wait-until #(deref held) {:timeout 30000})
    (mt/cut net [:a] [:b :c])
    (mt/wait-until #(seq @notes) {:timeout 60000})
    (scope/sleep 1000)
    @notes))

(deftest a-singleton-does-not-begin-with-the-token-of-a-lease-that-is-over
  (doseq [seed (range 3)
          :let [held (atom false)
                notes (atom [])]]
    (with-redefs [leader/ask (held-back leader/ask held notes)
                  singleton/end leave-running]
      (is (not (noted-by-two? (mt/simulate {:seed seed} (cut-off-when held notes)))) seed))))

(defn- begun-by-two-tokens
  "What the leader says to a keeper that was given two tokens, and begins with the first, the second and an earlier one."
  []
  (actor/with-process {}
    (gs/cast leader/server-name [:enrol (self) :teller])
    (mt/wait-until cluster/active? {:timeout 30000})
    (let [token #(do (gs/cast leader/server-name [:token (self)])
                     (receive [:token t _] t))
          [a b] [(token) (token)]]
      (mapv #(gs/call leader/server-name [:begin (self) %]) [(dec (long a)) a b]))))

(deftest a-singleton-may-begin-with-each-token-of-the-lease
  (is (= [false true false] ; the last one, because one has begun
         (mt/simulate {:seed 1}
           (start (mt/network) :a {})
           (mt/on-node :a begun-by-two-tokens)))))

;; ---- leaders without a keeper

(defn- kept-by
  "A network of nodes, of which only these keep the singleton, when it is known on all."
  [nodes keepers]
  (let [net (mt/network {:latency [1 20] :detector 1000})]
    (run! #(start net % {}) nodes)
    (run! keep-teller keepers)
    (mt/wait-until #(every? who nodes) {:timeout 60000})
    net))

(defn- seen-from
  "Where the singleton runs, and the view, as the node knows."
  [node]
  (let [{:keys [leader members]} (mt/on-node node #(:agreement (status/now)))]
    [(first (who node)) leader members]))

(deftest the-oldest-member-that-keeps-a-singleton-leads
  (doseq [seed (range 3)]
    (is (= [:b "b@sim" ["b@sim" "a@sim" "c@sim"]] (mt/simulate {:seed seed} (kept-by [:a :b :c] [:b :c]) (seen-from :a))) seed)
    (is (= [:b "b@sim" ["b@sim" "a@sim"]] (mt/simulate {:seed seed} (kept-by [:a :b] [:b]) (seen-from :a))) seed)))

(deftest after-a-loss-a-member-that-keeps-the-singleton-leads
  (is (= [:d "d@sim" "d@sim"]
         (mt/simulate {:seed 1}
           (kept-by [:a :b :c :d] [:b :d])
           (mt/crash-node :b)
           (mt/wait-until #(and (= :d (first (who :a))) (= 3 (count (peek (seen-from :a))))) {:timeout 60000})
           (let [[node leader [oldest]] (seen-from :a)]
             [node leader oldest])))))

(defn- keep-once
  "Starts the singleton on the node under a supervisor that starts no keeper again."
  [node notes]
  (let [spec {:name :stubborn :start [start-stubborn notes] :shutdown 800}]
    (simulated/run-on node (fn []
                             (actor/flag :trap-exit true)
                             (sup/start-link {:intensity 0 :children [{:id :singleton :start [singleton/start-link spec]}]})
                             (receive :never nil)))))

(defn- notes-when-given-up
  "What is noted when the supervisor of the leader has given up its keeper, until the next node runs the singleton."
  []
  (let [net (mt/network {:latency [1 20] :detector 1000})
        notes (atom [])]
    (run! #(start net % {}) [:a :b])
    (mt/wait-until #(mt/on-node :b cluster/active?) {:timeout 30000})
    (run! #(keep-once % notes) [:a :b])
    (mt/wait-until #(seq @notes) {:timeout 30000})
    (kill-keeper :a)
    (mt/wait-until #(apply not= ((juxt first peek) @notes)) {:timeout 30000})
    (scope/sleep 3000)
    @notes))

(deftest a-leader-hands-over-when-the-singleton-of-its-last-keeper-has-ended
  (doseq [seed (range 5)]
    (is (not (noted-by-two? (mt/simulate {:seed seed} (notes-when-given-up)))) seed)))

(deftest a-leader-that-hands-over-while-a-singleton-runs-is-found
  (with-redefs [agreement/keeping (let [keeping agreement/keeping]
                                    (fn [{[name] :me :as state} names idle now]
                                      (if (= "a@sim" name) (keeping state [] true now) (keeping state names idle now))))]
    (is (some #(noted-by-two? (mt/simulate {:seed %} (notes-when start-stubborn (constantly nil)))) (range 5)))))

(defn- with-one-that-the-leader-does-not-keep
  "What `cluster status` has of a and b some time after b keeps one more singleton than the leader, and where the other one runs."
  []
  (started [:a :b] {})
  (keep-on :b {:name :other :start [start-teller :b] :shutdown 200})
  (scope/sleep 30000)
  [(mapv (fn [node] (mt/on-node node #(:unkept (:agreement (status/now))))) [:a :b]) (first (who :b))])

(deftest a-singleton-that-the-leader-does-not-keep-is-reported-once
  (let [seen (atom nil)
        reported (reports-of #(reset! seen (mt/simulate {:seed 1} (with-one-that-the-leader-does-not-keep))))]
    (is (= [[[":other"] [":other"]] :a] @seen))
    (is (= [(str "The singleton :other does not run: the leader of the view, a@sim, has no keeper of it, only b@sim has one. Give a@sim a "
                 "child with `singleton/start-link` for it, or let a@sim leave the cluster.")]
           reported))))

;; ---- the end of the leader's server

(deftest a-keeper-enrols-again-for-whatever-reason-the-server-has-ended
  (let [ref (actor/make-ref)]
    (is (= [:noreply {:shutdown 200}]
           (actor/with-process {}
             (#'singleton/handle-info [:DOWN ref :process nil :kill] {:server ref :shutdown 200}))))))

;; ---- nodes with another policy or lease

(defn- with-an-incompatible-node
  "The node of the singleton, seen from three nodes, of which the last has joined with another lease; and which are active."
  []
  (let [net (started [:a :b] {})]
    (start net :c {:lease 1000})
    (keep-teller :c)
    (scope/sleep 15000)
    [(mapv (comp first who) [:a :b :c]) (mapv #(mt/on-node % cluster/active?) [:a :b :c])]))

(deftest a-node-with-another-lease-runs-no-singleton-and-is-reported-once
  (let [seen (atom nil)
        reported (reports-of #(reset! seen (mt/simulate {:seed 1} (with-an-incompatible-node))))]
    (is (= [[:a :a nil] [true true false]] @seen))
    (is (= 3 (count (distinct reported)) (count reported)) "a and b report c, and c reports a, the node that asks it")
    (is (some #{(str "The node c@sim has :split-brain {:policy :keep-majority, :lease 1000}, and this node, a@sim, has "
                     "{:policy :keep-majority, :lease 2000}, so neither is a member for the other. Start nodes again so "
                     "that all have the same :split-brain.")}
              reported))))

;; ---- nodes that answer too late

(deftest a-lease-that-is-too-short-for-the-network-is-reported-once
  (let [reported (reports-of (fn []
                               (mt/simulate {:seed 1}
                                 (let [net (mt/network {:latency [400 450] :detector 5000})]
                                   (run! #(start net % {:lease 1000}) [:a :b])
                                   (scope/sleep 60000)))))]
    (is (= 1 (count reported)))
    (is (re-find (re-pattern (str "^The node b@sim took [89]\\d\\d ms to answer this one, a@sim\\. That is more than a quarter of the :lease of "
                                  "1000 ms, so no node leads, or one without that node: give all nodes a longer :lease\\.$"))
                 (str (first reported))))))

(defn- after-rounds
  "The state of the server after rounds that end at these times, in seconds, so many in a row late before each end."
  [rounds]
  (let [me ["a@sim" 1]
        other ["b@sim" 1]
        second 1000000000
        core (agreement/initial me {:kind :keep-majority} second 0)]
    (reduce (fn [state [at late]]
              (#'leader/report-slow-node (assoc state :core (assoc core :late late :connected #{other} :took {other second})) (* at second)))
            {}
            rounds)))

(deftest a-node-that-is-slow-again-after-a-long-time-is-reported-again
  (is (= [1 1 2]
         (for [rounds [[[1 4] [2 5] [3 6] [8 0] [12 0]]
                       [[2 5] [9 0] [10 5] [19 0] [20 5]]
                       [[2 5] [9 0] [13 0] [14 4] [15 5] [16 6]]]]
           (count (reports-of #(after-rounds rounds)))))))

;; ---- slow nodes, and messages that mean nothing

(defn- flood
  "Sends more to the node than its queue takes, and notes the end."
  [node ended]
  (let [text (apply str (repeat 100000 "x"))]
    (dotimes [_ 50]
      (! [:sink node] text))
    (reset! ended true)))

(defn- beside-a-slow-node
  "What b is told about the singleton before c reads nothing of a, and some leases later; and if the queue of a to c is full then."
  []
  (let [net (mt/network {:latency [1 20] :detector 60000})
        ended (atom false)]
    (run! #(start net % {}) [:a :b :c])
    (mt/wait-until #(every? (fn [n] (mt/on-node n cluster/active?)) [:a :b :c]) {:timeout 30000})
    (run! keep-teller [:a :b])
    (mt/wait-until #(who :b) {:timeout 30000})
    (let [before (who :b)]
      (mt/cut net [:a] [:c] {:one-way true})
      (simulated/run-on :a flood (simulated/full-name :c) ended)
      (scope/sleep 10000)
      [before (who :b) (not @ended)])))

(defn- unharmed? [[before after full?]]
  (and full? (some? before) (= before after)))

(deftest a-slow-node-does-not-take-the-lease-from-the-others
  (doseq [seed (range 3)]
    (is (unharmed? (mt/simulate {:seed seed} (beside-a-slow-node)))))
  (testing "a server that waits for room loses it"
    (with-redefs [leader/post !]
      (is (not (unharmed? (mt/simulate {:seed 1} (beside-a-slow-node))))))))

(def ^:private garbage
  [nil 7 [] [:heard] {:a 1} [:token :x] [:runs nil nil nil] [:enrol nil nil] [:ended 1] [:DOWN 1 2 3 4] [:lease]
   ["x" :ask {}] (vec (range 100))])

(defn- heard-garbage
  "Messages of another node that are not of the protocol, each except one part as it could be."
  [me]
  (let [node ["b@sim" 1]
        view {:epoch 9 :ballot [9 node] :members [node] :leader node}
        good {:from node :to me :view view :token 0}]
    (concat garbage
            [[me :ask good] [me :ask (assoc good :ballot [1 nil] :number 1)] [me :ask (assoc good :ballot [9 node] :number 1 :echo "x")]
             [me :view (assoc good :view {})] [me :view (assoc good :token nil)] [me :view (assoc-in good [:view :members] [])]
             [me :view (assoc-in good [:view :ballot] 9)] [me :view (assoc good :rules {:lease nil})] [me :view (dissoc good :from)]
             [me :accept (assoc good :ballot [9 node] :value {})] [me :answer (assoc good :ballot [9 node])]])))

(defn- send-garbage
  "Sends all of it to the server of this node."
  []
  (doseq [x garbage]
    (! leader/server-name x)
    (gs/cast leader/server-name x)
    (gs/call leader/server-name x))
  (doseq [x (heard-garbage (:me (:core (sys/get-state leader/server-name))))]
    (! leader/server-name [::leader/heard x])))

(deftest garbage-ends-nothing-and-is-reported
  (let [seen (atom nil)
        reported (reports-of
                   (fn []
                     (reset! seen
                             (mt/simulate {:seed 1}
                               (start (mt/network) :a {})
                               (keep-teller :a)
                               (mt/wait-until #(who :a) {:timeout 30000})
                               (let [observed #(mt/on-node :a (fn [] [(actor/whereis leader/server-name) (cluster/active?)]))
                                     before [(observed) (who :a)]]
                                 (mt/on-node :a send-garbage)
                                 (scope/sleep 10000)
                                 [before [(observed) (who :a)]])))))]
    (is (apply = @seen))
    (is (= (repeat (count (heard-garbage ["a@sim" 1])) "The message is not one of this version.") reported))))

;; ---- a :shutdown that is too long for the lease

(def ^:private too-long
  (str "`singleton/start-link`: the :shutdown of :teller, 1001 ms, is more than half of the cluster's :lease, 2000 ms. "
       "Give it a shorter :shutdown, or give all nodes a longer :lease in :split-brain."))

(defn- with-shutdown [shutdown]
  {:name :teller :start [start-teller :a] :shutdown shutdown})

(deftest a-shutdown-of-more-than-half-of-the-lease-is-refused
  (is (thrown-with-msg? IllegalArgumentException (re-pattern (str "^\\Q" too-long "\\E$"))
                        (mt/simulate {:seed 1}
                          (start (mt/network) :a {})
                          (mt/on-node :a #(actor/with-process {} (singleton/start-link (with-shutdown 1001))))))))

(deftest a-shutdown-that-is-too-long-for-a-cluster-that-is-joined-later-is-reported-once
  (let [seen (atom nil)
        reported (reports-of (fn []
                               (reset! seen (mt/simulate {:seed 1}
                                              (mt/start-node :a)
                                              (keep-on :a (with-shutdown 1001))
                                              (start (mt/network) :a {})
                                              (scope/sleep 20000)
                                              [(mt/on-node :a cluster/active?) (who :a)]))))]
    (is (= [[true nil] [too-long]] [@seen reported]))))

(deftest half-of-the-lease-is-enough-for-a-shutdown
  (is (= :a (mt/simulate {:seed 1}
              (start (mt/network) :a {})
              (keep-on :a (with-shutdown 1000))
              (mt/wait-until #(who :a) {:timeout 30000})
              (first (who :a))))))

;; ---- proof: a singleton writes to a register outside, with its token, while ways are cut

(defn- write
  "A write to the register, which knows the greatest token. With :fenced it refuses a lesser one. :turns has the writers whose writes
  were taken, with their tokens, each as often as it has followed another one."
  [{:keys [greatest fenced turns] :as register} writer token]
  (let [stale (< (long token) (long greatest))
        turn [writer token]]
    (cond-> (-> (update register :greatest max token)
                (update-in [:writers token] (fnil conj #{}) writer))
      stale (update :tried inc)
      (not (or (and stale fenced) (= turn (peek turns)))) (update :turns conj turn))))

(defn- in-turn?
  "Has each token one writer, and was none taken of a writer after one with a greater token?"
  [{:keys [writers turns]}]
  (and (every? #(= 1 (count %)) (vals writers))
       (apply < 0 (map second turns))))

(defn- start-writer [register token]
  (let [writer (Object.)]
    [:ok (actor/spawn-link (fn []
                             (loop []
                               (swap! register write writer token)
                               (scope/sleep 100)
                               (recur))))]))

(defn- keep-writer [node register]
  (keep-on node {:name :writer :start [start-writer register] :shutdown 100}))

(defn- cut-some
  "Cuts ways that the seed chooses: around a node, in one direction, or between two that both reach the third."
  [net]
  (let [[a b c] (environment/shuffled [:a :b :c])
        [how] (environment/shuffled [:around :one-way :between])]
    (case how
      :around (mt/cut net [a] [b c])
      :one-way (mt/cut net [a] [b c] {:one-way true})
      :between (mt/cut net [a] [b]))))

(defn- written
  "The register after two cuts, a crash and a restart, where the nodes' clocks differ."
  [fenced split-brain]
  (let [net (mt/network {:latency [1 20] :detector 500})
        register (atom {:greatest 0 :tried 0 :fenced fenced :writers {} :turns []})
        begin (fn [node] (start net node (merge {:lease 1000} split-brain)) (keep-writer node register))]
    (mt/start-node :a {:skew 300 :rate 1.05})
    (run! begin [:a :b :c])
    (mt/wait-until #(pos? (long (:greatest @register))) {:timeout 30000})
    (mt/cut net [:a] [:b :c])
    (scope/sleep 4000)
    (mt/heal net)
    (scope/sleep 1000)
    (cut-some net)
    (scope/sleep 4000)
    (mt/heal net)
    (let [[node] (environment/shuffled [:a :b :c])]
      (mt/crash-node node)
      (scope/sleep 2000)
      (mt/restart-node node)
      (begin node))
    (scope/sleep 3000)
    @register))

(defn- one-at-a-time?
  ([] (one-at-a-time? {}))
  ([split-brain]
   (let [{:keys [tried] :as register} (written true split-brain)]
     (and (zero? (long tried)) (in-turn? register)))))

(defn- checked [more program]
  (mt/check* (merge {:runs runs :properties [] :repeats 0} more) program))

;; With faults a node may start while it reaches no other, and then begins a cluster of its own, except with a static quorum.
(deftest ^{:spec ["C152"]} no-write-of-an-old-singleton-is-even-tried
  (is (:passed (checked {} one-at-a-time?)))
  (is (:passed (checked {:faults #{:flap :cut-link} :fault-rate 0.001} #(one-at-a-time? {:policy :static-quorum :quorum 2})))))

(deftest a-register-that-checks-tokens-takes-the-writes-of-one-singleton-after-the-other
  (with-redefs [singleton/end leave-running]
    (is (:passed (checked {} #(in-turn? (written true {})))))))

;; ---- controls: each of these defects has to be found

(defn- is-found [program]
  (is (not (:passed (checked {:runs 1000 :report (constantly nil)} program)))))

(deftest a-register-that-does-not-check-is-found
  (with-redefs [singleton/end leave-running]
    (is-found #(in-turn? (written false {})))))

(deftest a-token-that-is-given-twice-is-found
  (with-redefs [agreement/step (let [step agreement/step]
                                 (fn [state [what :as event] now]
                                   (cond-> (step state event now)
                                     (= :token what) (assoc :token 1))))]
    (is-found #(in-turn? (written true {})))))

(deftest a-minority-that-goes-on-is-found
  (with-redefs [policy/active? (constantly true)]
    (is-found one-at-a-time?)))

(deftest a-singleton-that-starts-before-the-old-one-has-ended-is-found
  (with-redefs [agreement/sure (fn [{:keys [lease]}] (* 3 (long lease)))]
    (is-found one-at-a-time?)))
