(ns magnetar.overload-test
  "Shedding by the age of calls, in virtual time: what is served is served in time."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.overload :as overload]
   [magnetar.overload.queue-age :as queue-age]
   [magnetar.scope :as scope]
   [magnetar.sys :as sys]
   [magnetar.test :as test :refer [with-virtual-clock]]))

(set! *warn-on-reflection* true)

;; ---- the rule

(def ^:private limits {:target 20 :interval 200})

(defn- verdicts
  "The verdicts on calls, each [at waited]."
  [calls]
  (loop [state queue-age/idle, [[at waited] & calls] calls, found []]
    (if (nil? at)
      found
      (let [{:keys [verdict] :as state} (queue-age/judge state limits {:at at :sent (- (long at) (long waited)) :due Long/MAX_VALUE})]
        (recur state calls (conj found verdict))))))

(deftest a-burst-is-served
  (is (= [nil nil nil nil] (verdicts [[0 0] [100 90] [190 180] [250 5]]))))

(deftest ^{:spec ["C119"]} a-standing-queue-is-shed-from-the-next-interval-on
  (testing "what waited for more than twice the target"
    (is (= [nil nil :shed nil :shed] (verdicts [[0 50] [100 60] [201 70] [210 40] [220 41]]))))
  (testing "until an interval has had a short wait"
    (is (= [nil :shed nil :shed nil] (verdicts [[0 50] [201 70] [300 10] [390 60] [402 60]])))))

(deftest ^{:spec ["C119"]} a-burst-after-a-pause-is-served-whatever-was-before-the-pause
  (is (= [nil nil nil nil] (verdicts [[0 50] [150 60] [3600000 0] [3600050 50]]))))

(deftest what-nobody-waits-for-any-more-is-expired
  (is (= :expired (:verdict (queue-age/judge queue-age/idle limits {:at 100 :sent 0 :due 100}))))
  (is (nil? (:verdict (queue-age/judge queue-age/idle limits {:at 99 :sent 0 :due 100})))))

;; ---- servers

(def ^:private slow
  "Works for 10 ms on each call, and keeps the requests."
  {:init (fn [_] [:ok []])
   :handle-call (fn [request _ s] (scope/sleep 10) [:reply request (conj s request)])
   :handle-cast (fn [_ s] [:noreply s])
   :handle-info (fn [message s] [:noreply (conj s message)])})

(defn- outcome [server i timeout asked]
  (let [began (test/now)]
    (asked)
    (try
      (overload/call server i {:timeout timeout})
      [:served (- (long (test/now)) (long began))]
      (catch Exception e
        [(if (overload/overloaded? e) :shed (:reason (ex-data e))) (- (long (test/now)) (long began))]))))

(defn- load-on
  "Twice as many calls as the server can do, for so many ms: the outcomes."
  [server ms timeout]
  (let [me (self)
        n (quot (long ms) 5)]
    (dotimes [i n]
      (actor/spawn #(! me [:outcome (outcome server i timeout (fn []))]))
      (scope/sleep 5))
    (vec (repeatedly n (fn [] (receive [:outcome o] o))))))

(defn- under-load [behaviour]
  (with-virtual-clock
    (actor/with-process {}
      (let [[_ server] (gs/start-link behaviour nil)
            outcomes (load-on server 4000 400)]
        {:by (frequencies (map first outcomes))
         :late (count (filter (fn [[how took]] (and (= :served how) (< 100 (long took)))) outcomes))
         :worked (count (sys/get-state server))}))))

(def ^:private without
  "The control: carries the same calls, and sheds nothing."
  (assoc slow :handle-call (fn [[_ _ _ request] from s] ((:handle-call slow) request from s))))

(deftest ^{:spec ["C119"]} under-twice-the-load-half-of-the-calls-are-served-and-in-time
  (let [{:keys [by late worked]} (under-load (overload/shedding slow {:target 20 :interval 100}))]
    (testing (str by late)
      (is (< 330 (long (:served by))))
      (is (nil? (:timeout by)))
      (is (< (long late) 60))
      (is (= worked (:served by)))))
  (testing "without it most of the work is for those who have given up, which is the control"
    (let [{:keys [by worked]} (under-load without)]
      (is (< (long (:served by 0)) 120))
      (is (< 300 (long (:timeout by))))
      (is (< 700 (long worked))))))

(deftest what-the-caller-has-given-up-is-not-worked-on
  (is (= [[0 :last] {:passed 2 :shed 0 :expired 1 :overloaded? false}]
         (with-virtual-clock
           (actor/with-process {}
             (let [[_ server] (gs/start-link (overload/shedding slow) nil)]
               (actor/spawn #(overload/call server 0))
               (scope/sleep 1)
               (try (overload/call server 1 {:timeout 5}) (catch clojure.lang.ExceptionInfo _))
               (overload/call server :last)
               [(sys/get-state server) (overload/status server)]))))))

(deftest the-behaviour-stays-what-it-is
  (with-virtual-clock
    (actor/with-process {}
      (let [[_ server] (gs/start-link (overload/shedding slow) nil)]
        (is (= :x (gs/call server :x)))
        (is (= [:x] (gs/call server [:x])))
        (! server :hello)
        (is (= [:x [:x] :hello] (sys/get-state server)))
        (is (= {:passed 0 :shed 0 :expired 0 :overloaded? false} (overload/status server)))))))

(deftest what-is-wrong-is-refused-at-once
  (is (thrown-with-msg? IllegalArgumentException #"has no handle-call" (overload/shedding (dissoc slow :handle-call))))
  (is (thrown-with-msg? IllegalArgumentException #"^`magnetar.overload/shedding`: :target is a duration above 0" (overload/shedding slow {:target 0})))
  (is (thrown-with-msg? IllegalArgumentException #"does not know :targe" (overload/shedding slow {:targe 0}))))
