(ns magnetar.environments-test
  "What the library keeps for all: a simulation neither sees nor changes what belongs to the outside or to another simulation."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gen-server]
   [magnetar.impl.inspect.resources :as resources]
   [magnetar.inspect :as inspect]
   [magnetar.test :as mt])
  (:import
   (java.util.concurrent CountDownLatch)
   (magnetar.impl.inspect.resources Resource)))

(defn- dead
  "The pid of a process that has ended."
  []
  (doto (spawn (fn [] 1)) (actor/join)))

(defn- send-to-the-dead [n]
  (let [p (dead)]
    (dotimes [i n] (! p [:lost i]))))

(deftest ^{:spec ["C143"]} dead-letters-of-a-simulation-are-its-own
  (send-to-the-dead 1)
  (let [before (inspect/dead-letters)
        inside (mt/simulate {:seed 1}
                 (let [at-first (inspect/dead-letters)]
                   (send-to-the-dead 3)
                   [at-first (update (inspect/dead-letters) :last (partial map :message))]))]
    (is (= [{:count 0 :last []} {:count 3 :last ["[:lost 0]" "[:lost 1]" "[:lost 2]"]}] inside))
    (is (= before (inspect/dead-letters)))))

(deftest how-many-dead-letters-are-kept-in-a-second-goes-by-virtual-time
  (is (= [[12 10] [13 11]]
         (mt/simulate {:seed 1}
           (let [kept #(let [{:keys [count last]} (inspect/dead-letters)] [count (clojure.core/count last)])
                 p (dead)
                 _ (dotimes [n 12] (! p n))
                 at-first (kept)]
             (a/<! (a/timeout 1000))
             (! p :later)
             [at-first (kept)])))))

(defn- resource-names []
  (mapv #(.-name ^Resource %) (resources/all)))

(deftest resources-of-a-simulation-or-a-node-are-its-own
  (let [before (resource-names)
        inside (mt/simulate {:seed 1}
                 (mt/start-node :a)
                 (let [at-first (resource-names)
                       pool (resources/resource "of the body" 1)]
                   [at-first (resource-names) (mt/on-node :a resource-names) (some? pool)]))]
    (is (= [[] ["of the body"] [] true] inside))
    (is (= before (resource-names)))))

(defn- undying [^CountDownLatch end]
  (when-not (try (.await end) true (catch InterruptedException _ false))
    (recur end)))

(defn- with-zombie
  "What f gives while there is a process that was killed and does not end, and what it gives when that has ended."
  [f]
  (let [end (CountDownLatch. 1)
        begun (a/chan)
        p (spawn (fn [] (a/close! begun) (undying end)))
        _ (a/<! begun) ; killed before it begins, it would end at once
        others (f)]
    (actor/exit p :kill)
    (let [during (f)]
      (.countDown end)
      (mt/eventually (= others (f)))
      [during (f)])))

(defn- zombie-reasons []
  (mapv :reason (inspect/zombies)))

(deftest ^{:spec ["C143"]} zombies-of-a-simulation-are-its-own
  (is (= [[[:killed] [] [[:killed] []]] []]
         (with-zombie (fn []
                        (if (seq (inspect/zombies))
                          [(zombie-reasons)
                           (mt/simulate {:seed 1} (zombie-reasons))
                           (mt/simulate {:seed 1} (with-zombie zombie-reasons))]
                          []))))))

(deftest how-long-a-zombie-is-one-is-virtual-time
  (is (= [[5000] []]
         (mt/simulate {:seed 1}
           (with-zombie (fn []
                          (a/<! (a/timeout 5000))
                          (mapv #(* 10 (quot (:since-ms %) 10)) (inspect/zombies))))))))

(defn- names []
  (set (map :label (inspect/processes))))

(defn- fibers []
  (set (map :name (inspect/fibers))))

(defn- seen-from-outside
  "What a real thread sees. It wakes no fiber here, so it is waited for in a loop."
  []
  (let [seen (atom nil)
        thread (doto (Thread. #(reset! seen [(names) (fibers)])) .start)]
    (while (.isAlive thread) (Thread/onSpinWait))
    @seen))

(deftest ^{:spec ["C143"]} processes-and-fibers-of-a-simulation-are-not-seen-outside-and-those-outside-not-inside
  (let [p (actor/spawn-opt (fn [] (receive :stop nil)) {:name ::outside})
        [inside outside] (mt/simulate {:seed 1}
                           (actor/spawn-opt (fn [] (receive :stop nil)) {:name :inside})
                           (a/<! (a/timeout 1))
                           [[(names) (fibers)] (seen-from-outside)])]
    (is (= #{":inside"} (first inside)))
    (is (= #{"timers" "faults" "body" ":inside"} (second inside)))
    (is (every? #(contains? % (str ::outside)) outside))
    (is (not-any? #(contains? % ":inside") outside))
    (! p :stop)
    (mt/await-down p)))

(deftest a-process-that-could-run-may-be-looked-at
  (is (= [:normal :normal]
         (mt/simulate {:seed 1}
           (let [ps (vec (repeatedly 2 #(spawn (fn [] 1))))]
             (dotimes [_ 3] (inspect/processes))
             (mapv mt/await-down ps))))))

(deftest a-process-at-rest-is-among-those-of-its-simulation
  (is (= [":resting"]
         (mt/simulate {:seed 1}
           (actor/with-process {}
             (do (gen-server/start-link {:init (fn [_] [:ok 0])
                                                 :handle-call (fn [_ _ s] [:reply s s])
                                                 :handle-cast (fn [_ s] [:noreply s])}
                                                nil {:name :resting :hosting :activated})
               (a/<! (a/timeout 1))
               (filterv #{":resting"} (map :label (inspect/processes)))))))))

(deftest how-long-a-fiber-waits-is-virtual-time
  (is (= 3000 (mt/simulate {:seed 1}
                (let [p (spawn (fn [] (receive :stop nil)))]
                  (a/<! (a/timeout 3000))
                  (* 10 (quot (:since-ms (actor/process-info p)) 10)))))))

(deftest ^{:spec ["C144"]} a-guard-that-fails-is-told-in-each-run-as-in-the-first
  (do
    (let [failures #(mapv (comp str :site)
                          (:failures (mt/simulate* {:seed 1}
                                       (fn []
                                         (actor/with-process {}
                                           (! (self) :x)
                                           (receive (x :when (throw (ex-info "guard" {}))) x
                                                    (after 1 nil)))))))
          [one two] (repeatedly 2 failures)]
      (is (= 1 (count one)))
      (is (= one two)))))
