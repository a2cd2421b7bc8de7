(ns magnetar.repeatable-test
  "What the library does in a simulation is decided by the seed: not by identity hashes, the clock of the system, or the classes of this JVM."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.async :as a]
   [magnetar.fold :as fold]
   [magnetar.gen-server :as gs]
   [magnetar.test :as mt])
  (:import
   (java.util.function Function)))

(defn- how-many-logs
  "How many different logs some runs with one seed have."
  [program]
  (count (distinct (repeatedly 5 #(:log-text (mt/simulate* {:seed 5 :log true} program))))))

(defn- channels []
  (vec (repeatedly 12 #(a/chan 2))))

(defn- mult []
  (let [source (a/chan)
        m (a/mult source)
        taps (vec (repeatedly 12 a/chan))]
    (doseq [c taps] (a/tap m c))
    (doseq [c taps] (a/go (a/<! c) (a/<! c)))
    (a/>! source 1)
    (a/close! source)
    (a/<! (a/timeout 1))))

(defn- mix []
  (let [out (a/chan 20)
        m (a/mix out)
        inputs (channels)]
    (doseq [[i c] (map-indexed vector inputs)] (a/>! c i))
    (doseq [c inputs] (a/admix m c))
    (vec (repeatedly 12 #(a/<! out)))))

(defn- slow [x]
  (let [end (+ (System/nanoTime) 300000)]
    (while (< (System/nanoTime) end)))
  x)

(deftest ^{:spec ["C146"]} what-has-no-order-is-gone-through-in-the-same-one-in-each-run
  (doseq [[title program] {"the taps of a mult" mult, "the inputs of a mix" mix}]
    (testing title
      (is (= 1 (how-many-logs program))))))

(deftest ^{:spec ["C146"]} a-fold-is-the-same-in-each-run-however-long-it-takes
  (is (= 1 (how-many-logs #(fold/fold + (fold/map slow (vec (range 60)))))))
  (is (= 1770 (mt/simulate {:seed 1} (fold/fold + (fold/map slow (vec (range 60)))))))
  (is (< 3 (count (filter #(= "starts" (:what %)) (:log (mt/simulate* {:seed 1 :log true} #(fold/fold + (vec (range 10000)))))))) "others take part"))

(deftest the-log-does-not-tell-the-address-of-a-lambda-nor-the-number-of-a-function
  (let [log (:log-text (mt/simulate* {:seed 1 :log true} #(doseq [f [(Function/identity) (fn [x] x)]] (a/>! (a/chan 1) f))))]
    (is (some #(re-find #": Function$" %) log))
    (is (not-any? #(re-find #"0x|__\d" %) log))))

;; --- time

(deftest ^{:spec ["C147"]} timers-come-in-the-order-of-their-instants-and-then-of-their-making-however-late
  (let [order (fn [& delays]
                (actor/with-process {}
                  (doseq [d delays] (actor/send-after d (self) d))
                  (vec (repeatedly (count delays) #(receive x x)))))]
    (doseq [seed (range 20)]
      (is (= [5 8 12] (mt/simulate {:seed seed :faults #{:late-timers} :fault-rate 1.0} (order 12 5 8)))))
    (doseq [delay [10 100 10000]]
      (is (= [:a :b :c]
             (mt/simulate {}
               (actor/with-process {}
                 (doseq [x [:a :b :c]] (actor/send-after delay (self) x))
                 (vec (repeatedly 3 #(receive x x))))))))))

(deftest time-does-not-go-to-the-next-timer-because-one-fiber-is-busy
  (let [[rings ms] (mt/simulate {}
                     (let [c (a/chan 1)
                           rings (a/timeout 5000)]
                       (dotimes [_ 3000] (a/>! c 1) (a/<! c))
                       [(a/poll! rings) (mt/now)]))]
    (is (nil? rings))
    (is (< (long ms) 20))))

(deftest who-only-yields-sees-time-pass-and-does-not-keep-others-from-running
  (doseq [seed (range 10)
          strategy [:uniform :priorities]]
    (is (= :done (mt/simulate {:seed seed :strategy strategy :max-steps 100000}
                   (let [done (volatile! false)]
                     (a/go (a/<! (a/timeout 60000)) (vreset! done true))
                     (while (not @done) (Thread/yield))
                     :done))))))

(deftest who-yields-for-ever-is-reported-by-line
  (is (thrown-with-msg? IllegalStateException #"did not end within 1000 steps; #2 body, at repeatable_test.clj:\d+. If it does not loop for ever, .*:max-steps"
                        (mt/simulate {:max-steps 1000} (loop [] (Thread/yield) (recur))))))

;; --- what belongs to the outside

(deftest ^{:spec ["C143"]} a-process-of-the-outside-that-a-simulation-wakes-lives-on
  (let [[_ server] (gs/start {:init (fn [_] [:ok 0])
                              :handle-call (fn [_ _ n] [:reply n n])
                              :handle-cast (fn [_ n] (a/<! (a/timeout 1)) [:noreply (inc n)])}
                             nil {:hosting :activated})]
    (is (= 0 (gs/call server :value)))
    (is (mt/eventually (= :waiting (:status (actor/process-info server)))) "a cast to a server that runs wakes nothing")
    (is (thrown-with-msg? IllegalStateException #"is not part of the simulation"
                          (mt/simulate {} (gs/cast server :add) (a/<! (a/timeout 1000)))))
    (is (mt/eventually (= 1 (gs/call server :value))))
    (actor/exit server :kill)
    (mt/await-down server)))
