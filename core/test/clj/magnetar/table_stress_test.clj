(ns magnetar.table-stress-test
  "What has to happen in one instant, by many processes at once on the JDK's threads; and beside each the control: with writes that look first and
  put later, the same program finds it out."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [spawn]]
   [magnetar.impl.table.store :as store]
   [magnetar.support :as support]
   [magnetar.table :as table])
  (:import
   (java.util.concurrent ConcurrentMap)
   (magnetar.impl.table.store Store)))

(set! *warn-on-reflection* true)

(def ^:private writers 8)

(def ^:private rounds (Long/getLong "magnetar.rounds" 500))

(defn- together
  "What `writers` processes return that each call f with their number."
  [f]
  (mapv actor/join (mapv #(spawn f %) (range writers))))

;; ---- programs: each is true if nothing was lost and nothing happened twice

(defn- insert-new-once [kind]
  (let [t (table/create kind {:access :public})
        won (together (fn [i] (vec (for [k (range rounds)] (table/insert-new t [k i])))))]
    (every? #(= 1 (count (filter true? %))) (apply map vector won))))

(defn- counters-add-up [kind]
  (let [t (table/create kind {:access :public})
        sums (together (fn [_] (vec (for [_ (range rounds)] (table/update-counter t :n [[1 1] [2 -1]] [:n 0 0])))))]
    (and (= [[:n (* writers rounds) (- (* writers rounds))]] (table/lookup t :n))
         (= (* writers rounds) (count (set (apply concat sums)))))))

(defn- swap-one [t]
  (let [[[_ n :as row]] (table/lookup t :n)]
    (or (table/compare-and-swap t row [:n (inc n)])
        (recur t))))

(defn- swaps-add-up [kind]
  (let [t (table/create kind {:access :public})]
    (table/insert t [:n 0])
    (together (fn [_] (dotimes [_ rounds] (swap-one t))))
    (= [[:n (* writers rounds)]] (table/lookup t :n))))

(defn- taken-once [kind]
  (let [t (table/create kind {:access :public})]
    (table/insert-all t (for [k (range rounds)] [k]))
    (let [taken (together (fn [_] (into [] (mapcat #(table/take t %)) (range rounds))))]
      (and (= rounds (count (apply concat taken)) (count (set (apply concat taken))))
           (= [] (into [] (table/rows t)))
           (= 0 (:size (table/info t)))))))

(defn- batches-are-seen-whole [kind]
  (let [t (table/create kind {:access :public})
        content #(long (table/lookup-element t % 1))
        write #(table/insert-all t [[:a %] [:b %]])
        in-step? #(let [a (content :a), b (content :b), again (content :a)] (<= a b again))]
    (write 0)
    (every? true? (together (fn [i]
                              (if (zero? (long i))
                                (every? write (range 1 (inc (long rounds)))) ; not 0: the first half of a first batch is to be seen, too
                                (every? true? (repeatedly rounds in-step?))))))))

(defn- one-batch-wins [kind]
  (let [t (table/create kind {:access :public})
        won (together (fn [i] (vec (for [k (range (quot rounds 4))]
                                     (table/insert-all-new t (for [j (shuffle (range 3))] [[k j] i]))))))
        winners (fn [k] (distinct (for [j (range 3)] (table/lookup-element t [k j] 1))))]
    (and (every? #(= 1 (count (filter true? %))) (apply map vector won))
         (every? #(= 1 (count (winners %))) (range (quot rounds 4)))
         (= (* 3 (quot rounds 4)) (:size (table/info t))))))

;; ---- the control

(defn- look-first-put-later
  "What `store/swap` would be without comparing."
  [^Store s k f]
  (let [^ConcurrentMap values (.-values s)
        old (.get values k)
        new (f old)]
    (Thread/yield)
    (if (nil? new) (.remove values k) (.put values k new))
    old))

(defn- one-after-the-other
  "What `store/swap-all` would be without batches."
  [s changes]
  (doseq [[k f] changes]
    (store/swap s k f)
    (Thread/yield))
  true)

(defn- holds? [program kind]
  (actor/with-process {} (try (program kind) (catch RuntimeException _ false))))

(defn- sometimes-fails? [program kind]
  (boolean (some false? (repeatedly 200 #(holds? program kind)))))

(deftest ^{:spec ["C122"]} nothing-is-lost-and-nothing-happens-twice
  (doseq [kind [:set :ordered-set]
          [named program] {"insert-new" insert-new-once "update-counter" counters-add-up "compare-and-swap" swaps-add-up "take" taken-once
                           "insert-all" batches-are-seen-whole "insert-all-new" one-batch-wins}]
    (testing (str named " on " kind)
      (is (holds? program kind)))))

(deftest the-same-programs-find-a-write-that-looks-first-and-puts-later
  (with-redefs [store/swap look-first-put-later]
    (doseq [kind [:set :ordered-set]
            [named program] {"insert-new" insert-new-once "update-counter" counters-add-up "compare-and-swap" swaps-add-up "take" taken-once}]
      (testing (str named " on " kind)
        (is (sometimes-fails? program kind))))))

(deftest the-same-program-finds-a-batch-that-is-written-row-by-row
  (with-redefs [store/swap-all one-after-the-other]
    (is (sometimes-fails? batches-are-seen-whole :set))
    (is (sometimes-fails? batches-are-seen-whole :ordered-set))))

;; ---- batches that others end

(defn- on-another-thread [f]
  (let [done (promise)]
    (.start (Thread/ofPlatform) (fn [] (deliver done (f))))
    done))

(deftest ^{:spec ["C122"]} a-batch-that-others-keep-ending-becomes-firm-and-they-wait-for-it
  (let [s (store/store :set)
        patience (long @#'store/patience)
        attempts (atom 0)
        late (atom nil)
        write (fn [] (on-another-thread #(store/swap s :a (fn [v] [:after v]))))]
    (is (true? (store/swap-all s [[:a (constantly :batch)]
                                  [:b (fn [_]
                                        (if (<= (swap! attempts inc) patience)
                                          (support/value-of (write))
                                          (reset! late (write)))
                                        :batch)]])))
    (is (= (inc patience) @attempts))
    (is (= :batch (support/value-of @late)) "the last one found what the batch wrote")
    (is (= [[:after :batch] :batch 2] [(store/value s :a) (store/value s :b) (store/size s)]))))

(deftest ^{:spec ["C122"]} a-batch-that-fails-leaves-nothing-behind
  (let [s (store/store :set)]
    (store/put s :a 1)
    (is (thrown? IllegalStateException
                 (store/swap-all s [[:a (constantly 2)] [:b (constantly 2)] [:c (fn [_] (throw (IllegalStateException.)))]])))
    (is (= [1 nil 1] [(store/value s :a) (store/value s :b) (store/size s)]))
    (is (= {:a 1} (into {} (.-values s))))))

(deftest ^{:spec ["C124"]} who-goes-through-a-table-meets-each-row-once-that-is-there-all-the-time
  (doseq [kind [:set :ordered-set]]
    (actor/with-process {}
      (let [t (table/create kind {:access :public})
            kept (range 0 1000 2)
            stop (atom false)]
        (table/insert-all t (map vector kept))
        (let [writer (spawn #(loop [i 1]
                               (when-not @stop
                                 (table/insert t [(rem i 1001)])
                                 (when (odd? (rem (* 7 i) 1001)) (table/delete t (rem (* 7 i) 1001)))
                                 (recur (+ i 2)))))]
          (dotimes [_ 100]
            (let [met (frequencies (map first (table/rows t)))]
              (is (every? #(= 1 (met %)) kept))
              (is (every? #(= 1 %) (vals met)))))
          (reset! stop true)
          (actor/join writer))))))
