(ns magnetar.impl.mult
  "Copies each value of a channel to many."
  {:no-doc true}
  (:require [magnetar.impl.fibers :refer [background]]
            [magnetar.impl.ports :as ports])
  (:import (java.util.concurrent.atomic AtomicInteger)
           (magnetar.kernel.channel Callback)))

(set! *warn-on-reflection* true)

;; State: channel -> {:close? .., :pending the Callback of a put that waits, with the function that counts it as done}.

(defn- tapped? [state ch]
  (contains? @state ch))

(defn- give-up
  "Takes back a put that waits for a tap which was removed meanwhile."
  [{:keys [^Callback callback done]}]
  (when (and callback (.cancel callback))
    (done)))

(defn tap [state ch close?]
  (swap! state assoc-in [ch :close?] close?)
  nil)

(defn untap [state ch]
  (let [[before _] (swap-vals! state dissoc ch)]
    (give-up (:pending (before ch))))
  nil)

(defn untap-all [state]
  (let [[before _] (reset-vals! state {})]
    (run! (comp give-up :pending) (vals before)))
  nil)

(defn- note-pending [taps ch pending]
  (cond-> taps (contains? taps ch) (assoc-in [ch :pending] pending)))

(defn- settle [state ch accepted? done]
  (when-not accepted? (untap state ch))
  (done))

(defn- give
  "Puts the value on one tap; calls `done` once, when it was accepted, refused or taken back."
  [state ch value done]
  (let [callback (Callback. (ports/completion (fn [accepted?] (settle state ch accepted? done))) true)]
    (swap! state note-pending ch {:callback callback :done done})
    (let [answer (ports/put-later ch value callback)]
      (cond
        (not (ports/pending? answer)) (settle state ch answer done)
        (not (tapped? state ch)) (give-up {:callback callback :done done})))))

(defn- distribute
  "Gives the value to all taps and waits until each has settled."
  [state value]
  (when-some [chs (keys @state)]
    (let [left (AtomicInteger. (count chs))
          all (magnetar.impl.fibers/result-channel)
          done #(when (zero? (.decrementAndGet left)) (ports/close all))]
      (doseq [ch chs]
        (give state ch value done))
      (ports/take all))))

(defn- close-taps [state]
  (doseq [[ch {:keys [close?]}] @state :when close?]
    (ports/close ch)))

(defn start
  "Starts the fiber that copies from `ch` to the taps in `state`."
  [ch state]
  (background "mult"
    (loop []
      (let [value (ports/take ch)]
        (if (nil? value)
          (close-taps state)
          (do (distribute state value)
              (recur)))))))
