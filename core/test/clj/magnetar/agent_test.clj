(ns magnetar.agent-test
  "Agents beyond the scenarios of Elixir."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.agent :as agent]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.otp.servers :as servers]
   [magnetar.support :refer [eventually with-failures with-hook]]
   [magnetar.sys :as sys]))

(set! *warn-on-reflection* true)

(use-fixtures :each
  (fn [f]
    (with-hook [:report (fn [_])]
      (with-failures [_] (scenarios/leaving-nobody #(actor/with-process {:trap-exit true} (f)))))))

(defn- agent-of [x]
  (second (agent/start-link (constantly x))))

(defn- refused [f]
  (try
    [:no-error (f)]
    (catch Exception e
      [(:magnetar/reason (ex-data e)) (ex-message e)])))

(deftest ^{:spec ["C109"]} updates-of-many-are-done-one-after-the-other
  (let [pid (agent-of 0)
        workers (mapv (fn [_] (actor/spawn #(dotimes [_ 100] (agent/update pid inc)))) (range 20))]
    (run! actor/join workers)
    (is (= 2000 (agent/get pid identity)))))

(deftest ^{:spec ["C109"]} a-function-that-throws-ends-the-agent-and-a-supervisor-starts-it-anew
  (let [s (servers/supervisor {:children [{:id :a :start [agent/start-link (constantly 1) {:name :kept}]}]})
        before (servers/pid-of s :a)]
    (agent/update :kept inc)
    (agent/cast :kept (fn [_] (throw (ex-info "no" {}))))
    (is (eventually (some-> (actor/whereis :kept) (not= before))))
    (is (= 1 (agent/get :kept identity)))))

(deftest ^{:spec ["C109"]} a-pair-that-is-none-ends-the-agent
  (let [[_ pid] (agent/start (constantly 1))]
    (is (= [:bad-return-value 2] (servers/failure #(agent/get-and-update pid inc))))
    (is (not (actor/alive? pid)))))

(deftest ^{:spec ["C109"]} whoever-asks-waits-so-long-as-it-says
  (let [pid (agent-of 1)
        me (self)]
    (agent/cast pid (fn [n] (! me :busy) (receive :go n)))
    (receive :busy nil)
    (is (= :timeout (servers/failure #(agent/get pid identity {:timeout 10}))))
    (! pid :go)
    (is (= 1 (agent/get pid identity {:timeout :infinity})))
    (is (= [] (actor/flush)) "the late answer is dropped")))

(deftest an-agent-that-asks-itself-is-told-so-at-once
  (let [[_ pid] (agent/start (constantly 1))]
    (is (= :calling-self (first (servers/failure #(agent/get pid (fn [_] (agent/get pid identity)))))))))

(deftest an-agent-is-a-server-with-a-name-and-an-end
  (let [[_ pid] (agent/start-link (fn [] {:a 1}) {:name :settings})]
    (is (= [:error [:already-started pid]] (agent/start (constantly 1) {:name :settings})))
    (is (= {:a 1} (sys/get-state :settings)))
    (is (= 1 (agent/get :settings :a)))
    (is (= :ok (agent/stop :settings)))
    (is (= :noproc (servers/failure #(agent/get :settings :a))))
    (is (= :ok (agent/cast :settings identity)) "as every cast")))

(deftest an-agent-that-is-not-there-is-told-by-what-the-program-gave
  (is (= [:magnetar/call-failed "`magnetar.agent/get` of :nobody failed: :noproc. No process has this name."]
         (refused #(agent/get :nobody identity))))
  (is (= [:noproc ['magnetar.agent :update [:nobody "(clojure.core$inc)" 5000]]]
         (try (agent/update :nobody inc) (catch Exception e (:magnetar/exit (ex-data e)))))))

(deftest an-agent-that-does-not-come-up
  (is (= [:error :no] (agent/start #(actor/exit :no))))
  (is (= [:error :timeout] (agent/start #(receive :never nil) {:timeout 10}))))

(deftest a-message-that-an-agent-does-not-know-is-reported
  (let [reported (atom [])
        pid (agent-of 1)]
    (with-hook [:report #(swap! reported conj %)]
      (! pid :hello)
      (is (= 1 (agent/get pid identity))))
    (is (= [[:unexpected-message :hello]] (map (juxt :event :message) @reported)))))

(deftest ^{:spec ["C83"]} misuse-of-agents-is-answered-with-its-remedy
  (let [pid (agent-of 1)]
    (doseq [[reason part f] [[:magnetar/not-a-function "(agent/start-link (fn [] 0))" #(agent/start-link 0)]
                             [:magnetar/not-a-function "(agent/update pid inc)" #(agent/update pid 5)]
                             [:magnetar/not-a-function "(agent/cast pid inc)" #(agent/cast pid nil)]
                             [:magnetar/unknown-option ":time" #(agent/get pid identity {:time 1})]
                             [:magnetar/bad-options "map" #(agent/get pid identity 100)]
                             [:magnetar/bad-duration "timeout" #(agent/get pid identity {:timeout -1})]
                             [:magnetar/bad-address "wants a server" #(agent/get 17 identity)]]]
      (testing part
        (let [[why sentence] (refused f)]
          (is (= reason why))
          (is (str/includes? (str sentence) part)))))
    (is (= 1 (agent/get pid identity)) "nothing of it has reached the agent")))
