(ns magnetar.leaks-test
  "What waits for something that cannot come: proved by the garbage collector for go blocks, likely for processes and forks."
  {:limit 120000}
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.async :as a]
   [magnetar.dev.child :as child]
   [magnetar.inspect :as inspect]
   [magnetar.kernel.checks :as checks]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually]])
  (:import
   (java.util Arrays)
   (java.util.concurrent CyclicBarrier)
   (java.util.concurrent.locks Lock ReentrantLock)
   (magnetar MisuseException)))

(set! *warn-on-reflection* true)

(defn- of
  "Those of this kind that this namespace has started: other tests leave some too."
  [kind leaks]
  (filter #(and (= kind (:of %)) (str/includes? (:name %) "leaks_test")) leaks))

(defn- waiting [part]
  (count (filter #(and (str/includes? (:name %) part) (:waits-for %)) (inspect/fibers))))

(defn- take-from [c]
  (a/go (a/<! c)))

(defn- lose
  "Starts so many go blocks that wait for channels. Once all wait, nothing refers to the channels any more."
  [n]
  (let [held (object-array (repeatedly n a/chan))]
    (run! take-from held)
    (is (eventually (<= (long n) (waiting "leaks_test.clj"))))
    (Arrays/fill held nil)))

(defn- leaks-of-lost
  "The leaks of so many lost go blocks. A collection that comes before they are looked at takes some of them away."
  [n]
  (lose n)
  (of :go (inspect/leaks)))

(deftest a-go-block-whose-channel-nothing-reaches-is-lost-for-sure
  (let [kept (a/chan)
        twin (a/go (a/<! kept))
        found (atom nil)]
    (is (eventually (= 12 (:count (first (reset! found (leaks-of-lost 12)))))))
    (let [[{:keys [text] :as leak} :as all] @found]
      (is (= [{:kind :leak :of :go :grade :exact :count 12}] (map #(select-keys % [:kind :of :grade :count]) all)))
      (is (re-matches #"12 of go magnetar/leaks_test\.clj:\d+ can never go on: nothing can reach the channel that it takes from at leaks_test\.clj:\d+\." text))
      (is (re-matches #"leaks_test\.clj:\d+" (:at leak))))
    (is (= [] (of :go (inspect/leaks))) "they are gone, and the twin was not lost")
    (a/>!! kept :value)
    (is (= :value (a/<!! twin)))))

(defn- deadlocked
  "Starts two go blocks that wait for each other's lock, to which nothing else refers. Returns once both wait."
  []
  (let [locks [(ReentrantLock.) (ReentrantLock.)]
        meet (CyclicBarrier. 2)
        both (fn [^Lock one ^Lock other]
               (.lock one)
               (.await meet)
               (.lock other))]
    (a/go (both (locks 0) (locks 1)))
    (a/go (both (locks 1) (locks 0)))
    (is (eventually (every? #(.hasQueuedThreads ^ReentrantLock %) locks)))))

(deftest go-blocks-that-wait-for-each-others-locks-are-lost-and-counted
  (is (eventually (let [before (long (:lost-go-blocks (inspect/runtime)))]
                    (deadlocked)
                    (and (some #(and (= 1 (:count %)) (re-find #"nothing can reach what it waits for at leaks_test" (:text %))) (of :go (inspect/leaks)))
                         (<= (+ before 2) (long (:lost-go-blocks (inspect/runtime)))))))))

(deftest a-dump-has-leaks-and-top-if-they-are-asked-for
  (is (= [nil nil] (map (inspect/dump) [:leaks :top])))
  (is (eventually (do (lose 3) (= [3] (map :count (of :go (:leaks (inspect/dump {:leaks true}))))))))
  (let [{:keys [top]} (inspect/dump {:top 100})]
    (is (seq top))
    (is (every? (every-pred :id :name :cpu) top))
    (is (= top (edn/read-string (pr-str top)))))
  (is (thrown-with-msg? MisuseException #":leaks is true or false; this is 1" (inspect/dump {:leaks 1})))
  (is (thrown-with-msg? MisuseException #":top is a duration above 0 that ends; this is 0" (inspect/dump {:top 0})))
  (is (thrown-with-msg? MisuseException #"does not know :leak; its options are :leaks, :top" (inspect/dump {:leak true}))))

(deftest infinity-is-the-same-as-no-after
  (is (= [] (of :process (inspect/leaks {:after :infinity}))))
  (is (thrown-with-msg? IllegalArgumentException #":after is a number of milliseconds" (inspect/leaks {:after nil}))))

(deftest a-go-block-that-ends-meanwhile-is-not-lost
  (let [stop (promise)
        busy (future (while (not (realized? stop)) (a/<!! (a/go (a/<! (a/timeout 0))))))]
    (try
      (is (= [] (of :go (inspect/leaks))))
      (finally
        (deliver stop true)
        @busy))))

(deftest a-process-to-which-nothing-leads-is-likely-to-be-forgotten
  (let [forgotten (actor/spawn #(receive :stop nil))
        named (actor/spawn-opt #(receive :stop nil) {:name :known})
        held (actor/spawn #(receive :stop nil))
        holder (actor/spawn (fn [] (receive :never nil) (! held :stop)))
        limited (actor/spawn #(receive :stop nil (after 1000000 nil)))
        told (fn [] (of :process (inspect/leaks {:after 0})))]
    (is (eventually (= [1 1] (map :count (told)))) "the forgotten one, and the holder of another one")
    (is (= [:likely] (distinct (map :grade (told)))))
    (is (str/includes? (:text (first (told))) "it has no name, link or monitor"))
    (is (= [] (of :process (inspect/leaks {:after 60000}))) "not within a minute")
    (is (= [] (of :process (inspect/leaks))) "not without :after")
    (run! #(actor/exit % :kill) [forgotten named held holder limited])))

(deftest a-fork-that-waits-for-a-channel-which-no-fiber-fills-is-likely-to-be-forgotten
  (let [c (a/chan)
        scope (future (scope/with-scope [s] (scope/fork s #(a/<!! c))))]
    (is (eventually (= [[:fork 1 :likely]] (map (juxt :of :count :grade) (of :fork (inspect/leaks {:after 0}))))))
    (a/close! c)
    @scope))

(def ^:private without-collection
  '(do (require '[magnetar.inspect :as inspect])
       (println (try (inspect/leaks) (catch IllegalStateException e (ex-message e))))
       (System/exit 0)))

(deftest nothing-is-said-where-the-control-is-not-collected
  (let [{:keys [exit out]} (child/run (checks/class-path) 100 "-XX:+DisableExplicitGC" "clojure.main" "-e" (pr-str without-collection))]
    (is (= 0 exit) out)
    (is (str/includes? out "a go block that was lost on purpose was not collected, so nothing is proved") out)))

(deftest a-wrong-option-is-named
  (doseq [options [{:after -1} {:after "x"} {:for 1}]]
    (is (thrown? IllegalArgumentException (inspect/leaks options)) (str options))))
