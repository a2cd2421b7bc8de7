(ns magnetar.cluster.dist-test
  "The scenarios of Erlang about distribution, on simulated nodes. What is left out, and where the cases of OTP's suites are: docs/parity/dist.md."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.simulated :refer [connected cookie in-process join nodes run-on silently start]]
   [magnetar.gen-server :as gs]
   [magnetar.pg :as pg]
   [magnetar.scope :as scope]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(defn- two
  "A network with the nodes a and b, which are connected."
  []
  (let [net (mt/network)]
    (run! #(start net %) [:a :b])
    (connected :a :b)
    net))

(defn- serve
  "A process with the name :there, which sends its pid to a process that asks, and ends with the reason that it gets."
  []
  (actor/register :there (self))
  (loop []
    (receive
      [:who from] (do (! from [:it (self)]) (recur))
      [:count n to] (do (dotimes [i n] (! to i)) (recur))
      [:end why] (actor/exit why))))

(defn- pid-there []
  (! [:there "b@sim"] [:who (self)])
  (receive [:it pid] pid))

(defn- tied
  "The pid of :there and a monitor of it. This process traps exits, and is linked to it."
  []
  (actor/flag :trap-exit true)
  (let [pid (pid-there)]
    (actor/link pid)
    [pid (actor/monitor pid)]))

(defn- fired
  "How the link and the monitor have fired."
  [pid ref]
  (set [(receive [:EXIT pid why] [:exit why] [:DOWN ref :process pid why] [:down why])
        (receive [:EXIT pid why] [:exit why] [:DOWN ref :process pid why] [:down why])]))

(defn- on-a
  "The value of f, in a process of node a, beside a process :there of node b."
  [f]
  (let [net (two)]
    (run-on :b serve)
    (mt/wait-until #(mt/on-node :b (fn [] (some? (actor/whereis :there)))))
    (mt/on-node :a (in-process #(f net)))))

(defmacro ^:private gives
  "Checks that the body's value, in a process of node a, is the expected one for each of three seeds. net is the network."
  [expected [net] & body]
  `(doseq [seed# (range 3)]
     (is (= ~expected (mt/simulate {:seed seed#} (on-a (fn [~net] ~@body)))))))

(deftest ^{:otp "DST-01"} links-and-monitors-cross-with-the-reason
  (gives #{[:exit :boom] [:down :boom]} [_]
    (let [[pid ref] (tied)]
      (! pid [:end :boom])
      (fired pid ref))))

(deftest ^{:otp "DST-02" :spec ["C149"]} both-fire-when-the-node-is-lost
  (gives #{[:exit :noconnection] [:down :noconnection]} [_]
    (let [[pid ref] (tied)]
      (mt/crash-node :b)
      (fired pid ref))))

(deftest ^{:otp "DST-03"} a-lost-node-is-told-of-once
  (gives [[:nodedown "b@sim"] :none] [_]
    (cluster/monitor-nodes true)
    (mt/crash-node :b)
    [(receive x x) (receive x x (after 60000 :none))]))

(deftest ^{:otp ["DST-04" "DST-05"]} a-dead-node-takes-messages-and-fires-monitors
  (gives [:sent :noconnection :noconnection] [_]
    (let [[pid ref] (tied)]
      (mt/crash-node :b)
      (fired pid ref)
      (! pid :lost)
      [:sent
       (let [r (actor/monitor pid)] (receive [:DOWN r _ _ why] why))
       (let [r (actor/monitor [:there "b@sim"])] (receive [:DOWN r _ _ why] why))])))

(deftest ^{:otp "DST-06" :spec ["C149"]} a-call-to-a-dead-node-says-so
  (gives [:nodedown "b@sim"] [_]
    (cluster/monitor-nodes true)
    (mt/crash-node :b)
    (receive [:nodedown _] nil)
    (try (gs/call [:there "b@sim"] :next)
      (catch clojure.lang.ExceptionInfo e (:reason (ex-data e))))))

(deftest ^{:otp "DST-08" :spec ["C148"]} messages-of-a-pair-stay-in-order
  (gives true [_]
    (! [:there "b@sim"] [:count 5000 (self)])
    (= (range 5000) (repeatedly 5000 #(receive x x)))))

(deftest ^{:otp "DST-10"} another-cookie-gives-pang
  (is (= [:pang [] []]
         (silently
           #(mt/simulate {:seed 1}
              (let [net (mt/network)]
                (start net :a)
                (mt/start-node :b)
                (join net :b {:cookie (str cookie "-of-others")})
                (scope/sleep 20000)
                [(mt/on-node :a (fn [] (cluster/ping "b@sim"))) (nodes :a) (nodes :b)]))))))

(deftest ^{:otp "DST-11"} a-ping-connects-what-was-disconnected
  (gives [true :pong ["b@sim"]] [_]
    [(cluster/disconnect "b@sim") (cluster/ping "b@sim") (cluster/nodes)]))

(defn- join-workers []
  (pg/join :workers (self))
  (receive :never nil))

(deftest ^{:otp "DST-12" :spec ["C150"]} members-of-a-lost-node-leave-their-group
  (gives [1 0] [_]
    (mt/on-node :b #(do (actor/spawn join-workers) nil))
    (mt/wait-until #(= 1 (count (pg/members :workers))))
    (cluster/monitor-nodes true)
    (mt/crash-node :b)
    (receive [:nodedown _] nil)
    (mt/wait-until #(= 0 (count (pg/members :workers))))
    [1 (count (pg/members :workers))]))
