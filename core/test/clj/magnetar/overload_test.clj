(ns magnetar.overload-test
  "Shedding by the age of calls, in virtual time: what is served is served in time."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.gen-server.queue-age :as queue-age]
   [magnetar.overload :as deprecated]
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

(defn- reason-of [f]
  (try (f) (catch clojure.lang.ExceptionInfo e (:reason (ex-data e)))))

(defn- outcome [server i timeout]
  (let [began (test/now)
        answer (reason-of #(gs/call server i {:timeout timeout}))]
    [(case answer :overloaded :shed, :timeout :timeout, :served) (- (long (test/now)) (long began))]))

(defn- load-on
  "Twice as many calls as the server can do, for so many ms: the outcomes."
  [server ms timeout]
  (let [me (self)
        n (quot (long ms) 5)]
    (dotimes [i n]
      (actor/spawn #(! me [:outcome (outcome server i timeout)]))
      (scope/sleep 5))
    (vec (repeatedly n (fn [] (receive [:outcome o] o))))))

(defn- under-load [options]
  (with-virtual-clock
    (actor/with-process {}
      (let [[_ server] (gs/start-link slow nil options)
            outcomes (load-on server 4000 400)]
        {:by (frequencies (map first outcomes))
         :late (count (filter (fn [[how took]] (and (= :served how) (< 100 (long took)))) outcomes))
         :worked (count (sys/get-state server))}))))

(deftest ^{:spec ["C119"]} under-twice-the-load-half-of-the-calls-are-served-and-in-time
  (doseq [hosting [:threaded :activated]]
    (let [{:keys [by late worked]} (under-load {:hosting hosting :shed {:target 20 :interval 100}})]
      (testing (str by late)
        (is (< 330 (long (:served by))))
        (is (nil? (:timeout by)))
        (is (< (long late) 60))
        (is (= worked (:served by))))))
  (testing "without it most of the work is for those who have given up, which is the control"
    (let [{:keys [by worked]} (under-load {})]
      (is (< (long (:served by 0)) 120))
      (is (< 300 (long (:timeout by))))
      (is (< 700 (long worked))))))

(defn- with-server
  "The value of (f server) with a server that sheds, in virtual time."
  [options f]
  (with-virtual-clock
    (actor/with-process {}
      (let [[_ server] (gs/start-link slow nil (merge {:shed {}} options))]
        (f server)))))

(deftest what-the-caller-has-given-up-is-not-worked-on
  (is (= [[0 :last] {:passed 2 :shed 0 :expired 1 :overloaded? false}]
         (with-server {}
           (fn [server]
             (actor/spawn #(gs/call server 0))
             (scope/sleep 1)
             (reason-of #(gs/call server 1 {:timeout 5}))
             (gs/call server :last)
             [(sys/get-state server) (:shed (sys/get-status server))])))))

(defn- overload
  "Lets calls wait for 1 s, so that the server sheds the next ones; returns the error of one that was shed."
  [server]
  (let [me (self)]
    (dotimes [i 150]
      (actor/spawn #(! me [:end (try (gs/call server i) (catch clojure.lang.ExceptionInfo e e))])))
    (first (filter ex-data (vec (repeatedly 150 (fn [] (receive [:end x] x))))))))

(deftest a-call-that-was-shed-says-so-and-is-a-failed-call
  (with-server {:name ::slow}
    (fn [server]
      (let [error (overload server)
            {:keys [reason call waited-ms] :as data} (ex-data error)]
        (is (re-find #"The server #magnetar/pid .* is overloaded: the call had waited for \d+ ms and was refused\. Try again" (ex-message error)))
        (is (= [:magnetar/overloaded :overloaded server] [(:magnetar/reason data) reason (:server data)]))
        (is (< 40 (long waited-ms)))
        (is (= [:overloaded call] (actor/exit-reason error)))
        (is (= ['magnetar.gen-server :call server 5000] [(call 0) (call 1) (first (call 2)) (peek (call 2))]))))))

(deftest the-server-and-those-who-look-at-it-see-the-plain-request
  (with-server {}
    (fn [server]
      (is (= :x (gs/call server :x)))
      (is (= [:x] (gs/call server [:x])))
      (is (= [:reply :y] (gs/wait-response (gs/send-request server :y))))
      (! server :hello)
      (is (= [:x [:x] :y :hello] (sys/get-state server)))
      (is (= {:passed 2 :shed 0 :expired 0 :overloaded? false} (:shed (sys/get-status server))))
      (sys/log server true)
      (gs/call server :z)
      (is (= [:magnetar/call :z] (map (second (first (second (sys/log server :get)))) [0 2])))
      (is (re-find #"is handling this very call" (try (gs/call server :late {:timeout 5}) (catch Exception e (ex-message e))))))))

(deftest a-server-that-does-not-shed-says-nothing-of-it
  (with-virtual-clock
    (actor/with-process {}
      (let [[_ server] (gs/start-link slow nil {:shed nil})]
        (is (not (contains? (sys/get-status server) :shed)))))))

(deftest what-is-wrong-is-refused-at-once
  (let [start #(gs/start slow nil {:shed %})]
    (is (thrown-with-msg? IllegalArgumentException #"has no handle-call" (gs/start (dissoc slow :handle-call) nil {:shed {}})))
    (is (thrown-with-msg? IllegalArgumentException #"^`magnetar.gen-server/start`: :target is a duration above 0" (start {:target 0})))
    (is (thrown-with-msg? IllegalArgumentException #"`:shed` does not know :targe" (start {:targe 0})))
    (is (thrown-with-msg? IllegalArgumentException #"`:shed` takes its options as a map; this is true" (start true)))
    (is (thrown-with-msg? IllegalArgumentException #"`magnetar.gen-server/start` does not know :shedd; its options are .*:shed.* Is :shed meant" (gs/start slow nil {:shedd {}})))))

(deftest the-deprecated-names-do-the-same-or-name-the-successor
  (with-server {}
    (fn [server]
      (is (= [:x :y] [(deprecated/call server :x) (deprecated/call server :y {:timeout 100})]))
      (is (= {:passed 2 :shed 0 :expired 0 :overloaded? false} (deprecated/status server)))
      (is (true? (deprecated/overloaded? (overload server))))
      (is (false? (deprecated/overloaded? (ex-info "other" {}))))))
  (is (thrown-with-msg? IllegalArgumentException #"\{:shed \{:target 20\}\}\), and call it by `gs/call`" (deprecated/shedding slow {:target 20}))))
