(ns magnetar.unrepeatable-test
  "A body that is random by itself is not trusted: `check` runs a sample of its runs twice and names the first event that differs."
  (:require
   [clojure.test :as t :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.test :as mt]
   [magnetar.test.repeats :as repeats])
  (:import
   (java.util Random)))

(defn- checked [options f]
  (mt/check* (merge {:runs 100 :report identity} options) f))

;; --- bodies that are random by themselves

(defn- sends-a-random-number []
  (actor/with-process {}
    (let [me (self)]
      (spawn (fn [] (! me (rand-int 1000000))))
      (nat-int? (receive n n)))))

(defn- sends-the-time []
  (let [c (a/chan)]
    (a/go (a/>! c (System/nanoTime)))
    (int? (a/<! c))))

(defn- as-many-messages-as-a-die-says []
  (let [c (a/chan 100)] ; a die of a hundred sides: two runs that agree by chance would pass
    (dotimes [n (inc (long (rand-int 100)))] (a/>! c n))
    true))

(defn- goes-through-a-set-of-objects []
  (let [c (a/chan 20)
        numbers (into {} (map (juxt (fn [_] (Object.)) identity)) (range 10))]
    (doseq [[_ n] numbers] (a/>! c n))
    true))

(def ^:private runs-so-far (atom 0))

(defn- counts-in-an-atom-outside []
  (let [c (a/chan 1)]
    (a/>! c (swap! runs-so-far inc))
    (int? (a/<! c))))

;; --- and bodies that a seed decides

(defn- draws-from-its-own-generator []
  (let [random (Random. 42)
        c (a/chan 10)]
    (dotimes [_ 5] (a/>! c (.nextInt random 100)))
    true))

(defn- draws-what-nobody-sees []
  (let [c (a/chan 1)]
    (a/>! c (quot (long (rand-int 5)) 5))
    (zero? (long (a/<! c)))))

(defn- reads-virtual-time []
  (let [c (a/chan 1)]
    (a/<! (a/timeout 5))
    (a/>! c (mt/now))
    (int? (a/<! c))))

(defn- asks-a-server []
  (actor/with-process {}
    (let [server (spawn (fn [] (receive [:ask from] (! from :answer))))]
      (! server [:ask (self)])
      (= :answer (receive x x)))))

(defn- fills-a-cache []
  (let [square (memoize (fn [n] (a/<! (a/go (* (long n) (long n))))))]
    (fn [] (= 9 (square 3)))))

(deftest ^{:spec ["C145"]} a-search-of-what-no-seed-decides-fails-and-names-the-first-event-that-differs
  (doseq [[title body] {"rand-int" sends-a-random-number
                        "System/nanoTime" sends-the-time
                        "a number of messages" as-many-messages-as-a-die-says
                        "a set of objects" goes-through-a-set-of-objects
                        "an atom" counts-in-an-atom-outside}
          strategy [nil :uniform :priorities :exhaustive]]
    (testing (str title " " strategy)
      (let [{:keys [passed repeatable failure run]} (checked {:strategy strategy} body)]
        (is (false? passed))
        (is (false? repeatable))
        (is (= :unrepeatable (:kind failure)))
        (is (pos-int? (:event failure)))
        (is (seq (:log run)) "for the diagram")
        (is (not= (:first failure) (:again failure)))))))

(deftest a-body-that-a-seed-decides-passes
  (doseq [[title body] {"a generator of its own" draws-from-its-own-generator
                        "a number that changes nothing" draws-what-nobody-sees
                        "virtual time" reads-virtual-time
                        "a server" asks-a-server
                        "a cache that the first run fills" (fills-a-cache)}
          strategy [nil :exhaustive]]
    (testing (str title " " strategy)
      (is (true? (:passed (checked {:strategy strategy} body)))))))

(deftest the-report-says-what-differed-why-and-what-to-do
  (let [text (atom nil)]
    (checked {:report #(reset! text %)} sends-the-time)
    (doseq [part [#"^Two runs with seed \d+ differ, so no run of this body can be replayed\. The first difference is event \d+:"
                  #"\n    the first time  \d+ .* #\d+ put .*: \d+\n    then            \d+ .* #\d+ put .*: \d+\n"
                  #"rand-int.*System/nanoTime.*set or a map.*an atom\.\n"
                  #"\(java\.util\.Random\. 42\).*\(magnetar\.test/now\).*\{:repeats 0\}"
                  #"\n  found in run \d+$"]]
      (is (re-find part @text)))))

(deftest the-report-in-a-test-is-a-failure-of-the-test
  (let [reported (atom [])]
    (with-redefs [t/do-report #(swap! reported conj %)]
      (mt/check {:runs 100} (sends-the-time)))
    (is (= [:fail] (map :type @reported)))
    (is (re-find #"^Two runs with seed" (:message (first @reported))))))

(deftest a-search-that-is-told-to-repeats-nothing
  (let [runs (atom 0)]
    (is (:passed (checked {:repeats 0} sends-the-time)))
    (is (:passed (checked {:repeats 0} #(swap! runs inc))))
    (is (= 100 @runs))))

(deftest a-sample-is-small-and-denser-at-the-beginning
  (is (= [0 2 14 62 250] (sort (repeats/sampled 5 1000))))
  (is (= [0 6 51 379 2758] (sort (repeats/sampled 5 20000))))
  (is (= [0 1 5 14 38] (sort (repeats/sampled 5 100))))
  (is (= [[0] [0] [0]] (map #(sort (repeats/sampled 5 %)) [1 2 19])))
  (is (= [#{} #{}] [(repeats/sampled 0 1000) (repeats/sampled 0 1)]))
  (let [runs (atom 0)]
    (checked {:runs 200} #(swap! runs inc))
    (is (= 205 @runs))))

(deftest a-long-run-is-not-done-again
  (let [steps (comp :steps #(mt/simulate* {} %))
        runs (atom 0)
        long-one (fn [] (swap! runs inc) (let [c (a/chan 1)] (dotimes [_ 60000] (a/>! c (System/nanoTime)) (a/<! c)) true))]
    (is (< 200000 (long (steps long-one))))
    (reset! runs 0)
    (is (:passed (checked {:runs 2} long-one)))
    (is (= 2 @runs))))

(deftest a-failure-of-the-property-is-told-before-a-difference
  (is (= :property (:kind (:failure (checked {} #(do (sends-the-time) false)))))))

(deftest simulate-runs-its-body-again-if-it-is-told-to
  (is (thrown-with-msg? IllegalStateException #"^Two runs with seed 7 differ.*\n" (mt/simulate {:seed 7 :repeats 1} (sends-the-time))))
  (is (= :magnetar.test/unrepeatable
         (try (mt/simulate {:repeats 1} (sends-the-time)) (catch IllegalStateException e (:magnetar/reason (ex-data e))))))
  (is (true? (mt/simulate {:repeats 3} (asks-a-server))))
  (is (not-any? (mt/simulate* {:repeats 1} asks-a-server) [:log :log-text]))
  (is (every? (mt/simulate* {:repeats 1 :log true} asks-a-server) [:log :log-text]))
  (is (true? (mt/simulate {} (sends-the-time)))))

(deftest repeats-are-a-whole-number
  (doseq [f [#(mt/check* {:repeats :no} (constantly true)) #(mt/simulate* {:repeats -1} (constantly true))]]
    (is (thrown-with-msg? IllegalArgumentException #"^:repeats is a whole number from 0 up; this is " (f)))))
