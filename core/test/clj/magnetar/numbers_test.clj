(ns magnetar.numbers-test
  "Numeric options of what is built of processes: what means nothing is refused with option, value and range."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.application :as application]
   [magnetar.channel :as channel]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.pool :as pool]
   [magnetar.resilience :as r]
   [magnetar.supervisor :as sup]
   [magnetar.task :as task]))

(set! *warn-on-reflection* true)

(def ^:private server
  {:init (fn [s] [:ok s])
   :handle-call (fn [_ _ s] [:reply s s])
   :handle-cast (fn [_ s] [:noreply s])})

(defn- pool-of [& {:as options}]
  (pool/start (merge {:worker [gs/start-link server nil] :size 1} options)))

(defn- stream-of [& {:as options}]
  (task/async-stream [1] inc options))

(def ^:private counts
  "What takes a whole number: [function option call values that are refused]."
  [["start" :size #(pool-of :size %) [0 -1 1.5 1/2 "1" nil :many 100000000000000000000N]]
   ["start" :overflow #(pool-of :overflow %) [-1 1.5 1/2 "1" :many]]
   ["start" :max-waiting #(pool-of :max-waiting %) [-1 1.5 "1" :many]]
   ["async-stream" :max-concurrency #(stream-of :max-concurrency %) [0 -1 1.5 "1" :many]]
   ["yield-many" :limit #(task/yield-many [] {:limit %}) [0 -1 1.5 "1" nil]]
   ["retry" :max-attempts #(r/retry {:max-attempts %}) [0 -1 1.5 "1"]]
   ["hedge" :max-calls #(r/hedge {:after 1 :max-calls %}) [0 -1 1.5 "1"]]
   ["bulkhead" :max #(r/bulkhead {:max %}) [0 -1 1.5 "1" nil 3000000000]]
   ["rate-limiter" :rate #(r/rate-limiter {:rate %}) [0 -1 1/2 "1" nil]]
   ["rate-limiter" :burst #(r/rate-limiter {:rate 1 :burst %}) [0 -1 1/2 "1"]]
   ["throttle" :rate #(r/throttle (channel/chan) {:rate %}) [0 -1 1/2 "1" nil]]
   ["batch" :size #(r/batch (channel/chan) {:size %}) [0 -1 1.5 "1"]]
   ["window" :size #(r/window (channel/chan) {:size %}) [0 -1 1.5 "1"]]
   ["window" :step #(r/window (channel/chan) {:size 1 :step %}) [0 -1 1.5 "1"]]
   ["circuit-breaker" :failure-threshold #(r/circuit-breaker {:failure-threshold %}) [0 -1 1.5 "1" [3 2]]]
   ["circuit-breaker" :success-threshold #(r/circuit-breaker {:success-threshold %}) [0 -1 1.5 "1"]]
   ["start-breaker-link" :success-threshold #(r/start-breaker-link {:success-threshold %}) [0 -1 1.5 "1"]]
   ["start-pipeline-link" "number of workers" #(sup/start-pipeline-link % (channel/chan) (map inc) (channel/chan)) [0 -1 1.5 "1" nil]]
   ["shutdown" "status" #(application/shutdown %) [-1 1.5 "1" nil 256]]])

(def ^:private durations
  [["start" :shutdown #(pool-of :shutdown %) [-1 "1" :never Double/NaN]]
   ["async-stream" :timeout #(stream-of :timeout %) [-1 "1" nil :never]]
   ["exponential" :initial #(r/exponential {:initial %}) [0 -1 "1" :infinity nil]]
   ["exponential" :max #(r/exponential {:max %}) [0 -1 "1" nil]]
   ["exponential" :factor #(r/exponential {:factor %}) [0 -1 "2" nil Double/NaN]]
   ["exponential" :jitter #(r/exponential {:jitter %}) [-1 2 "1" nil]]
   ["constant" :delay r/constant [-1 "1" nil]]
   ["timeout" :timeout r/timeout [-1 "1" nil]]
   ["hedge" :after #(r/hedge {:after %}) [-1 "1"]]
   ["debounce" :silence #(r/debounce (channel/chan) %) [-1 "1" nil]]
   ["batch" :within #(r/batch (channel/chan) {:within %}) [-1 "1"]]
   ["window" :length #(r/window (channel/chan) {:length %}) [0 -1 "1" :infinity]]
   ["rate-limiter" :per #(r/rate-limiter {:rate 1 :per %}) [0 -1 "1" :infinity]]
   ["circuit-breaker" :delay #(r/circuit-breaker {:delay %}) [-1 "1"]]
   ["start" :target #(gs/start server nil {:shed {:target %}}) [0 -1 "1" nil :infinity]]
   ["start" :interval #(gs/start server nil {:shed {:interval %}}) [0 -1 "1" nil]]
   ["run" :stop-timeout #(application/run {:name ::x} {:stop-timeout %}) [-1 "1" nil]]
   ["yield-many" :timeout #(task/yield-many [] {:timeout %}) [-1 "1" nil]]])

(defn- refusal [f value]
  (try
    (f value)
    nil
    (catch IllegalArgumentException e (ex-message e))))

(deftest a-number-that-means-nothing-is-refused-with-option-and-value
  (actor/with-process {:trap-exit true}
    (doseq [[function option f values] (concat counts durations)
            value values]
      (testing (str function " " option " " (pr-str value))
        (let [message (refusal f value)]
          (is (some? message))
          (doseq [part [(str option) (if (coll? value) (pr-str value) (str (or value "nil")))]]
            (is (str/includes? (str message) part) message)))))))

(deftest a-number-that-is-too-large-is-refused-with-the-largest
  (is (str/ends-with? (refusal #(pool-of :size %) 100000000000000000000N)
                      ":size is a whole number from 1 to 9223372036854775807; this is 100000000000000000000N."))
  (is (str/ends-with? (refusal application/shutdown 256) "`shutdown` is a whole number from 0 to 255; this is 256.")))
