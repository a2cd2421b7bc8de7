(ns magnetar.compat.ports-test
  "Ports, handlers and buffers that programs write against `clojure.core.async.impl.protocols`."
  (:require
   [clojure.core.async :as a :refer [<!! >!!]]
   [clojure.core.async.impl.buffers :as buffers]
   [clojure.core.async.impl.channels :as channels]
   [clojure.core.async.impl.dispatch :as dispatch]
   [clojure.core.async.impl.mutex :as mutex]
   [clojure.core.async.impl.protocols :as impl]
   [clojure.core.async.impl.timers :as timers]
   [clojure.datafy :as datafy]
   [clojure.test :refer [deftest is]])
  (:import
   (java.util LinkedList)
   (java.util.concurrent Executor ThreadFactory)
   (java.util.concurrent.locks Lock)))

(set! *warn-on-reflection* true)

(defn- handler
  "A handler as programs write them, which gives its result to the promise."
  [result blockable?]
  (let [^Lock lock (mutex/mutex)
        open (atom true)]
    (reify
      Lock
      (lock [_] (.lock lock))
      (unlock [_] (.unlock lock))
      impl/Handler
      (active? [_] @open)
      (blockable? [_] blockable?)
      (lock-id [_] 7)
      (commit [_] (reset! open false) #(deliver result %)))))

(defn- soon [result]
  (deref result 5000 :late))

(deftest a-channel-answers-a-handler-now-or-later
  (let [c (a/chan)
        result (promise)]
    (is (nil? (impl/take! c (handler result true))))
    (is (true? @(impl/put! c :x (handler (promise) true))))
    (is (= :x (soon result)))
    (is (nil? (impl/take! c (handler (promise) false))))
    (impl/close! c)
    (is (impl/closed? c))
    (is (nil? @(impl/take! c (handler (promise) true))))
    (is (false? @(impl/put! c :x (handler (promise) true))))))

(deftest a-nil-is-refused-by-put
  (is (thrown-with-msg? IllegalArgumentException #"Can't put nil on channel"
                        (impl/put! (a/chan 1) nil (handler (promise) true)))))

(deftest a-handler-that-is-committed-elsewhere-takes-nothing
  (let [c (a/chan 1)
        h (handler (promise) true)]
    (impl/take! c h)
    (impl/commit h)
    (is (true? (a/offer! c :x)))
    (is (= :x (a/poll! c)))))

(defn- counting-port
  "A port that gives 1, 2, 3 and so on; takes what is put into the atom."
  [given]
  (let [n (atom 0)]
    (reify
      impl/ReadPort
      (take! [_ h]
        (.lock ^Lock h)
        (let [committed (and (impl/active? h) (impl/commit h))]
          (.unlock ^Lock h)
          (when committed (channels/box (swap! n inc)))))
      impl/WritePort
      (put! [_ v h]
        (.lock ^Lock h)
        (let [committed (and (impl/active? h) (impl/commit h))]
          (.unlock ^Lock h)
          (when committed (swap! given conj v) (channels/box true))))
      impl/Channel
      (close! [_] (swap! given conj :closed) nil)
      (closed? [_] false))))

(deftest a-port-of-a-program-works-in-every-operation
  (let [given (atom [])
        port (counting-port given)]
    (is (= [1 2] [(<!! port) (a/poll! port)]))
    (is (= [3 port] (a/alts!! [(a/chan) port])))
    (is (= 4 (<!! (a/go (a/<! port)))))
    (is (= [true true [true port]] [(>!! port :a) (a/offer! port :b) (a/alts!! [[port :c]])]))
    (is (= [:a :b :c] @given))
    (is (= [5 6] (<!! (a/into [] (a/take 2 port)))))
    (a/close! port)
    (is (= :closed (peek @given)))))

(defn- wired
  "A port of the kind that wraps a channel, written for core.async."
  [ch]
  (reify
    impl/ReadPort
    (take! [_ h] (impl/take! ch h))
    impl/WritePort
    (put! [_ v h] (impl/put! ch v h))
    impl/Channel
    (close! [_] (impl/close! ch))
    (closed? [_] (impl/closed? ch))))

(deftest a-port-around-a-channel-waits-as-the-channel-does
  (let [ch (a/chan)
        port (wired ch)
        taken (a/go (a/<! port))
        chosen (a/go (first (a/alts! [port (a/timeout 5000)])))]
    (is (= [true true] [(>!! ch 1) (>!! ch 2)]))
    (is (= #{1 2} (set (map <!! [taken chosen]))))
    (a/pipe (a/to-chan! [1 2 3]) port)
    (is (= [1 2 3] (<!! (a/into [] ch))))))

(defn- last-in-first-out
  "A buffer as programs write them: takes give the newest value."
  [n]
  (let [values (LinkedList.)]
    (reify
      impl/Buffer
      (full? [_] (>= (.size values) (long n)))
      (remove! [_] (.removeLast values))
      (add!* [this v] (.addLast values v) this)
      (close-buf! [_])
      impl/Capacity
      (capacity [_] n)
      clojure.lang.Counted
      (count [_] (.size values)))))

(deftest a-buffer-of-a-program-works-in-a-channel
  (doseq [[c expected] [[(a/chan (last-in-first-out 3)) [3 2 1]]
                        [(a/chan (last-in-first-out 3) (map -)) [-3 -2 -1]]]]
    (is (= [true true true nil] (map #(a/offer! c %) [1 2 3 4])))
    (is (= expected (repeatedly 3 #(<!! c))))))

(deftype ^:private Latest [values]
  impl/UnblockingBuffer
  impl/Buffer
  (full? [_] false)
  (remove! [_] (first (reset-vals! values nil)))
  (add!* [this v] (reset! values v) this)
  (close-buf! [_])
  clojure.lang.Counted
  (count [_] (if (nil? @values) 0 1)))

(deftest a-buffer-of-a-program-that-never-blocks-is-known-as-one
  (let [latest (Latest. (atom nil))
        c (a/chan latest)]
    (is (a/unblocking-buffer? latest))
    (is (not (a/unblocking-buffer? (last-in-first-out 1))))
    (is (= [true true true 3 nil] [(>!! c 1) (>!! c 2) (>!! c 3) (<!! c) (a/poll! c)]))
    (is (= 'Latest (get-in (datafy/datafy c) [:buffer :type])))))

(deftest buffers-of-ours-fulfil-the-protocol
  (let [[fixed dropping sliding] [(buffers/fixed-buffer 2) (buffers/dropping-buffer 2) (buffers/sliding-buffer 2)]]
    (doseq [b [fixed dropping sliding]]
      (is (= 0 (count b)))
      (is (identical? b (impl/add! b 1)))
      (impl/add! (impl/add! b 2))
      (is (= [2 2] [(count b) (impl/capacity b)])))
    (is (= [true false false] (map impl/full? [fixed dropping sliding])))
    (impl/add! dropping 3)
    (impl/add! sliding 3)
    (is (= [1 1 2] (map impl/remove! [fixed dropping sliding])))
    (is (= [false true true true] (map #(satisfies? impl/UnblockingBuffer %) [fixed dropping sliding (buffers/promise-buffer)])))
    (is (thrown? AssertionError (impl/add! fixed nil)))))

(deftest channels-made-by-impl-are-channels
  (let [c (channels/chan (buffers/sliding-buffer 1) (map inc) nil)]
    (is (= [true true 3] [(>!! c 1) (>!! c 2) (<!! c)])))
  (is (= [true 1] (let [c (channels/chan nil)] [(a/put! c 1) (<!! c)])))
  (is (nil? (<!! (timers/timeout 1))))
  (is (= :x @(channels/box :x))))

(deftest executors-are-given-by-workload
  (doseq [[workload virtual?] {:io true, :core-async-dispatch true, :compute false, :mixed false}
          :let [thread (promise)]]
    (is (identical? (dispatch/executor-for workload) (dispatch/executor-for workload)))
    (dispatch/exec #(deliver thread (Thread/currentThread)) workload)
    (is (= virtual? (.isVirtual ^Thread (soon thread))) (str workload)))
  (is (instance? Executor (dispatch/executor-for :io)))
  (is (thrown? IllegalArgumentException (dispatch/executor-for :other))))

(deftest tasks-run-on-the-caller-if-they-say-so
  (let [thread (promise)
        task #(deliver thread (Thread/currentThread))]
    (dispatch/run (with-meta task {:on-caller? true}))
    (is (= (Thread/currentThread) (soon thread))))
  (let [thread (promise)]
    (dispatch/run #(deliver thread (Thread/currentThread)))
    (is (not= (Thread/currentThread) (soon thread)))))

(deftest threads-are-counted
  (let [factory (dispatch/counted-thread-factory "worker-%d" true)
        names (repeatedly 2 #(.getName (.newThread ^ThreadFactory factory (fn []))))]
    (is (= ["worker-1" "worker-2"] names)))
  (let [seen (atom [])
        ^ThreadFactory factory (dispatch/counted-thread-factory "w-%d" true {:init-fn #(swap! seen conj :init)})]
    (doto (.newThread factory #(swap! seen conj :run)) .start .join)
    (is (= [:init :run] @seen))))
