(ns magnetar.cluster.policy-test
  "Which parts of a view may act: small cases, and all partitions of views of up to six nodes."
  (:require
   [clojure.test :refer [are deftest is testing]]
   [magnetar.cluster.impl.policy :as policy]))

(set! *warn-on-reflection* true)

(def ^:private majority {:kind :keep-majority})
(def ^:private oldest {:kind :keep-oldest})
(defn- quorum [n] {:kind :static-quorum :quorum n})

(deftest the-part-that-may-act
  (are [policy members part active] (= active (policy/active? policy members part))
    majority [:a :b :c] #{:b :c} true
    majority [:a :b :c] #{:a} false
    majority [:a :b :c :d] #{:a :d} true ; a half with the oldest
    majority [:a :b :c :d] #{:b :c} false
    majority [:a] #{:a} true
    majority [:a :b] #{:b :x :y} false ; others do not count
    (quorum 2) [:a :b :c] #{:b :c} true
    (quorum 2) [:a :b :c] #{:a} false
    (quorum 2) [:a] #{:a} false
    oldest [:a :b :c] #{:a :b} true
    oldest [:a :b :c] #{:a} false ; alone
    oldest [:a :b :c] #{:b :c} true
    oldest [:a :b :c :d] #{:c :d} false
    oldest [:a :b] #{:a} true
    oldest [:a :b] #{:b} false
    {:kind :allow} [:a :b] #{:b} true
    {:kind :allow} [:a :b] #{} false))

(defn- parts
  "All ways to put the members into disjoint parts."
  [members]
  (if-let [[m & more] (seq members)]
    (for [partition (parts more)
          i (range (inc (count partition)))]
      (update (vec partition) i (fnil conj #{}) m))
    [[]]))

(defn- at-most-one? [f policy members]
  (every? (fn [partition] (<= (count (filter #(f policy members %) partition)) 1)) (parts members)))

(deftest of-disjoint-parts-at-most-one-acts
  (doseq [n (range 1 7)
          :let [members (vec (range n))
                policies (into [majority oldest] (map quorum) (range (inc (quot n 2)) (inc n)))]
          policy policies
          f [policy/active? policy/decides?]]
    (is (at-most-one? f policy members) (pr-str policy n)))
  (testing "the check finds others"
    (is (not (at-most-one? policy/active? {:kind :allow} [:a :b])))
    (is (not (at-most-one? policy/active? (quorum 2) [:a :b :c :d])))))

(deftest what-is-active-decides
  (doseq [n (range 1 6)
          policy (into [majority oldest] (map quorum) (range 1 (inc n)))
          partition (parts (range n))
          part partition
          :when (policy/active? policy (vec (range n)) part)]
    (is (policy/decides? policy (vec (range n)) part))))

(deftest fewer-nodes-than-a-quorum-decide-together
  (is (policy/decides? (quorum 3) [:a :b] #{:a :b :c}))
  (is (not (policy/decides? (quorum 3) [:a :b] #{:a :c})))
  (is (not (policy/begins? (quorum 2) #{:a})))
  (is (policy/begins? majority #{:a})))

(deftest a-static-quorum-limits-the-members
  (is (= [1 2 3] (policy/limited (quorum 2) [1 2 3 4 5])))
  (is (= [1 2 3 4 5] (policy/limited majority [1 2 3 4 5]))))
