(ns magnetar.registry-test
  "Registries, and the names in them wherever a name may stand."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.agent :as agent]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.otp.servers :as servers]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.registry :as registry]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collected? eventually limit-ms with-failures with-hook]]
   [magnetar.sys :as sys])
  (:import
   (java.lang.ref WeakReference)
   (java.util.concurrent ConcurrentHashMap)
   (magnetar.kernel.process LocalProcess ProcessTable)
   (magnetar.registry.table Table)))

(set! *warn-on-reflection* true)

(use-fixtures :each
  (fn [f]
    (with-hook [:report (fn [_])]
      (with-failures [_] (scenarios/leaving-nobody #(actor/with-process {:trap-exit true} (f)))))))

(defn- refused
  "[reason sentence] of the misuse that f is."
  [f]
  (try
    [:no-error (f)]
    (catch IllegalArgumentException e
      [(:magnetar/reason (ex-data e)) (ex-message e)])))

(defn- unique []
  (registry/start-link {:keys :unique :name :unique}))

(defn- duplicate []
  (registry/start-link {:keys :duplicate :name :duplicate}))

(defn- message []
  (receive x x (after limit-ms :late)))

(defn- waiting
  "A process that calls f and waits, once f has returned."
  [f]
  (let [me (self)
        pid (actor/spawn (fn [] (f) (! me [:up (self)]) (receive :stop nil)))]
    (receive [:up pid] pid)))

(defn- end [pid]
  (let [ref (actor/monitor pid)]
    (actor/exit pid :kill)
    (receive [:DOWN ref _ _ why] why)))

;; ---- keys

(deftest ^{:spec ["C100"]} a-unique-key-belongs-to-one-process-until-it-gives-it-back
  (unique)
  (let [other (waiting #(registry/register :unique :k 1))]
    (is (= [:error [:already-registered other]] (registry/register :unique :k 2)))
    (is (= [[other 1]] (registry/lookup :unique :k)))
    (is (= :ok (registry/unregister :unique :k)) "somebody else's key is not given back")
    (is (= [[other 1]] (registry/lookup :unique :k)))
    (end other)
    (is (= :ok (first (registry/register :unique :k 2))))
    (is (= [:error [:already-registered (self)]] (registry/register :unique :k 3)) "also not twice by the same one")
    (is (= [[(self) 2]] (registry/lookup :unique :k)))))

(deftest ^{:spec ["C100"]} what-is-equal-is-one-key-and-any-value-is-one
  (unique)
  (doseq [[key same] [[1 1N] [nil nil] ["a" (str \a)] [[1 2] (list 1 2)] [{:a #{1}} (hash-map :a (hash-set 1))] [:k :k] [(self) (self)] [2 (int 2)]]]
    (testing [key same]
      (registry/register :unique key :v)
      (is (= [[(self) :v]] (registry/lookup :unique same)))
      (is (= :error (first (registry/register :unique same)))))))

(deftest numbers-that-are-not-equal-are-two-keys
  (unique)
  (is (= [:ok :ok] (map first [(registry/register :unique 1) (registry/register :unique 1.0)]))))

(deftest ^{:spec ["C100"]} a-duplicate-key-may-be-had-by-many-and-more-than-once
  (duplicate)
  (registry/register :duplicate :k 1)
  (registry/register :duplicate :k 2)
  (let [other (waiting #(registry/register :duplicate :k 3))]
    (is (= [[(self) 1] [(self) 2] [other 3]] (registry/lookup :duplicate :k)))
    (is (= [:k :k] (registry/keys :duplicate (self))))
    (is (= [1 2] (registry/values :duplicate :k (self))))
    (is (= 3 (registry/count :duplicate)))
    (is (= [[(self) 2] [other 3]] (registry/match :duplicate :k #(< 1 %))))
    (is (= :ok (registry/unregister-match :duplicate :k #{1})))
    (is (= [[(self) 2] [other 3]] (registry/lookup :duplicate :k)))
    (registry/unregister :duplicate :k)
    (is (= [[other 3]] (registry/lookup :duplicate :k)))))

(deftest a-registry-of-all-nodes-is-a-local-one-without-a-cluster
  (registry/start-link {:keys :duplicate :name :bus :nodes :all})
  (let [other (waiting #(registry/register :bus :k (Object.)))]
    (registry/register :bus :k 1)
    (is (= [other (self)] (map first (registry/lookup :bus :k))))
    (end other)
    (is (= [[(self) 1]] (registry/lookup :bus :k)))
    (is (= [:k] (registry/keys :bus (self))))
    (is (= [1 [[:k (self) 1]]] [(registry/count :bus) (registry/select :bus)]))
    (is (= :ok (registry/unregister :bus :k)))
    (is (= [] (registry/select :bus)))))

(deftest what-a-registry-of-all-nodes-needs-is-said
  (are [options reason part] (let [[why message] (refused #(registry/start-link options))]
                               (and (= reason why) (str/includes? message part)))
    {:keys :duplicate :name :bus :nodes ["b@shop"]} :magnetar/bad-option "The :nodes of a registry is :all"
    {:keys :duplicate :nodes :all} :magnetar/bad-option "has a :name"
    {:keys :unique :name :carts :nodes :all} :magnetar/bad-keys "magnetar.global"))

(deftest the-value-of-a-key-is-changed-by-its-owner
  (unique)
  (registry/register :unique :k 1)
  (is (= [2 1] (registry/update-value :unique :k inc)))
  (is (= [2] (registry/values :unique :k (self))))
  (is (= :error (registry/update-value :unique :other inc)))
  (let [other (waiting #(registry/register :unique :o 7))]
    (is (= :error (registry/update-value :unique :o inc)))
    (is (= [[other 7]] (registry/lookup :unique :o)))))

(deftest all-entries-are-selected-through-a-transducer
  (unique)
  (doseq [k [1 2 3]] (registry/register :unique k (* 10 k)))
  (is (= #{[1 (self) 10] [2 (self) 20] [3 (self) 30]} (set (registry/select :unique))))
  (is (= #{2 3} (set (registry/select :unique (comp (filter (fn [[_ _ v]] (< 10 v))) (map first))))))
  (is (= 1 (count (registry/select :unique (take 1))))))

(deftest what-is-dispatched-reaches-all-and-nobody-is-asked-for-none
  (duplicate)
  (let [me (self)]
    (dotimes [n 3] (waiting #(registry/register :duplicate :k n)))
    (is (= :ok (registry/dispatch :duplicate :k (fn [all] (! me (mapv second all))))))
    (is (= [0 1 2] (message)))
    (is (= :ok (registry/dispatch :duplicate :none (fn [_] (! me :called)))))
    (is (= [] (actor/flush)))))

(deftest metadata-is-kept-beside-the-entries
  (registry/start-link {:keys :unique :name :unique :meta {:a 1}})
  (is (= [:ok 1] (registry/meta :unique :a)))
  (is (= :error (registry/meta :unique :b)))
  (is (= :ok (registry/put-meta :unique :b nil)))
  (is (= [:ok nil] (registry/meta :unique :b)))
  (is (= :ok (registry/delete-meta :unique :b)))
  (is (= :error (registry/meta :unique :b))))

(deftest listeners-are-told-of-what-is-registered-and-given-back
  (actor/register :audit (self))
  (registry/start-link {:keys :unique :name :unique :listeners [:audit :nobody]})
  (registry/register :unique :k :v)
  (is (= [:register :unique :k (self) :v] (message)))
  (registry/register :unique :k :w)
  (registry/unregister :unique :k)
  (is (= [:unregister :unique :k (self)] (message)))
  (registry/unregister :unique :k)
  (is (= [] (actor/flush)) "what changes nothing is no event"))

;; ---- deaths

(deftest ^{:spec ["C101"]} whoever-has-learnt-of-a-death-finds-no-entry
  (unique)
  (duplicate)
  (dotimes [_ 50]
    (let [pid (waiting #(do (registry/register :unique :k) (registry/register :duplicate :k)))]
      (end pid)
      (is (= [[] [] nil] [(registry/lookup :unique :k) (registry/lookup :duplicate :k) (actor/whereis (registry/via :unique :k))]))
      (is (= [0 []] [(registry/count :unique) (registry/keys :duplicate pid)])))))

(defn- table-of ^Table [pid]
  (get (.dictionary ^LocalProcess (ProcessTable/live pid)) ::registry/table))

(defn- empty-table? [^Table table]
  (and (.isEmpty ^ConcurrentHashMap (.-of table)) (.isEmpty ^ConcurrentHashMap (.-at table))))

(deftest ^{:spec ["C101"]} of-the-dead-nothing-stays-in-the-table-once-a-monitor-has-told-of-the-death
  (let [[_ registry] (duplicate)
        table (table-of registry)]
    (actor/suspend-process registry)
    (dotimes [n 100]
      (end (waiting #(registry/register :duplicate (mod n 7))))
      (is (empty-table? table)))
    (actor/resume-process registry)))

(defn- owns-after?
  "Does a process own the table of the registry once it has called f?"
  [registry f]
  (let [table (table-of registry)
        pid (waiting f)]
    (boolean (some #(identical? table %) (.owned ^LocalProcess (ProcessTable/live pid))))))

(deftest a-process-owns-the-table-while-it-has-keys
  (let [[_ registry] (duplicate)]
    (is (= [false true false true]
           [(owns-after? registry (fn []))
            (owns-after? registry #(registry/register :duplicate :k))
            (owns-after? registry #(do (registry/register :duplicate :k) (registry/unregister :duplicate :k)))
            (owns-after? registry #(do (registry/register :duplicate :k) (registry/register :duplicate :l) (registry/unregister :duplicate :k)))]))))

(deftest ^{:spec ["C101"]} many-processes-that-register-and-die-leave-nothing
  (let [[_ pid] (unique)
        table (table-of pid)
        pids (mapv (fn [n] (actor/spawn (fn []
                                          (dotimes [k 20] (registry/register :unique k n))
                                          (when (odd? n) (actor/exit :boom)))))
                   (range 500))
        owners (fn [k] (count (registry/lookup :unique k)))]
    (is (every? #(<= % 1) (map owners (range 20))))
    (doseq [p pids] (try (actor/join p) (catch Exception _)))
    (is (= 0 (registry/count :unique)))
    (is (eventually (empty-table? table)))))

(deftest ^{:spec ["C102"]} who-has-a-key-ends-with-the-registry-and-who-has-none-does-not
  (let [[_ pid] (duplicate)
        with-key (waiting #(registry/register :duplicate :k))
        without (waiting #(do (registry/register :duplicate :k) (registry/unregister :duplicate :k)))
        ref (actor/monitor with-key)]
    (end pid)
    (is (= :killed (receive [:DOWN ref _ _ reason] reason)))
    (is (actor/alive? without))
    (is (= [:magnetar/no-such-registry] (take 1 (refused #(registry/lookup :duplicate :k)))))))

(deftest ^{:spec ["C102"]} who-did-not-get-its-key-does-not-end-with-the-registry
  (let [[_ pid] (unique)]
    (waiting #(registry/register :unique :k))
    (let [loser (waiting #(registry/register :unique :k))]
      (is (= [] (actor/process-info loser :links)))
      (end pid)
      (is (actor/alive? loser)))))

(deftest ^{:spec ["C102"]} who-started-a-registry-stays-linked-to-it
  (let [[_ pid] (unique)]
    (registry/register :unique :k)
    (registry/unregister :unique :k)
    (is (= [pid] (actor/process-info (self) :links)))))

(defn- dead-registry
  "Starts a registry, calls (f registry key) with a key for it, kills the registry; returns weak references to its table and to the key."
  [f]
  (let [[_ pid] (unique)
        key (Object.)
        references [(WeakReference. (table-of pid)) (WeakReference. key)]]
    (f pid key)
    (end pid)
    references))

(defn- trapping
  "A process that outlives those it is linked to: it calls f, and waits."
  [f]
  (waiting #(do (actor/flag :trap-exit true) (f))))

(deftest the-table-of-a-dead-registry-is-not-kept-by-a-process-that-had-a-key
  (let [pid (volatile! nil)
        references (dead-registry (fn [_ key]
                                    (let [given (volatile! key)] ; the process keeps its function, and must not keep the key by it
                                      (vreset! pid (trapping #(registry/register :unique @given)))
                                      (vreset! given nil))))]
    (is (= [true true] (mapv collected? references)))
    (is (actor/alive? @pid))))

(deftest the-table-of-a-dead-registry-is-not-kept-by-a-process-that-another-one-registered
  (let [pid (trapping (fn []))
        references (dead-registry (fn [registry key]
                                    (registry/register-name [:unique key] pid)
                                    (gs/call registry :after-the-cast)))]
    (is (= [true true] (mapv collected? references)))
    (is (actor/alive? pid))))

(deftest a-registry-that-had-a-key-of-its-own-lets-its-table-go
  (let [pid (trapping (fn []))
        references (dead-registry (fn [registry key]
                                    (registry/register-name [:unique key] pid)
                                    (registry/register-name [:unique :own] registry)
                                    (registry/unregister-name [:unique :own])
                                    (gs/call registry :after-the-casts)))]
    (is (= [true true] (mapv collected? references)))
    (is (actor/alive? pid))))

(deftest a-supervisor-starts-a-registry-anew-and-those-in-it
  (let [server {:id :server :start [gs/start-link servers/kid {:id :server} {:name (registry/via :unique :server)}]}
        s (servers/supervisor {:strategy :one-for-all :intensity 5
                               :children [{:id :registry :start [registry/start-link {:keys :unique :name :unique}]} server]})
        before (actor/whereis (registry/via :unique :server))]
    (is (= before (servers/pid-of s :server)))
    (servers/crash s :registry)
    (is (eventually (and (= [[:registry :up] [:server :up]] (servers/view s))
                         (not= before (servers/pid-of s :server)))))
    (is (= (servers/pid-of s :server) (actor/whereis (registry/via :unique :server))))))

;; ---- names wherever names may stand

(defn- echo []
  (let [to (self)]
    (fn [] (loop [] (receive [:stop why] (actor/exit why) m (do (! to [:got m]) (recur)))))))

(deftest ^{:spec ["C103"]} a-name-in-a-registry-stands-where-a-name-may
  (unique)
  (let [name (registry/via :unique "echo")
        pid (actor/spawn-opt (echo) {:name name})]
    (testing "whereis"
      (is (= pid (actor/whereis name))))
    (testing "!"
      (is (= :hi (! name :hi)))
      (is (= [:got :hi] (message))))
    (testing "send-after and start-timer"
      (actor/send-after 1 name :later)
      (is (= [:got :later] (message)))
      (let [timer (actor/start-timer 1 name :tick)]
        (is (= [:got [:timeout timer :tick]] (message))))
      (is (pos? (actor/cancel-timer (actor/send-after 100000 name :never)))))
    (testing "monitor"
      (let [ref (actor/monitor name)]
        (! name [:stop :bye])
        (is (= [:DOWN ref :process name :bye] (message)))
        (is (nil? (actor/whereis name)))
        (let [again (actor/monitor name)]
          (is (= [:DOWN again :process name :noproc] (message))))))))

(deftest ^{:spec ["C103"]} a-name-in-a-registry-may-be-registered-and-taken-back
  (unique)
  (let [name (registry/via :unique 1 :value)]
    (is (true? (actor/register name (self))))
    (is (= [[(self) :value]] (registry/lookup :unique 1)))
    (is (= :magnetar/name-taken (first (refused #(actor/register name (self))))))
    (is (true? (actor/unregister name)))
    (is (= [:magnetar/no-such-name] (take 1 (refused #(actor/unregister name)))))
    (let [other (waiting (fn []))]
      (actor/register name other)
      (is (= other (actor/whereis name)))
      (end other)
      (is (nil? (actor/whereis name))))))

(deftest ^{:spec ["C103"]} what-runs-under-a-name-in-a-registry
  (unique)
  (testing "a spawned process, which has the name before it runs"
    (let [me (self)]
      (actor/spawn-opt (fn [] (! me (= (self) (actor/whereis (registry/via :unique :a)))))
                       {:name (registry/via :unique :a)})
      (is (true? (message)))))
  (testing "a name that is taken"
    (registry/register :unique :b)
    (is (= :magnetar/name-taken (first (refused #(actor/spawn-opt (fn []) {:name (registry/via :unique :b)})))))
    (is (= :magnetar/name-taken (first (refused #(actor/with-process {:name (registry/via :unique :b)} nil))))))
  (testing "a guest"
    (is (= [:c] (actor/with-process {:name (registry/via :unique :c)} (registry/keys :unique (self)))))
    (is (nil? (actor/whereis (registry/via :unique :c)))))
  (testing "a server"
    (let [name (registry/via :unique :server)
          [_ pid] (gs/start-link servers/scripted (fn [] [:ok 5]) {:name name})]
      (is (= [:error [:already-started pid]] (gs/start servers/scripted (fn [] [:ok 5]) {:name name})))
      (is (= [5 :ok 6 6] [(gs/call name :get) (gs/cast name (fn [n] [:noreply (inc n)])) (gs/call name :get) (sys/get-state name)]))
      (is (= [:reply 6] (gs/wait-response (gs/send-request name :get))))
      (is (= :ok (gs/stop name)))
      (is (= :noproc (servers/failure #(gs/call name :get))))))
  (testing "a supervisor and an agent"
    (let [name (registry/via :unique :sup)]
      (sup/start-link {:children []} {:name name})
      (is (= :ok (first (sup/start-child name {:id :agent :start [agent/start-link (constantly 1) {:name (registry/via :unique :agent)}]}))))
      (is (= 1 (agent/get (registry/via :unique :agent) identity)))
      (is (= :ok (proc-lib/stop name))))))

(deftest ^{:spec ["C103"]} a-registry-may-be-any-namespace-or-map
  (let [names (atom {})
        mine {:register-name (fn [n pid] (if (= pid (get (swap! names #(if (% n) % (assoc % n pid))) n)) :yes :no))
              :whereis-name (fn [n] (@names n))
              :unregister-name (fn [n] (swap! names dissoc n))}]
    (actor/register [:via mine "me"] (self))
    (! [:via mine "me"] :hello)
    (is (= :hello (message)))
    (actor/register [:global :leader] (self))
    (! [:global :leader] :there)
    (is (= :there (message)))
    (actor/unregister [:global :leader])
    (is (nil? (actor/whereis [:global :leader])))))

(deftest ^{:spec ["C103"]} a-message-for-a-name-that-nobody-has
  (unique)
  (is (= :magnetar/no-such-name (first (refused #(! (registry/via :unique :nobody) :x)))))
  (is (= :ok (gs/cast (registry/via :unique :nobody) :x)))
  (actor/send-after 0 (registry/via :unique :nobody) :x)
  (let [[_ pid] (registry/start-link {:keys :unique :name :brief})]
    (actor/send-after 30 (registry/via :brief :nobody) :x)
    (gs/stop pid))
  (is (nil? (receive (after 60 nil))) "it is dropped, also if its registry has ended"))

;; ---- misuse

(deftest ^{:spec ["C83"]} misuse-of-a-registry-is-answered-with-its-remedy
  (unique)
  (duplicate)
  (doseq [[reason part f] [[:magnetar/bad-keys ":unique or :duplicate" #(registry/start-link {:keys :uniq})]
                           [:magnetar/bad-keys "nil" #(registry/start-link {})]
                           [:magnetar/unknown-option ":partitions" #(registry/start-link {:keys :unique :partitions 4})]
                           [:magnetar/bad-listeners "[:audit]" #(registry/start-link {:keys :unique :listeners :audit})]
                           [:magnetar/bad-option ":meta" #(registry/start-link {:keys :unique :meta [1]})]
                           [:magnetar/no-such-registry "Is :unique meant?" #(registry/lookup :uniqe :k)]
                           [:magnetar/not-a-registry "no registry" #(registry/lookup (self) :k)]
                           [:magnetar/bad-address "its name or its pid" #(registry/lookup 17 :k)]
                           [:magnetar/not-a-function "(registry/match" #(registry/match :unique :k nil)]
                           [:magnetar/not-a-function "(registry/select" #(registry/select :unique 5)]
                           [:magnetar/not-a-function "(registry/dispatch" #(registry/dispatch :unique :k 5)]
                           [:magnetar/not-a-function "(registry/update-value" #(registry/update-value :unique :k 5)]
                           [:magnetar/not-a-pid "register-name" #(registry/register-name [:unique :k] 5)]
                           [:magnetar/bad-registry "no.such has no" #(gs/start servers/scripted (fn [] [:ok 1]) {:name [:via 'no.such :k]})]
                           [:magnetar/duplicate-keys "`update-value`" #(registry/update-value :duplicate :k inc)]
                           [:magnetar/duplicate-keys "`whereis-name`" #(actor/whereis (registry/via :duplicate :k))]
                           [:magnetar/bad-name "registry/via" #(actor/whereis [:via 'magnetar.registry :k])]
                           [:magnetar/bad-registry "has no register-name" #(actor/spawn-opt (fn []) {:name [:via 'no.such.namespace :k]})]
                           [:magnetar/bad-registry "has no whereis-name" #(! [:via {} :k] :x)]
                           [:magnetar/bad-name "[:via registry name]" #(actor/spawn-opt (fn []) {:name "name"})]
                           [:magnetar/bad-name "[:via registry name]" #(actor/register [:via :k] (self))]]]
    (let [[why sentence] (refused f)]
      (is (= reason why))
      (is (str/includes? (str sentence) part)))))

(deftest a-registry-without-a-process-to-register
  (let [[_ pid] (unique)
        outside (fn [f] (deref (future (refused f)) limit-ms :late))]
    (is (= :magnetar/no-process (first (outside #(registry/register :unique :k)))))
    (is (= [:no-error []] (outside #(registry/lookup :unique :k))) "looks may be made from anywhere")
    (is (= [:no-error []] (outside #(registry/lookup pid :k))) "also by pid")))

(deftest a-registry-bears-messages-that-are-none-of-its-business
  (let [[_ pid] (unique)
        events (atom [])]
    (registry/register :unique :k)
    (with-hook [:report #(swap! events conj (:event %))]
      (doseq [m [:garbage nil [:EXIT] [:EXIT 1 2] []]] (! pid m))
      (doseq [m [:garbage nil [:x (self)] []]] (gs/cast pid m))
      (is (= [:error [:unknown-call :what]] (gs/call pid :what))))
    (is (= (repeat 9 :unexpected-message) @events))
    (is (= [[(self) nil]] (registry/lookup :unique :k)))
    (is (= {:keys :unique} (sys/get-state :unique)))))

(deftest a-registry-whose-name-is-taken
  (let [[_ pid] (unique)]
    (is (= [:error [:already-started pid]] (unique)))))

(deftest ^{:spec ["C102"]} a-process-that-got-no-name-or-lost-it-to-another-outlives-the-registry
  (let [[_ pid] (unique)
        [a b c] (repeatedly 3 #(waiting (fn [])))]
    (is (= [:yes :no :yes] [(registry/register-name [:unique :a] a) (registry/register-name [:unique :a] b) (registry/register-name [:unique :c] c)]))
    (is (= :ok (registry/unregister-name [:unique :a])))
    (gs/call pid :after-the-casts)
    (end pid)
    (is (eventually (not (actor/alive? c))))
    (is (= [true true] (mapv actor/alive? [a b])))
    (run! end [a b])))
