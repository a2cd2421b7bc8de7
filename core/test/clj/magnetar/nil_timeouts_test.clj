(ns magnetar.nil-timeouts-test
  "A time-out that is nil is refused by each function that takes one: a setting that is missing is no wait without end."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.agent :as agent]
   [magnetar.channel :as channel]
   [magnetar.gen-event :as gen-event]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as gen-statem]
   [magnetar.pool :as pool]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.resilience :as resilience]
   [magnetar.scope :as scope]
   [magnetar.sys :as sys]
   [magnetar.task :as task]))

(set! *warn-on-reflection* true)

(def ^:private none {:timeout nil})

(def ^:private calls
  "Functions of a server that answers nothing, by what they are called."
  {"gs/call" #(gs/call % :x none)
   "gs/start" (fn [_] (gs/start {:init (fn [_] [:ok 1])} nil none))
   "gs/multi-call" (fn [_] (gs/multi-call [(actor/node)] :nobody :x none))
   "gs/wait-response" #(gs/wait-response (gs/send-request % :x) none)
   "gs/receive-response" #(gs/receive-response (gs/send-request % :x) none)
   "gen-statem/call" #(gen-statem/call % :x none)
   "gen-event/call" #(gen-event/call % :handler :x none)
   "gs/start, :shed" (fn [_] (gs/start {:init (fn [_] [:ok 1]) :handle-call (fn [_ _ s] [:noreply s])} nil {:shed {:target nil}}))
   "sys/get-state" #(sys/get-state % none)
   "agent/start" (fn [_] (agent/start (constantly 1) none))
   "actor/join" #(actor/join % none)
   "receive" (fn [_] (receive :never 1 (after nil 2)))
   "proc-lib/start" (fn [_] (proc-lib/start #(proc-lib/init-ack :ok) none))
   "proc-lib/stop" #(proc-lib/stop % :normal none)
   "task/await" (fn [_] (task/await (task/completed 1) none))
   "task/await-many" (fn [_] (task/await-many [(task/completed 1)] none))
   "task/yield" (fn [_] (task/yield (task/completed 1) none))
   "task/yield-many" (fn [_] (task/yield-many [(task/completed 1)] none))
   "pool/checkout" #(pool/checkout % none)
   "channel/put" (fn [_] (channel/put (channel/chan {:size 1}) 1 none))
   "channel/take" (fn [_] (channel/take (channel/chan) none))
   "channel/select" (fn [_] (channel/select [(channel/chan)] none))
   "scope/join" (fn [_] (scope/join (java.util.concurrent.CompletableFuture.) none))
   "scope/await-callback" (fn [_] (scope/await-callback (fn [_ _]) none))
   "scope/sleep" (fn [_] (scope/sleep nil))
   "with-scope, :patience" (fn [_] (scope/with-scope [_ {:patience nil}]))
   "resilience/timeout" (fn [_] (resilience/timeout nil))
   "resilience/bulkhead" (fn [_] (resilience/bulkhead (assoc none :max 1)))
   "resilience/rate-limiter" (fn [_] (resilience/rate-limiter (assoc none :rate 1)))
   "resilience/rate-limiter, :per" (fn [_] (resilience/rate-limiter {:rate 1 :per nil}))
   "resilience/debounce" (fn [_] (resilience/debounce (channel/chan) nil))
   "resilience/constant" (fn [_] (resilience/constant nil))
   "resilience/batch, :within" (fn [_] (resilience/batch (channel/chan) {:size 1 :within nil}))
   "resilience/start-breaker, :delay" (fn [_] (resilience/start-breaker {:delay nil}))})

(deftest a-timeout-that-is-nil-is-refused
  (actor/with-process {}
    (let [server (actor/spawn (fn [] (receive :stop nil)))]
      (doseq [[operation call] calls]
        (testing operation
          (let [error (try (call server) (catch Throwable e e))]
            (is (instance? IllegalArgumentException error))
            (is (re-find #"is nil" (str (ex-message error)))))))
      (actor/exit server :kill))))
