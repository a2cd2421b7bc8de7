(ns magnetar.top-test
  "What uses the processor and takes messages, measured for a while."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.async :as a]
   [magnetar.impl.inspect.top :as top]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually]]
   [magnetar.test :as test])
  (:import
   (java.time Duration)
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.process LocalProcess ProcessInfo ProcessTable)))

(set! *warn-on-reflection* true)

(defn- row [rows name]
  (first (filter #(= name (:name %)) rows)))

(defn- echo []
  (loop []
    (receive [from n] (! from n))
    (recur)))

(defn- ask-until [stop to]
  (let [me (actor/self)]
    (loop [n 0]
      (! to [me n])
      (receive n nil)
      (when-not (realized? stop)
        (recur (inc n))))))

(deftest what-computes-uses-the-processor-and-what-waits-does-not
  (let [stop (promise)
        _ (a/go (loop [i 0] (when-not (realized? stop) (recur (inc i)))))
        idle (actor/spawn-opt #(receive :stop nil) {:name :idle})]
    (try
      (is (eventually (some (fn [{:keys [kind cpu at]}]
                              (and (= :go kind) (< 0.0 (double cpu) 1.01) (str/starts-with? (str at) "top_test.clj:")))
                            (inspect/top {:for 100}))))
      (is (= 0.0 (:cpu (row (inspect/top {:for (Duration/ofMillis 50), :by :age-ms, :most 100000}) ":idle"))))
      (finally
        (deliver stop true)
        (! idle :stop)))))

(deftest messages-are-counted-when-they-are-taken
  (let [stop (promise)
        echo (actor/spawn-opt echo {:name :echo})
        client (actor/spawn-opt #(ask-until stop echo) {:name :client})
        deaf (actor/spawn-opt #(receive :stop nil) {:name :deaf})]
    (try
      (dotimes [n 7] (! deaf n))
      (is (eventually (let [rows (inspect/top {:for 50, :by :messages-per-s, :most 1000})]
                        (every? #(pos? (double (:messages-per-s (row rows %)))) [":echo" ":client"]))))
      (let [rows (inspect/top {:for 50, :by :messages-per-s, :most 1000})]
        (is (= [0.0 7] ((juxt :messages-per-s :messages) (row rows ":deaf"))))
        (is (every? #(nil? (:messages-per-s %)) (remove #(= :process (:kind %)) rows)) "only a process takes messages"))
      (is (= 7 (:messages (row (inspect/top {:for 1, :by :messages}) ":deaf"))))
      (finally
        (deliver stop true)
        (run! #(actor/exit % :kill) [echo client deaf])))))

(deftest all-messages-that-a-process-took-are-counted
  (let [done (promise)
        pid (actor/spawn (fn [] (dotimes [_ 100] (receive [:n _] nil)) (deliver done true) (receive :stop nil)))]
    (! pid :stays)
    (dotimes [n 100] (! pid [:n n]))
    @done
    (let [^ProcessInfo info (.info ^LocalProcess (ProcessTable/live pid))]
      (is (= [100 1] [(.taken info) (.messages info)])))
    (! pid :stop)))

(defn- ages []
  (map #(quot (.ageNanos ^FiberInfo %) 1000000000) (FiberInfo/all)))

(deftest the-age-of-a-fiber-is-told-to-a-tenth-of-a-second
  (is (= [20 70]
         (test/simulate {:seed 1}
           (a/go (scope/sleep 100000))
           (scope/sleep 50000)
           (a/go (scope/sleep 100000))
           (scope/sleep 20200)
           (dedupe (sort (ages)))))))

(deftest only-what-lives-at-the-end-has-a-row
  (let [before (actor/spawn-opt #(receive :stop [:stopped]) {:name :ends-soon})
        rows (future (inspect/top {:for 300, :by :age-ms, :most 10000}))]
    (! before :stop)
    (is (= [:stopped] (actor/join before)))
    (is (nil? (row @rows ":ends-soon")))))

(deftest the-rows-are-told-as-a-table
  (is (= ["   CPU messages/s  mailbox     age  name                           does"
          "  0.50       1200        3    61 s  :tills                         message at shop.clj:7"
          "  0.00                      16 min  go shop.clj:12                 runs"]
         (str/split-lines
           (top/table [{:kind :process, :name ":tills", :cpu 0.5, :messages-per-s 1200.4, :messages 3, :age-ms 61900, :waits-for "message", :at "shop.clj:7"}
                       {:kind :go, :name "go shop.clj:12", :cpu 0.0, :age-ms 1000000}])))))

(deftest a-wrong-option-is-named
  (is (thrown-with-msg? IllegalArgumentException #"`top` orders its rows by :cpu, :messages-per-s, :messages, :age-ms; this is :size\."
                        (inspect/top {:by :size})))
  (doseq [options [{:for -1} {:for 0} {:for :infinity} {:for "1 s"} {:most 0} {:limit 3}]]
    (is (thrown? IllegalArgumentException (inspect/top options)) (str options))))
