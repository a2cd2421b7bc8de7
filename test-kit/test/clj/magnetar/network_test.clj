(ns magnetar.network-test
  "The simulated network: it keeps the contract in each run, and the seed decides what happens in it."
  (:require
   [clojure.set :as set]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :refer [spawn]]
   [magnetar.broken-networks :as broken]
   [magnetar.network-contract :as contract]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar TimeoutException)
   (magnetar.kernel.network Member Network Network$Events View)))

(set! *warn-on-reflection* true)

(defn- node [i]
  (keyword (str "n" i)))

(defn- world [net wrap n]
  {:networks (mapv #(wrap (mt/endpoint net (node %))) (range n))
   :on (fn [i f] (mt/on-node (node i) f))
   :start (fn [i f] (mt/on-node (node i) #(spawn f)) nil)
   :cut (fn [from to one-way?] (mt/cut net (mapv node from) (mapv node to) {:one-way one-way?}))
   :heal #(mt/heal net)
   :crash #(mt/crash-node (node %))
   :another (fn [i member] (wrap (mt/endpoint net (node i) {:as member})))
   :until #(mt/wait-until % {:timeout 100000})
   :settle #(scope/sleep 10000)
   :window 262144})

(defn- maker
  "Makes worlds in a simulation; `wrap` changes each network."
  ([options] (maker options identity))
  ([options wrap]
   (fn [n f]
     (mt/simulate (merge {:max-steps 10000000} options)
       (let [net (mt/network)]
         (dotimes [i n] (mt/start-node (node i)))
         (f (world net wrap n)))))))

(deftest the-simulated-network-keeps-the-contract
  (doseq [item (keys contract/items)
          seed (range 10)]
    (testing (str item ", seed " seed)
      (contract/run (maker {:seed seed}) item)
      (is true))))

(deftest each-item-has-a-network-that-it-catches
  (is (= (set (keys contract/items)) (set (mapcat second (vals broken/networks))))))

(defn- caught?
  "Does the item find that the network breaks the contract, or wait for what never comes?"
  [maker item]
  (try
    (contract/run maker item)
    false
    (catch TimeoutException _ true)
    (catch Exception e (or (::contract/broken (ex-data e)) (throw e)))))

(deftest each-broken-network-is-caught
  (doseq [[defect [wrap items]] broken/networks
          item items]
    (is (caught? (maker {:seed 1} wrap) item) (str defect " is not caught by " item))))

;; --- what is said of the simulated one alone

(defn- recorder
  "Events that note views, as names, and frames, as numbers, with the time."
  [notes]
  (reify Network$Events
    (view [_ next] (swap! notes conj [(mt/now) (mapv #(.name ^Member %) (.members ^View next)) (.merged next)]))
    (frame [_ from bytes] (swap! notes conj [(mt/now) (.name ^Member from) (aget ^bytes bytes 0)]))))

(defn- join
  "Starts the node, and joins: {:node :network :member :notes}."
  [net node]
  (when-not (some #{node} (mt/nodes)) (mt/start-node node))
  (let [notes (atom [])
        ^Network network (mt/endpoint net node)]
    {:node node :network network :notes notes :member (mt/on-node node #(.join network (recorder notes)))}))

(defn- send-number
  ([from to number] (send-number from to number 1))
  ([{:keys [node ^Network network]} to number size]
   (mt/on-node node #(.send network (:member to) (doto (byte-array size) (aset-byte 0 number))))))

(defn- views [{:keys [notes]}]
  (filter #(vector? (second %)) @notes))

(defn- view [node]
  (set (second (last (views node)))))

(defn- frames [{:keys [notes]}]
  (remove #(vector? (second %)) @notes))

(defn- see-all? [nodes]
  (every? #(= (set (map (comp name :node) nodes)) (view %)) nodes))

(defn- joined [net nodes]
  (let [joined (mapv #(join net %) nodes)]
    (mt/wait-until #(see-all? joined))
    joined))

(deftest a-frame-takes-what-the-latency-says
  (let [took (fn [options seed]
               (mt/simulate {:seed seed}
                 (let [[a b] (joined (mt/network options) [:a :b])
                       before (mt/now)]
                   (send-number a b 7)
                   (mt/wait-until #(seq (frames b)))
                   (- (ffirst (frames b)) before))))]
    (is (= #{10} (set (map #(took {:latency 10} %) (range 5)))))
    (let [all (set (map #(took {:latency [5 30]} %) (range 30)))]
      (is (every? #(<= 5 % 31) all))
      (is (< 5 (count all))))))

(deftest a-slow-way-takes-its-time-for-each-byte
  (is (= [100 200]
         (mt/simulate {:seed 1}
           (let [net (mt/network {:latency 1 :detector 100})
                 [a b] (joined net [:a :b])]
             (mt/slow net [:a] [:b] {:bytes-per-ms 100 :one-way true})
             (let [before (mt/now)]
               (send-number a b 1 10000)
               (send-number a b 2 10000)
               (mt/wait-until #(= 2 (count (frames b))))
               (mapv #(* 10 (quot (- (long (first %)) (long before)) 10)) (frames b)))))))
  (is (= [#{"a" "b"} #{"a" "b"}] ; slow is not dead
         (mt/simulate {:seed 1}
           (let [net (mt/network {:detector 100})
                 [a b] (joined net [:a :b])]
             (mt/slow net [:a] [:b] {:bytes-per-ms 1})
             (send-number a b 1 10000)
             (mt/wait-until #(seq (frames b)) {:timeout 100000})
             (mapv view [a b]))))))

(deftest a-silent-member-stays-for-the-time-of-the-detector
  (doseq [seed (range 10)]
    (let [[before after] (mt/simulate {:seed seed}
                           (let [net (mt/network {:detector 500})
                                 [a] (joined net [:a :b])]
                             (mt/crash-node :b)
                             (scope/sleep 499)
                             (let [before (view a)]
                               (scope/sleep 130)
                               [before (view a)])))]
      (is (= [#{"a" "b"} #{"a"}] [before after])))))

(deftest members-need-not-agree-on-a-view
  (is (= [#{"a" "c"} #{"b" "c"} #{"a" "b" "c"}]
         (mt/simulate {:seed 1}
           (let [net (mt/network)
                 nodes (joined net [:a :b :c])]
             (mt/cut net [:a] [:b])
             (scope/sleep 10000)
             (mapv view nodes)))))
  (testing "views come in another order at another member"
    (is (some (fn [seed]
                (apply not= (mt/simulate {:seed seed}
                              (let [net (mt/network)
                                    nodes (joined net [:a :b :c :d])]
                                (mt/cut net [:a :b] [:c :d])
                                (scope/sleep 5000)
                                (mt/heal net)
                                (scope/sleep 5000)
                                (map (fn [node] (map #(set/intersection #{"c" "d"} (set (second %))) (views node))) (take 2 nodes))))))
              (range 10)))))

(deftest a-restarted-node-is-another-member-behind-the-same-ways
  (is (= [#{"a"} #{"b"} #{"a" "b"} true]
         (mt/simulate {:seed 1}
           (let [net (mt/network)
                 [a b] (joined net [:a :b])]
             (mt/cut net [:a] [:b])
             (mt/restart-node :b)
             (let [again (join net :b)]
               (scope/sleep 5000)
               (let [cut-off [(view a) (view again)]]
                 (mt/heal net)
                 (mt/wait-until #(see-all? [a again]))
                 (conj cut-off (view a) (not= (:member b) (:member again))))))))))

(deftest what-a-crashed-node-has-sent-arrives
  (is (= [1 2 3]
         (mt/simulate {:seed 1}
           (let [[a b] (joined (mt/network {:latency 20}) [:a :b])]
             (run! #(send-number a b %) [1 2 3])
             (mt/crash-node :a)
             (scope/sleep 100)
             (map last (frames b)))))))

(deftest many-joins-and-leaves-leave-nothing
  (let [peers (fn [{:keys [network]}]
                (let [field (doto (.getDeclaredField (class network) "peers") (.setAccessible true))]
                  (.size ^java.util.Map (.get field network))))]
    (is (= [1 []]
           (mt/simulate {:seed 1 :max-steps 10000000}
             (let [net (mt/network)
                   a (join net :a)]
               (dotimes [n 1000]
                 (let [{:keys [^Network network]} (join net :b)]
                   (if (even? n)
                     (mt/on-node :b #(.leave network))
                     (mt/crash-node :b))))
               (scope/sleep 5000)
               [(peers a) (remove #(= #{"a"} %) [(view a)])]))))))

(deftest misuse-is-refused
  (let [reason-of #(try (%) (catch Exception e (or (:magnetar/reason (ex-data e)) (class e))))]
    (is (= :magnetar.test/not-simulated (reason-of mt/network)))
    (mt/simulate {:seed 1}
      (let [net (mt/network)
            {:keys [^Network network member]} (join net :a)
            events (recorder (atom []))]
        (is (= :magnetar/bad-option (reason-of #(mt/network {:latency [2 1]}))))
        (is (= :magnetar/bad-option (reason-of #(mt/network {:detector 0}))))
        (is (= :magnetar/unknown-option (reason-of #(mt/network {:latncy 1}))))
        (is (= :magnetar.test/no-network (reason-of #(mt/cut :net [:a] [:a]))))
        (is (= :magnetar.test/bad-group (reason-of #(mt/cut net :a [:a]))))
        (is (= :magnetar.test/no-node (reason-of #(mt/cut net [:a] [:b]))))
        (is (= :magnetar.test/no-node (reason-of #(mt/endpoint net :b))))
        (is (= :magnetar/bad-option (reason-of #(mt/slow net [:a] [:a] {:bytes-per-ms 0}))))
        (is (= IllegalStateException (reason-of #(.join network events))))
        (is (= IllegalStateException (reason-of #(.send network member (byte-array 1)))))
        (is (re-find #"was called elsewhere: call it there, by on-node" (try (.leave network) (catch IllegalStateException e (ex-message e)))))))))

;; --- the seed decides

(defn- busy
  "Nodes that send numbers to each other over a network that breaks; what each has got."
  []
  (let [net (mt/network {:latency [1 50] :detector 200})
        nodes (mapv #(join net %) [:a :b :c])
        all (atom nodes)
        chat (fn [n] (doseq [from @all to @all :when (some #{(:node from)} (mt/nodes))]
                       (try (send-number from to (rem (long n) 100)) (catch Exception _ nil))))]
    (dotimes [n 5] (chat n))
    (mt/cut net [:a] [:b] {:one-way true})
    (dotimes [n 5] (scope/sleep 50) (chat (+ 10 n)))
    (mt/restart-node :c)
    (swap! all assoc 2 (join net :c))
    (mt/heal net)
    (dotimes [n 5] (scope/sleep 70) (chat (+ 20 n)))
    (scope/sleep 2000)
    (mapv #(deref (:notes %)) @all)))

(deftest the-same-seed-gives-the-same-log-with-a-network
  (doseq [seed (range 200)]
    (let [options (cond-> {:seed seed :log true}
                    (odd? seed) (assoc :faults #{:crash-node :cut-link :flap :kill :early-timers :late-timers} :fault-rate 0.02)
                    (zero? (rem seed 3)) (assoc :strategy :priorities))
          safely #(try (busy) (catch Exception e (:magnetar/reason (ex-data e) (class e))))
          [one two] (repeatedly 2 #(mt/simulate* options safely))
          again (mt/simulate* {:seed seed :log true :schedule (:schedule one)} safely)]
      (is (nil? (:problem one)))
      (is (= (:log-text one) (:log-text two)))
      (is (= (:log-text one) (:log-text again)))
      (is (= (:value one) (:value two))))))

(defn- found-by [fault body]
  (let [text (atom nil)
        found (mt/check {:runs 1000 :faults #{fault} :fault-rate 0.1 :report #(reset! text %)} (body))]
    (is (false? (:passed found)))
    (is (= [fault] (map :what (:schedule found))))
    (is (:repeatable found))
    (assoc found :text @text)))

(defn- all-arrive?
  "The fault of a program that takes each frame for delivered."
  []
  (let [[a b] (joined (mt/network) [:a :b])]
    (dotimes [n 5] (send-number a b n) (scope/sleep 700))
    (scope/sleep 5000)
    (= (range 5) (map last (frames b)))))

(defn- stays?
  "The fault of a program that takes a view for what is there."
  []
  (let [nodes (joined (mt/network) [:a :b])]
    (send-number (first nodes) (second nodes) 1)
    (scope/sleep 5000)
    (not-any? #(= ["a"] (second %)) (rest (views (first nodes))))))

(deftest check-finds-what-a-cut-or-a-flap-breaks
  (let [{:keys [text diagram]} (found-by :cut-link all-arrive?)]
    (is (re-find #"the way of the frame that #\d+ a/call sends at its point \d+ is cut for \d+ ms" text))
    (is (re-find #"is cut way a to b" diagram)))
  (let [{:keys [text diagram]} (found-by :flap stays?)]
    (is (re-find #"the receiver of the frame that #\d+ a/call sends at its point \d+ is taken for unreachable" text))
    (is (re-find #"suspects 7 b/network|suspects #?\d+ b/network" diagram))))

(deftest no-fault-strikes-after-the-end-of-faults
  (is (:passed (mt/check {:runs 20 :faults #{:cut-link :flap} :fault-rate 1}
                 (let [net (mt/network)
                       [a b] (joined net [:a :b])]
                   (mt/end-faults net)
                   (dotimes [n 5] (send-number a b n))
                   (scope/sleep 5000)
                   (= (range 5) (map last (frames b))))))))

(deftest the-contract-holds-under-faults
  (doseq [item [:in-order :sizes :leave :rejoin]
          seed (range 20)]
    (testing (str item ", seed " seed)
      (contract/run (maker {:seed seed :faults #{:early-timers :late-timers} :fault-rate 0.1}) item)
      (is true))))
