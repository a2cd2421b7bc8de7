(ns magnetar.scope-waits-test
  "Cancellation, interrupts, shields and what fibers take along hold in each kind of wait: on channels, in sleeps, in reads of sockets,
  in scopes inside scopes."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.fold :as fold]
   [magnetar.impl.outcomes :as outcomes]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.scope.context :refer [defcontext with-context]]
   [magnetar.support :refer [collected? eventually start-thread taken value-of waiting-putters waiting-takers]])
  (:import
   (java.lang.ref WeakReference)
   (java.net InetAddress ServerSocket Socket)
   (java.util.concurrent CompletableFuture LinkedBlockingQueue)
   (magnetar.kernel.fiber Cancelled)
   (magnetar.kernel.scope Fork)))

(set! *warn-on-reflection* true)

(defn- fiber-ids []
  (set (map :id (inspect/fibers))))

(use-fixtures :each
  (fn [test]
    (let [before (fiber-ids)]
      (test)
      (is (eventually (empty? (remove before (fiber-ids)))) "a test left fibers behind")
      (is (not (.isInterrupted (Thread/currentThread))) "a test left the thread interrupted"))))

(defmacro error-of
  "What body throws, or [:no-error value]."
  [& body]
  `(try [:no-error (do ~@body)] (catch Throwable e# e#)))

(defn- reason [error]
  (:magnetar/reason (ex-data error)))

;; ---- the kinds of wait: each a function that gives one that waits for ever, what it waits on, and what to close

(defn- on-channel [f]
  (fn []
    (let [c (channel/chan)]
      {:wait #(f c) :channel c})))

(defn- on-socket
  "f waits on a connection, of which it is given the server and the accepted end."
  [f]
  (fn []
    (let [server (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))
          client (Socket. (InetAddress/getLoopbackAddress) (.getLocalPort server))
          accepted (.accept server)]
      {:wait #(f server accepted) :close [server client accepted]})))

(defn- on-nothing [f]
  (fn [] {:wait f}))

(def ^:private for-ever 100000000)

(defn- read-socket [_ ^Socket accepted]
  (.read (.getInputStream accepted)))

(def ^:private kernel-waits
  "Those that answer a cancellation with Cancelled."
  {"take" (on-channel channel/take)
   "put" (on-channel #(channel/put % 1))
   "take with a time-out" (on-channel #(channel/take % {:timeout for-ever}))
   "select" (on-channel #(channel/select [% (channel/chan)]))
   "<!!" (on-channel a/<!!)
   "alts!!" (on-channel #(a/alts!! [% [(channel/chan) 1]]))
   "scope/sleep" (on-nothing #(scope/sleep for-ever))
   "a callback" (on-nothing #(scope/await-callback (fn [_ _])))
   "a stage" (on-nothing #(scope/join (CompletableFuture.)))
   "a channel in a nested scope" (on-channel #(with-scope [s] @(fork s channel/take %)))
   "a sleep in two nested scopes" (on-nothing #(with-scope [s] (fork s (fn [] (with-scope [t] (fork t scope/sleep for-ever))))))
   "the body of a nested scope" (on-channel #(with-scope [s] (fork s scope/sleep for-ever) (channel/take %)))
   "a socket read in a nested scope" (on-socket #(with-scope [s] @(fork s read-socket %1 %2)))
   "a Thread/sleep in a nested scope" (on-nothing #(with-scope [s] @(fork s (fn [] (Thread/sleep (long for-ever))))))
   "pmap" (on-channel #(fold/pmap (fn [_] (channel/take %)) (range 5)))
   "offload" (on-nothing #(scope/offload (fn [] (Thread/sleep (long for-ever)))))})

(def ^:private jdk-waits
  "Those that answer the interrupt in their own way."
  {"Thread/sleep" (on-nothing #(Thread/sleep (long for-ever)))
   "a promise" (on-nothing #(deref (promise)))
   "a queue" (on-nothing #(.take (LinkedBlockingQueue.)))
   "a socket read" (on-socket read-socket)
   "an accept" (on-socket (fn [^ServerSocket server _] (.accept server)))})

(def ^:private waits (merge kernel-waits jdk-waits))

(defn- each
  "Calls f with each kind of wait, fresh."
  [waits f]
  (doseq [[what make] waits]
    (testing what
      (let [{:keys [close channel] :as kind} (make)]
        (f kind)
        (when channel
          (is (= [0 0] [(waiting-takers channel) (waiting-putters channel)]) "a ghost waits"))
        (run! #(.close ^java.io.Closeable %) close)))))

(defn- parked? [^Thread thread]
  (eventually (str/ends-with? (str (.getState thread)) "WAITING")))

(defn- thread-of ^Thread [^Fork fork]
  (.get (.fiber fork)))

(defn- cancelled-fork
  "Forks f and cancels the scope once it waits; returns what the scope threw."
  [f]
  (error-of
    (with-scope [s]
      (let [fork (fork s f)]
        (parked? (thread-of fork))
        (scope/cancel s :stop)
        (scope/sleep for-ever)))))

;; ---- the cause

(deftest ^{:spec ["C36" "C38"]} cancellation-ends-each-kind-of-wait-and-nothing-is-left-behind
  (each waits
    (fn [{:keys [wait]}]
      (let [e (cancelled-fork wait)]
        (is (= [:magnetar/cancelled :stop] ((juxt :magnetar/reason :cause) (ex-data e))))
        (is (= [] (vec (.getSuppressed ^Throwable e))))))))

(deftest ^{:spec ["C38"]} waits-of-the-library-throw-an-error-that-catching-exception-does-not-swallow
  (each kernel-waits
    (fn [{:keys [wait]}]
      (let [seen (promise)]
        (cancelled-fork #(try (wait) (catch Exception e (deliver seen e)) (catch Throwable e (deliver seen e))))
        (is (instance? Cancelled @seen))))))

(def ^:private operations
  "What may be tried after a cancellation: all of it throws."
  {:put #(channel/put (channel/chan {:size 1}) 1)
   :take #(channel/take (doto (channel/chan {:size 1}) (a/offer! 1)))
   :poll #(channel/select [(channel/chan)] {:timeout 0 :else nil})
   :sleep #(scope/sleep 0)
   :scope #(with-scope [_] 1)
   :offload #(scope/offload inc 1)
   :pmap #(fold/pmap inc [1 2])})

(deftest ^{:spec ["C38"]} after-each-kind-of-wait-every-later-operation-throws-the-cause-again
  (each waits
    (fn [{:keys [wait]}]
      (let [seen (promise)]
        (cancelled-fork (fn []
                          (try (wait) (catch Throwable _))
                          (deliver seen (vec (for [_ [1 2] [k f] operations
                                                   :let [e (error-of (f))]
                                                   :when (not (and (instance? Cancelled e) (= :stop (.why ^Cancelled e))))]
                                               [k e])))))
        (is (= [] @seen))))))

(deftest ^{:spec ["C39"]} a-shield-lets-each-clean-up-wait-after-each-kind-of-wait
  (each waits
    (fn [{:keys [wait]}]
      (let [seen (promise)]
        (cancelled-fork (fn []
                          (try (wait)
                            (finally
                              (scope/shield
                                (deliver seen (vec (for [[k f] operations
                                                         :let [e (error-of (f))]
                                                         :when (instance? Throwable e)]
                                                     [k e]))))))))
        (is (= [] @seen))))))

(deftest ^{:spec ["C40"]} a-deadline-ends-each-kind-of-wait-of-the-body
  (each waits
    (fn [{:keys [wait]}]
      (let [[_ outcome] (start-thread :virtual #(error-of (with-scope [_ {:deadline 5}] (wait))))]
        (is (= :magnetar/deadline (reason (value-of outcome))))))))

;; ---- the interrupt

(deftest ^{:spec ["C38"]} the-interrupt-of-each-kind-of-wait-is-withdrawn-when-the-scope-has-joined
  (each waits
    (fn [{:keys [wait]}]
      (let [c (channel/chan {:size 1})
            [^Thread owner outcome]
            (start-thread :virtual
                          (fn []
                            [(error-of (with-scope [s]
                                         (let [me (Thread/currentThread)]
                                           (fork s #(do (parked? me) (throw (ex-info "sibling" {}))))
                                           (wait))))
                             (.isInterrupted (Thread/currentThread))
                             (channel/put c 1)
                             (Thread/sleep 1)
                             (scope/sleep 1)
                             @(future 1)
                             (channel/take c)]))
            [e & after] (value-of outcome)]
        (is (some? owner))
        (is (= "sibling" (ex-message (ex-cause e))))
        (is (= [false true nil nil 1 1] after))))))

(deftest ^{:spec ["C18" "C36"]} an-interrupt-without-a-cause-reaches-each-kind-of-wait-and-the-forks-of-the-body-end
  (each waits
    (fn [{:keys [wait]}]
      (let [ended (promise)
            ready (promise)
            [^Thread owner outcome]
            (start-thread :virtual
                          #(error-of (with-scope [s]
                                       (fork s (fn [] (try (deliver ready 1) (scope/sleep for-ever) (finally (deliver ended true)))))
                                       (value-of ready)
                                       (wait))))]
        (value-of ready)
        (is (parked? owner))
        (.interrupt owner)
        (let [e (value-of outcome)]
          (is (outcomes/by-cancellation? e) (str e))
          (is (not (instance? Cancelled e)))
          (is (realized? ended)))))))

(deftest ^{:spec ["C18"]} an-operation-that-was-committed-delivers-its-result-and-the-next-one-throws
  (dotimes [_ 200]
    (let [c (channel/chan)
          got (promise)
          e (error-of
              (with-scope [s]
                (let [f (fork s (fn []
                                  (let [value (channel/take c)]
                                    (deliver got [value (error-of (channel/take c))]))))]
                  (parked? (thread-of f))
                  (if (channel/put c :mine)
                    (scope/cancel s :stop)
                    (deliver got :refused))
                  (scope/sleep for-ever))))]
      (is (= :stop (:cause (ex-data e))))
      (is (= :mine (first @got)))
      (is (instance? Cancelled (second @got))))))

;; ---- what travels

(defcontext user :nobody)
(def ^:dynamic *dynamic* :root)

(defn- seen []
  [@user *dynamic*])

(defn- after-waiting
  "What a fiber sees after it has waited in each way that ends."
  []
  (let [c (channel/chan)]
    (with-scope [s]
      (fork s channel/put c 1)
      (channel/take c)
      (scope/sleep 1)
      (Thread/sleep 1)
      (with-open [server (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))]
        (fork s #(with-open [client (Socket. (InetAddress/getLoopbackAddress) (.getLocalPort server))]
                   (.write (.getOutputStream client) 7)))
        (with-open [accepted (.accept server)]
          (.read (.getInputStream accepted)))))
    (seen)))

(def ^:private starters
  "What starts a fiber or a thread, and waits for what it sees."
  {"fork" #(with-scope [s] @(fork s %))
   "daemon" #(with-scope [s] @(scope/daemon s %))
   "scope/go" #(with-scope [s] (taken (scope/go s (%))))
   "go" #(taken (a/go (%)))
   "io-thread" #(taken (a/io-thread (%)))
   "thread" #(taken (a/thread (%)))
   "pmap" #(first (fold/pmap (fn [_] (%)) [1 2 3]))
   "pmap, lazy" #(first (fold/pmap (fn [_] (%)) [1 2 3] {:lazy true}))
   "pfor-each" #(let [p (promise)] (fold/pfor-each (fn [_] (deliver p (%))) [1]) @p)
   "transduce" #(first (fold/transduce (map (fn [_] (%))) into conj [1 2 3] {:parallelism 2}))
   "offload" #(scope/offload %)})

(deftest ^{:spec ["C44" "C45"]} context-and-bindings-travel-with-whatever-starts-a-fiber-also-across-waits-and-nested-scopes
  (doseq [[what start] starters]
    (testing what
      (with-context [user "ada"]
        (binding [*dynamic* :bound]
          (is (= ["ada" :bound] (start seen)))
          (is (= ["ada" :bound] (start after-waiting)))
          (is (= ["ada" :bound] (with-scope [s] @(fork s #(start seen)))))
          (is (= ["ada" :bound] (start #(with-scope [s] @(fork s seen)))))
          (is (= ["bob" :inner] (start #(with-context [user "bob"] (binding [*dynamic* :inner] (with-scope [s] @(fork s seen)))))))
          (is (= ["ada" :bound] (seen)))))
      (is (= [:nobody :root] (start seen))))))

(deftest ^{:spec ["C45"]} the-workers-of-a-pipeline-see-the-bindings-of-whoever-started-it
  (doseq [pipeline [#(a/pipeline 1 %1 (map (fn [_] *dynamic*)) %2)
                    #(a/pipeline-blocking 1 %1 (map (fn [_] *dynamic*)) %2)
                    #(a/pipeline-async 1 %1 (fn [_ c] (a/put! c *dynamic*) (a/close! c)) %2)]]
    (let [to (a/chan 1)]
      (binding [*dynamic* :bound] (pipeline to (a/to-chan! [1])))
      (is (= :bound (taken to))))))

(deftest ^{:spec ["C44"]} the-workers-of-a-pipeline-see-the-context-of-whoever-started-it
  (doseq [pipeline [#(a/pipeline 1 %1 (map (fn [_] (seen))) %2)
                    #(a/pipeline-async 1 %1 (fn [_ c] (a/put! c (seen)) (a/close! c)) %2)]]
    (let [to (a/chan 1)]
      (with-context [user "ada"] (pipeline to (a/to-chan! [1])))
      (is (= "ada" (first (taken to))))
      (is (nil? (taken to))))))

(deftest ^{:spec ["C45"]} a-thread-has-a-copy-of-the-bindings-that-it-may-set-and-a-fork-has-the-frame
  (binding [*dynamic* :bound]
    (is (= [:set :bound] [(taken (a/thread (set! *dynamic* :set) *dynamic*)) *dynamic*]))
    (is (= [:set :bound] [(taken (a/io-thread (set! *dynamic* :set) *dynamic*)) *dynamic*]))
    (is (re-find #"Can't set!.*from non-binding thread"
                 (ex-message (ex-cause (error-of (with-scope [s] @(fork s #(set! *dynamic* :set))))))))
    (is (= :bound *dynamic*))))

(deftest ^{:spec ["C45"]} a-scope-without-bindings-gives-its-forks-the-root-values
  (with-context [user "ada"]
    (binding [*dynamic* :bound]
      (doseq [start [#(with-scope [s {:bindings :none}] @(fork s %))
                     #(with-scope [s {:bindings :none}] @(scope/daemon s %))
                     #(with-scope [s {:bindings :none}] (taken (scope/go s (%))))
                     #(with-scope [s {:bindings :none}] @(fork s (fn [] (with-scope [t] @(fork t %)))))]]
        (is (= ["ada" :root] (start seen))))
      (is (= ["ada" :bound] (with-scope [s {:bindings :frame}] @(fork s seen))))
      (is (= ["ada" :bound] (with-scope [s {:bindings :none}] (seen))))))
  (is (= :magnetar/bad-option (reason (error-of (with-scope [_ {:bindings :some}] 1))))))

;; ---- who owns whom

(deftest ^{:spec ["C35"]} a-go-in-a-scope-is-nobodys-unless-the-scope-adopts-it
  (let [gate (channel/chan)
        free (with-scope [_] (a/go (channel/take gate)))]
    (is (nil? (a/poll! free)))
    (channel/put gate 1)
    (is (= 1 (taken free))))
  (let [adopted (error-of (with-scope [s] (scope/go s (scope/sleep for-ever)) (scope/cancel s :end)))]
    (is (= :end (:cause (ex-data adopted))))))

(deftest ^{:spec ["C40" "C42"]} a-go-block-in-a-scope-is-not-collected-so-deadline-and-clean-ups-come
  (let [opened (promise)
        cleaned (promise)
        answer (a/go (error-of (with-scope [s {:deadline 200}]
                                 (scope/on-exit s #(deliver cleaned true))
                                 (deliver opened true)
                                 (a/<! (a/chan)))))]
    (value-of opened)
    (dotimes [_ 3] (System/gc))
    (is (= :magnetar/deadline (reason (taken answer))))
    (is (true? (value-of cleaned)))))

(deftest a-go-block-whose-scope-has-ended-is-collected-as-any
  (let [thread (promise)]
    (a/go (with-scope [_] (deliver thread (WeakReference. (Thread/currentThread))))
          (a/<! (a/chan)))
    (is (collected? (value-of thread)))))

(deftest ^{:spec ["C35"]} a-program-of-all-tools-that-fails-times-out-and-is-interrupted-leaves-no-fiber-behind
  (let [before (fiber-ids)
        c (channel/chan)
        tools (fn [s]
                (dotimes [_ 3] (fork s channel/take c))
                (scope/daemon s scope/sleep for-ever)
                (scope/go s (channel/put c 1))
                (fork s #(fold/pmap (fn [_] (channel/take c)) (range 100)))
                (fork s #(fold/transduce (map (fn [_] (scope/sleep for-ever))) + + (range 100) {:parallelism 3}))
                (fork s #(scope/offload (fn [] (Thread/sleep (long for-ever)))))
                (fork s #(scope/await-callback (fn [_ _])))
                (fork s #(with-scope [t {:joiner scope/race}] (fork t scope/sleep for-ever) (fork t scope/sleep for-ever))))]
    (error-of (with-scope [s] (tools s) (throw (ex-info "body" {}))))
    (error-of (with-scope [s] (tools s) (fork s #(throw (ex-info "fork" {})))))
    (error-of (with-scope [s {:deadline 10}] (tools s)))
    (error-of (with-scope [s] (tools s) (scope/cancel s)))
    (let [started (promise)
          [^Thread t outcome] (start-thread :virtual #(error-of (with-scope [s] (tools s) (deliver started true) (scope/sleep for-ever))))]
      (value-of started)
      (.interrupt t)
      (is (instance? InterruptedException (value-of outcome))))
    (is (= #{} (set (remove before (fiber-ids)))))
    (is (= [0 0] [(waiting-takers c) (waiting-putters c)]))))
