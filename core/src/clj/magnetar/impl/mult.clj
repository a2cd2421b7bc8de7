(ns magnetar.impl.mult
  "Copies each value of a channel to many."
  {:no-doc true}
  (:require
   [magnetar.impl.environment :as environment]
   [magnetar.impl.fibers :refer [background]]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent.atomic AtomicBoolean AtomicInteger)
   (magnetar.kernel.channel Callback Channel)))

(set! *warn-on-reflection* true)

;; State: channel -> {:number .., :close? .., :done ..}, the last one while the tap has not finished: the function that counts it as settled.
;; The number gives the order of the taps in a simulation.

(defn- finish-once
  "A function of no arguments that counts `left` down the first time it is called, and closes `all` at zero."
  [^AtomicInteger left all]
  (let [open (AtomicBoolean. true)]
    #(when (.compareAndSet open true false)
       (when (zero? (.decrementAndGet left))
         (ports/close all)))))

(defn- give-up
  "Stops waiting for a tap that was removed; the value it has not taken yet is left for the next take from it."
  [{:keys [done]}]
  (when done (done)))

(defn tap [state ch close?]
  (let [number (environment/number)]
    (swap! state update ch #(assoc % :close? close? :number (:number % number))))
  nil)

(defn untap [state ch]
  (let [[before _] (swap-vals! state dissoc ch)]
    (give-up (before ch)))
  nil)

(defn- in-order [taps]
  (environment/in-order #(:number (val %)) taps))

(defn untap-all [state]
  (let [[before _] (reset-vals! state {})]
    (run! (comp give-up val) (in-order before)))
  nil)

(defn- note [taps ch done]
  (cond-> taps (contains? taps ch) (assoc-in [ch :done] done)))

(defn- finish [state ch accepted? done]
  (when-not accepted? (untap state ch))
  (done))

(defmacro ^:private or-report
  "The answer of a put; false, so that the tap is removed, if it refuses with an error: too many callbacks wait on it, or its own code threw."
  [put]
  `(try
     ~put
     (catch Throwable e#
       (reports/report e#)
       false)))

(defn- offer
  "Puts the value on one tap if that is possible at once. False if the tap has to be waited for; true if it has finished, or was removed.
  A port of the program is waited for: it might keep a value that it was only offered, and would then get it twice."
  [state ch value]
  (cond
    (not (instance? Channel ch)) false
    (contains? @state ch) (let [answer (or-report (ports/offer ch value))]
                            (when (false? answer) (untap state ch))
                            (not (ports/pending? answer)))
    :else true))

(defn- give
  "Puts the value on one tap; calls `done` once it was accepted or refused, or the tap was removed."
  [state ch value done]
  (if (contains? (swap! state note ch done) ch)
    (let [later (ports/completion (fn [accepted?] (finish state ch accepted? done)))
          answer (or-report (ports/put-later ch value (Callback. later true)))]
      (when-not (ports/pending? answer)
        (finish state ch answer done)))
    (done)))

(defn- give-later
  "Gives the value to a tap that has to be waited for. Returns [left all] of `finish-once`, made for the first such tap. `left` starts at one,
  so that `all` is not closed before the last tap was given the value."
  [state value waits ch]
  (let [[^AtomicInteger left all :as waits] (or waits [(AtomicInteger. 1) (Channel/rendezvous)])]
    (.incrementAndGet left)
    (give state ch value (finish-once left all))
    waits))

(defn- distribute
  "Gives the value to all taps and waits until each has finished. Most accept at once, and need nothing that is called later."
  [state value]
  (when-some [[^AtomicInteger left all]
              (reduce (fn [waits tap]
                        (let [ch (key tap)]
                          (if (offer state ch value) waits (give-later state value waits ch))))
                      nil
                      (in-order @state))]
    (when-not (zero? (.decrementAndGet left))
      (ports/take all))))

(defn- close-taps [state]
  (doseq [[ch {:keys [close?]}] (in-order @state) :when close?]
    (ports/close ch)))

(defn start
  "Starts the fiber that copies from `ch` to the taps in `state`."
  [site ch state]
  (background site
    (loop []
      (let [value (ports/take ch)]
        (if (nil? value)
          (close-taps state)
          (do (distribute state value)
              (recur)))))))
