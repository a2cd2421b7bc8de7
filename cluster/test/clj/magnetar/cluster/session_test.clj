(ns magnetar.cluster.session-test
  "Nodes that talk over a simulated network: the sessions, and what the processes see of cuts and crashes."
  (:refer-clojure :exclude [flush])
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self spawn]]
   [magnetar.cluster.impl.frames :as frames]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.impl.session :as session]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.address :as address]
   [magnetar.scope :as scope]
   [magnetar.scope.context :as context]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.network Network)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 50))

(def ^:private cookie (.getBytes "0123456789abcdef"))

(defn- join-again
  "Joins the network on the node, which runs, under its name; the events are added to the atom."
  ([net node] (join-again net node {}))
  ([net node options]
   (let [events (atom [])]
     (mt/on-node node (fn []
                        (spawn (fn []
                                 (actor/flag :trap-exit true)
                                 (Peers/setName (:name options (str (name node) "@sim")))
                                 (hub/start-link (merge {:network (mt/endpoint net node)
                                                         :name (str (name node) "@sim")
                                                         :cookie cookie
                                                         :notify #(swap! events conj %)}
                                                        options))
                                 (receive :never nil)))
                        nil))
     events)))

(defn- join
  "Starts the node, and joins the network on it."
  ([net node] (join net node {}))
  ([net node options]
   (mt/start-node node)
   (join-again net node options)))

(defn- connected?
  "Waits until each node has seen the others come up."
  [others events]
  (mt/wait-until #(every? (fn [e] (= others (count (set (filter (comp #{:up} first) @e))))) events) {:timeout 60000}))

(defn- echo []
  (receive
    [:echo from x] (do (! from [:echoed x]) (recur))
    [:die reason] (actor/exit reason)))

(defn- start-echo []
  (actor/register :echo (spawn echo))
  nil)

(defn- in-process [f]
  (fn [] (actor/with-process {} (f))))

(defn- report-of
  "What the failure of a run says."
  [{:keys [error]}]
  (ex-message error))

(deftest two-nodes-talk
  (is (= [[:echoed {:a [1 "x" :k #{2}]}] [:DOWN :process [:echo "b@sim"] :tired] :noproc]
         (mt/simulate {:seed 1}
           (let [net (mt/network)
                 events (mapv #(join net %) [:a :b])]
             (connected? 1 events)
             (mt/on-node :b start-echo)
             (mt/on-node :a
               (in-process
                 (fn []
                   (! [:echo "b@sim"] [:echo (self) {:a [1 "x" :k #{2}]}])
                   (let [answer (receive x x)
                         ref (actor/monitor [:echo "b@sim"])]
                     (! [:echo "b@sim"] [:die :tired])
                     [answer
                      (receive [:DOWN ref a b c] [:DOWN a b c])
                      (let [ref (actor/monitor [:echo "b@sim"])]
                        (receive [:DOWN ref _ _ why] why))])))))))))

(defn- said-on
  "What is said where this process runs, to the process that wants it."
  [from x]
  (! from [:said (actor/node) x])
  (receive :never nil))

(defn- spawned-there []
  (let [[pid ref] (hub/spawn-on "b@sim" [`said-on (self) :hi] {:monitor true})
        said (receive [:said node x] [node x])
        refusal (try (hub/spawn-on "b@sim" ['clojure.core/eval '(+ 1 2)] {}) (catch clojure.lang.ExceptionInfo e (ex-message e)))]
    (actor/exit pid :enough)
    [(actor/node pid) said (receive [:DOWN ref _ _ why] why) refusal]))

(deftest a-process-is-started-on-another-node-if-its-var-is-allowed
  (let [[node said why refusal] (mt/simulate {:seed 2}
                                  (let [net (mt/network)
                                        events [(join net :a) (join net :b {:spawnable #{#'said-on}})]]
                                    (connected? 1 events)
                                    (mt/on-node :a (in-process spawned-there))))]
    (is (= ["b@sim" ["b@sim" :hi] :enough] [node said why]))
    (is (re-find #"The node b@sim starts no clojure.core/eval for other nodes" refusal))))

(context/defcontext user "nobody")

(def ^:private teller
  {:init (fn [_] [:ok nil])
   :handle-call (fn [request _ s] [:reply (case request :user @user) s])
   :handle-cast (fn [_ s] [:noreply s])})

(deftest context-values-cross-nodes
  (is (= ["nobody" "ada"]
         (mt/simulate {:seed 2}
           (let [net (mt/network)
                 events (mapv #(join net %) [:a :b])]
             (connected? 1 events)
             (mt/on-node :b (fn [] (spawn (fn [] (gs/start teller nil {:name :teller}) (receive :never nil))) nil))
             (mt/wait-until (fn [] (mt/on-node :b #(some? (actor/whereis :teller)))))
             (mt/on-node :a
               (in-process #(vector (gs/call [:teller "b@sim"] :user)
                                    (context/with-context [user "ada"] (gs/call [:teller "b@sim"] :user))))))))))

;; ---- cuts and crashes

(defn- watch-echo
  "A process of this node that links and monitors the echo of b, and adds what it gets to the atom."
  [got]
  (fn []
    (spawn (fn []
             (actor/flag :trap-exit true)
             (! [:echo "b@sim"] [:echo (self) :hello])
             (let [ref (actor/monitor [:echo "b@sim"])]
               (loop []
                 (receive
                   [:DOWN ref _ _ why] (swap! got conj [:down why])
                   [:EXIT _ why] (swap! got conj [:exit why])
                   [:echoed x] (swap! got conj [:echoed x]))
                 (recur)))))
    nil))

(defn- talk-again?
  "Does the echo of b answer a call of a?"
  []
  (mt/on-node :a (in-process (fn []
                               (! [:echo "b@sim"] [:echo (self) :again])
                               (receive [:echoed x] (= :again x) (after 1000 false))))))

(defn- after-a-cut
  "What a process of a has got after the cut, and whether the nodes talk when it is healed."
  [options]
  (let [net (mt/network)
        events (mapv #(join net %) [:a :b])
        got (atom [])]
    (connected? 1 events)
    (mt/on-node :b start-echo)
    (mt/on-node :a (watch-echo got))
    (mt/wait-until #(seq @got))
    (mt/cut net [:b] [:a] options)
    (mt/wait-until #(every? (fn [e] (some #{:down} (map first @e))) events) {:timeout 20000})
    (mt/heal net)
    (mt/wait-until talk-again? {:timeout 60000})
    @got))

(deftest a-cut-is-down-on-both-sides-and-healed-they-connect-again
  (doseq [options [{} {:one-way true}]
          seed (range 5)]
    (is (= [[:echoed :hello] [:down :noconnection]] (mt/simulate {:seed seed} (after-a-cut options))))))

(deftest a-node-that-crashed-and-is-back-is-another-one
  (doseq [seed (range 5)]
    (is (= [[:echoed :hello] [:down :noconnection] true]
           (mt/simulate {:seed seed}
             (let [net (mt/network)
                   events (mapv #(join net %) [:a :b])
                   got (atom [])]
               (connected? 1 events)
               (mt/on-node :b start-echo)
               (mt/on-node :a (watch-echo got))
               (mt/wait-until #(seq @got))
               (mt/crash-node :b)
               (mt/wait-until #(= 2 (count @got)) {:timeout 20000})
               (mt/restart-node :b)
               (join-again net :b)
               (mt/wait-until #(mt/on-node :a (fn [] (some? (address/elsewhere [:echo "b@sim"])))) {:timeout 60000})
               (mt/on-node :b start-echo)
               (conj @got (talk-again?))))))))

(deftest three-nodes-are-connected-in-each-run
  (is (:passed (mt/check {:runs runs :properties []}
                 (let [net (mt/network)
                       events (mapv #(join net %) [:a :b :c])]
                   (connected? 2 events)
                   true)))))

;; ---- refusals

(deftest another-cookie-is-refused-on-both-sides
  (let [run (mt/simulate* {:seed 3}
              (fn []
                (let [net (mt/network)
                      events [(join net :a) (join net :b {:cookie (.getBytes "another cookie !")})]]
                  (scope/sleep 10000)
                  (mapv deref events))))]
    (is (= [[] []] (:value run)))
    (is (= #{"The node b@sim has another cookie than a@sim. Give all nodes of a cluster the same one."
             "The node a@sim has another cookie than b@sim. Give all nodes of a cluster the same one."}
           (set (map report-of (:failures run)))))))

(deftest the-younger-of-two-nodes-with-one-name-is-told
  (doseq [seed (range 5)]
    (is (= [[] [:refused "The name a@sim is taken by another node of the cluster. Start this one with another name."]]
           (mt/simulate {:seed seed}
             (let [net (mt/network)
                   a (join net :a)
                   _ (scope/sleep 3000)
                   b (join net :b {:name "a@sim"})]
               (mt/wait-until #(seq @b) {:timeout 20000})
               [@a (first @b)]))))))

(deftest a-greeting-that-comes-back-proves-nothing
  (let [mine {:name "a@sim" :creation 1 :versions [1 1] :nonce (byte-array 16 (byte 7))}
        session {:mine mine :cookie cookie}]
    (is (= session (#'session/greeted session (assoc mine :kind :hello))))))

(defn- through
  "The network, of which `change` makes another frame of each that is sent."
  [^Network network change]
  (reify Network
    (join [_ events] (.join network events))
    (view [_] (.view network))
    (send [_ to frame] (.send network to (change frame)))
    (cut [_ other] (.cut network other))
    (address [_] (.address network))
    (leave [_] (.leave network))))

(defn- lowered
  "The frame; a greeting says that its node speaks the oldest version only."
  [frame]
  (let [{:keys [kind] :as hello} (frames/parsed frame)]
    (if (= :hello kind)
      (frames/hello (assoc hello :versions [1 1]))
      frame)))

(defn- events-with
  "What the nodes a and b, which speak two versions, are told when `change` is on the way from a to b and back."
  [change]
  (:value (mt/simulate* {:seed 4}
            (fn []
              (let [net (mt/network)
                    events (mapv (fn [node]
                                   (mt/start-node node)
                                   (join-again net node {:versions [1 2] :network (through (mt/endpoint net node) change)}))
                                 [:a :b])]
                (scope/sleep 10000)
                (mapv (comp set #(map first %) deref) events))))))

(deftest a-version-that-is-lowered-on-the-way-is-refused
  (is (= [#{:up} #{:up}] (events-with identity)))
  (is (= [#{} #{}] (events-with lowered))))

(deftest a-session-that-fails-again-and-again-waits-longer-each-time
  (with-redefs [session/handle (fn [_ _] (throw (ex-info "a defect" {})))]
    (let [run (mt/simulate* {:seed 1}
                (fn []
                  (let [net (mt/network)]
                    (run! #(join net %) [:a :b])
                    (scope/sleep 60000))))]
      (is (< 20 (count (:failures run)) 50)))))

(deftest nodes-speak-the-newest-version-that-both-know
  (letfn [(events-of [a b]
            (let [run (mt/simulate* {:seed 4}
                        (fn []
                          (let [net (mt/network)
                                events [(join net :a {:versions a}) (join net :b {:versions b})]]
                            (scope/sleep 10000)
                            (mapv (comp first first deref) events))))]
              [(:value run) (some? (some #(re-find #"Update the older one" %) (map report-of (:failures run))))]))]
    (is (= [[:up :up] false] (events-of [1 1] [1 2])))
    (is (= [[:up :up] false] (events-of [1 3] [2 5])))
    (is (= [[nil nil] true] (events-of [1 1] [2 2])))))

;; ---- what the processes may rely on

(defn- numbered
  "Sends a few numbers to the process [:sink b@sim], with its pid."
  [n]
  (fn []
    (spawn (fn []
             (dotimes [i n]
               (! [:sink "b@sim"] [i (self)])
               (scope/sleep 20))
             (receive :never nil)))
    nil))

(defn- sink
  "Adds the numbers that it gets to the atom, and :lost where the node of their sender was."
  [got]
  (loop [ref nil]
    (receive
      [:DOWN ref _ _ _] (do (swap! got conj :lost) (recur nil))
      [n from] (do (swap! got conj n) (recur (or ref (actor/monitor from)))))))

(defn- without-holes?
  "Are the numbers between two losses in order, each once, and none left out?"
  [got]
  (and (every? (fn [part] (= part (range (first part) (+ (long (first part)) (count part)))))
               (remove #{[:lost]} (partition-by #{:lost} got)))
       (apply < -1 (remove #{:lost} got))))

(defn- numbers-arrive
  "What the sink has got when it was quiet for long."
  []
  (let [net (mt/network {:latency [1 50] :detector 200})
        got (atom [])
        events (mapv #(join net %) [:a :b])]
    (connected? 1 events)
    (mt/on-node :b (fn [] (actor/register :sink (spawn sink got)) nil))
    (mt/on-node :a (numbered 30))
    (scope/sleep 8000)
    @got))

(defn- told-once?
  "Each of many monitors, made at any time, is told of once: of the death, or of a lost node."
  []
  (let [net (mt/network {:latency [1 50] :detector 200})
        told (atom {})
        events (mapv #(join net %) [:a :b])]
    (connected? 1 events)
    (mt/on-node :b start-echo)
    (mt/on-node :a (fn []
                     (spawn (fn []
                              (dotimes [i 10]
                                (actor/monitor [:echo "b@sim"] {:tag [:gone i]})
                                (scope/sleep 100))
                              (loop []
                                (receive [[:gone i] _ _ _ why] (swap! told update i (fnil conj []) why))
                                (recur))))
                     nil))
    (scope/sleep 2000)
    (mt/crash-node :b)
    (mt/wait-until #(= 10 (count @told)) {:timeout 60000})
    (every? #(and (= 1 (count %)) (#{:noconnection :noproc} (first %))) (vals @told))))

(defn- checked [more program]
  (mt/check* (merge {:runs runs :faults #{:cut-link :flap} :fault-rate 0.02 :properties []} more) program))

(deftest ^{:spec ["C148"]} messages-stay-in-order-without-holes
  (is (:passed (checked {} #(without-holes? (numbers-arrive))))))

(deftest ^{:spec ["C149"]} each-monitor-is-told-of-once
  (is (:passed (checked {} told-once?))))

(deftest ^{:spec ["C148"]} without-faults-nothing-is-lost
  (is (:passed (checked {:faults #{}} #(= (range 30) (numbers-arrive))))))

;; ---- controls: each of these defects has to be found

(defn- is-found [program]
  (is (not (:passed (checked {:runs 1000 :report (constantly nil)} program)))))

(deftest a-session-that-ignores-a-loss-is-found
  (with-redefs [session/behind-a-loss? (constantly false)]
    (is-found #(without-holes? (numbers-arrive)))))

(deftest a-session-that-outlives-its-member-is-found
  (with-redefs [hub/end-session (constantly nil)]
    (is-found told-once?)))
