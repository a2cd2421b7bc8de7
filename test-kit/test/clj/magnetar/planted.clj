(ns magnetar.planted
  "Small programs with a bug between two switch points, and beside each the same without: controls of the search."
  (:require
   [magnetar.async :as a]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.fiber Simulated)))

(set! *warn-on-reflection* true)

(defn- switch-point []
  (Simulated/switchPoint))

;; --- an event: a waiter checks whether it has happened, and else leaves something to be woken by

(defn- happen [event]
  (switch-point)
  (vswap! event assoc :happened true)
  (switch-point)
  (when-let [waiter (:waiter @event)]
    (a/offer! waiter true)))

(defn- await-event [event look-again?]
  (let [waiter (a/chan 1)]
    (when-not (:happened @event)
      (switch-point)
      (vswap! event assoc :waiter waiter)
      (switch-point)
      (when-not (and look-again? (:happened @event))
        (a/<! waiter)))
    true))

(defn- event-program [look-again?]
  (let [event (volatile! {})
        done (a/go (await-event event look-again?))]
    (happen event)
    (a/<! done)))

(defn lost-wake-up
  "It happens between the look and the leaving."
  []
  (event-program false))

(defn kept-wake-up
  "Looks again."
  []
  (event-program true))

;; --- a queue: two takers

(defn- take-slowly [queue]
  (let [v (peek @queue)]
    (switch-point)
    (vswap! queue #(if (seq %) (pop %) %))
    v))

(defn- take-at-once [queue]
  (switch-point)
  (let [v (peek @queue)]
    (vswap! queue #(if (seq %) (pop %) %))
    v))

(defn- queue-program [take-one]
  (let [queue (volatile! [1 2])
        takers [(a/go (take-one queue)) (a/go (take-one queue))]]
    (= #{1 2} (set (map a/<! takers)))))

(defn double-delivery
  "Looks at the next one, and takes it out later."
  []
  (queue-program take-slowly))

(defn single-delivery
  "Does both at once."
  []
  (queue-program take-at-once))

;; --- links: the dead tell those that are linked to them

(defn- die [process]
  (switch-point)
  (let [{:keys [links]} @process]
    (vswap! process assoc :dead true :links [])
    (doseq [l links] (a/offer! l :exit))))

(defn- link [process slowly?]
  (let [signal (a/chan 1)
        dead (:dead @process)]
    (when slowly? (switch-point))
    (if dead
      (a/offer! signal :exit)
      (vswap! process update :links conj signal))
    signal))

(defn- link-program [slowly?]
  (let [process (volatile! {:links []})
        linked (a/go (a/<! (link process slowly?)))]
    (die process)
    (= :exit (a/<! linked))))

(defn missed-exit
  "The other dies between the look at its life and the link."
  []
  (link-program true))

(defn seen-exit
  "No death in between."
  []
  (link-program false))

;; --- a program that fails only if one fiber does twenty steps before another does one

(defn starved
  "False if the second fiber has done all its steps before the first one has done one."
  []
  (let [first-step (volatile! nil)
        steps (volatile! 0)
        a (a/go (switch-point) (switch-point) (vreset! first-step @steps) :done)
        b (a/go (dotimes [_ 40] (switch-point) (vswap! steps inc)) :done)]
    (a/<! a)
    (a/<! b)
    (not= 40 @first-step)))
