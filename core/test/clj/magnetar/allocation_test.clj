(ns magnetar.allocation-test
  "What one operation allocates, over all threads: a figure that stays when the machine is busy. Each bound is what was measured, and a fifth; for calls two fifths, since how often both sides park varies."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.async :as a]
   [magnetar.fold :as fold]
   [magnetar.gen-server :as gs]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.waits :as waits]
   [magnetar.inspect :as inspect]
   [magnetar.scope :refer [fork with-scope]]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [with-hook]]
   [magnetar.telemetry :as telemetry]
   [magnetar.trace :as trace])
  (:import
   (clojure.lang Var)
   (com.sun.management ThreadMXBean)
   (java.lang.management ManagementFactory)
   (magnetar.kernel.channel Channel)
   (magnetar.kernel.fiber Fiber Propagation)))

(set! *warn-on-reflection* true)

(def ^:private operations 20000)

(defn- allocated ^long []
  (.getTotalThreadAllocatedBytes ^ThreadMXBean (ManagementFactory/getThreadMXBean)))

(defn- bytes-of
  "The bytes for each of the operations that `f` does when it is told how many: the least of some runs, since others allocate as well."
  [f]
  (f operations)
  (reduce min (repeatedly 4 #(let [before (allocated)]
                               (f operations)
                               (quot (- (allocated) before) (long operations))))))

(defn- in-process [f]
  (fn [n] (actor/join (actor/spawn f n))))

(defn- in-go [f]
  (fn [n] (a/<!! (a/go (f n)))))

(deftest a-value-through-a-buffer-allocates-nothing
  (is (<= (bytes-of (in-go (fn [n] (let [c (a/chan 1)] (dotimes [_ n] (a/>! c :x) (a/<! c)))))) 8)))

(defn- read-once []
  (waits/at waits/for-data :socket :read))

(deftest what-tells-of-a-wait-at-a-socket-allocates-nothing
  (is (<= (bytes-of (in-go (fn [n] (dotimes [_ n] (read-once))))) 8)))

(defn- serve-to [c n]
  (a/go (dotimes [_ n] (a/>! c :x))))

(deftest a-rendezvous-allocates-the-wait-of-one-side
  (is (<= (bytes-of (in-go (fn [n] (let [c (a/chan)] (serve-to c n) (dotimes [_ n] (a/<! c)))))) 160)))

(deftest a-channel-that-is-used-once-has-no-queue-and-no-ring
  (is (<= (bytes-of (in-go (fn [n] (dotimes [_ n] (let [c (a/chan 1)] (a/>! c :x) (a/<! c)))))) 86))
  ;; a channel without a buffer, the callback and its node
  (is (<= (bytes-of (in-go (fn [n] (dotimes [_ n] (let [c (a/chan)] (a/take! c identity) (a/>! c :x)))))) 210)))

