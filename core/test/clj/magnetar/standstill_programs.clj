(ns magnetar.standstill-programs
  "Programs at a standstill, and programs that are not although nearly all of them waits. `print-answers` runs them one after the other in a JVM of its own,
  and asks each whether it is stuck.

  The thread that runs them has a name of the library, so it counts as one from outside of the program. The main thread has to return."
  (:require
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.impl.inspect.others :as others]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope])
  (:import
   (java.net ServerSocket)
   (java.util Timer TimerTask)
   (java.util.concurrent CountDownLatch Executors TimeUnit)
   (java.util.concurrent.locks LockSupport)))

(set! *warn-on-reflection* true)

;; ---- parts of programs: each starts something, and returns what stops it

(defn- fiber [f & args]
  (let [thread (promise)]
    (a/go
      (deliver thread (Thread/currentThread))
      (try (apply f args) (catch Exception _ :stopped)))
    #(.interrupt ^Thread @thread)))

(defn- platform-thread [f & args]
  (let [thread (doto (Thread. #(try (apply f args) (catch Exception _ :stopped))) (.setDaemon true) (.start))]
    #(.interrupt thread)))

(defn- virtual-thread [f & args]
  (let [thread (Thread/startVirtualThread #(try (apply f args) (catch Exception _ :stopped)))]
    #(.interrupt thread)))

(defn- beat
  "A fiber that works now and then, and has to do with nothing."
  []
  (fiber #(while true (scope/sleep 10000))))

(defn- put-that-nobody-takes []
  (fiber #(a/>! (a/chan) :value)))

(defn- idle-server []
  (let [[_ pid] (gs/start {:init (fn [_] [:ok 0])} nil)]
    #(gs/stop pid)))

(defn- in-scope
  "A fiber that owns a scope with a fork for each function. A fork is in no snapshot before it runs, so this waits until all do."
  [& fs]
  (let [opened (promise)
        run (CountDownLatch. (count fs))]
    (a/go
      (try
        (scope/with-scope [s]
          (deliver opened s)
          (doseq [f fs]
            (scope/fork s (fn [] (.countDown run) (f)))))
        (catch Exception _ :stopped)))
    (.await run)
    #(scope/cancel @opened :stopped)))

(defn- accept [^ServerSocket server]
  (fn []
    (.accept server)))

(defn- in-accept [start]
  (let [server (ServerSocket. 0)
        stop (start (accept server))]
    #(do (.close server) (stop))))

(defn- scheduled []
  (let [executor (Executors/newScheduledThreadPool 1)]
    (.schedule executor ^Runnable (fn []) 1 TimeUnit/HOURS)
    #(.shutdownNow executor)))

(defn- timer-task []
  (let [timer (Timer. true)]
    (.schedule timer (proxy [TimerTask] [] (run [])) 3600000)
    #(.cancel timer)))

(defn- running []
  (let [on (atom true)]
    (platform-thread #(while @on (Thread/onSpinWait)))
    #(reset! on false)))

(defn- timeout-channel []
  (let [timer (actor/send-after 3600000 (actor/spawn (fn [])) :tick)]
    #(actor/cancel-timer timer)))

;; ---- scopes

(defn- exchange
  "Two forks, each of which waits for the other one."
  [one other]
  (in-scope #(do (a/<! one) (a/>! other :value))
            #(do (a/<! other) (a/>! one :value))))

(defn- unclosed []
  (let [lines (a/chan)]
    (in-scope #(run! (fn [line] (a/>! lines line)) ["a" "b"]) ; does not close
              #(loop [] (when (a/<! lines) (recur))))))

(defn- with-go-block []
  (let [thread (promise)
        stop (in-scope #(let [out (a/chan)]
                          (a/go
                            (deliver thread (Thread/currentThread))
                            (try (a/>! out (a/<! (a/chan))) (catch Exception _ :stopped)))
                          (a/<! out)))]
    #(do (stop) (.interrupt ^Thread @thread))))

(def ^:private of-var (atom nil))

(defn- held-by-var []
  (let [one (a/chan)
        stop (exchange one (a/chan))]
    (reset! of-var {:jobs [one]})
    #(do (reset! of-var nil) (stop))))

(defn- held-by-fiber []
  (let [one (a/chan)
        stop (exchange one (a/chan))
        other (fiber (fn []
                       (scope/sleep 3600000)
                       (a/>! one :value)))]
    #(do (other) (stop))))

(defn- held-by-server []
  (let [one (a/chan)
        stop (exchange one (a/chan))
        [_ pid] (gs/start {:init (fn [_] [:ok {:out one}])} nil)]
    #(do (gs/stop pid) (stop))))

(defn- put-by-callback []
  (let [one (a/chan)
        source (a/chan)
        stop (exchange one (a/chan))
        other (fiber (fn []
                       (scope/sleep 3600000)
                       (a/>! source :value)))]
    (a/take! source (fn [value] (a/put! one value)))
    #(do (other) (stop))))

(defn- in-a-buffer []
  (let [one (a/chan)
        requests (a/chan 1)
        stop (exchange one (a/chan))
        other (fiber (fn []
                       (scope/sleep 3600000)
                       (a/>! (a/<! requests) :value)))]
    (a/>! requests one)
    #(do (other) (stop))))

(defn- in-a-message []
  (let [one (a/chan)
        stop (exchange one (a/chan))
        pid (actor/spawn (fn []
                           (scope/sleep 3600000)
                           (actor/receive ch (a/>! ch :value))))]
    (actor/! pid one)
    #(do (actor/exit pid :kill) (stop))))

(defn- in-a-clean-up []
  (let [one (a/chan)
        stop (exchange one (a/chan))
        ready (promise)
        other (fiber (fn []
                       (scope/with-scope [s]
                         (scope/on-exit s #(a/close! one))
                         (deliver ready true)
                         (scope/sleep 3600000))))]
    @ready
    #(do (other) (stop))))

(defn- held-by-thread []
  (let [one (a/chan)
        stop (exchange one (a/chan))
        other (platform-thread (fn [] @(promise) (a/>! one :value)))]
    #(do (other) (stop))))

(defn- held-by-hook
  "`make` makes a thread of a function."
  [make]
  (let [one (a/chan)
        stop (exchange one (a/chan))
        ^Thread hook (make #(a/close! one))]
    (.addShutdownHook (Runtime/getRuntime) hook)
    #(do (.removeShutdownHook (Runtime/getRuntime) hook) (stop))))

(defn- held-by-property []
  (let [one (a/chan)
        stop (exchange one (a/chan))]
    (.put (System/getProperties) "magnetar.standstill" one)
    #(do (.remove (System/getProperties) "magnetar.standstill") (stop))))

;; ---- all

(def ^:private programs
  "From a name to the parts of a program."
  {:put [put-that-nobody-takes]
   :put-beside-idle-server [put-that-nobody-takes idle-server]
   :thread-in-join [#(platform-thread deref (promise)) #(in-scope (fn [] @(promise)) (fn [] (a/<! (a/chan))))]
   :nothing []
   :idle-server [idle-server idle-server]
   :promise [#(platform-thread deref (promise))]
   :put-and-timer [put-that-nobody-takes timeout-channel]
   :put-and-sleep [put-that-nobody-takes beat]
   :put-and-thread-that-sleeps [put-that-nobody-takes #(platform-thread (fn [] (Thread/sleep 3600000)))]
   :put-and-thread-that-runs [put-that-nobody-takes running]
   :put-and-accept [put-that-nobody-takes #(in-accept platform-thread)]
   :put-and-accept-of-fiber [put-that-nobody-takes #(in-accept fiber)]
   :put-and-accept-of-virtual-thread [put-that-nobody-takes #(in-accept virtual-thread)]
   :put-and-virtual-thread-that-sleeps [put-that-nobody-takes #(virtual-thread (fn [] (Thread/sleep 3600000)))]
   :put-and-scheduled-task [put-that-nobody-takes scheduled]
   :put-and-timer-task [put-that-nobody-takes timer-task]
   :put-and-offload [put-that-nobody-takes #(fiber (fn [] (scope/offload (fn [] @(promise)))))]
   :exchange [beat #(exchange (a/chan) (a/chan))]
   :unclosed [beat unclosed]
   :with-go-block [beat with-go-block]
   :exchange-and-timer [beat timeout-channel #(exchange (a/chan) (a/chan))]
   :held-by-var [beat held-by-var]
   :held-by-fiber [held-by-fiber]
   :held-by-server [beat held-by-server]
   :held-by-thread [beat held-by-thread]
   :held-by-hook [beat #(held-by-hook (fn [close] (Thread. ^Runnable close)))]
   :held-by-hook-of-own-class [beat #(held-by-hook (fn [close] (proxy [Thread] [] (run [] (close)))))]
   :held-by-property [beat held-by-property]
   :put-by-callback [put-by-callback]
   :in-a-buffer [in-a-buffer]
   :in-a-message [in-a-message]
   :in-a-clean-up [in-a-clean-up]})

(defn- nodes []
  (mapcat #(tree-seq :children :children %) (inspect/tree {:limit 1000})))

(defn- waits
  "What each node waits for; nil if one does not wait, or not long enough."
  []
  (let [nodes (nodes)]
    (when (every? (fn [{:keys [kind waits-for since-ms]}]
                    (and (or waits-for (#{:thread :scope} kind))
                         (<= 150 (long (or since-ms 150)))))
                  nodes)
      (set (map (juxt :id :waits-for) nodes)))))

(defn- ready?
  "Has all come to its wait, and do the waits last? How long a wait in the JDK has lasted is not known, so it is looked at more than once."
  []
  (let [looks (repeatedly 6 #(do (LockSupport/parkNanos 50000000) (waits)))]
    (and (every? some? looks) (apply = looks))))

(defn- until
  "Looks until (f) is true."
  [f]
  (while (not (f))
    (LockSupport/parkNanos 30000000)))

(defn- answer [parts]
  (let [before (set (map :id (nodes)))
        stops (mapv #(%) parts)
        _ (until ready?)
        found (mapv (juxt :kind :of :grade :text) (inspect/deadlocks))]
    (run! #(%) stops)
    (until #(every? (comp before :id) (nodes)))
    found))

(defn- print-all [names]
  (until (fn [] (not-any? #(= "main" (:name %)) (nodes))))
  (doseq [name names]
    (prn name (answer (programs name))))
  (System/exit 0))

(defn print-answers
  "Prints a line for each of these programs: its name, and the findings as vectors of :kind :of :grade :text."
  ([] (print-answers (keys programs)))
  ([names]
   (alter-var-root #'others/least-ms (constantly 100))
   (.start (Thread. ^Runnable #(print-all names) "magnetar-asks"))))
