(ns magnetar.cluster.global-test
  "Global names and locks on simulated nodes."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.impl.claims :as claims]
   [magnetar.cluster.impl.global :as names]
   [magnetar.cluster.impl.global.request :as request]
   [magnetar.cluster.impl.global.table :as table]
   [magnetar.cluster.impl.global.talk :as talk]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.cluster.simulated :refer [in-process join]]
   [magnetar.etf :as etf]
   [magnetar.gen-server :as gs]
   [magnetar.global :as global]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.environment :refer [shuffled]]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.cluster.impl Cookie)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.process Peers Pid)))

(set! *warn-on-reflection* true)

(defn- connected? [nodes]
  (every? #(= (dec (count nodes)) (count (mt/on-node % cluster/nodes))) nodes))

(defn- await-connected [nodes]
  (mt/wait-until #(connected? nodes) {:timeout 60000}))

(defn- start-all [net nodes]
  (run! mt/start-node nodes)
  (run! #(join net %) nodes)
  (await-connected nodes)
  net)

(defn- idle []
  (spawn (fn [] (receive :never nil))))

(defn- register-idle
  "Registers a new process on the node; the answer."
  ([node name] (register-idle node name global/random-exit-name))
  ([node name resolve] (mt/on-node node #(global/register-name name (idle) resolve))))

(defn- home
  "The node of the process that has the name, as the node knows it."
  [node name]
  (mt/on-node node #(some-> (global/whereis-name name) actor/node)))

(defmacro ^:private cluster
  "The value of `body` in a simulation with the nodes a, b and c, which are connected by `net`."
  [seed & body]
  `(mt/simulate {:seed ~seed}
     (let [~'net (start-all (mt/network {:latency [1 20] :detector 200}) [:a :b :c])]
       ~@body)))

(defn- await-nodes
  "Waits until the node is connected with so many others."
  [node n]
  (mt/wait-until #(= n (count (mt/on-node node cluster/nodes))) {:timeout 60000}))

(defn- homes [name]
  (mapv #(home % name) [:a :b :c]))

(defn- await-homes
  "Waits until the nodes agree on the home of the name that f accepts; returns that."
  [name f]
  (mt/wait-until #(let [found (homes name)] (and (apply = found) (f (first found)))) {:timeout 20000})
  (first (homes name)))

(defn- part
  "Cuts the node off the others, and waits until all know."
  [net node]
  (mt/cut net [node] (remove #{node} [:a :b :c]))
  (await-nodes node 0)
  (run! #(await-nodes % 1) (remove #{node} [:a :b :c])))

(defn- heal [net]
  (mt/heal net)
  (await-connected [:a :b :c]))

;; ---- names

(deftest a-name-is-known-on-all-nodes-when-it-is-registered
  (doseq [seed (range 5)]
    (is (= [:yes ["b@sim" "b@sim" "b@sim"] :no :no [:leader]]
           (cluster seed
             [(register-idle :b :leader)
              (homes :leader)
              (register-idle :a :leader)
              (register-idle :b :leader)
              (mt/on-node :c global/registered-names)])))))

(deftest a-name-goes-with-its-process-and-at-once-on-its-node
  (doseq [seed (range 5)]
    (is (= [nil :yes "c@sim"]
           (cluster seed
             (let [pid (mt/on-node :b #(let [pid (idle)] (global/register-name :leader pid) pid))]
               (mt/on-node :b #(do (actor/exit pid :kill) nil))
               [(home :b :leader) (register-idle :c :leader) (await-homes :leader some?)]))))))

(deftest a-name-goes-with-its-node
  (doseq [seed (range 5)]
    (is (= [:yes nil :yes ["a@sim" nil "a@sim"]]
           (cluster seed
             (let [answer (register-idle :b :leader)]
               (mt/crash-node :b)
               (run! #(await-nodes % 1) [:a :c])
               [answer (home :a :leader) (register-idle :a :leader)
                [(home :a :leader) nil (home :c :leader)]]))))))

(defn- heirs
  "Processes of a and c that monitor the process with the name, and take it when its node is lost; the atom of their answers."
  []
  (let [answers (atom [])]
    (doseq [node [:a :c]]
      (mt/on-node node (fn []
                         (spawn (fn []
                                  (let [ref (actor/monitor [:global :leader])]
                                    (receive [:DOWN ref _ _ _] nil)
                                    (let [seen (global/whereis-name :leader)]
                                      (swap! answers conj [(global/register-name :leader (self)) (some-> seen actor/node)])
                                      (receive :never nil)))))
                         nil)))
    answers))

(deftest ^{:spec ["C150"]} a-process-that-is-told-of-a-lost-node-can-take-its-names
  (doseq [seed (range 10)]
    (is (= {:yes 1 :no 1}
           (cluster seed
             (register-idle :b :leader)
             (let [answers (heirs)]
               (scope/sleep 200)
               (mt/crash-node :b)
               (mt/wait-until #(= 2 (count @answers)) {:timeout 20000})
               (is (not-any? #{"b@sim"} (map second @answers)))
               (frequencies (map first @answers))))))))

(deftest a-name-is-unregistered-from-any-node
  (is (= [:ok [nil nil nil] :ok :yes]
         (cluster 1
           (register-idle :b :leader)
           [(mt/on-node :c #(global/unregister-name :leader))
            (homes :leader)
            (mt/on-node :c #(global/unregister-name :leader))
            (register-idle :a :leader)]))))

(deftest a-name-is-given-to-another-process
  (doseq [seed (range 5)]
    (is (= [:yes ["a@sim" "a@sim" "a@sim"] :no #{"b@sim" "a@sim"}]
           (cluster seed
             (register-idle :b :leader)
             (let [seen (atom #{})
                   looks (spawn (fn [] (loop [] (swap! seen conj (home :c :leader)) (scope/sleep 1) (recur))))
                   answer (mt/on-node :a #(global/re-register-name :leader (idle)))
                   homes (homes :leader)]
               (actor/exit looks :kill)
               [answer homes (register-idle :b :leader) (disj @seen nil)]))))))

(def ^:private starter
  "Starts processes for callers, which get their pids."
  {:init (fn [_] [:ok nil])
   :handle-call (fn [request _ s]
                  [:reply (case request
                            :start (idle)
                            :node (actor/node))
                   s])
   :handle-cast (fn [_ s] [:noreply s])})

(defn- start-server [node name]
  (mt/on-node node #(let [[how x] (gs/start starter nil {:name name})]
                      (if (= :ok how) :ok x))))

(deftest a-process-of-another-node-is-registered
  (is (= [:yes ["b@sim" "b@sim" "b@sim"] :no true nil]
         (cluster 1
           (start-server :b :starter)
           (let [[answer again refused] (mt/on-node :a (fn []
                                                         (let [pid (gs/call [:starter "b@sim"] :start)]
                                                           [(global/register-name :far pid global/notify-all-name)
                                                            (global/register-name :far pid)
                                                            (try (global/register-name :further pid (fn [_ a _] a))
                                                                 (catch IllegalArgumentException e
                                                                   (some? (re-find #"with a resolver of the program. works on processes of this node"
                                                                                   (ex-message e)))))])))]
             [answer (homes :far) again refused (home :b :further)])))))

(deftest addresses-lead-to-other-nodes
  (is (= [:ok "b@sim" "b@sim" :hello "b@sim" :already-started [:down :killed]]
         (cluster 1
           (let [started (start-server :b [:global :server])]
             (mt/on-node :b (fn [] (spawn (fn []
                                            (global/register-name :echo (self))
                                            (loop [] (receive [from x] (! from x)) (recur))))
                              nil))
             (mt/wait-until #(home :a :echo))
             (into [started]
                   (mt/on-node :a
                     (in-process
                       (fn []
                         (! [:global :echo] [(self) :hello])
                         [(gs/call [:global :server] :node)
                          (gs/call [:via 'magnetar.global :server] :node)
                          (receive x x)
                          (actor/node (global/send :echo [(self) :hello]))
                          (first (second (gs/start-link starter nil {:name [:global :server]})))
                          (let [ref (actor/monitor [:global :server])]
                            (actor/exit (actor/whereis [:global :server]) :kill)
                            (receive [:DOWN ref _ _ why] [:down why]))])))))))))

(deftest names-that-were-there-before-the-cluster-are-told
  (is (= ["b@sim" :no [true nil]]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (run! mt/start-node [:a :b])
             (register-idle :b :early)
             (run! #(join net %) [:a :b])
             (await-connected [:a :b])
             (mt/on-node :a global/sync)
             (let [found (home :a :early)
                   answer (register-idle :a :early)]
               (register-idle :a :other)
               (mt/on-node :b cluster/stop)
               [found answer
                (mt/on-node :b (fn [] [(some? (global/whereis-name :early)) (global/whereis-name :other)]))]))))))

(deftest a-name-that-a-node-cannot-read-is-refused
  (is (re-find #"The name .* cannot be registered in this cluster: it cannot be sent to the node"
               (cluster 1
                 (mt/on-node :a #(try (global/register-name (Object.) (idle)) (catch IllegalArgumentException e (ex-message e))))))))

(defrecord ^:private Order [number])

(def ^:private with-orders
  {:extensions [(etf/record-extension :my/order Order map->Order)]})

(defn- on-one-that-reads-orders
  "The value of (f net) in a simulation with the connected nodes a, which can read orders, and b, which cannot. `before` is called before they join."
  ([f] (on-one-that-reads-orders (fn [] nil) f))
  ([before f]
   (:value (mt/simulate* {:seed 1}
             (fn []
               (let [net (mt/network)]
                 (run! mt/start-node [:a :b])
                 (before)
                 (join net :a with-orders)
                 (join net :b)
                 (await-connected [:a :b])
                 (f net)))))))

(defn- misuse-of
  "What the misuse says that f throws."
  [f]
  (try (f) (catch IllegalArgumentException e (ex-message e))))

(deftest a-name-that-only-one-node-has-an-extension-for-is-refused
  (let [[refused answer] (on-one-that-reads-orders
                           (fn [_]
                             [(mt/on-node :a (fn [] (misuse-of #(global/register-name (->Order 1) (idle)))))
                              (register-idle :a :another)]))]
    (is (re-find #"cannot be registered in this cluster: the node b@sim cannot read it" refused))
    (is (= :yes answer))))

(deftest a-name-that-the-node-of-the-process-cannot-read-is-refused
  (let [[order function later] (on-one-that-reads-orders
                                 (fn [_]
                                   (start-server :b :starter)
                                   (mt/on-node :a
                                     (in-process
                                       (fn []
                                         (let [pid (gs/call [:starter "b@sim"] :start)
                                               answer #(misuse-of (fn [] (global/register-name % pid)))]
                                           (mapv answer [(->Order 1) identity :later])))))))]
    (is (re-find #"cannot be registered in this cluster: the node b@sim cannot read it" order))
    (is (re-find #"cannot be registered in this cluster: it cannot be sent to the node b@sim" function))
    (is (= :yes later))))

(deftest an-unread-name-of-before-the-cluster-is-in-the-way-of-nothing
  (is (= [["b@sim" nil] :ok :ok "a@sim" :ok]
         (on-one-that-reads-orders
           (fn []
             (mt/on-node :a #(do (global/register-name (->Order 1) (idle))
                                 (global/register-name :early (idle)))))
           (fn [_]
             (let [synced (mt/on-node :b global/sync)
                   early (home :b :early)]
               [[(when early "b@sim") (mt/on-node :b #(some #{(->Order 1)} (global/registered-names)))]
                (mt/on-node :a #(global/unregister-name (->Order 1)))
                synced
                early
                (mt/on-node :a global/sync)]))))))

;; ---- sync

(deftest a-node-without-a-server-of-names-is-not-waited-for
  (is (= [["b@sim"] :ok :yes]
         (mt/simulate {:seed 1}
           (let [net (mt/network)]
             (run! mt/start-node [:a :b])
             (mt/on-node :b (fn []
                              (spawn (fn []
                                       (actor/flag :trap-exit true)
                                       (Peers/setName "b@sim")
                                       (hub/start-link {:network (mt/endpoint net :b)
                                                        :name "b@sim"
                                                        :cookie (.keyFor (Cookie/of "0123456789abcdef") "session")
                                                        :notify (constantly nil)})
                                       (receive :never nil)))
                              nil))
             (join net :a)
             (await-nodes :a 1)
             [(mt/on-node :a cluster/nodes)
              (mt/on-node :a global/sync)
              (register-idle :a :leader)])))))

;; ---- a server of an earlier version

(defn- as-before
  "Tells the node, and what it says, without what earlier versions do not have."
  [node]
  (let [tell talk/tell-strictly]
    (fn [state to [kind :as content]]
      (let [before? (#{(Peers/name) to} node)]
        (cond
          (and before? (= :told-all kind)) (tell state to [:told-all])
          (and before? (#{:singly :asked :unread} kind)) nil
          :else (tell state to content))))))

(deftest a-server-of-an-earlier-version-agrees-with-the-others-about-names
  (doseq [node ["a@sim" "b@sim"]
          seed (range 3)]
    (with-redefs [talk/tell-strictly (as-before node)]
      (is (= [[:yes :yes] ["a@sim" "b@sim"] [:ok :ok :ok] [:no :no] [:ok nil] :yes]
             (cluster seed
               (part net :b)
               (let [apart [(register-idle :a :leader) (register-idle :b :keeper)]]
                 (heal net)
                 [apart
                  (mapv #(await-homes % some?) [:leader :keeper])
                  (mapv #(mt/on-node % global/sync) [:a :b :c])
                  [(register-idle :b :leader) (register-idle :c :keeper)]
                  [(mt/on-node :b #(global/unregister-name :leader)) (await-homes :leader nil?)]
                  (register-idle :b :leader)])))))))

;; ---- a name that two processes have

(defn- in-both
  "Registers the name on a and b while they are parted, with the resolver; then they meet. What the processes were told, by their node."
  [net resolve]
  (let [told (atom {})
        register (fn [node]
                   (mt/on-node node
                     (fn []
                       (global/register-name :leader
                                             (spawn (fn [] (loop [] (let [x (receive x x)] (swap! told assoc node (take 2 x))) (recur))))
                                             resolve))))]
    (part net :a)
    (let [answers (mapv register [:a :b])]
      (heal net)
      (run! #(mt/on-node % global/sync) [:a :b :c])
      {:answers answers :told told})))

(deftest by-default-one-of-two-processes-is-killed
  (let [kept (for [seed (range 6)]
               (cluster seed
                 (in-both net global/random-exit-name)
                 (let [home (await-homes :leader some?)]
                   [home (mapv #(count (mt/on-node % (fn [] (filter #{:leader} (global/registered-names))))) [:a :b :c])])))]
    (is (= #{"a@sim" "b@sim"} (set (map first kept))))
    (is (= #{[1 1 1]} (set (map second kept))))))

(deftest one-of-two-processes-is-told
  (is (= #{true}
         (set (for [seed (range 4)]
                (cluster seed
                  (let [{:keys [told]} (in-both net global/random-notify-name)
                        loser ({"a@sim" :b "b@sim" :a} (await-homes :leader some?))]
                    (mt/wait-until #(seq @told))
                    (= {loser [:global-name-conflict :leader]} @told))))))))

(deftest both-processes-are-told
  (is (= [nil {:a [:global-name-conflict :leader] :b [:global-name-conflict :leader]} :yes]
         (cluster 1
           (let [{:keys [told]} (in-both net global/notify-all-name)]
             (mt/wait-until #(= 2 (count @told)))
             [(await-homes :leader nil?) @told (register-idle :c :leader)])))))

(deftest a-resolver-of-the-program-decides-once-on-the-node-whose-name-sorts-first
  (doseq [[resolve home] {(fn [_ a _] a) "a@sim", (fn [_ _ b] b) "b@sim", (fn [_ _ _] nil) nil}]
    (is (= [[:yes :yes] home [["a@sim" :leader "a@sim" "b@sim"]]]
           (cluster 2
             (let [calls (atom [])
                   {:keys [answers]} (in-both net (fn [name a b]
                                                    (swap! calls conj [(actor/node) name (actor/node a) (actor/node b)])
                                                    (resolve name a b)))]
               [answers (await-homes :leader #(= home %)) @calls]))))))

(deftest a-resolver-that-fails-frees-the-name
  (let [run (mt/simulate* {:seed 1}
              (fn []
                (let [net (start-all (mt/network {:latency [1 20] :detector 200}) [:a :b :c])]
                  (in-both net (fn [_ _ _] (throw (ex-info "cannot decide" {}))))
                  [(await-homes :leader nil?) (register-idle :c :leader)])))]
    (is (= [nil :yes] (:value run)))
    (is (= ["cannot decide"] (map (comp ex-message :error) (:failures run))))))

(deftest nodes-that-do-not-see-each-other-are-arbitrated-by-one-that-sees-both
  (doseq [seed (range 4)]
    (is (= [[:yes :yes] [true true]]
           (cluster seed
             (part net :a)
             (mt/cut net [:b] [:c])
             (await-nodes :b 0)
             (let [answers [(register-idle :a :leader) (register-idle :b :leader)]]
               (mt/heal net)
               (mt/cut net [:a] [:b])
               (mt/wait-until #(= [["c@sim"] ["c@sim"] ["a@sim" "b@sim"]] (mapv (fn [node] (mt/on-node node cluster/nodes)) [:a :b :c]))
                              {:timeout 60000})
               (mt/on-node :c global/sync)
               (mt/wait-until #(= 1 (count (remove nil? [(home :a :leader) (home :b :leader)]))) {:timeout 20000})
               [answers [(some? (home :c :leader))
                         (= (home :c :leader) (or (home :a :leader) (home :b :leader)))]]))))))

(deftest a-third-node-keeps-a-name-from-being-registered-twice
  (is (= [:yes :no "a@sim" nil]
         (cluster 1
           (mt/cut net [:a] [:b])
           (run! #(await-nodes % 1) [:a :b])
           [(register-idle :a :leader) (register-idle :b :leader) (home :c :leader) (home :b :leader)]))))

(deftest an-unregistered-name-stays-away
  (is (= [:ok ["a@sim" nil] [nil nil nil]]
         (cluster 1
           (register-idle :a :leader)
           (mt/cut net [:b] [:c])
           (run! #(await-nodes % 1) [:b :c])
           (let [found (home :c :leader)
                 answer (mt/on-node :b #(global/unregister-name :leader))
                 after (home :c :leader)]
             (heal net)
             (run! #(mt/on-node % global/sync) [:a :b :c])
             [answer [found after] (homes :leader)])))))

(deftest what-is-no-message-of-a-server-is-ignored
  (is (= ["b@sim" :unknown-request]
         (cluster 1
           (register-idle :b :leader)
           (mt/on-node :a
             (in-process (fn []
                            (doseq [garbage [:x nil [] [:x :y] "text" {} [::talk/message 1 2] [::talk/message (self) [:gone :leader 1 nil]]
                                             [:DOWN 1 2 3 4]]]
                              (! [talk/server-name "b@sim"] garbage)
                              (! talk/server-name garbage))
                            (gs/cast talk/server-name :x))))
           [(await-homes :leader some?) (mt/on-node :a #(gs/call talk/server-name [:x]))]))))

;; ---- locks

(defn- locker
  "A process on the node that locks the resource, notes the answer, and keeps the lock until it gets :unlock."
  [node answers resource]
  (mt/on-node node (fn [] (spawn (fn []
                                   (let [id [resource (self)]]
                                     (swap! answers conj [node (global/set-lock id)])
                                     (receive :unlock (global/del-lock id))
                                     (swap! answers conj [node :unlocked])))))))

(deftest a-lock-has-one-requester
  (is (= [true false false :aborted true [:did true]]
         (cluster 1
           (let [answers (atom [])
                 pid (locker :a answers :r)
                 try-on (fn [node] (mt/on-node node (in-process #(global/set-lock [:r (self)] {:retries 0}))))]
             (mt/wait-until #(seq @answers))
             (into [(second (first @answers)) (try-on :b) (try-on :a)
                    (mt/on-node :c (in-process #(global/trans [:r (self)] (fn [] :did) {:retries 1})))]
                   (do
                     (mt/on-node :a #(do (! pid :unlock) nil))
                     (mt/wait-until #(= 2 (count @answers)))
                     [(try-on :b)
                      [(mt/on-node :c (in-process #(global/trans [:r (self)] (fn [] :did)))) (try-on :a)]])))))))

(deftest a-requester-locks-several-times-and-unlocks-as-often
  (is (= [true true false true false true true]
         (cluster 1
           (mt/on-node :a
             (in-process
               (fn []
                 (let [other #(global/set-lock [:r :other] {:retries 0})]
                   [(global/set-lock [:r :me])
                    (global/set-lock [:r :me])
                    (other)
                    (global/del-lock [:r :me])
                    (other)
                    (global/del-lock [:r :me])
                    (other)]))))))))

(deftest an-unlock-without-a-lock-changes-nothing
  (is (= [true true]
         (cluster 1
           (mt/on-node :a (in-process #(dotimes [_ 3] (global/del-lock [:r (self)]))))
           (scope/sleep 5000)
           [(connected? [:a :b :c])
            (mt/on-node :b (in-process #(global/set-lock [:r (self)] {:retries 0})))]))))

(deftest a-lock-goes-with-its-process-and-with-its-node
  (doseq [end [#(mt/on-node :a (fn [] (actor/exit % :kill) nil))
               (fn [_] (mt/crash-node :a))]]
    (is (= [[:a true] [:b true]]
           (cluster 3
             (let [answers (atom [])
                   pid (locker :a answers :r)]
               (mt/wait-until #(seq @answers))
               (locker :b answers :r)
               (scope/sleep 500)
               (end pid)
               (mt/wait-until #(= 2 (count @answers)) {:timeout 20000})
               @answers))))))

(deftest a-lock-that-a-node-cannot-read-is-refused-and-stays-nowhere
  (doseq [[resource why] [[(->Order 1) #"^The lock .* cannot be set in this cluster: the node b@sim cannot read it. Use a resource"]
                          [identity #"^The lock .* cannot be set in this cluster: it cannot be sent to the node b@sim: "]
                          [(nth (iterate vector []) 300) #"^The lock .* cannot be set in this cluster: it cannot be sent to the node b@sim: "]]]
    (let [[refused aborted del other locks]
          (on-one-that-reads-orders
            (fn [_]
              (mt/on-node :a
                (in-process
                  (fn []
                    (let [id [resource (self)]]
                      [(misuse-of #(global/set-lock id))
                       (misuse-of #(global/trans id (fn [] :called)))
                       (global/del-lock id)
                       (global/set-lock [resource :another] {:nodes ["a@sim"] :retries 0})
                       (mt/on-node :b (fn [] @(tables/locks)))]))))))]
      (is (re-find why refused))
      (is (re-find why aborted))
      (is (= [true true {}] [del other locks])))))

(deftest a-lock-that-the-third-node-cannot-read-is-set-on-no-other
  (let [[refused others] (:value (mt/simulate* {:seed 1}
                                   (fn []
                                     (let [net (mt/network)]
                                       (run! mt/start-node [:a :b :c])
                                       (run! #(join net % with-orders) [:a :b])
                                       (join net :c)
                                       (await-connected [:a :b :c])
                                       (mt/on-node :b
                                         (in-process
                                           (fn []
                                             [(misuse-of #(global/set-lock [(->Order 1) (self)]))
                                              (mapv #(mt/on-node % (fn [] @(tables/locks))) [:a :b :c])])))))))]
    (is (re-find #"the node c@sim cannot read it" refused))
    (is (= [{} {} {}] others))))

(deftest a-name-can-be-registered-while-locks-are-held
  (is (= [:yes :no true]
         (cluster 1
           (mt/on-node :a
             (in-process
               (fn []
                 (global/trans [:leader (self)]
                               #(vector (global/register-name :leader (self))
                                        (global/register-name :leader (self))
                                        (some? (global/whereis-name :leader)))))))))))

;; ---- what holds in any run

(def ^:private runs (Long/getLong "magnetar.runs" 10))

(defn- draw
  "One of the things, by the seed."
  [things]
  (nth things (.random (Fiber/current) (count things))))

(defn- candidate
  "Registers a new process on the node, and adds it to the atom if it has got the name."
  [candidates node name]
  (spawn (fn []
           (try
             (mt/on-node node (fn []
                                (let [pid (idle)]
                                  (when (= :yes (global/register-name name pid))
                                    (swap! candidates conj {:name name :pid pid :node node})))))
             (catch Exception _)))) ; the node has crashed
  nil)

(defn- strike-out
  "Marks the candidates that the test itself ends."
  [candidates ended?]
  (swap! candidates (fn [all] (mapv #(cond-> % (ended? %) (assoc :ended true)) all))))

(defn- end-one
  "Kills one of the processes."
  [candidates]
  (when-some [{:keys [node pid]} (when-some [left (seq (remove :ended @candidates))] (draw (vec left)))]
    (strike-out candidates #(= [node pid] [(:node %) (:pid %)]))
    (mt/on-node node #(do (actor/exit pid :kill) nil))))

(defn- crash [net candidates node]
  (mt/crash-node node)
  (strike-out candidates #(= node (:node %)))
  (scope/sleep 1000)
  (mt/restart-node node)
  (join net node))

(defn- disturb [net candidates nodes]
  (let [name (draw [:x :y])
        [a b] (shuffled nodes)]
    (case (draw [:one :one :two :two :all :end :cut :cut :one-way :part :heal :wait :crash])
      :one (candidate candidates a name)
      :two (run! #(candidate candidates % name) [a b])
      :all (run! #(candidate candidates % name) nodes)
      :end (end-one candidates)
      :cut (mt/cut net [a] [b])
      :one-way (mt/cut net [a] [b] {:one-way true})
      :part (mt/cut net [a] (filterv #(not= a %) nodes))
      :heal (mt/heal net)
      :wait (scope/sleep 700)
      :crash (crash net candidates a))
    (scope/sleep (draw [0 5 50 400]))))

(defn- holders
  "The text of the pid that each node has for the name; text of this node is as elsewhere."
  [nodes name]
  (mapv (fn [node] (mt/on-node node #(when-some [pid (global/whereis-name name)]
                                       [(actor/node pid) (.serial ^Pid pid) (.creation ^Pid pid)])))
        nodes))

(defn- broken
  "What does not hold of the name when all is quiet, or nil."
  [nodes candidates name]
  (let [found (holders nodes name)
        ours (filter #(= name (:name %)) candidates)
        alive (for [{:keys [node pid]} (remove :ended ours)
                    :let [there (mt/on-node node #(vector (actor/node) (.serial ^Pid pid) (.creation ^Pid pid) (actor/alive? pid)))]
                    :when (peek there)]
                (pop there))]
    (cond
      (apply not= found) [:disagree name found]
      (< 1 (count alive)) [:both-kept name alive]
      (not= (first found) (first alive)) [:another name found alive]
      (and (seq ours) (empty? alive) (not-any? :ended ours)) [:all-killed name])))

(defn- disturbed
  "What does not hold after random registrations, deaths, cuts and crashes, when the network is healed."
  [nodes steps]
  (let [net (start-all (mt/network {:latency [1 20] :detector 200}) nodes)
        candidates (atom [])]
    (dotimes [_ steps]
      (disturb net candidates nodes))
    (mt/heal net)
    (scope/sleep 3000)
    (await-connected nodes)
    (loop [left 10]
      (scope/sleep 1000)
      (let [found (some #(broken nodes @candidates %) [:x :y])]
        (if (and found (pos? left)) (recur (dec left)) (or found :fine))))))

(defn- checked [more program]
  (mt/check* (merge {:runs runs :properties [] :repeats 0} more) program))

(defn- names-hold []
  (let [found (disturbed [:a :b :c] 12)]
    (or (= :fine found)
        (throw (ex-info (pr-str found) {})))))

(deftest names-hold-in-any-run
  (is (:passed (checked {:runs (* 3 (long runs))} names-hold))))

(deftest names-hold-where-links-flap
  (is (:passed (checked {:faults #{:cut-link :flap} :fault-rate 0.003 :max-faults 4} names-hold))))

(defn- registered-by-one?
  "Do processes of all nodes, which are connected, get the name once, and once more when it is free?"
  []
  (start-all (mt/network {:latency [1 20] :detector 2000}) [:a :b :c])
  (let [answers (atom [])
        rush (fn []
               (reset! answers [])
               (doseq [node [:a :b :c :a]]
                 (spawn (fn [] (swap! answers conj (register-idle node :leader)))))
               (mt/wait-until #(= 4 (count @answers)) {:timeout 60000})
               (= {:yes 1 :no 3} (frequencies @answers)))]
    (and (rush)
         (mt/on-node :b #(= :ok (global/unregister-name :leader)))
         (rush))))

(deftest one-of-several-rivals-gets-the-name
  (is (:passed (checked {:runs (* 3 (long runs))} registered-by-one?))))

(defn- gone-while-connecting?
  "Is a name that ends while two nodes connect gone on both?"
  []
  (let [net (mt/network {:latency [1 20] :detector 200})]
    (run! mt/start-node [:a :b])
    (join net :b)
    (let [pid (mt/on-node :b #(let [pid (idle)] (global/register-name :leader pid) pid))]
      (spawn (fn [] (join net :a)))
      (scope/sleep (draw (range 0 150 3)))
      (mt/on-node :b #(do (actor/exit pid :kill) nil)))
    (await-connected [:a :b])
    (scope/sleep 500)
    (nil? (home :a :leader))))

(deftest a-name-that-ends-while-nodes-connect-is-gone
  (is (:passed (checked {:runs (* 6 (long runs))} gone-while-connecting?))))

(defn- excluded?
  "Is a lock held by one process at a time, while its holders are killed and a node crashes? And is it free in the end?"
  []
  (let [net (start-all (mt/network {:latency [1 20] :detector 200}) [:a :b :c])
        inside (atom #{})
        most (atom 0)
        work (fn [node]
               (mt/on-node node (fn []
                                  (spawn (fn []
                                           (let [id [:r (self)]]
                                             (global/set-lock id)
                                             (swap! inside conj [node (self)])
                                             (swap! most max (count @inside))
                                             (scope/sleep (draw [1 30]))
                                             (swap! inside disj [node (self)])
                                             (global/del-lock id)))))))
        workers (mapv (fn [_] (let [node (draw [:a :b :c])] [node (work node)])) (range 5))
        [node pid] (draw workers)]
    (scope/sleep (draw [0 30 100 300]))
    (if (draw [true false])
      (do
        (mt/on-node node #(do (swap! inside disj [node pid]) (actor/exit pid :kill) nil))
        (swap! inside disj [node pid]))
      (do
        (mt/crash-node :c)
        (swap! inside (fn [in] (into #{} (remove (comp #{:c} first)) in)))))
    (scope/sleep 20000)
    (and (some? net)
         (<= (long @most) 1)
         (mt/on-node :a (in-process #(global/set-lock [:r (self)] {:retries 0}))))))

(deftest locks-exclude-and-are-freed
  (is (:passed (checked {:runs (* 2 (long runs))} excluded?))))

;; ---- controls: each of these defects has to be found

(defn- is-found
  "Does the program fail for one of a thousand seeds? Nothing is shrunk."
  [program]
  (is (some #(not (true? (try
                           (mt/simulate {:seed %} (program))
                           (catch Exception _ :failed))))
            (range 1000))))

(deftest a-merge-that-keeps-both-is-found
  (with-redefs [claims/rivals (constantly [])]
    (is-found names-hold)))

(deftest a-name-that-outlives-its-node-is-found
  (with-redefs [table/without-peer (fn [state _] state)]
    (is-found names-hold)))

(deftest a-resolver-on-both-sides-is-found
  (let [rivals claims/rivals]
    (with-redefs [claims/rivals (fn [live] (let [pairs (rivals live)] (concat pairs (map reverse pairs))))
                  claims/stronger? (fn [_ _] (draw [true false]))]
      (is-found names-hold))))

(deftest a-node-that-is-told-nothing-while-it-connects-is-found
  (with-redefs [talk/listeners (fn [state] (set (talk/peers state)))]
    (is-found gone-while-connecting?)))

(deftest a-reservation-that-others-may-have-too-is-found
  (with-redefs [request/reserved-by-another? (constantly false)]
    (is-found registered-by-one?)))

(deftest a-lock-that-stays-with-the-dead-is-found
  (with-redefs [names/locker-ended (fn [state _] state)]
    (is-found excluded?)))
