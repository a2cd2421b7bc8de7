(ns magnetar.statem-model-test
  "State machines under the simulator: random programs against a sequential model, and timeouts that meet events at the same instant."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.gen-statem :as statem]
   [magnetar.gen-statem.loop :as loop]
   [magnetar.gen-statem.timers :as timers]
   [magnetar.test :as mt])
  (:import
   (java.util Random)))

(def ^:private programs
  "How many random programs there are."
  (Long/getLong "magnetar.runs" 100))

;; --- programs: [[time command] ..]; a command is {:id :to :only-in :actions}

(def ^:private states [:a :b :c])

(defn- pick [^Random random xs]
  (nth xs (.nextInt random (count xs))))

(defn- random-action
  "Times end in digits that tell the kinds apart, so that two timeouts are seldom due at once."
  [^Random random id]
  (let [ms (fn [last-digits] (+ (* 1000 (.nextInt random 4)) last-digits))]
    (case (.nextInt random 9)
      0 [:state-timeout (ms 1) [:go (pick random states) id]]
      1 [:timeout (ms 10) [:event id]]
      2 [[:timeout :n] (ms 100) [:n id]]
      3 [[:timeout :m] (ms 107) [:m id]]
      4 [[:timeout :n] :cancel]
      5 [[:timeout :m] :update [:changed id]]
      6 [:state-timeout :cancel]
      7 [:next-event :internal [:inner id]]
      8 [:timeout 0 [:zero id]])))

