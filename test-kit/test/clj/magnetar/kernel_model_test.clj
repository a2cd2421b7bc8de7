(ns magnetar.kernel-model-test
  "The kernel under the simulator, against sequential models and under random kills. JAVA_OPTS=-Dmagnetar.runs=N for more runs."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.histories :as histories :refer [history record]]
   [magnetar.scope :as scope]
   [magnetar.test :as mt]))

(def runs
  "How many runs each property gets."
  (Long/getLong "magnetar.runs" 75))

(defmacro ^:private holds
  "The body holds in so many runs with the options."
  [options & body]
  `(is (:passed (mt/check* (merge {:runs runs} ~options) (fn [] ~@body)))))

;; --- the control of the model: it must refuse what no channel does

(defn- told [& ops]
  (volatile! {:ops (vec (map-indexed (fn [i [op result]] {:op op :from (* 2 i) :to (inc (* 2 i)) :result result}) ops))}))

(deftest the-model-refuses-what-a-channel-must-not-do
  (is (histories/explained? (told [[:put :c 1 1] true] [[:take :c] 1])))
  (is (not (histories/explained? (told [[:put :c 1 1] true] [[:take :c] 2]))) "another value")
  (is (not (histories/explained? (told [[:put :c 1 2] true] [[:take :c] 1] [[:take :c] 1]))) "twice")
  (is (not (histories/explained? (told [[:put :c 1 2] true] [[:put :c 2 2] true] [[:take :c] 2]))) "out of order")
  (is (not (histories/explained? (told [[:put :c 1 0] true] [[:take :c] 1]))) "a put without a buffer that did not wait")
  (is (not (histories/explained? (told [[:put :c 1 1] true] [[:put :c 2 1] true]))) "beyond the buffer")
  (is (not (histories/explained? (told [[:close :c] nil] [[:put :c 1 1] true]))) "after the close")
  (is (not (histories/explained? (told [[:put :c 1 1] true] [[:close :c] nil] [[:take :c] nil]))) "lost by the close"))

;; --- channels

(defn- channel-ops [h c capacity]
  {:put (fn [v] (record h [:put :c v capacity] #(a/>! c v)))
   :take (fn [] (record h [:take :c] #(a/<! c)))
   :close (fn [] (record h [:close :c] #(a/close! c)))})

(defn- make [capacity]
  (if (zero? (long capacity)) (a/chan) (a/chan capacity)))

(deftest puts-takes-and-a-close-are-what-the-sequential-channel-does
  (doseq [capacity [0 1 2]]
    (testing (str "capacity " capacity)
      (holds {}
        (let [h (history)
              {:keys [put take close]} (channel-ops h (make capacity) capacity)
              producers (doall (for [p [10 20]] (a/go (put p) (put (inc p)))))
              consumers (doall (for [_ [0 1]] (a/go (take) (take))))]
          (run! a/<! producers)
          (close)
          (run! a/<! consumers)
          (histories/explained? h))))))

(deftest operations-that-were-cancelled-had-their-effect-or-none
  (doseq [capacity [0 1]]
    (testing (str "capacity " capacity)
      (holds {:properties [:no-leaked-fiber]}
        (let [h (history)
              {:keys [put take close]} (channel-ops h (make capacity) capacity)
              workers (doall (for [f [#(put 1) #(put 2) take #(do (put 3) (take))]] (spawn f)))]
          (doseq [w workers] (actor/exit w :kill))
          (a/<! (a/timeout 1))
          (close)
          (loop [] (when (take) (recur)))
          (histories/explained? h))))))

(deftest a-select-takes-one-value-from-one-channel
  (holds {}
    (let [h (history)
          cs {:a (a/chan) :b (a/chan 1)}
          names (into {} (map (fn [[k c]] [c k])) cs)
          alts (fn [] (record h [:alts [:a :b]] #(let [[v c] (a/alts! (vals cs))] [v (names c)])))
          done (doall (for [f [#(record h [:put :a 1 0] (fn [] (a/>! (:a cs) 1)))
                               #(record h [:put :b 2 1] (fn [] (a/>! (:b cs) 2)))
                               #(record h [:put :a 3 0] (fn [] (a/>! (:a cs) 3)))
                               alts alts alts]]
                        (a/go (f))))]
      (run! a/<! done)
      (histories/explained? h))))

(deftest two-selects-that-cross-meet-once-and-nobody-waits-for-ever
  (holds {}
    (let [a (a/chan)
          b (a/chan)
          side (fn [put-on take-from v] (a/go (let [[r c] (a/alts! [[put-on v] take-from])] (if (= c put-on) [:put r] [:took r]))))
          one (side a b 1)
          other (side b a 2)
          results (sort-by first [(a/<! one) (a/<! other)])]
      (= [:put :took] (map first results)))))

(deftest every-schedule-of-a-rendezvous-with-two-preemptions-is-right
  (let [found (mt/check {:runs 20000 :strategy :exhaustive :preemptions 2}
                (let [c (a/chan)
                      putter (a/go (a/>! c 1))]
                  (and (= 1 (a/<! c)) (a/<! putter))))]
    (is (:exhausted found))))

(deftest a-timeout-and-a-value-that-come-together-lose-nothing
  (holds {:faults #{:early-timers :late-timers}}
    (let [c (a/chan)
          producer (a/go (a/<! (a/timeout 5)) (a/>! c :value))
          [v _] (a/alts! [c (a/timeout 5)])]
      (if v
        (and (= :value v) (a/<! producer))
        (= :value (a/<! c))))))

;; --- mailboxes

(deftest each-message-is-received-once-and-in-the-order-of-its-sender
  (doseq [mailbox [nil {:capacity 6 :when-full :block} {:capacity 6 :when-full :drop-new}]]
    (holds {:properties [:no-unhandled-exit :no-leaked-fiber]}
      (let [receiver (actor/spawn-opt (fn []
                                        (let [me (self)]
                                          (doseq [s [:a :b]] (spawn (fn [] (dotimes [n 3] (! me [s n])))))
                                          (vec (concat (repeatedly 3 #(receive [:b n] [:b n]))
                                                       (repeatedly 3 #(receive [:a n] [:a n]))))))
                                      (if mailbox {:mailbox mailbox} {}))]
        (= [[:b 0] [:b 1] [:b 2] [:a 0] [:a 1] [:a 2]] (actor/join receiver))))))

(deftest a-full-mailbox-lets-its-senders-wait-and-loses-nothing
  (holds {:faults #{:kill} :fault-rate 0.03 :victims #(re-find #"sender" %) :properties [[:mailbox-bounded 2] :no-leaked-fiber]}
    (let [receiver (actor/spawn-opt (fn [] (loop [got []] (receive :end got x (recur (conj got x)))))
                                    {:mailbox {:capacity 2 :when-full :block}})
          senders (doall (for [s [:sender-a :sender-b]]
                           (actor/spawn-opt (fn [] (dotimes [n 4] (! receiver [s n]))) {:name s})))]
      (doseq [s senders] (try (actor/join s) (catch Exception _ nil)))
      (! receiver :end)
      (let [got (actor/join receiver)]
        (every? (fn [s] (let [ns (map second (filter #(= s (first %)) got))] (= ns (range (count ns))))) [:sender-a :sender-b])))))

(deftest of-a-sender-that-is-killed-the-first-messages-arrive
  (holds {:faults #{:kill} :fault-rate 0.1 :victims #(re-find #"sender" %)}
    (actor/with-process {}
      (let [me (self)
            senders (doall (for [s [:a :b]]
                             (actor/spawn-opt (fn [] (dotimes [n 4] (! me [s n])))
                                              {:name (keyword (str "sender-" (name s)))})))
            refs (mapv actor/monitor senders)]
        (doseq [ref refs] (receive [:DOWN ref _ _ _] nil))
        (let [got (loop [got []] (receive [s n] (recur (conj got [s n])) (after 0 got)))]
          (every? (fn [s] (let [ns (map second (filter #(= s (first %)) got))] (= ns (range (count ns))))) [:a :b]))))))

(deftest a-receive-with-a-timeout-loses-no-message
  (holds {:faults #{:early-timers}}
    (actor/with-process {}
      (let [me (self)]
        (spawn (fn [] (a/<! (a/timeout 5)) (! me :late)))
        (or (= :late (receive :late :late (after 5 nil)))
            (= :late (receive :late :late)))))))

;; --- links and monitors

(deftest each-monitor-tells-of-one-death-with-its-reason
  (holds {:faults #{:kill} :fault-rate 0.05 :victims #(re-find #"victim" %)}
    (actor/with-process {}
      (let [victims (doall (for [n (range 3)]
                             (actor/spawn-opt (fn [] (a/<! (a/timeout n)) (when (= 1 n) (actor/exit :own)))
                                              {:name (keyword (str "victim-" n))})))
            refs (into {} (for [v victims, _ (range 2)] [(actor/monitor v) v]))
            downs (doall (for [_ refs] (receive [:DOWN ref _ pid why] [ref pid why])))]
        (and (= (set (keys refs)) (set (map first downs)))
             (every? (fn [[ref pid why]] (and (= pid (refs ref)) (contains? #{:normal :own :killed :noproc} why))) downs)
             (every? (fn [[_ of-one]] (>= 1 (count (disj (set (map last of-one)) :noproc)))) (group-by second downs))
             (= :nothing (receive x x (after 10 :nothing))))))))

(deftest after-a-demonitor-no-message-comes
  (holds {:faults #{:kill}}
    (actor/with-process {}
      (let [p (spawn (fn [] (a/<! (a/timeout 1))))
            ref (actor/monitor p)]
        (a/<! (a/timeout 1))
        (actor/demonitor ref {:flush true})
        (= :nothing (receive x x (after 10 :nothing)))))))

(deftest linked-processes-die-together-and-one-that-traps-hears-of-each-once
  (holds {:faults #{:kill} :fault-rate 0.05 :victims #(re-find #"child" %)}
    (actor/with-process {:trap-exit true}
      (let [child (fn [n] (actor/spawn-opt (fn []
                                             (actor/spawn-opt (fn [] (receive :never nil))
                                                              {:name (keyword (str "grandchild-" n)) :link true})
                                             (a/<! (a/timeout 2))
                                             (actor/exit :crash))
                                           {:name (keyword (str "child-" n)) :link true}))
            children (mapv child (range 2))
            exits (doall (for [_ children] (receive [:EXIT pid why] [pid why])))]
        (a/<! (a/timeout 5))
        (and (= (set children) (set (map first exits)))
             (every? #{:crash :killed} (map second exits))
             (= :nothing (receive x x (after 5 :nothing))))))))

(deftest no-linked-process-outlives-its-peer
  (holds {:faults #{:kill} :fault-rate 0.1 :victims #(re-find #"peer" %) :properties [:no-leaked-fiber]}
    (let [pids (a/chan 2)]
      (spawn (fn []
               (let [other (actor/spawn-opt (fn [] (receive :never nil)) {:name :peer})]
                 (a/>! pids other)
                 (actor/link other)
                 (actor/exit :crash))))
      (let [other (a/<! pids)]
        (a/<! (a/timeout 10))
        (not (actor/alive? other))))))

(deftest a-call-is-answered-or-its-server-is-down-and-never-both
  (holds {:faults #{:kill} :fault-rate 0.05 :victims #(re-find #"server" %) :properties [:every-call-answered :no-leaked-fiber]}
    (let [server (actor/spawn-opt (fn [] (dotimes [_ 2] (receive [:call from n] (! from [from (* 2 n)]))))
                                  {:name :server})
          call (fn [n] (let [ref (actor/monitor server {:alias :reply-demonitor})]
                         (! server [:call ref n])
                         (receive [ref r] r [:DOWN ref _ _ why] [:down why])))
          results (a/chan 2)]
      (doseq [n [1 2]]
        (spawn (fn [] (let [r (call n)] (a/>! results [n r (receive x x (after 5 :nothing))])))))
      (let [all (doall (repeatedly 2 #(a/<! results)))]
        (every? (fn [[n r more]] (and (= :nothing more) (or (= r (* 2 n)) (= :down (first r))))) all)))))

;; --- scopes

(deftest a-scope-ends-with-all-its-forks-whoever-fails-or-is-killed
  (holds {:faults #{:kill} :fault-rate 0.02 :properties [:no-leaked-fiber]}
    (let [ended (volatile! 0)
          work (fn [f] (fn [] (try (f) (finally (vswap! ended inc)))))
          owner (spawn (fn []
                         (scope/with-scope [s {}]
                           (scope/fork s (work #(a/<! (a/chan))))
                           (scope/fork s (work #(do (a/<! (a/timeout 3)) (throw (ex-info "fails" {})))))
                           (scope/fork s (work #(scope/sleep 10))))))]
      (try (actor/join owner) (catch Exception _ nil))
      (a/<! (a/timeout 10))
      (<= (long @ended) 3))))
