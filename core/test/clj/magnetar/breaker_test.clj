(ns magnetar.breaker-test
  "Breakers that are servers, in virtual time."
  (:require
   [clojure.pprint :as pprint]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.breaker :as deprecated]
   [magnetar.gen-server :as gs]
   [magnetar.resilience :as r]
   [magnetar.scope :as scope]
   [magnetar.support :refer [with-failures]]
   [magnetar.sys :as sys]
   [magnetar.test :as test :refer [with-virtual-clock]]))

(set! *warn-on-reflection* true)

(defn- fail []
  (throw (ex-info "down" {:magnetar/reason :down})))

(defn- outcome [b f]
  (try
    (r/call (r/circuit-breaker b) f)
    (catch clojure.lang.ExceptionInfo e (:magnetar/reason (ex-data e)))))

(defn- with-breaker
  "The value of (f breaker) in virtual time, in a process that has subscribed."
  [options f]
  (with-virtual-clock
    (actor/with-process {:trap-exit true}
      (let [[_ b] (r/start-breaker-link (merge {:name ::b :failure-threshold 2 :delay 1000} options))]
        (r/subscribe b)
        (try
          (f b)
          (finally (gs/stop b)))))))

(defn- told []
  (receive [:breaker _ before after] [before after (test/now)] (after 5000 :nothing)))

(deftest ^{:spec ["C59"]} it-opens-refuses-is-half-open-at-its-time-and-closes
  (is (= [:down :down [:closed :open 0] :magnetar/circuit-open [:open :half-open 1000] :fine [:half-open :closed 1000] :fine]
         (with-breaker {} (fn [b] [(outcome b fail) (outcome b fail) (told) (outcome b (constantly :fine)) (told)
                                   (outcome b (constantly :fine)) (told) (outcome b (constantly :fine))])))))

(deftest a-failed-trial-opens-it-again
  (is (= [[:closed :open 0] [:open :half-open 1000] :down [:half-open :open 1000] [:open :half-open 2000]]
         (with-breaker {} (fn [b] (outcome b fail) (outcome b fail) [(told) (told) (outcome b fail) (told) (told)])))))

(deftest the-trial-of-a-caller-that-died-is-given-to-another
  (is (= [:magnetar/circuit-open :fine]
         (with-breaker {}
           (fn [b]
             (outcome b fail)
             (outcome b fail)
             (told)
             (told)
             (let [caller (actor/spawn #(r/call (r/circuit-breaker b) (fn [] (receive ::never nil))))]
               (scope/sleep 1)
               (let [refused (outcome b (constantly :fine))]
                 (actor/exit caller :kill)
                 (scope/sleep 1)
                 [refused (outcome b (constantly :fine))])))))))

(deftest a-probe-tries-instead-of-a-call
  (with-failures [_]
    (is (= [[:closed :open 0] [:open :half-open 1000] :magnetar/circuit-open [:half-open :open 1010] [:open :half-open 2010] [:half-open :closed 2020] :fine]
           (let [up (atom false)]
             (with-breaker {:probe #(do (scope/sleep 10) (when-not @up (fail)))}
               (fn [b]
                 (outcome b fail)
                 (outcome b fail)
                 [(told) (told) (outcome b (constantly :never)) (told) (do (reset! up true) (told)) (told) (outcome b (constantly :fine))])))))))

(deftest probes-go-on-until-as-many-have-succeeded-as-have-to
  (is (= [[:closed :open 0] [:open :half-open 1000] [:half-open :closed 1030] :fine]
         (with-breaker {:probe #(scope/sleep 10) :success-threshold 3}
           (fn [b]
             (outcome b fail)
             (outcome b fail)
             [(told) (told) (told) (outcome b (constantly :fine))])))))

(deftest ^{:limit 10000} a-breaker-is-printed-without-asking-its-server
  (with-breaker {}
    (fn [b]
      (sys/suspend b)
      (doseq [server [::b b]
              :let [policy (r/circuit-breaker server)]]
        (is (= (str "#<circuit-breaker " (pr-str server) ">") (pr-str policy)))
        (is (str/includes? (with-out-str (pprint/pprint policy)) ":not-delivered")))
      (sys/resume b)))
  (is (= "[#<circuit-breaker> #<rate-limiter> #<bulkhead>]"
         (pr-str [(r/circuit-breaker) (r/rate-limiter {:rate 1}) (r/bulkhead {:max 1})]))))

(deftest cancellations-count-for-nothing
  (is (= {:state :closed :calls 0 :failures 0 :trials 0}
         (with-breaker {}
           (fn [b]
             (dotimes [_ 3]
               (try (scope/with-scope [_ {:deadline 10}] (r/call (r/circuit-breaker b) #(scope/sleep 1000))) (catch clojure.lang.ExceptionInfo _)))
             (scope/sleep 1)
             @(r/circuit-breaker b))))))

(deftest what-a-breaker-does-not-know-does-it-no-harm
  (is (= [[:error :unknown-call] :fine]
         (with-breaker {} (fn [b]
                            (actor/! b :junk)
                            (gs/cast b :junk)
                            [(gs/call b :junk) (outcome b (constantly :fine))])))))

(deftest what-is-wrong-is-refused-at-once
  (is (thrown-with-msg? IllegalArgumentException #"does not know :dealy" (r/start-breaker {:dealy 1})))
  (is (thrown-with-msg? IllegalArgumentException #":probe is a function" (r/start-breaker {:probe 7})))
  (is (thrown-with-msg? IllegalArgumentException #"`call` wants a function" (r/call (r/circuit-breaker ::b) 7))))

(deftest a-policy-of-a-breaker-stands-among-others
  (is (= [:fine :half-open]
         (with-breaker {:success-threshold 2}
           (fn [b]
             (outcome b fail)
             (outcome b fail)
             [(r/call [(r/retry {:max-attempts 2 :backoff (r/constant 1000)}) (r/circuit-breaker b) (r/timeout 100)] (constantly :fine))
              (:state @(r/circuit-breaker b))])))))

(deftest options-of-a-server-are-refused-where-there-is-none
  (doseq [options [{:name :payments} {:probe identity}]]
    (is (thrown-with-msg? IllegalArgumentException #"is a server: start it by `start-breaker-link`" (r/circuit-breaker options))))
  (is (thrown-with-msg? IllegalArgumentException #"takes its options as a map; this is 7" (r/circuit-breaker 7))))

(deftest the-deprecated-names-do-the-same
  (is (= [:down :down [:closed :open 0] :magnetar/circuit-open :open]
         (with-virtual-clock
           (actor/with-process {:trap-exit true}
             (let [[_ b] (deprecated/start-link {:failure-threshold 2})
                   outcome #(try (deprecated/call b %) (catch clojure.lang.ExceptionInfo e (:magnetar/reason (ex-data e))))]
               (deprecated/subscribe b)
               (try
                 [(outcome fail) (outcome fail) (told) (outcome fail) (:state (deprecated/status b))]
                 (finally (gs/stop b))))))))
  (is (= [:ok 3] (with-virtual-clock
                   (let [[word b] (deprecated/start {})]
                     (try
                       [word (deprecated/call b + 1 2)]
                       (finally (gs/stop b))))))))