(defn- random-command [^Random random id]
  (cond-> {:id id, :actions (vec (repeatedly (.nextInt random 3) #(random-action random id)))}
    (zero? (.nextInt random 2)) (assoc :to (pick random states))
    (zero? (.nextInt random 3)) (assoc :only-in (pick random states))))

(defn- random-program [^long seed]
  (let [random (Random. seed)]
    (vec (for [i (range (+ 3 (.nextInt random 12)))]
           [(* 1000 (inc (quot i 2))) (random-command random i)]))))

;; --- the machine: what it handled, as [time state event]

(defn- handle [note type content state data]
  (note [(mt/now) state (if (= :cast type) (:id content) [type content])])
  (cond
    (= :cast type) (if (contains? #{nil state} (:only-in content))
                     [:next-state (:to content state) data (:actions content)]
                     [:keep-state-and-data :postpone])
    (= :state-timeout type) [:next-state (second content) data]
    :else :keep-state-and-data))

(def ^:private long-enough 60000)

(defn- run [program]
  (let [seen (volatile! [])
        note #(vswap! seen conj %)
        [_ pid] (statem/start {:callback-mode :handle-event-function
                               :init (fn [_] [:ok :a nil])
                               :handle-event (partial handle note)}
                              nil)
        begin (mt/now)]
    (doseq [[at command] program]
      (when (< (- (mt/now) begin) at)
        (a/<! (a/timeout (- at (- (mt/now) begin)))))
      (statem/cast pid command))
    (a/<! (a/timeout long-enough))
    (statem/stop pid)
    (mapv #(update % 0 - begin) @seen)))

;; --- the model: one event after the other, timers as a map from type to [time content]

(defn- started [{:keys [now timers zero] :as model} [type ms content]]
  (let [without (-> model (update :timers dissoc type) (assoc :zero (filterv #(not= type (first %)) zero)))]
    (cond
      (= :cancel ms) without
      (= :update ms) (cond
                       (timers type) (assoc-in model [:timers type 1] content)
                       (some #(= type (first %)) zero) (assoc model :zero (mapv #(if (= type (first %)) [type content] %) zero))
                       :else (update model :zero conj [type content]))
      (zero? ms) (update without :zero conj [type content])
      :else (assoc-in without [:timers type] [(+ now ms) content]))))

(defn- counting
  "Of several timeouts of one type the last, in their order."
  [timeouts]
  (let [places (into {} (map-indexed (fn [i [type]] [type i])) timeouts)]
    (map timeouts (sort (vals places)))))

(defn- moved [{:keys [state postponed queue] :as model} {:keys [to actions]}]
  (let [to (or to state)
        inserted (for [[word type content] actions :when (= :next-event word)] [type content])
        model (if (= to state)
                model
                (-> model
                    (update :timers dissoc :state-timeout)
                    (update :zero (fn [zero] (filterv #(not= :state-timeout (first %)) zero)))
                    (assoc :state to :postponed [] :queue (into (vec postponed) queue))))]
    (reduce started (update model :queue #(into (vec inserted) %)) (counting (vec (remove #(= :next-event (first %)) actions))))))

(defn- handled [{:keys [now state] :as model} [type content :as event]]
  (let [model (-> model
                  (update :log conj [now state (if (= :cast type) (:id content) event)])
                  (update :timers dissoc :timeout)
                  (update :zero (fn [zero] (filterv #(not= :timeout (first %)) zero))))]
    (cond
      (= :state-timeout type) (moved model {:to (second content)})
      (not= :cast type) model
      (contains? #{nil state} (:only-in content)) (moved model content)
      :else (update model :postponed conj event))))

(defn- settled [{:keys [queue zero] :as model}]
  (cond
    (seq queue) (recur (handled (assoc model :queue (vec (rest queue))) (first queue)))
    (seq zero) (recur (handled (assoc model :zero (vec (rest zero))) (first zero)))
    :else model))

(defn- fire [model [type [at content]]]
  (-> model (assoc :now at) (update :timers dissoc type) (handled [type content]) settled))

(defn- until
  "The model when all timeouts that are due before the time have come."
  [{:keys [timers tie] :as model} time]
  (let [due (sort-by (comp first val) (filter #(<= (first (val %)) time) timers))]
    (if (empty? due)
      model
      (recur (assoc (fire model (first due))
                    :tie (or tie
                             (= (first (val (first due))) time)
                             (and (next due) (apply = (map (comp first val) (take 2 due))))))
             time))))

(defn- expected
  "What the machine has to handle; :tie if two timeouts are due at once, whose order is not promised."
  [program]
  (let [begin {:now 0 :state :a :timers {} :zero [] :queue [] :postponed [] :log [] :tie false}
        end (until (reduce (fn [model [at command]]
                             (settled (handled (assoc (until model at) :now at) [:cast command])))
                           begin program)
                   long-enough)]
    (if (:tie end) :tie (:log end))))

(defn- differing
  "The programs in which the machine does something else than the model."
  [seeds]
  (for [seed seeds
        :let [program (random-program seed)
              wanted (expected program)]
        :when (and (not= :tie wanted)
                   (not= wanted (mt/simulate {:seed seed} (run program))))]
    seed))

(deftest random-programs-do-what-the-model-does
  (is (= [] (vec (differing (range programs)))))
  (is (< (count (filter #(= :tie (expected (random-program %))) (range programs))) (quot programs 4)) "most programs count"))

(deftest an-order-of-retries-that-is-wrong-is-found
  (with-redefs-fn {#'loop/retried (fn [queue postponed] (into (or queue ()) (reverse postponed)))}
    #(is (seq (differing (range programs))))))

(deftest a-state-timeout-that-outlasts-its-state-is-found
  (let [cancel timers/cancel]
    (with-redefs [timers/cancel (fn [now type] (if (= :state-timeout type) now (cancel now type)))]
      (is (seq (differing (range programs)))))))

;; --- a timeout that is due when an event comes

(defn- restarting
  "A machine whose timeout of 10 ms is started again, for 20 ms, by :again; what comes is noted, and when. :busy keeps it from all else for 10 ms."
  [note]
  (second (statem/start {:callback-mode :handle-event-function
                         :init (fn [_] [:ok :a nil [[:timeout :n] 10 :old]])
                         :handle-event (fn [type content _ _]
                                         (case content
                                           :again [:keep-state-and-data [[:timeout :n] 20 :new]]
                                           :busy (do (a/<! (a/timeout 10)) :keep-state-and-data)
                                           (do (note [(mt/now) type content]) :keep-state-and-data)))}
                        nil)))

(defn- noted
  "What the machine notes when these are cast to it, each at its time."
  [casts]
  (let [seen (volatile! [])
        begin (mt/now)
        pid (restarting #(vswap! seen conj (update % 0 - begin)))]
    (doseq [[at content] casts]
      (a/<! (a/timeout (- at (- (mt/now) begin))))
      (statem/cast pid content))
    (a/<! (a/timeout 100))
    (statem/stop pid)
    @seen))

(deftest a-timeout-that-is-started-again-when-it-is-due-comes-before-or-not-at-all
  (is (:passed (mt/check* {:runs 300}
                          #(contains? #{[[10 [:timeout :n] :old] [30 [:timeout :n] :new]] [[30 [:timeout :n] :new]]}
                                      (noted [[10 :again]]))))))

(defn- stopped-too-late?
  "The timer has sent when it is stopped: its message is behind the event that stops it."
  []
  (= [[35 [:timeout :n] :new]] (noted [[5 :busy] [6 :again]])))

(deftest the-message-of-a-timer-that-was-stopped-too-late-is-dropped
  (is (:passed (mt/check* {:runs 100} stopped-too-late?)))
  (testing "a planted bug: the message of any timer of the type is taken for that of the current one"
    (with-redefs [timers/current? (fn [now [_ type]] (contains? (:timers now) type))]
      (is (not (mt/simulate {:seed 1} (stopped-too-late?)))))))

(deftest a-call-that-is-postponed-is-answered-in-each-interleaving
  (is (:passed
       (mt/check* {:runs 200 :properties [:every-call-answered :no-leaked-fiber]}
                  (fn []
                    (let [[_ pid] (statem/start {:callback-mode :handle-event-function
                                                 :init (fn [_] [:ok :closed nil])
                                                 :handle-event (fn [type content state _]
                                                                 (cond
                                                                   (= :open content) [:next-state :open nil]
                                                                   (= :closed state) [:keep-state-and-data :postpone]
                                                                   :else [:keep-state-and-data [:reply (second type) type]]))}
                                                nil)
                          callers (doall (for [i (range 3)] (actor/spawn #(first (statem/call pid i)))))
                          opener (actor/spawn #(statem/call pid :open {:timeout 1}))]
                      (try (actor/join opener) (catch Exception _))
                      (let [answers (mapv actor/join callers)]
                        (statem/stop pid)
                        (= [:call :call :call] answers))))))))
