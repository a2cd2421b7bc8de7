(ns magnetar.actor-articles-test
  "The experiments E1 to E4 of the article on Erlang in Clojure, in our idiom."
  (:require
   [clojure.test :refer [are deftest is]]
   [magnetar.actor :as actor :refer [! after receive register self spawn with-process]]
   [magnetar.actor-support :refer [outcome]]
   [magnetar.bits :as bits]))

(set! *warn-on-reflection* true)
(set! *unchecked-math* :warn-on-boxed)

;; ---- E1: ping-pong, line by line as in Erlang

(defn- ping [^long n said]
  (if (zero? n)
    (do (! ::pong :finished)
        (conj said "ping finished"))
    (do (! ::pong [:ping (self)])
        (receive
          :pong (recur (dec n) (conj said "ping received pong"))))))

(defn- pong [said]
  (receive
    :finished (conj said "pong finished")
    [:ping pid] (do (! pid :pong)
                    (recur (conj said "pong received ping")))))

(deftest experiment-e1-ping-pong
  (let [ponger (spawn pong [])]
    (register ::pong ponger)
    (is (= [:value ["ping received pong" "ping received pong" "ping received pong" "ping finished"]]
           (outcome (spawn ping 3 []))))
    (is (= [:value ["pong received ping" "pong received ping" "pong received ping" "pong finished"]]
           (outcome ponger)))))

;; ---- E2: selective receive by priority

(defn- normal []
  (loop [messages []]
    (receive
      [_ message] (recur (conj messages message))
      (after 0 messages))))

(defn- important []
  (loop [messages []]
    (receive
      [(_ :guard #(< 10 (long %))) message] (recur (conj messages message))
      (after 0 (into messages (normal))))))

(deftest ^{:spec ["C65"]} experiment-e2-priority
  (is (= [:high :high :low :low]
         (with-process {}
           (let [me (self)]
             (! me [15 :high])
             (! me [7 :low])
             (! me [1 :low])
             (! me [17 :high])
             (important))))))

;; ---- E3: the state of a process, in three ways

(defn- sum-in-a-loop []
  (loop [sum 0]
    (receive
      [:add n] (recur (+ sum (long n)))
      :done sum)))

(defn- sum-in-a-volatile []
  (let [sum (volatile! 0)]
    (loop []
      (receive
        [:add n] (do (vswap! sum (fn [a] (+ (long a) (long n)))) (recur))
        :done @sum))))

(defprotocol Summing
  (run [this]))

(deftype ^:private Sum [^:unsynchronized-mutable ^long sum]
  Summing
  (run [_]
    (loop []
      (receive
        [:add n] (do (set! sum (+ sum (long n))) (recur))
        :done sum))))

(deftest experiment-e3-state
  (are [f] (= [:value 25] (let [pid (spawn f)]
                            (! pid [:add 13])
                            (! pid [:add 12])
                            (! pid :done)
                            (outcome pid)))
    sum-in-a-loop
    sum-in-a-volatile
    #(run (->Sum 0))))

;; ---- E4: a binary frame of an int16 and a float32

(def ^:private frame (bits/compile '[[kind 16] [value :float 32]]))

(defn- read-frame []
  (receive
    (bits [[42 16] [value :float 32]]) [:temperature value]
    (bits [[7 16] [value :float 32]]) [:pressure value]
    (after 100 :nothing)))

(deftest experiment-e4-binaries
  (let [frame-of (fn [kind value] (bits/build frame {:kind kind :value value}))]
    (are [expected message] (= expected (with-process {} (! (self) message) (read-frame)))
      [:temperature 1.5] (frame-of 42 1.5)
      [:pressure -2.0] (frame-of 7 -2.0)
      :nothing (frame-of 8 1.0)
      :nothing [:no :frame])))