(defn- through-a-mult
  "Puts n values on a channel, and then has a mult with these taps take them all. No side waits."
  [taps n]
  (let [^Channel c (a/chan n)
        values (.buffer c)]
    (dotimes [_ n] (a/>!! c :x))
    (let [m (a/mult c)]
      (run! #(a/tap m %) taps))
    (while (pos? (.size values)) (Thread/onSpinWait))
    (a/close! c)))

(deftest a-value-of-a-mult-makes-nothing-to-wait-on-while-no-tap-is-late
  ;; its place in the buffer, and the reduction over the taps: 37 to 134, by what is compiled into one piece;
  ;; with a channel and a counter of its own it takes 150 and more
  (is (<= (bytes-of #(through-a-mult [] %)) 140))
  (is (<= (bytes-of #(through-a-mult [(a/chan (a/dropping-buffer 1))] %)) 140)))

(defn- bytes-of-an-executor
  "What a go block allocates more where it is started by an executor of its own."
  ^long []
  (if (= :executor (:go-blocks (inspect/runtime))) 250 0))

(deftest a-go-block-that-ends-at-once-allocates-its-thread-its-record-and-its-result
  (is (<= (bytes-of (in-go (fn [n] (dotimes [_ n] (a/<! (a/go :x))))))
          (+ 940 (bytes-of-an-executor))))
  (is (<= (bytes-of (in-go (fn [n]
                             (let [results (mapv (fn [_] (a/go :x)) (range n))]
                               (run! a/<! results)))))
          (+ 860 (bytes-of-an-executor)))))

(deftest a-go-block-passes-the-bindings-that-it-got
  (binding [*print-length* 3]
    (is (a/<! (a/go (and (= 3 *print-length*)
                         (identical? (Var/getThreadBindingFrame) (fibers/shared-frame)))))))
  (is (= 4 (a/<! (a/go (binding [*print-length* 4] (a/<! (a/go *print-length*))))))))

(deftest alts-over-ready-channels-allocates-its-answer
  (is (<= (bytes-of (in-go (fn [n]
                             (let [cs (vec (repeatedly 10 #(a/chan 1)))]
                               (dotimes [i n] (a/>! (nth cs (rem i 10)) :x) (a/alts! cs))))))
          270)))

(deftest alts-that-waits-allocates-its-places-in-the-queues
  (is (<= (bytes-of (in-go (fn [n]
                             (let [cs (vec (repeatedly 10 #(a/chan)))
                                   share (quot (long n) 10)]
                               (doseq [c cs] (serve-to c share))
                               (dotimes [_ (* 10 share)] (a/alts! cs))))))
          ;; on one carrier without hand-off all of them wait
          590)))

(deftest a-message-to-oneself-allocates-its-node
  (is (<= (bytes-of (in-process (fn [n] (dotimes [_ n] (! (self) :x) (receive :x nil))))) 60)))

(defn- echo [to]
  (receive _ (do (! to :pong) (recur to))))

(defn- send-to-self [n]
  (dotimes [_ n] (! (self) :x) (receive :x nil)))

(defn- traced-once
  "Traces messages of this process up to the limit, in which it handles one and sends another because of it."
  []
  (trace/messages {:limit 2, :to (fn [_])})
  (! (self) :x)
  (receive :x (! (self) :y))
  (receive :y nil))

(deftest a-message-allocates-the-same-before-and-after-a-trace
  (let [before (bytes-of (in-process send-to-self))
        after (in-process (fn [n]
                            (traced-once)
                            (send-to-self n)))]
    (is (<= -1 (- (long (bytes-of after)) (long before)) 1))))

(deftest a-message-allocates-the-same-before-and-after-telemetry
  (let [before (bytes-of (in-process send-to-self))
        listener (telemetry/add-listener (fn [_]))]
    (telemetry/start-metrics)
    (actor/join (actor/spawn #(! (self) :x)))
    (telemetry/stop-metrics)
    (telemetry/remove-listener listener)
    (is (<= -1 (- (long (bytes-of (in-process send-to-self))) (long before)) 1))))

(defn- started-in-a-handler
  "A process that a server starts while it handles a message, as a tool looks on that `start` begins and `stop` ends. It calls f with n once that is over."
  [start stop f]
  (let [starter {:init (fn [_] [:ok nil])
                 :handle-call (fn [f _ s] [:reply (actor/spawn #(receive n (f n))) s])}
        [_ server] (gs/start starter nil)]
    (fn [n]
      (let [tool (start)
            pid (gs/call server f)]
        (stop tool)
        (! pid n)
        (actor/join pid)))))

;; A message that carries anything takes 8 bytes more, so the start of the tool may take a few for each of the messages.
(deftest what-a-handler-starts-while-a-tool-looks-on-allocates-the-same-afterwards
  (let [before (long (bytes-of (in-process send-to-self)))]
    (doseq [[start stop] [[#(trace/messages {:limit 100, :to (fn [_])}) trace/stop]
                          [#(telemetry/add-listener (fn [_])) telemetry/remove-listener]
                          [telemetry/start-metrics (fn [_] (telemetry/stop-metrics))]]]
      (is (< -5 (- (long (bytes-of (started-in-a-handler start stop send-to-self))) before) 5)))))

(deftest a-round-trip-of-messages-allocates-two-nodes-and-two-waits
  (is (<= (bytes-of (in-process (fn [n]
                                  (let [pong (actor/spawn-link echo (self))]
                                    (dotimes [_ n] (! pong :ping) (receive :pong nil))
                                    (actor/unlink pong)
                                    (actor/exit pong :kill)))))
          330)))

(def ^:private counter
  {:init (fn [_] [:ok 0])
   :handle-call (fn [_ _ n] [:reply n n])
   :handle-cast (fn [_ n] [:noreply n])})

(defn- calls [hosting]
  (in-process (fn [n]
                (let [[_ server] (gs/start counter nil {:hosting hosting})]
                  (dotimes [_ n] (gs/call server :get))
                  (gs/stop server)))))

(deftest a-call-allocates-no-more-than-its-messages-monitor-and-waits
  (is (<= (bytes-of (calls :threaded)) 1300))
  (is (<= (bytes-of (calls :activated)) 2300)))

(def ^:private failing
  {:init (fn [parent] (! parent [:up (self)]) [:ok nil])
   :handle-cast (fn [_ _] (throw (ex-info "no connection" {:host "db"})))})

(defn- restarts
  "Ends children of one supervisor by (end pid), each as soon as it is up, so that it is started again."
  [end]
  (in-process (fn [n]
                (let [me (self)
                      child (fn [id] {:id id :start [gs/start-link failing me]})
                      [_ supervisor] (sup/start-link {:intensity n, :children (map child (range 500))})]
                  (dotimes [_ n] (receive [:up pid] (end pid)))
                  (dotimes [_ 500] (receive [:up _] nil))
                  (actor/unlink supervisor)
                  (actor/exit supervisor :kill)))))

(deftest a-restart-allocates-a-process-its-start-in-step-and-the-death-in-the-supervisor
  (with-hook [:report (fn [_])]
    ;; The start of the process is 3 kB, and the waits of both sides are 2 kB. The new state of the supervisor, whose maps of children and pids change
    ;; twice, is 4 kB. Its report and the entry of its history are 1 kB, and the server that begins is the rest.
    (is (<= (bytes-of (restarts #(actor/exit % :kill))) 14000))
    ;; The error with its stack is 4 kB, and its reason, which has the frames of the program as text, is 2 kB. The reason is made plain for the report of
    ;; the server and for the supervisor, with 2 kB each. The report of the server and its last words are 4 kB.
    (is (<= (bytes-of (restarts #(gs/cast % :fail))) 32000))))

(deftest a-fork-allocates-its-thread-its-record-and-its-bindings
  (is (<= (bytes-of (in-go (fn [n] (with-scope [s {:bindings :none}] (dotimes [i n] (fork s inc i)))))) 750))
  (is (<= (bytes-of (in-go (fn [n] (with-scope [s] (dotimes [i n] (fork s inc i)))))) 940))
  (is (<= (bytes-of (in-go (fn [n] (with-scope [s] (run! deref (mapv #(fork s inc %) (range n))))))) 950)))

(deftest nothing-is-allocated-for-thread-locals-while-they-do-not-travel
  (is (not (Propagation/isOn)))
  (is (zero? (long (bytes-of (in-go (fn [n]
                                      (let [fiber (Fiber/current)]
                                        (dotimes [_ n]
                                          (.outgoing fiber)
                                          (.leaveContext fiber (.keepContext fiber))
                                          (.leaveContext fiber (.enterContext fiber nil)))))))))))

(deftest a-call-of-pmap-allocates-a-fork-and-its-chunk
  (is (<= (bytes-of (in-go (fn [n] (fold/pmap inc (range n))))) 1130)))

(defn- leaf [to message _]
  (! to message))

(deftest a-process-that-sends-one-message-and-ends-allocates-little-beside-its-thread
  (is (<= (bytes-of (in-process (fn [n]
                                  (let [me (self)]
                                    (dotimes [_ n] (actor/spawn leaf me :done nil))
                                    (dotimes [_ n] (receive :done nil))))))
          1110)))
