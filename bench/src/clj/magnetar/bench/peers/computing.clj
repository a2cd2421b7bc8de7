(ns magnetar.bench.peers.computing
  "Magnetar in the suite `computing`, through its public API: go blocks that compute beside others that wait and a server."
  (:require
   [magnetar.actor :as actor :refer [spawn]]
   [magnetar.async :as async :refer [<! <!! go]]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope])
  (:import
   (java.util.concurrent.atomic AtomicBoolean)))

(set! *warn-on-reflection* true)

(set! *unchecked-math* true)

(def ^:private adder
  {:init (fn [_] [:ok 0])
   :handle-call (fn [n _ sum] (let [sum (+ (long sum) (long n))] [:reply sum sum]))})

(defn- compute
  "Computes and never parks, until it may stop."
  [^AtomicBoolean stop]
  (go (loop [x 1]
        (if (.get stop)
          x
          (recur (bit-and (+ (* x 1103) 12345) 0x7fffffff))))))

(defn- before? [^long time ^long end]
  (neg? (- time end)))

(defn- tick
  "The ticks before the end."
  [end]
  (go (loop [n 0]
        (<! (async/timeout 10))
        (if (before? (System/nanoTime) end)
          (recur (inc n))
          n))))

(defn- calls
  "When each call began, and how long it took, in microseconds: one number after the other."
  [server start end]
  (let [start (long start)]
    (loop [found []]
      (let [before (System/nanoTime)]
        (if (before? before end)
          (let [_ (gs/call server 1)
                took (- (System/nanoTime) before)]
            (scope/sleep 1)
            (recur (conj found (quot (- before start) 1000) (quot took 1000))))
          found)))))

(defn- computing
  "The ticks of all tickers, and the calls, as one vector."
  [loops tickers ms]
  (let [server (actor/join (spawn (fn [] (second (gs/start adder nil)))))
        stop (AtomicBoolean.)
        start (System/nanoTime)
        end (+ start (* 1000000 (long ms)))
        ticking (vec (repeatedly tickers #(tick end)))
        calling (spawn calls server start end)
        computing (vec (repeatedly loops #(compute stop)))]
    (Thread/sleep (long ms))
    (.set stop true)
    (run! <!! computing)
    (let [ticks (reduce + (map <!! ticking))
          found (actor/join calling)]
      (actor/exit server :kill)
      (into [ticks] found))))

(def workloads
  "What it can be asked, as part of `magnetar.bench.peers.ours`.

  Example: ((workloads \"computing\") 4 100 3000) => [27000 12 5 ..]"
  {"computing" computing})
