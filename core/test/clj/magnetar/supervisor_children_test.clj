(ns magnetar.supervisor-children-test
  "Children of supervisors beyond the scenarios of OTP: scopes, pipelines, and values that are not a start."
  (:require
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.actor-support :as processes]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting drained eventually refusal taken value-of]]))

(set! *warn-on-reflection* true)

(use-fixtures :each
  (fn [f]
    (collecting (atom []) (fn [] (scenarios/leaving-nobody #(actor/with-process {:trap-exit true} (f)))))))

(def ^:private script
  {:init (fn [s] [:ok s])
   :handle-call (fn [f from s] (f from s))
   :handle-cast (fn [f s] (f s))})

(defn- supervisor [spec]
  (let [[how x] (sup/start-link spec)]
    (is (= :ok how))
    x))

(defn- pid-of [s]
  (:pid (first (sup/which-children s))))

(defn- again
  "The pid of the child that was started in the place of this one."
  [s pid]
  (is (eventually (not (#{pid nil} (pid-of s)))))
  (pid-of s))

;; ---- scopes

(deftest ^{:spec ["C89"]}
  a-scope-is-a-child-and-what-is-in-it-ends-with-it
  (let [up (a/chan 10)
        down (a/chan 10)
        work (fn [n] (a/>!! up n) (try (scope/sleep 1000000) (finally (scope/shield (a/>!! down n)))))
        s (supervisor {:intensity 10 :children [{:id :scope :start [sup/start-scope-link (fn [sc x] (scope/fork sc work x) (scope/fork sc work x)) :x]}]})
        pid (pid-of s)]
    (is (= [:x :x] [(taken up) (taken up)]))
    (actor/exit pid :boom)
    (is (= [:x :x] [(taken down) (taken down)]))
    (is (= [:x :x] [(taken up) (taken up)]))
    (again s pid)
    (gs/stop s)
    (is (= [:x :x] [(taken down) (taken down)]))))

(deftest a-fork-that-fails-is-a-child-that-fails
  (let [tries (atom 0)
        broken (fn [sc] (scope/fork sc #(do (swap! tries inc) (throw (ex-info "broken" {})))))
        s (supervisor {:intensity 2 :children [{:id :scope :start [sup/start-scope-link broken]}]})]
    (is (= :shutdown (receive [:EXIT s why] why)))
    (is (= 3 @tries))))

;; ---- pipelines

(defn- pipeline [more from to xf]
  (supervisor (merge {:intensity 10 :children [{:id :p :restart :transient :start [sup/start-pipeline-link 3 to xf from]}]} more)))

(deftest a-pipeline-gives-what-that-of-async-gives
  (let [from (a/to-chan! (range 100))
        to (a/chan 10)
        s (pipeline nil from to (mapcat #(repeat (mod % 3) %)))]
    (is (= (mapcat #(repeat (mod % 3) %) (range 100)) (drained to)))
    (is (eventually (nil? (pid-of s))))
    (gs/stop s)))

(deftest a-pipeline-whose-transducer-throws-is-started-again-on-the-same-channels
  (let [from (a/chan)
        to (a/chan)
        s (pipeline nil from to (map #(/ 10 (long %))))
        pid (pid-of s)]
    (a/>!! from 5)
    (is (= 2 (taken to)))
    (a/>!! from 0)
    (again s pid)
    (a/>!! from 2)
    (is (= 5 (taken to)))
    (gs/stop s)))

(deftest ^{:spec ["C89"]}
  a-pipeline-that-was-stopped-takes-nothing-any-more
  (let [from (a/chan)
        to (a/chan)
        s (pipeline nil from to (map inc))]
    (a/>!! from 1)
    (is (= 2 (taken to)))
    (gs/stop s)
    (is (nil? (a/offer! from 3)))
    (a/close! from)
    (is (nil? (a/poll! to)))))

(deftest a-pipeline-whose-output-is-closed-ends
  (let [from (a/chan)
        to (a/chan)
        s (pipeline nil from to (map inc))]
    (a/close! to)
    (a/>!! from 1)
    (is (eventually (nil? (pid-of s))))
    (gs/stop s)))

(deftest what-is-no-pipeline-is-refused
  (doseq [[f reason] [[#(sup/start-pipeline-link 0 (a/chan) (map inc) (a/chan)) :magnetar/bad-option]
                      [#(sup/start-pipeline-link 1 (a/chan) 5 (a/chan)) :magnetar/not-a-function]
                      [#(sup/start-scope-link 5) :magnetar/not-a-function]]]
    (is (= reason (first (processes/misuse f))))))

;; ---- names

(defn- watch-folder [_]
  (receive ::never nil))

(defn- parsing [step]
  step)

(deftest a-scope-and-a-pipeline-are-named-after-the-function-of-the-program
  (let [channels (repeatedly 2 a/chan)]
    (doseq [[site [_ pid]] {"start-scope-link magnetar.supervisor-children-test/watch-folder" (sup/start-scope-link watch-folder)
                            "start-pipeline-link magnetar.supervisor-children-test/parsing" (sup/start-pipeline-link 1 (first channels) parsing (second channels))
                            "start-pipeline-link" (sup/start-pipeline-link 1 (first channels) (map inc) (second channels))}]
      (is (= site (:label (actor/process-info pid))))
      (actor/exit pid :kill)
      (is (= [pid :killed] (receive [:EXIT pid why] [pid why]))))))

;; ---- values that are not a start

(defn- refusal-of [spec]
  ((juxt :why :path) (refusal #(sup/start-link spec))))

(deftest a-start-that-was-called-already-is-refused-and-shown
  (let [started (gs/start script 0)]
    (doseq [start [started "text" ['gs/start-link script 0] [script 0] [] 5]]
      (testing (pr-str start)
        (is (= [:invalid-start [:children 0 :start]] (refusal-of {:children [{:id :a :start start}]})))))
    (let [{:keys [message]} (refusal #(sup/start-link {:children [{:id :a :start "text"}]}))]
      (is (= "`magnetar.supervisor/start-link`: invalid start at [:children 0 :start]: \"text\"; expected a function, or a vector of a function and its arguments, as in [gs/start-link 'my.counter 0]."
             message)))
    (gs/stop (second started))))

(deftest the-second-child-of-an-id-is-pointed-at
  (let [child {:id :a :start [gs/start-link script 0]}]
    (is (= [:duplicate-child-name [:children 2 :id]] (refusal-of {:children [child (assoc child :id :b) child]})))))

(deftest what-only-a-dynamic-supervisor-has-is-refused-elsewhere
  (is (= [:only-of-dynamic [:max-children]] (refusal-of {:max-children 5})))
  (is (= [:only-of-dynamic [:extra-arguments]] (refusal-of {:strategy :one-for-all :extra-arguments [1]}))))

(deftest extra-arguments-are-a-vector
  (is (= [:invalid-extra-arguments [:extra-arguments]] (refusal-of {:strategy :dynamic :extra-arguments 5}))))

(deftest arguments-that-are-none-do-no-harm-to-the-children-of-a-template
  (let [s (supervisor {:strategy :simple-one-for-one :children [{:id :a :start [gs/start-link script 0]}]})
        [_ pid] (sup/start-child s [])]
    (doseq [x [5 :x {:id 3} "text"]]
      (is (= :invalid-arguments (:why (refusal #(sup/start-child s x))))))
    (is (= pid (pid-of s)))
    (is (= 0 (value-of (future (gs/call pid (fn [_ n] [:reply n n]))))))
    (gs/stop s)))
