(ns magnetar.cluster.agreement-test
  "The protocol by which nodes agree on a view, as pure functions: random runs with cuts of single ways, crashes, restarts, lost and late
  messages, and clocks that differ. At most one node has the lease, and tokens only grow."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.cluster.impl.agreement :as agreement]
   [magnetar.cluster.impl.policy :as policy])
  (:import
   (java.util Random)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 70))

;; ---- a small network: nodes are numbers, time is in ms

(def ^:private lease 1000)

(defn- clock
  "What the clock of the node shows; each has its own speed, and its own beginning."
  [node now]
  (+ (* 100000 (long node)) (quot (* (+ 100 (mod (long node) 3)) (long now)) 100)))

(defn- id [{:keys [creations]} node]
  [(str "n" node) (creations node)])

(defn- start [{:keys [policy now odd] :as world} node]
  (let [world (update-in world [:creations node] (fnil inc 0))
        [policy lease] (get odd node [policy lease])]
    (-> (assoc-in world [:states node] (agreement/initial (id world node) policy lease (clock node now)))
        (assoc-in [:next-tick node] now))))

(defn- linked? [{:keys [states cuts]} a b]
  (and (not= a b) (states a) (states b) (not (cuts #{a b}))))

(defn- latency [^Random random slow]
  (+ 1 (.nextInt random (if slow 120 30))))

(defn- post
  "The world with the messages of the node under way, behind the ones before them."
  [{:keys [states now ^Random random slow] :as world} node]
  (let [out (:out (states node))]
    (reduce (fn [world [to :as message]]
              (let [other (parse-long (subs (first to) 1))
                    way [node other]
                    at (max (+ (long now) (long (latency random slow))) (long (get-in world [:last way] 0)))]
                (if (linked? world node other)
                  (-> (assoc-in world [:last way] at)
                      (update-in [:under-way at] (fnil conj []) [node other message]))
                  world)))
            (assoc-in world [:states node :out] [])
            out)))

(defn- event [{:keys [now] :as world} node e]
  (-> (update-in world [:states node] agreement/step e (clock node now))
      (post node)))

(defn- arrive [world [from to message]]
  (if (linked? world from to)
    (event world to [:heard message])
    world))

(defn- seen
  "The nodes that the node is connected with, as it believes: late by the detector's time."
  [{:keys [beliefs] :as world} node]
  (into #{} (map #(id world %)) (filter #(linked? world node %) (beliefs node (keys (:states world))))))

(defn- tick-nodes [{:keys [now] :as world}]
  (reduce (fn [world node]
            (if (and (get-in world [:states node]) (<= (long (get-in world [:next-tick node])) (long now)))
              (-> (assoc-in world [:next-tick node] (+ (long now) 100))
                  (event node [:tick (seen world node)]))
              world))
          world
          (sort (keys (:states world)))))

;; ---- what has to hold

(defn- leaders [{:keys [states now]}]
  (filter #(some-> (states %) (agreement/has-lease? (clock % now))) (sort (keys states))))

(defn- give-tokens
  "Each leader may take a token; one that an active part knows is noted as given. The times of day differ."
  [{:keys [^Random random wants now] :as world}]
  (reduce (fn [world node]
            (let [{:keys [given token]} (get-in world [:states node])
                  want (wants node)]
              (cond
                (and want (<= (long want) (long given))) (-> (update world :given conj want) (update :wants dissoc node))
                (and (not want) (zero? (.nextInt random 20))) (-> (event world node [:token (- (long now) (* 200 (long node)))])
                                                                  (as-> w (assoc-in w [:wants node] (get-in w [:states node :token]))))
                :else world)))
          (update world :wants select-keys (leaders world))
          (leaders world)))

(defn- keeps-at
  "Does the node keep a singleton now? With :keepers each node keeps one in turn, for some leases, and then the next one too."
  [{:keys [keepers now]} node]
  (and keepers (< (mod (+ (quot (long now) 3000) (long node)) 4) 2)))

(defn- show-keepers [{:keys [states now] :as world}]
  (reduce (fn [world node]
            (let [keeps (keeps-at world node)]
              (update-in world [:states node] agreement/keeping (if keeps [:jobs] []) (not keeps) (clock node now))))
          world
          (keys states)))

(defn- check [{:keys [given] :as world}]
  (cond-> world
    (< 1 (count (leaders world))) (assoc :wrong [:two-leaders (leaders world)])
    (not (apply < -1 given)) (assoc :wrong [:tokens (take-last 3 given)])
    (seq (leaders world)) (update :led inc)))

;; ---- faults

(defn- pair [^Random random n]
  (let [a (.nextInt random n)]
    #{a (mod (+ a 1 (.nextInt random (dec (long n)))) n)}))

(defn- cut
  "Cuts the ways. A node that knows no view yet, and reaches no other, begins one of its own, except with a static quorum."
  [{:keys [restarts states] :as world} ways]
  (if (or (= :any restarts) (every? :view (vals states)))
    (update world :cuts into ways)
    world))

(defn- strikes
  "How seldom there is a fault: more often while a view is being decided."
  [{:keys [states]}]
  (if (some :proposal (vals states)) 15 150))

(defn- leaver
  "The leader, or nil. The only member of its view does not leave while ways are cut: the others would begin a view on each side."
  [{:keys [states cuts] :as world}]
  (when-some [leader (first (leaders world))]
    (when (or (empty? cuts) (next (:members (:view (states leader)))))
      leader)))

(defn- strike
  "A fault now and then: a way is cut or healed, a node crashes, crashed nodes start again."
  [{:keys [^Random random n states cuts restarts] :as world}]
  (case (long (.nextInt random (strikes world)))
    0 (cut world [(pair random n)])
    1 (assoc world :cuts #{})
    2 (let [part (set (filter (fn [_] (.nextBoolean random)) (range n)))]
        (cut world (for [a part b (remove part (range n))] #{a b})))
    3 (update world :slow not)
    4 (if restarts (update world :states dissoc (.nextInt random n)) world)
    5 (if (and restarts (or (= :any restarts) (empty? cuts)))
        (reduce start world (remove states (range n)))
        world)
    6 (if-let [node (leaver world)]
        (event world node [:leave])
        world)
    world))

(defn- forget-left
  "Nodes that have left are started again, when all can reach each other."
  [{:keys [states cuts n] :as world}]
  (reduce (fn [world node]
            (if (and (:leaving (states node)) (agreement/left? (states node)) (empty? cuts) (= n (count states)))
              (start world node)
              world))
          world
          (keys states)))

(def ^:private faulty-ms
  "How long there are faults."
  40000)

(defn- step-world [{:keys [now] :as world}]
  (let [now (+ 10 (long now))
        due (take-while #(<= (long (key %)) now) (:under-way world))
        world (update (assoc world :now now) :under-way #(reduce dissoc % (map key due)))]
    (-> (reduce arrive (show-keepers world) (mapcat val due))
        tick-nodes
        give-tokens
        (cond-> (< now faulty-ms) strike)
        forget-left
        check)))

(defn- world [seed policy n restarts]
  (reduce start
          {:random (Random. seed) :policy policy :n n :restarts restarts :now 0 :creations {} :states {} :cuts #{} :under-way (sorted-map)
           :last {} :wants {} :given [] :led 0 :beliefs (fn [_ nodes] nodes)}
          (range n)))

(defn- mended
  "The world without faults, in which all nodes run."
  [{:keys [n states] :as world}]
  (reduce start (assoc world :cuts #{} :slow false) (remove states (range n))))

(defn- whole
  "At the end one node leads, and all nodes belong to its view."
  [{:keys [n states] :as world}]
  (let [leaders (leaders world)]
    (cond-> world
      (or (not= 1 (count leaders))
          (not= n (count (:members (:view (states (first leaders)))))))
      (assoc :wrong [:no-leader-at-the-end leaders]))))

(def ^:private policies
  [[{:kind :keep-majority} 3 :whole] [{:kind :keep-majority} 5 nil] [{:kind :keep-majority} 4 nil] [{:kind :keep-oldest} 3 :whole]
   [{:kind :keep-oldest} 5 nil] [{:kind :static-quorum :quorum 2} 3 :any] [{:kind :static-quorum :quorum 3} 5 :any]])

(defn- run
  "The world at the end of the run, or when something is wrong. Faults end before the end."
  [seed policy n restarts]
  (loop [world (assoc (world seed policy n restarts) :keepers (odd? (quot (long seed) (count policies))))]
    (cond
      (:wrong world) world
      (< 55000 (long (:now world))) (whole world)
      (= faulty-ms (:now world)) (recur (step-world (mended world)))
      :else (recur (step-world world)))))

(defn- wrong [seeds]
  (first (for [seed seeds
               :let [[policy n restarts] (policies (mod seed (count policies)))
                     world (run seed policy n restarts)]
               :when (:wrong world)]
           [seed policy n (:now world) (:wrong world)])))

(deftest ^{:spec ["C151" "C152"]} at-most-one-node-has-the-lease-and-tokens-grow
  (is (nil? (wrong (range runs)))))

(deftest two-sides-never-take-the-same-token
  (let [taken (fn [me known ms]
                (:token (agreement/step (assoc (agreement/initial me {:kind :allow} lease 0) :token known) [:token ms] 0)))
        ms 1795975613078]
    (doseq [known [0 (bit-shift-left (+ ms 1000) 20)] ; the greatest one that both know is of the past, or of a faster clock
            :let [tokens (for [me [["a@sim" 1] ["b@sim" 1] ["a@sim" 2]]] (take 3 (rest (iterate #(taken me % ms) known))))]]
      (is (apply distinct? (apply concat tokens)))
      (is (every? #(apply < known %) tokens))
      (is (every? #(< (long (last %)) (bit-shift-left (+ ms 1004) 20)) tokens)))))

;; ---- the oldest node leads

(defn- run-until
  "The world after steps without faults, when (f world) is true, something is wrong, or it has taken a minute."
  [world f]
  (loop [world world]
    (if (or (:wrong world) (f world) (< 60000 (long (:now world))))
      world
      (recur (step-world world)))))

(defn- led?
  "Does a node lead, and do all know that?"
  [{:keys [states] :as world}]
  (when-let [[leader] (seq (leaders world))]
    (every? #(= (id world leader) (:leader (:view %))) (vals states))))

(defn- later [{:keys [now] :as world} ms]
  (run-until world #(< (+ (long now) (long ms)) (long (:now %)))))

(defn- members-of [world node]
  (mapv first (:members (:view (get-in world [:states node])))))

(defn- always-led?
  "Does the same node lead for ten seconds, and are all nodes active?"
  [{:keys [now] :as world}]
  (let [leader (leaders world)]
    (loop [world world]
      (cond
        (< (+ 10000 (long now)) (long (:now world))) true
        (not= leader (leaders world)) false
        (not-every? #(agreement/active? (val %) (clock (key %) (:now world))) (:states world)) false
        :else (recur (step-world world))))))

(defn- successor
  "The leader, and the one after its crash. Its last messages were slow, so the yeses to it end at different times."
  [seed n]
  (with-redefs [strike identity]
    (let [led (run-until (world seed {:kind :keep-majority} n nil) led?)
          before (later (assoc led :slow true) (+ 1000 (* 10 (mod seed 20))))
          after (run-until (-> (assoc before :slow false) (update :states dissoc 0)) led?)]
      (is (nil? (:wrong after)))
      [(leaders led) (leaders after)])))

(deftest the-oldest-node-leads-and-then-the-next
  (is (= #{[[0] [1]]} (set (for [seed (range 50) n [3 5]] (successor seed n))))))

(deftest a-lead-for-the-node-that-was-first-to-ask-is-found
  (with-redefs [agreement/next-leader (fn [{:keys [me]} _ _] me)]
    (is (< 1 (count (set (for [seed (range 100)] (successor seed 3))))))))

(defn- after-the-ways-of-the-next-are-cut
  "The nodes that lead when the first of 5 has crashed, and the second one reaches no other than the third one."
  []
  (with-redefs [strike identity]
    (let [before (run-until (world 1 {:kind :keep-majority} 5 nil) led?)]
      (leaders (later (-> (update before :states dissoc 0) (assoc :cuts #{#{1 3} #{1 4}})) 5000)))))

(deftest a-node-that-does-not-reach-all-leaves-the-lead-to-one-that-does
  (is (= [2] (after-the-ways-of-the-next-are-cut))))

;; ---- a leader that keeps no singleton

(defn- with-keepers
  "The world in which these nodes keep a singleton, and no others."
  [{:keys [states now] :as world} keepers]
  (reduce #(update-in %1 [:states %2] agreement/keeping (if (keepers %2) [:jobs] []) (not (keepers %2)) (clock %2 now)) world (keys states)))

(defn- handing-over
  "The world in which the first node leads, keeps no singleton for long, and has proposed that another one leads."
  []
  (with-redefs [strike identity
                show-keepers #(with-keepers % #{1 2})]
    (run-until (world 1 {:kind :keep-majority} 3 nil) #(and (led? %) (get-in % [:states 0 :proposal])))))

(deftest a-leader-without-a-singleton-hands-over-to-the-oldest-that-keeps-one
  (with-redefs [strike identity
                show-keepers #(with-keepers % #{1 2})]
    (let [after (later (handing-over) 1000)]
      (is (nil? (:wrong after)))
      (is (= [[1] ["n1" "n0" "n2"]] [(leaders after) (members-of after 2)])))))

(deftest a-leader-that-hands-over-starts-no-singleton
  (let [{:keys [states now] :as world} (handing-over)
        may-start? #(agreement/may-start? % (clock 0 now))]
    (is (= [0] (leaders world)))
    (is (= [false true] (map may-start? [(states 0) (dissoc (states 0) :pending)])))))

(deftest a-leader-keeps-the-lead-for-a-lease-without-a-keeper
  (with-redefs [strike identity
                show-keepers #(with-keepers % (if (< (mod (long (:now %)) 1000) 900) #{1} #{0 1}))]
    (is (always-led? (later (run-until (world 1 {:kind :keep-majority} 3 nil) led?) 500)))))

(deftest a-leader-hands-over-to-no-node-that-does-not-reach-all
  (with-redefs [strike identity
                show-keepers #(with-keepers % #{1 2})]
    (let [led (run-until (world 1 {:kind :keep-majority} 4 nil) led?)]
      (is (= [[0] [2]] [(leaders led) (leaders (later (assoc led :cuts #{#{1 3}}) 5000))])))))

;; ---- a view that one node knows to be decided, and others have only accepted

(defn- epoch-of [node world]
  (get-in world [:states node :view :epoch]))

(defn- after-a-cut-at-a-decision
  "Three nodes decide to let a fourth one in. When the leader knows that it is decided, it is cut off with the fourth one."
  []
  (with-redefs [strike identity]
    (let [three (run-until (world 1 {:kind :keep-majority} 3 nil) #(= [1 1 1] (map (fn [n] (epoch-of n %)) (range 3))))
          decided (run-until (start three 3) #(= 2 (epoch-of 0 %)))
          cut (assoc decided :cuts (set (for [a [0 3] b [1 2]] #{a b})))]
      (run-until cut #(< (+ 10000 (long (:now decided))) (long (:now %)))))))

(deftest what-was-accepted-is-decided-by-the-others-first
  (let [world (after-a-cut-at-a-decision)]
    (is (nil? (:wrong world)))
    (is (= [0] (leaders world)) "a half with the oldest node")))

(deftest a-view-that-was-accepted-and-is-forgotten-is-found
  (with-redefs [agreement/unfinished (constantly nil)]
    (is (= :two-leaders (first (:wrong (after-a-cut-at-a-decision)))))))

(defn- with-an-old-proposal
  "The world where a node was asked to accept that another one leads, before the leader has got its yes."
  [world]
  (let [view (get-in world [:states 0 :view])
        ballot [0 (id world 1)]]
    (assoc-in world [:states 2 :pending] {:ballot ballot
                                          :value (assoc view :epoch (inc (long (:epoch view))) :ballot ballot :leader (id world 1))})))

(deftest a-leader-does-not-give-its-lease-up-for-what-cannot-be-decided
  (with-redefs [strike identity]
    (let [led (later (run-until (world 1 {:kind :keep-majority} 3 nil) led?) 1000)
          lost (run-until (with-an-old-proposal led) #(empty? (leaders %)))]
      (is (= [0] (leaders led) (leaders lost))))))

;; ---- messages that take long

(defn- led-with
  "Do five nodes find a leader, and keep it, when a message takes so long?"
  [seed least most]
  (with-redefs [strike identity
                latency (fn [^Random random _] (+ (long least) (.nextInt random (- (long most) (long least)))))]
    (let [world (run-until (world seed {:kind :keep-majority} 5 nil) led?)]
      (and (led? world)
           (always-led? (later world 2000))))))

(deftest five-nodes-have-a-leader-where-a-round-trip-takes-a-fifth-of-the-lease
  (is (= [] (remove #(led-with % 90 100) (range 20))))
  (is (= [] (remove #(led-with % 40 100) (range 20))))
  (is (= [] (remove #(led-with % 1 100) (range 20)))))

(deftest a-question-that-was-held-up-makes-no-node-active
  (with-redefs [strike identity]
    (let [{:keys [states now]} (later (run-until (world 1 {:kind :keep-majority} 3 nil) led?) 1000)
          asked (:out (agreement/step (states 0) [:renew] (clock 0 now)))
          held-up (first (filter #(= "n2" (ffirst %)) asked))
          active-at (fn [ms]
                      (let [at (clock 2 (+ (long now) (long ms)))]
                        (agreement/active? (agreement/step (states 2) [:heard held-up] at) at)))]
      (is (= [true true false false] (map active-at [10 300 900 5000]))))))

;; ---- nodes with another policy or lease

(defn- hear-from-the-gone
  "The world in which the leader hears the last message of a node with other rules and a newer view, which is not connected any more."
  [world leader]
  (let [gone ["n9" 1]
        message {:from gone :to (id world leader) :token 0 :rules {:policy :keep-oldest :quorum nil :lease lease}
                 :view {:epoch 99 :ballot [99 gone] :members [gone] :leader gone}}]
    (event world leader [:heard [(id world leader) :view message]])))

(deftest the-last-message-of-an-incompatible-node-that-is-gone-stops-no-leader
  (with-redefs [strike identity]
    (let [heard (hear-from-the-gone (run-until (world 1 {:kind :keep-majority} 3 nil) led?) 0)]
      (is (= [[0] [0]] (map leaders [heard (later heard 5000)]))))
    (let [begun (later (hear-from-the-gone (later (world 1 {:kind :keep-majority} 3 nil) 500) 0) 10000)]
      (is (= [0] (leaders begun)) "nor does it hinder the first view"))))

(defn- with-odd
  "The world with the node started with other rules."
  [world node rules]
  (start (assoc-in world [:odd node] rules) node))

(def ^:private other-rules
  [[{:kind :keep-oldest} lease] [{:kind :keep-majority} 300] [{:kind :static-quorum :quorum 2} lease]])

(deftest a-node-with-other-rules-is-no-member
  (with-redefs [strike identity]
    (doseq [rules other-rules
            :let [world (later (with-odd (run-until (world 1 {:kind :keep-majority} 3 nil) led?) 3 rules) 20000)]]
      (is (nil? (:wrong world)) rules)
      (is (= [[0] ["n0" "n1" "n2"] []] [(leaders world) (members-of world 0) (members-of world 3)]) rules)
      (is (= [["n3" 1]] (keys (get-in world [:states 0 :incompatible])))))))

(deftest no-first-view-begins-beside-a-node-with-other-rules
  (with-redefs [strike identity]
    (doseq [rules other-rules
            :let [apart (later (with-odd (world 1 {:kind :keep-majority} 2 nil) 2 rules) 20000)
                  mended (later (start (dissoc apart :odd) 2) 20000)]]
      (is (= [[] [] [] []] (cons (leaders apart) (map #(members-of apart %) [0 1 2]))) rules)
      (is (= [[0] ["n0" "n1" "n2"]] [(leaders mended) (members-of mended 0)]) rules))))

(defn- after-a-start-apart
  "The world some time after nodes with other rules, that have each begun a view, reach each other. The lesser view has ended then."
  [seed rules]
  (let [world (assoc (world seed {:kind :keep-majority} 2 nil) :cuts #{#{0 2} #{1 2} #{0 3} #{1 3}})
        apart (later (reduce #(with-odd %1 %2 rules) world [2 3]) (* 100 (+ 50 (long seed))))]
    (later (assoc apart :cuts #{} :wrong nil) 3000)))

(deftest of-two-views-with-different-rules-the-lesser-one-gives-way
  (with-redefs [strike identity check identity]
    (doseq [rules other-rules
            seed (range 5)]
      (is (= 1 (count (leaders (after-a-start-apart seed rules)))) [rules seed]))))

(deftest a-view-that-gave-way-goes-on-when-the-other-one-is-gone
  (with-redefs [strike identity check identity]
    (doseq [rules other-rules
            :let [world (after-a-start-apart 1 rules)
                  [leader] (leaders world)
                  gone (if (< (long leader) 2) [0 1] [2 3])
                  after (later (update world :states #(apply dissoc % gone)) 5000)]]
      (is (= [(if (= [0 1] gone) 2 0)] (leaders after)) rules))))

(defn- as-before
  "Sends what the node says, and what it is told, without the parts that earlier versions do not have."
  [node]
  (let [say @#'agreement/say]
    (fn [state to kind m]
      (cond-> (say state to kind m)
        (#{(first (:me state)) (first to)} node) (update :out #(conj (pop %) (update (peek %) 2 dissoc :rules :sent :at :left :echo)))))))

(deftest a-node-of-an-earlier-version-is-a-member
  (doseq [node ["n0" "n1"]]
    (with-redefs [strike identity
                  agreement/say (as-before node)]
      (let [world (later (run-until (world 1 {:kind :keep-majority} 3 nil) led?) 1000)]
        (is (= ["n0" "n1" "n2"] (members-of world 0)))
        (is (always-led? world))))))

(deftest nodes-with-other-rules-that-are-believed-are-found
  (with-redefs [strike identity
                agreement/incompatible? (constantly false)]
    (is (some #(= :two-leaders (first (:wrong %)))
              (for [seed (range 20)
                    :let [world (reduce #(with-odd %1 %2 [{:kind :keep-majority} 300]) (world seed {:kind :keep-majority} 3 nil) [1 2])
                          led (later (run-until world led?) (* 10 (long seed)))]]
                (later (assoc led :cuts #{#{0 1} #{0 2}}) 2000))))))

;; ---- controls: each of these defects has to be found

(def ^:private many (range 1000))

(deftest a-node-that-says-yes-to-two-is-found
  (with-redefs [agreement/tied? (constantly false)]
    (is (some? (wrong many)))))

(deftest a-lease-that-outlasts-the-yes-is-found
  (with-redefs [agreement/sure (fn [{:keys [lease]}] (quot (* 12 (long lease)) 10))]
    (is (some? (wrong many)))))

(deftest a-minority-that-goes-on-is-found
  (with-redefs [policy/active? (constantly true)]
    (is (some? (wrong many)))))

(deftest a-token-that-is-not-told-is-found
  (with-redefs [agreement/learn (let [learn @#'agreement/learn] (fn [state m now] (learn state (assoc m :token 0) now)))]
    (is (some? (wrong many)))))
