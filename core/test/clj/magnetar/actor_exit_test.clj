(ns magnetar.actor-exit-test
  "An exit signal reaches a process wherever it waits; death has two phases; a kill leaves a zombie."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after alive? exit monitor receive self spawn spawn-opt with-process]]
   [magnetar.actor-support :refer [idle outcome reason waits?]]
   [magnetar.async :as a]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually value-of with-failures]])
  (:import
   (java.net InetAddress ServerSocket Socket)
   (java.util.concurrent CountDownLatch LinkedBlockingQueue Semaphore)
   (java.util.concurrent.locks ReentrantLock)))

(set! *warn-on-reflection* true)

(defn- server-socket ^ServerSocket []
  (ServerSocket. 0 1 (InetAddress/getLoopbackAddress)))

(defn- read-from-silence []
  (with-open [server (server-socket)
              client (Socket. (.getInetAddress server) (.getLocalPort server))]
    (.read (.getInputStream client))))

(defn- accept-nobody []
  (with-open [server (server-socket)]
    (.accept server)))

(defn- full-mailbox []
  (let [pid (spawn-opt #(receive ::never nil) {:mailbox {:capacity 1}})]
    (! pid 1)
    (! pid 2)))

(defn- held-lock []
  (let [lock (ReentrantLock.)
        [thread held] [(Thread. ^Runnable #(.lock lock)) lock]]
    (.start ^Thread thread)
    (.join ^Thread thread)
    held))

(defn- blocked-agent []
  (doto (agent nil)
    (send-off (fn [_] (.await (CountDownLatch. 1) 20 java.util.concurrent.TimeUnit/SECONDS)))))

(def ^:private waits
  "What a process may wait in, each as a function that never returns by itself."
  {"a receive" #(receive ::never nil)
   "a receive with a channel" #(receive ::never nil (from (a/chan) v v) (after 100000 nil))
   "a take" #(a/<!! (a/chan))
   "a put" #(a/>!! (a/chan) 1)
   "a select" #(a/alts!! [(a/chan) [(a/chan) 1]])
   "a full mailbox" full-mailbox
   "a join" #(actor/join (idle))
   "Thread/sleep" #(Thread/sleep 100000)
   "a read of a socket" read-from-silence
   "an accept" accept-nobody
   "a scope" #(scope/with-scope [s] (scope/fork s (fn [] (a/<!! (a/chan)))))
   "a scope in a scope" #(scope/with-scope [_] (scope/with-scope [s] (scope/fork s (fn [] (Thread/sleep 100000)))))
   "offloaded work" #(scope/offload (fn [] (Thread/sleep 100000)))
   "deref of a promise" #(deref (promise))
   "deref of a promise with a limit" #(deref (promise) 100000 nil)
   "deref of a future" #(deref (future (Thread/sleep 20000)))
   "await of an agent" #(await (blocked-agent))
   "a queue" #(.take (LinkedBlockingQueue.))
   "a semaphore" #(.acquire (Semaphore. 0))
   "a lock that can be interrupted" #(.lockInterruptibly ^ReentrantLock (held-lock))})

(defn- with-clean-up [wait cleaned]
  (fn []
    (try
      (wait)
      (finally (deliver cleaned :cleaned)))))

(deftest ^{:spec ["C66" "C67"]} an-exit-signal-ends-a-process-wherever-it-waits
  (doseq [[where wait] waits]
    (testing where
      (with-failures [failures]
        (let [cleaned (promise)
              pid (spawn (with-clean-up wait cleaned))]
          (is (waits? pid))
          (exit pid :stop)
          (is (= :stop (reason pid)))
          (is (= :cleaned (deref cleaned 0 :not-cleaned)))
          (is (= [] @failures)))))))

(deftest an-exit-signal-ends-a-process-on-a-platform-thread
  (let [pid (spawn-opt #(a/<!! (a/chan)) {:platform-thread true})]
    (is (waits? pid))
    (exit pid :stop)
    (is (= :stop (reason pid)))))

(deftest an-exit-signal-before-the-first-instruction-is-not-lost
  (dotimes [_ 200]
    (let [pid (spawn #(receive ::never nil))]
      (exit pid :early)
      (is (= :early (reason pid))))))

(deftest catching-exception-does-not-swallow-an-exit
  (let [tries (atom 0)
        pid (spawn #(while true
                      (try
                        (swap! tries inc)
                        (receive ::never nil)
                        (catch Exception _ nil))))]
    (is (waits? pid))
    (exit pid :stop)
    (is (= [:stop 1] [(reason pid) @tries]))))

(deftest an-interrupt-that-was-swallowed-comes-again-at-the-next-operation
  (let [pid (spawn #(do
                      (try (Thread/sleep 100000) (catch InterruptedException _ nil))
                      (receive ::never nil)))]
    (is (waits? pid))
    (exit pid :stop)
    (is (= :stop (reason pid)))))

(defn- holding
  "Starts a thread that holds the monitor of x until the promise is delivered."
  [x release]
  (let [held (promise)]
    (future (locking x (deliver held true) @release))
    @held))

;; A thread that waits for a monitor cannot be interrupted: the exit comes as soon as it has it.
(deftest ^{:spec ["C66"]} who-waits-for-a-monitor-exits-once-it-has-it
  (let [x (Object.)
        release (promise)
        pid (do (holding x release)
                (spawn #(do (locking x nil) (receive ::never nil))))]
    (is (eventually (= "BLOCKED" (some-> (.thread (.info (magnetar.kernel.process.ProcessTable/live pid))) .getState str))))
    (exit pid :stop)
    (is (not (alive? pid)))
    (is (= :late (actor/join pid {:timeout 0 :else :late})))
    (deliver release true)
    (is (= :stop (reason pid)))))

(deftest who-waits-for-a-delay-that-another-computes-exits-once-it-is-there
  (let [started (promise)
        release (promise)
        slow (delay (deliver started true) @release)
        pid (do (future @slow)
                @started
                (spawn #(do @slow (receive ::never nil))))]
    (is (eventually (#{"BLOCKED" "WAITING"} (some-> (.thread (.info (magnetar.kernel.process.ProcessTable/live pid))) .getState str))))
    (exit pid :stop)
    (deliver release true)
    (is (= :stop (reason pid)))))

(deftest ^{:spec ["C67"]} who-traps-exits-is-not-disturbed-and-gets-a-message
  (let [ch (a/chan)
        pid (spawn-opt #(vector (a/<!! ch) (receive [:EXIT from why] [from why] (after 0 :none)))
                       {:trap-exit true})
        sender (spawn (fn [] (exit pid :please)))]
    (is (= :normal (reason sender)))
    (is (alive? pid))
    (a/>!! ch :value)
    (is (= [:value [:value [sender :please]]] (outcome pid)))))

;; ---- two phases

(defn- scope-that-ends-late [release]
  (fn []
    (scope/with-scope [s]
      (scope/fork s (fn []
                      (try
                        (Thread/sleep 100000)
                        (finally (scope/shield @release))))))))

(deftest ^{:spec ["C68"]} a-process-is-dead-once-its-scopes-have-ended-and-not-before
  (let [release (promise)
        watched (spawn (scope-that-ends-late release))]
    (is (waits? watched))
    (with-process {}
      (let [ref (monitor watched)]
        (exit watched :stop)
        (testing "it is not alive for others, and its death is not announced"
          (is (not (alive? watched)))
          (is (= :exiting (:status (actor/process-info watched))))
          (is (= :none (receive [:DOWN ref :process _ why] why (after 0 :none)))))
        (deliver release true)
        (is (= :stop (receive [:DOWN ref :process _ why] why (after 20000 :late))))))))

(deftest a-process-that-is-told-to-end-before-it-registers-itself-ends-for-that-reason
  (with-failures [failures]
    (let [[computes go-on] [(promise) (atom false)]
          pid (spawn (fn []
                       (deliver computes true)
                       (while (not @go-on))
                       (actor/register ::late (self))))]
      (value-of computes)
      (exit pid :stop)
      (is (eventually (not (alive? pid))))
      (reset! go-on true)
      (is (= :stop (reason pid)))
      (is (= [] @failures))
      (is (nil? (actor/whereis ::late))))))

(deftest ^{:spec ["C68"]} a-listening-socket-is-closed-before-the-death-is-announced
  (let [port (with-open [server (server-socket)] (.getLocalPort server))
        listen (fn []
                 (with-open [server (ServerSocket. port 1 (InetAddress/getLoopbackAddress))]
                   (.accept server)))]
    (with-process {}
      (dotimes [_ 1000]
        (let [[pid ref] (actor/spawn-monitor listen)]
          (exit pid :restart)
          (is (= :restart (receive [:DOWN ref :process _ why] why (after 20000 :late)))))))))

(deftest what-an-exiting-process-sends-is-dropped-also-in-a-shield
  (with-process {}
    (let [me (actor/self)
          pid (spawn #(try
                        (receive ::never nil)
                        (finally (scope/shield (! me :from-the-grave)))))]
      (is (waits? pid))
      (exit pid :stop)
      (is (= :stop (reason pid)))
      (is (= [] (actor/flush))))))

;; ---- kill

(defn- undying
  "Catches what ends it, and goes on until the latch is open."
  [^CountDownLatch latch]
  (try
    (receive ::never nil)
    (catch Throwable _
      (while (pos? (.getCount latch))
        (Thread/onSpinWait)
        (Thread/interrupted)
        (Thread/yield)))))

(deftest ^{:spec ["C69"]} a-killed-process-is-dead-at-once-and-a-zombie-until-its-thread-ends
  (let [latch (CountDownLatch. 1)
        pid (spawn-opt undying latch {:name ::undying})]
    (is (waits? pid))
    (with-process {}
      (let [ref (monitor pid)
            zombie? #(some (comp #{pid} :pid) (inspect/zombies))]
        (exit pid :kill)
        (is (= :killed (receive [:DOWN ref :process _ why] why (after 20000 :late))))
        (is (= [false nil nil] [(alive? pid) (actor/whereis ::undying) (actor/process-info pid)]))
        (let [zombie (first (filter (comp #{pid} :pid) (inspect/zombies)))]
          (is (= :killed (:reason zombie)))
          (is (<= 0 (:since-ms zombie)))
          (is (some #(re-find #"actor_exit_test.*undying" (str %)) (:stack zombie))))
        (.countDown latch)
        (is (eventually (not (zombie?))))))))

(deftest ^{:spec ["C69"]} what-a-zombie-sends-is-dropped
  (with-process {}
    (let [me (actor/self)
          latch (CountDownLatch. 1)
          tried (promise)
          pid (spawn #(do
                        (undying latch)
                        (deliver tried (try (! me :late) (catch Throwable e (class e))))))]
      (is (waits? pid))
      (exit pid :kill)
      (.countDown latch)
      (is (= magnetar.kernel.fiber.Exit (value-of tried)))
      (is (= [] (actor/flush))))))

;; ---- the interrupt

(deftest ^{:spec ["C68"]} the-interrupt-of-an-exit-does-not-outlive-the-process
  (let [seen (promise)
        thread (Thread/startVirtualThread
                 #(let [thrown (try
                                 (with-process {}
                                   (let [me (actor/self)]
                                     (spawn (fn [] (exit me :stop)))
                                     (receive ::never nil)))
                                 (catch Exception e (:reason (ex-data e))))]
                    (deliver seen [thrown (Thread/interrupted) (a/<!! (a/go 1))])))]
    (is (= [:stop false 1] (value-of seen)))
    (.join ^Thread thread)))

;; ---- reasons that do not want to be told

(deftest ^{:spec ["C80"]} a-process-dies-also-of-an-error-that-cannot-say-what-it-is
  (with-failures
    (fn [_]
      (actor/with-process {}
        (let [[pid ref] (actor/spawn-monitor (fn [] (throw (proxy [RuntimeException] [] (getMessage [] (throw (IllegalStateException.)))))))]
          (is (re-find #"which failed to say what it is" (receive [:DOWN ref :process _ why] why)))
          (is (not (actor/alive? pid))))))))

(deftest ^{:spec ["C80"]} a-reason-is-bounded-whatever-the-error-holds
  (with-failures
    (fn [_]
      (actor/with-process {}
        (let [wide (nth (iterate #(vec (repeat 32 %)) 1) 6)
              [_ ref] (actor/spawn-monitor (fn [] (throw (ex-info "big" {:wide wide :endless (range) :lazy (map inc (range)) :error (Exception. "x")}))))]
          (is (> 20000 (count (receive [:DOWN ref :process _ why] (pr-str why))))))))))

(deftest ^{:spec ["C76"]} a-message-to-the-dead-is-not-looked-into-on-the-timer-thread
  (actor/with-process {}
    (let [dead (actor/spawn (fn [] nil))
          looked-into (promise)]
      (actor/join dead)
      (actor/send-after 0 dead (lazy-seq (deliver looked-into true) [1]))
      (actor/send-after 1 (self) :tick)
      (is (= :tick (receive :tick :tick)))
      (is (not (realized? looked-into))))))
