(ns magnetar.async-go-test
  "What go, thread and io-thread start, what they see of their caller, and where their failures go."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.async :as a]
   [magnetar.support :refer [collected? eventually message-of taken value-of waiting-takers with-err with-failures with-hook]])
  (:import
   (java.lang.ref WeakReference)
   (java.util.concurrent CountDownLatch)
   (java.util.concurrent.atomic AtomicBoolean)
   (magnetar.kernel.fiber Cancelled Cause$Cancel Fiber)))

(set! *warn-on-reflection* true)

(def ^:dynamic *dynamic* :root)

;; ---- starting

(deftest go-runs-on-a-virtual-thread-that-is-named-after-its-line
  (let [[virtual? name] (taken (a/go [(.isVirtual (Thread/currentThread)) (.getName (Thread/currentThread))]))]
    (is virtual?)
    (is (re-matches #"go magnetar/async_go_test\.clj:\d+" name)))
  (is (re-matches #"go-loop magnetar/async_go_test\.clj:\d+" (taken (a/go-loop [] (.getName (Thread/currentThread))))))
  (is (re-matches #"io-thread magnetar/async_go_test\.clj:\d+" (taken (a/io-thread (.getName (Thread/currentThread)))))))

(deftest thread-and-its-workloads-run-on-the-kind-of-thread-that-core-async-gives
  (let [virtual? #(.isVirtual (Thread/currentThread))]
    (is (= [false false false true true]
           [(taken (a/thread (virtual?)))
            (taken (a/thread-call virtual?))
            (taken (a/thread-call virtual? :compute))
            (taken (a/thread-call virtual? :io))
            (taken (a/io-thread (virtual?)))]))
    (is (= true (taken (a/thread (.isDaemon (Thread/currentThread))))))))

(deftest a-workload-that-does-not-exist-is-refused
  (is (thrown-with-msg? IllegalArgumentException #"A workload is :mixed, :compute or :io; this is :bogus" (a/thread-call (fn [] 1) :bogus))))

(deftest a-body-that-gives-nil-just-closes-its-channel
  (is (= [nil nil nil] [(taken (a/go nil)) (taken (a/thread nil)) (taken (a/io-thread nil))]))
  (is (= [false false] [(taken (a/go false)) (taken (a/thread false))])))

(defmacro ^:private or-message
  "What a macro of a library that also runs in ClojureScript expands to."
  [& body]
  `(try ~@body (catch :default e# (ex-message e#))))

(defmacro counted
  "Counts how often it is expanded."
  [counter & body]
  (swap! @(resolve counter) inc)
  `(do ~@body))

(def ^:private expansions (atom 0))

(defn- boom []
  (throw (AssertionError. "boom")))

(deftest go-accepts-catch-default-as-core-async-does
  (is (= "boom" (taken (a/go (try (a/<! (a/timeout 1)) (boom) (catch :default e (ex-message e)))))))
  (is (= "boom" (taken (a/go-loop [n 0]
                         (if (= n 3)
                           (try (boom) (catch :default ^Throwable e (.getMessage e)))
                           (recur (inc n)))))))
  (testing "after other clauses, before finally, and anywhere in the body"
    (is (= [:default true]
           (taken (a/go (let [ended (promise)]
                          [(try (boom) (catch Exception _ :exception) (catch :default _ :default) (finally (deliver ended true)))
                           @ended])))))
    (is (= {:a ["boom" #{"boom"}]}
           (taken (a/go {:a [((fn [] (try (boom) (catch :default e (ex-message e)))))
                             (set (for [f [boom]] (try (f) (catch :default e (ex-message e)))))]})))))
  (testing "out of a macro"
    (is (= "boom" (taken (a/go (or-message (a/<! (a/timeout 1)) (boom))))))
    (is (= ["boom"] (taken (a/go (let [f #(or-message (boom))] [(f)]))))))
  (testing "what is quoted stays"
    (is (= '(try (catch :default e 1)) (taken (a/go '(try (catch :default e 1)))))))
  (testing "Clojure goes on to refuse it elsewhere"
    (is (thrown? Exception (eval `(try 1 (catch :default e# 1)))))))

(deftest go-leaves-the-rest-of-its-body-as-it-is
  (is (= {:k 1} (taken (a/go (select-keys (meta '^{:k 1} (x)) [:k])))))
  (is (= [{:k 1} true] (taken (a/go [(meta ^{:k 1} [1]) (sorted? (sorted-map 1 2))]))))
  (testing "a macro of the program may be expanded once more than elsewhere, not more"
    (reset! expansions 0)
    (is (= 1 (taken (eval `(a/go (counted expansions (counted expansions (counted expansions 1))))))))
    (is (<= @expansions 6))))

(deftest go-accepts-hints-of-primitives-on-locals-as-core-async-does
  (is (= 5 (taken (a/go (let [^long n (do (a/<! (a/timeout 1)) 5)] n)))))
  (is (= 5 (taken (a/go-loop [^long n 0] (a/<! (a/timeout 1)) (if (< n 5) (recur (inc n)) n)))))
  (is (= :yes (taken (a/go (let [^boolean ready? (nil? (a/<! (a/timeout 1)))] (if ready? :yes :no))))))
  (is (= [nil 2.5] (taken (a/go (let [^long none (first []) ^double x (+ 1.5 1)] [none x]))))))

(deftest go-accepts-hints-of-primitives-in-each-macro-of-clojure-that-binds
  (is (= [5 5 5 5] [(taken (a/go (when-let [^long x 5] (a/<! (a/timeout 1)) x)))
                    (taken (a/go (if-let [^long x 5] (do (a/<! (a/timeout 1)) x) 0)))
                    (taken (a/go (when-some [^long x 5] (a/<! (a/timeout 1)) x)))
                    (taken (a/go (if-some [^long x 5] (do (a/<! (a/timeout 1)) x) 0)))]))
  (is (= [0 1] (taken (a/go (let [seen (atom [])] (dotimes [^long i 2] (a/<! (a/timeout 1)) (swap! seen conj i)) @seen)))))
  (is (= [3 4] (taken (a/go (vec (for [^long x [1 2] :let [^long y 2]] (+ x y)))))))
  (is (= 3 (taken (a/go (let [sum (atom 0)] (doseq [^long x [1 2] :let [^long y 0] :when (pos? x)] (a/<! (a/timeout 1)) (swap! sum + x y)) @sum)))))
  (is (= 7 (taken (a/go (as-> 5 ^long x (inc x) (do (a/<! (a/timeout 1)) (inc x)))))))
  (is (= [1 8] (taken (a/go [(when-first [^long x [1]] x) (letfn [(f [^long x] (let [^long y 5] (+ x y)))] (f 3))]))))
  (is (= "boom" (taken (a/go (when-let [^long x 5] (try (boom) (catch :default e (when x (ex-message e))))))))))

(defmacro ^:private doubled
  "A macro that expands to what go has to rewrite."
  [& _]
  `(try (boom) (catch :default _# :expanded)))

(deftest a-local-with-the-name-of-a-macro-is-no-macro
  (is (= :expanded (taken (a/go (doubled 1)))))
  (testing "bound around the go"
    (is (= 2 (let [doubled inc] (taken (a/go (doubled 1)))))))
  (testing "bound within"
    (is (= [2 2 2 2 2 2 2]
           (taken (a/go [(let [doubled inc] (doubled 1))
                         (let [[_ {:keys [doubled]}] [1 {:doubled inc}]] (doubled 1))
                         ((fn [doubled] (doubled 1)) inc)
                         ((fn doubled ([] (doubled 1)) ([n] (inc n))))
                         (letfn [(doubled [n] (inc n))] (doubled 1))
                         (first (for [doubled [inc]] (doubled 1)))
                         (when-let [doubled inc] (doubled 1))]))))
    (is (= "boom" (taken (a/go (try (boom) (catch :default doubled (ex-message doubled)))))))
    (is (= 3 (taken (a/go (let [when-let (fn [[^long n]] (+ n 2))] (when-let [1])))))))
  (testing "and it is one again afterwards"
    (is (= [2 :expanded] (taken (a/go [(let [doubled inc] (doubled 1)) (doubled 1)]))))))

(deftest a-go-body-may-be-of-any-size
  (let [c (gensym "c")]
    (is (= 1500 (taken (eval `(a/go (let [~c (a/chan 1)]
                                      ~@(repeat 750 `(do (a/>! ~c 1) (a/<! ~c)))
                                      1500))))))))

(deftest a-go-body-may-do-what-any-code-may
  (testing "functions, lazy sequences and loops that take"
    (is (= [1 2 3] (taken (a/go (vec (for [c (mapv #(a/go %) [1 2 3])] (a/<! c))))))))
  (testing "holding a lock while it waits"
    (is (= 1 (taken (a/go (let [o (Object.)] (locking o (a/<! (a/go 1)))))))))
  (testing "try, catch and finally around a wait"
    (let [ended (promise)]
      (is (= "boom" (taken (a/go (try (a/<! (a/go 1)) (throw (ex-info "boom" {}))
                                   (catch Exception e (ex-message e))
                                   (finally (deliver ended true)))))))
      (is (= true (value-of ended))))))

(deftest closing-the-channel-of-a-go-does-not-stop-it
  (let [gate (a/chan)
        ended (promise)
        c (a/go (a/<! gate) (deliver ended true) :lost)]
    (a/close! c)
    (a/>!! gate 1)
    (is (= true (value-of ended)))
    (is (nil? (taken c)))))

(deftest ^{:spec ["C32"]} endless-loops-in-thread-do-not-delay-a-go
  (let [stop (AtomicBoolean.)
        n (* 2 (.availableProcessors (Runtime/getRuntime)))
        spinning (CountDownLatch. n)]
    (dotimes [_ n]
      (a/thread
        (.countDown spinning)
        (while (not (.get stop)) (Thread/onSpinWait))))
    (.await spinning)
    (is (eventually (let [begin (System/nanoTime)] ; another program may hold one up
                      (is (= 1 (taken (a/go (a/<! (a/go 1))))))
                      (< (quot (- (System/nanoTime) begin) 1000000) 2000))))
    (.set stop true)))

(defn- flood
  "Takes and puts on a channel of its own without ever waiting, until told to stop; like the other loops, it fills a carrier."
  [^AtomicBoolean stop]
  (a/go (let [c (a/chan 1)]
          (while (not (.get stop))
            (a/>! c 1)
            (a/<! c)))))

(deftest ^{:spec ["C31"]} loops-that-never-wait-let-a-quiet-fiber-make-progress
  (let [stop (AtomicBoolean.)
        loops (doall (repeatedly (inc (.availableProcessors (Runtime/getRuntime))) #(flood stop)))]
    (is (= :quiet (taken (a/go (dotimes [_ 3] (a/<! (a/go 1))) :quiet))))
    (.set stop true)
    (run! taken loops)))

;; ---- bindings

(deftest bindings-travel
  (binding [*dynamic* :bound]
    (is (= [:bound :bound :bound]
           [(taken (a/go *dynamic*)) (taken (a/thread *dynamic*)) (taken (a/io-thread *dynamic*))]))
    (is (= :bound (taken (a/go (a/<! (a/go *dynamic*))))))
    (is (= :inner (taken (a/go (binding [*dynamic* :inner] (a/<! (a/timeout 1)) *dynamic*)))))))

(deftest callbacks-see-root-bindings-as-upstream
  (binding [*dynamic* :bound]
    (let [c (a/chan 1)
          seen (promise)]
      (a/take! c (fn [_] (deliver seen *dynamic*)) false)
      (a/>!! c 1)
      (is (= :root (value-of seen))))))

(deftest set!-changes-the-copy-of-thread-and-io-thread
  (binding [*dynamic* :bound]
    (is (= :changed (taken (a/thread (set! *dynamic* :changed) *dynamic*))))
    (is (= :changed (taken (a/io-thread (set! *dynamic* :changed) *dynamic*))))
    (is (= :bound *dynamic*) "the caller's stays")))

(deftest set!-of-a-conveyed-binding-fails-in-go-as-upstream
  (binding [*dynamic* :bound]
    (is (re-find #"Can't set!: \*dynamic\* from non-binding thread"
                 (taken (a/go (try (set! *dynamic* :changed) (catch IllegalStateException e (ex-message e)))))))
    (is (= :own (taken (a/go (binding [*dynamic* :inner] (set! *dynamic* :own) *dynamic*)))))))

(deftest in-ns-and-ns-work-in-thread-and-io-thread
  (binding [*ns* (the-ns 'clojure.string)]
    (let [enter #(do (in-ns 'magnetar.async-go-test.entered) (ns-name *ns*))
          declare-ns #(do (ns magnetar.async-go-test.declared) (ns-name *ns*))]
      (is (= 'magnetar.async-go-test.entered (taken (a/thread (enter)))))
      (is (= 'magnetar.async-go-test.entered (taken (a/io-thread (enter)))))
      (is (= 'magnetar.async-go-test.declared (taken (a/thread (declare-ns)))))
      (is (= 'magnetar.async-go-test.declared (taken (a/io-thread (declare-ns)))))
      (is (= 'clojure.string (ns-name *ns*))))))

;; ---- failures

(defn- broken [x]
  (throw (ex-info "boom" {:x x})))

(deftest ^{:spec ["C27"]} each-failure-reaches-the-hook-once-with-the-line-that-started-it
  (with-failures [failures]
    (is (nil? (taken (a/go (broken 1)))))
    (is (nil? (taken (a/thread (broken 2)))))
    (is (nil? (taken (a/io-thread (broken 3)))))
    (is (eventually (= 3 (count @failures))))
    (is (= [{:x 1} {:x 2} {:x 3}] (map (comp ex-data :error) (sort-by (comp :x ex-data :error) @failures))))
    (is (= ["go" "thread" "io-thread"]
           (map #(second (re-matches #"(\S+) magnetar/async_go_test\.clj:\d+" (:site %)))
                (sort-by (comp :x ex-data :error) @failures))))
    (is (every? #(instance? Thread (:thread %)) @failures))
    (is (nil? (taken (a/go (broken 4)))))
    (is (eventually (= 4 (count @failures))) "nothing was reported twice")))

(deftest ^{:spec ["C27"]} a-callback-that-fails-later-is-reported-and-the-operation-stands
  (with-failures [failures]
    (let [c (a/chan)]
      (a/take! c broken)
      (is (= true (a/>!! c 1)))
      (is (eventually (= ["boom"] (map message-of @failures)))))))

(deftest ^{:spec ["C23"]} a-callback-that-fails-at-once-throws-to-its-caller
  (with-failures [failures]
    (let [c (doto (a/chan 1) (a/>!! 1))]
      (is (thrown-with-msg? clojure.lang.ExceptionInfo #"boom" (a/take! c broken)))
      (is (= [] @failures)))))

(deftest ^{:spec ["C27"]} cancellation-is-no-failure
  (with-failures [failures]
    (is (nil? (taken (a/go (throw (Cancelled. "no longer wanted"))))))
    (let [waits (a/chan)
          fiber (promise)
          c (a/go (deliver fiber (Fiber/current)) (a/<! waits))]
      (is (eventually (pos? (waiting-takers waits))))
      (is (.cancel ^Fiber (value-of fiber) (Cause$Cancel. "no longer wanted")))
      (is (nil? (taken c)))
      (is (zero? (waiting-takers waits))))
    (is (nil? (taken (a/go (broken :last)))))
    (is (eventually (seq @failures)))
    (is (= ["boom"] (map message-of @failures)))))

(defn- with-default-handler [handler f]
  (let [before (Thread/getDefaultUncaughtExceptionHandler)]
    (Thread/setDefaultUncaughtExceptionHandler handler)
    (try (f) (finally (Thread/setDefaultUncaughtExceptionHandler before)))))

(deftest ^{:spec ["C28"]} without-a-hook-a-default-handler-of-the-program-gets-the-failure-once
  (with-err
    (fn [printed]
      (let [seen (atom [])]
        (with-default-handler
          (reify Thread$UncaughtExceptionHandler
            (uncaughtException [_ _ e] (swap! seen conj (ex-data e))))
          (fn []
            (is (nil? (taken (a/go (broken 1)))))
            (is (nil? (taken (a/thread (broken 2)))))
            (is (nil? (taken (a/io-thread (broken 3)))))
            (is (eventually (= 3 (count @seen))))
            (is (= #{{:x 1} {:x 2} {:x 3}} (set @seen)))))
        (is (= "" (printed)))))))

(def ^:private golden-report
  (str "Uncaught in go magnetar/async_go_test.clj:LINE: clojure.lang.ExceptionInfo: boom {:x 1}\n"
       "    at magnetar.async-go-test/broken (async_go_test.clj:LINE)\n"
       "    at magnetar.async-go-test/fn (async_go_test.clj:LINE)\n"
       "    (and N frames of Clojure, Magnetar and the JDK)\n"))

(defn- without-numbers [text]
  (-> text
      (str/replace #"\.clj:\d+" ".clj:LINE")
      (str/replace #"and \d+ frames" "and N frames")))

(deftest ^{:spec ["C28"]} without-any-handler-the-report-names-the-line-and-the-own-frames-first
  (with-default-handler nil
    (fn []
      (with-err
        (fn [printed]
          (is (nil? (taken (a/go (broken 1)))))
          (is (eventually (str/ends-with? (printed) "JDK)\n")))
          (is (= golden-report (without-numbers (printed)))))))))

(deftest ^{:spec ["C27"]} a-hook-that-fails-is-printed-with-what-it-failed-on
  (with-err
    (fn [printed]
      (with-hook [:failure (fn [_] (throw (ex-info "in the hook" {})))]
        (is (nil? (taken (a/go (broken 1)))))
        (is (eventually (str/includes? (printed) "in the hook")))))))

;; ---- reachability

(defn- go-that-nobody-can-reach
  "A weak reference to an object that a go block holds, which waits on a channel that is otherwise unreachable."
  []
  (let [held (byte-array 1000)
        waiting (promise)
        c (a/chan)]
    (a/go (deliver waiting true) (a/<! c) (alength held))
    (value-of waiting)
    (is (eventually (pos? (waiting-takers c))))
    (WeakReference. held)))

(deftest ^{:spec ["C29"]} a-go-that-waits-on-channels-which-nobody-can-reach-is-collected
  (is (collected? (go-that-nobody-can-reach))))

(deftest ^{:spec ["C29"]} a-go-whose-channel-somebody-holds-is-kept
  (let [c (a/chan)
        result (a/go (a/<! c))]
    (is (eventually (pos? (waiting-takers c))))
    (dotimes [_ 3] (System/gc))
    (a/>!! c :kept)
    (is (= :kept (taken result)))))
