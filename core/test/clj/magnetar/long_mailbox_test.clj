(ns magnetar.long-mailbox-test
  "A mailbox that grows is warned of before it fills the memory."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.support :refer [eventually value-of with-hook]]))

(set! *warn-on-reflection* true)

(def ^:private limit 50000)

(defn- warnings-during
  "Calls f with an atom of the warnings about a pid that it is given a function for; the value of f."
  [f]
  (let [events (atom [])]
    (with-hook [:report #(swap! events conj %)]
      (f (fn [pid] (filterv #(and (= :long-message-queue (:event %)) (= pid (:pid %))) @events))))))

(defn- flood [pid ^long n]
  (dotimes [i n] (! pid i)))

(defn- sink
  "Takes so many messages each time that it is told to, and says so."
  []
  (receive
    [:take n done] (do (dotimes [_ n] (receive (_ :guard int?) nil))
                       (deliver done true)
                       (recur))))

(defn- taken-by [pid n]
  (let [done (promise)]
    (! pid [:take n done])
    (value-of done)))

(deftest a-mailbox-is-warned-of-at-the-limit-and-at-each-doubling
  (warnings-during
    (fn [warnings]
      (let [stop (promise)
            pid (actor/spawn-opt #(do (deref stop) (receive :never nil)) {:name ::busy})]
        (flood pid (dec (long limit)))
        (! pid :the-last)
        (is (eventually (= 1 (count (warnings pid)))))
        (flood pid (* 3 (long limit)))
        (is (eventually (= 3 (count (warnings pid)))))
        (let [{:keys [level messages sender line message]} (first (warnings pid))]
          (is (= [:warning limit (.getName (Thread/currentThread))] [level messages sender]))
          (is (re-matches #"long_mailbox_test\.clj:\d+" line))
          (is (str/starts-with? message (str "The mailbox of " pid " holds 50000 messages; the last one came from ")))
          (is (str/includes? message "bound it with the option :mailbox of spawn-opt.")))
        (is (= [limit (* 2 (long limit)) (* 4 (long limit))] (sort (map :messages (warnings pid)))))
        (deliver stop true)
        (actor/exit pid :kill)))))

(deftest a-mailbox-that-was-emptied-is-warned-of-again
  (warnings-during
    (fn [warnings]
      (let [pid (actor/spawn sink)]
        (dotimes [n 2]
          (let [all (+ (long limit) 1000)] ; what it looks at before it is told to take does not match, and stays
            (flood pid all)
            (is (taken-by pid all))
            (is (eventually (<= (inc n) (count (warnings pid)))))
            (! pid [:take 0 (promise)])
            (is (taken-by pid 0))))
        (actor/exit pid :kill)))))

(deftest a-mailbox-that-no-clause-takes-from-is-warned-of-without-a-sender
  (warnings-during
    (fn [warnings]
      (let [pid (actor/spawn #(receive :never nil))]
        (loop [sent 0]
          (when (< sent (* 3 (long limit)))
            (flood pid 1000)
            (eventually (let [{:keys [waits-for]} (actor/process-info pid)] waits-for)) ; it has looked at all of them
            (recur (+ sent 1000))))
        (is (eventually (seq (warnings pid))))
        (is (nil? (:sender (first (warnings pid)))))
        (actor/exit pid :kill)))))

(deftest a-short-mailbox-is-not-warned-of
  (warnings-during
    (fn [warnings]
      (let [pid (actor/spawn sink)
            n (quot (long limit) 2)]
        (dotimes [_ 4]
          (flood pid n)
          (is (taken-by pid n)))
        (is (= [] (warnings pid)))
        (is (= pid (do (! pid [:take 0 (promise)]) pid)))
        (actor/exit pid :kill)))))
