(ns magnetar.dev.hops.program
  "The program that `bin/magnetar hops` counts: each operation is warmed up, then done three times between marks.
  Uses Magnetar's public functions only, so that it runs on any checkout. The namespace `user` is counted, this one is not."
  (:require
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.dev.hops.marks :as marks]
   [magnetar.dev.hops.user :as user]
   [magnetar.gen-server :as gs]
   [magnetar.supervisor :as sup])
  (:import
   (java.util.concurrent CountDownLatch)))

(set! *warn-on-reflection* true)

(def ^:private warm-ups 40)

(def ^:private counted-runs 3)

;; --- waiting until the other side is idle

(defn- parked? [^Thread thread]
  (= Thread$State/WAITING (.getState thread)))

(def ^:private patience-ms 20000)

(defn- await-true [holds?]
  (let [deadline (+ (System/currentTimeMillis) (long patience-ms))]
    (while (not (holds?))
      (when (< deadline (System/currentTimeMillis))
        (throw (IllegalStateException. (str "The other side was not idle after " patience-ms " ms."))))
      (Thread/sleep 1))))

;; A thread may park on its way; it is idle when several checks in a row find it parked.
(defn- await-idle [& threads]
  (dotimes [_ 3]
    (await-true #(every? parked? threads))
    (Thread/sleep 2)))

;; --- operations: maps of :title and functions. `ready` prepares a run and returns what the other functions get;
;; `act` is the operation, `await` waits until the other side has done its part, `clean` runs after the marks.

(def ^:private put-with-room
  {:title "a/>! with room in the buffer"
   :ready (fn [] (a/chan 1))
   :act user/put-order})

(def ^:private take-with-value
  {:title "a/<! with a value there"
   :ready (fn [] (doto (a/chan 1) user/put-order))
   :act user/take-order})

(defn- waiting-peer
  "Starts a thread that calls `wait` by `start`, which returns an address; afterwards it stays until :leave is open."
  [start wait]
  (let [thread (promise)
        [done leave] (repeatedly 2 #(CountDownLatch. 1))
        address (start (fn []
                         (deliver thread (Thread/currentThread))
                         (wait)
                         (.countDown ^CountDownLatch done)
                         (.await ^CountDownLatch leave)))]
    (await-idle @thread)
    {:address address :thread @thread :done done :leave leave}))

(defn- await-peer [{:keys [thread done]}]
  (await-true #(zero? (.getCount ^CountDownLatch done)))
  (await-idle thread))

(defn- dismiss-peer [{:keys [leave]}]
  (.countDown ^CountDownLatch leave))

(def ^:private put-to-taker
  {:title "a/>! to a parked taker"
   :ready (fn []
            (let [c (a/chan)]
              (assoc (waiting-peer #(a/go (%)) #(user/take-order c)) :port c)))
   :act (fn [{:keys [port]}] (user/put-order port))
   :await await-peer
   :clean dismiss-peer})

(def ^:private receive-with-message
  {:title "receive with a message there"
   :ready (fn [] (user/send-order (actor/self)))
   :act (fn [_] (user/receive-order))})

(def ^:private send-to-parked
  {:title "! to a parked process"
   :ready (fn [] (waiting-peer #(actor/spawn %) user/receive-order))
   :act (fn [{:keys [address]}] (user/send-order address))
   :await await-peer
   :clean dismiss-peer})

(defn- call-of-server []
  (let [[_ pid] (gs/start-link user/server nil)
        thread (user/thread-of pid)]
    {:title "gs/call, server on a thread"
     :ready (fn [] (await-idle thread))
     :act (fn [_] (user/thread-of pid))
     :await (fn [_] (await-idle thread))}))

(defn- noting-child
  "Returns a :start of a child: it notes the new child and the supervisor in the atom."
  [starts]
  (let [child (assoc user/server :init (fn [_] (swap! starts assoc :child (Thread/currentThread)) [:ok nil]))]
    (fn []
      (let [[_ pid :as started] (gs/start-link child nil)]
        (swap! starts #(-> (assoc % :pid pid :supervisor (Thread/currentThread)) (update :number inc)))
        started))))

(defn- await-start [starts number]
  (await-true #(= number (:number @starts)))
  (await-idle (:child @starts) (:supervisor @starts)))

(defn- restart []
  (let [starts (atom {:number 0})]
    (sup/start-link {:intensity 1000 :period 1000 :children [{:id :orders :start [(noting-child starts)]}]})
    {:title "kill of a child until it is restarted"
     :ready (fn [] (let [{:keys [number]} @starts] (await-start starts number) (inc (long number))))
     :act (fn [_] (user/kill (:pid @starts)))
     :await (fn [number] (await-start starts number))}))

;; --- running them

(defn- run-once [{:keys [ready act await clean]} begin end]
  (let [x (ready)]
    (begin)
    (act x)
    (when await (await x))
    (end)
    (when clean (clean x))))

(defn- measure [{:keys [title] :as operation}]
  (dotimes [_ warm-ups]
    (run-once operation (constantly nil) (constantly nil)))
  (dotimes [_ counted-runs]
    (run-once operation #(marks/begin title) marks/end)))

(defn- measure-all []
  (run! measure [put-with-room take-with-value put-to-taker receive-with-message send-to-parked
                 (call-of-server) (restart)]))

(defn -main
  "Does every operation in a process, then ends the JVM."
  []
  (actor/join (actor/spawn measure-all))
  (System/exit 0))
