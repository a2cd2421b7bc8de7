(ns magnetar.otp.hosting-test
  "Servers that have no thread while they wait: the scenarios are true for them as well."
  {:limit 600000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.actor-support :as processes]
   [magnetar.gen-server :as gs]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.scope :as scope]
   [magnetar.scope.context :refer [defcontext with-context]]
   [magnetar.support :refer [eventually value-of with-failures]])
  (:import
   (magnetar.kernel.process LocalProcess ProcessTable)))

(set! *warn-on-reflection* true)

(defn- of-servers? [{:keys [id]}]
  (re-find #"^(GS|GSM|GE|SUP|SYS|DYN|PLB|HOT)-" id))

(defn check-scenarios-of-servers
  "Asserts what the scenarios of servers say, while servers have these options if nothing is said."
  [options]
  (with-redefs-fn {#'host/defaults options}
    #(run! scenarios/check (filter of-servers? (scenarios/table)))))

(deftest each-scenario-of-servers-holds-for-activated-ones
  (check-scenarios-of-servers {:hosting :activated}))

(def ^:private script
  {:init (fn [s] [:ok s])
   :handle-call (fn [f from s] (f from s))
   :handle-cast (fn [f s] (f s))})

(defn- server
  ([] (server nil))
  ([options]
   (second (gs/start script :st (assoc options :hosting :activated)))))

(defn- thread-of [pid]
  (.thread (.info ^LocalProcess (ProcessTable/live pid))))

(defn- rests? [pid]
  (eventually (nil? (thread-of pid))))

(deftest an-idle-server-has-no-thread-and-is-still-there
  (let [pid (server {:name ::idle})]
    (is (rests? pid))
    (is (actor/alive? pid))
    (is (= pid (actor/whereis ::idle)))
    (is (some #{pid} (map LocalProcess/.pid (ProcessTable/all))))
    (is (= :waiting (actor/process-info pid :status)))
    (is (= :st (gs/call pid (fn [_ s] [:reply s s]))))
    (is (rests? pid))
    (gs/stop pid)))

(deftest a-handler-may-block-receive-call-and-open-scopes
  (let [a (server)
        b (server)
        go (promise)]
    (is (= :later (do (future (deliver go :later)) (gs/call a (fn [_ s] [:reply @go s])))))
    (is (= :st (gs/call a (fn [_ s] [:reply (gs/call b (fn [_ t] [:reply t t])) s]))))
    (is (= [1 2] (gs/call a (fn [_ s] [:reply (scope/with-scope [x] [@(scope/fork x (fn [] 1)) 2]) s]))))
    (is (= :mine (gs/call a (fn [_ s] (! (actor/self) :mine) [:reply (actor/receive :mine :mine) s]))))
    (run! gs/stop [a b])))

(deftest an-exit-signal-ends-a-server-at-rest
  (doseq [[signal reason] {:boom :boom, :kill :killed, :shutdown :shutdown}]
    (let [pid (server)]
      (is (rests? pid))
      (actor/exit pid signal)
      (is (= reason (processes/reason pid)))
      (is (eventually (not-any? #{pid} (map LocalProcess/.pid (ProcessTable/all))))))))

(deftest a-server-at-rest-is-a-link-and-a-monitor
  (let [pid (server)
        linked (actor/spawn #(do (actor/link pid) (actor/receive :never nil)))]
    (is (rests? pid))
    (is (processes/waits? linked))
    (actor/exit pid :boom)
    (is (= :boom (processes/reason linked)))))

(def ^:dynamic *mine* :root)

(deftest dictionary-and-bindings-outlast-a-rest
  (let [pid (binding [*mine* :bound]
              (server))
        seen (fn [_ s] [:reply [(actor/pget :key) *mine*] s])]
    (gs/cast pid (fn [s] (actor/pput :key :kept) [:noreply s]))
    (is (rests? pid))
    (is (= [:kept :bound] (gs/call pid seen)))
    (is (rests? pid))
    (is (= [:kept :bound] (binding [*mine* :of-the-caller] (gs/call pid seen))))
    (gs/stop pid)))

(defcontext tenant :nobody)

(defcontext purpose :none)

(deftest the-context-values-of-a-server-outlast-a-rest-and-those-of-a-sender-do-not
  (let [pid (with-context [tenant :acme]
              (server {:spawn-opt {:context {purpose :test}}}))
        seen #(gs/call pid (fn [_ s] [:reply [@tenant @purpose] s]))]
    (is (= [:acme :test] (seen)))
    (is (rests? pid))
    (is (= [:of-the-caller :test] (with-context [tenant :of-the-caller] (seen))))
    (is (rests? pid))
    (is (= [:acme :test] (seen)))
    (gs/stop pid)))

(deftest servers-that-rest-share-the-frame-of-bindings-that-they-were-started-with
  (let [frame-of (fn [pid] (gs/call pid (fn [_ s] [:reply (clojure.lang.Var/getThreadBindingFrame) s])))]
    (binding [*mine* :bound]
      (let [pids (vec (repeatedly 3 server))
            other (binding [*mine* :other] (server))]
        (is (every? rests? (conj pids other)))
        (is (= 1 (count (distinct (map #(System/identityHashCode %) (mapv frame-of pids))))))
        (is (= :other (gs/call other (fn [_ s] [:reply *mine* s]))))
        (is (= [:bound :bound :bound] (mapv #(gs/call % (fn [_ s] [:reply *mine* s])) pids)))
        (run! gs/stop (conj pids other))))))

(deftest no-message-is-lost-between-rest-and-work
  (let [pid (server)
        n 12000 ; of four senders: less than what a long mailbox is warned of
        senders (doall (for [_ (range 4)]
                         (future (dotimes [_ n] (gs/cast pid (fn [s] [:noreply (if (= :st s) 1 (inc (long s)))])) (when (zero? (rand-int 50)) (Thread/yield))))))]
    (run! value-of senders)
    (is (= (* 4 n) (gs/call pid (fn [_ s] [:reply s s]))))
    (gs/stop pid)))

(deftest a-signal-between-rest-and-work-is-not-lost
  (with-failures [failures]
    (dotimes [n 2000]
      (let [pid (server)]
        (gs/cast pid (fn [s] [:noreply s]))
        (when (odd? n) (Thread/yield))
        (actor/exit pid (if (zero? (mod n 3)) :kill :boom))
        (is (#{:killed :boom} (processes/reason pid)))))
    (is (= [] @failures))))
