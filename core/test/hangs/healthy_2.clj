;; Healthy: requests and replies between servers. :shop calls :prices, and :prices answers later, by a process
;; that works for 5 ms. :shop casts to :statistics, which calls :prices too. A raw process answers calls. Six
;; clients call :shop all the time, so its mailbox is never empty for long.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-2
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope]))

(def ^:private prices
  {:init (fn [_] [:ok 0])
   :handle-call (fn [article client n]
                  (actor/spawn (fn []
                                 (scope/sleep 5)
                                 (gs/reply client [article (inc n)])))
                  [:noreply (inc n)])})

(def ^:private shop
  {:init (fn [_] [:ok nil])
   :handle-call (fn [article _client state]
                  (let [price (gs/call :healthy-prices article {:timeout :infinity})]
                    (gs/cast :healthy-statistics [:asked article])
                    [:reply [price (gs/call :healthy-clock :now {:timeout :infinity})] state]))})

(def ^:private statistics
  {:init (fn [_] [:ok {}])
   :handle-cast (fn [[_ article] counts]
                  (when (zero? (rem (counts article 0) 10))
                    (gs/call :healthy-prices article {:timeout :infinity}))
                  [:noreply (update counts article (fnil inc 0))])})

(defn- clock []
  (receive
    [:magnetar/call client :now] (do
                                   (gs/reply client (System/currentTimeMillis))
                                   (recur))))

(defn- buy [running done]
  (while @running
    (gs/call :healthy-shop (rand-nth [:apple :pear :plum]) {:timeout :infinity})
    (swap! done inc)))

(defn start []
  (let [running (atom true)
        done (atom 0)]
    (gs/start prices nil {:name :healthy-prices})
    (gs/start statistics nil {:name :healthy-statistics})
    (gs/start shop nil {:name :healthy-shop})
    (actor/spawn-opt clock {:name :healthy-clock})
    (let [clients (vec (for [_ (range 6)]
                         (a/go (buy running done))))]
      {:ready #(< 20 @done)
       :stop #(do
                (reset! running false)
                (run! a/<! clients)
                (run! gs/stop [:healthy-shop :healthy-statistics :healthy-prices])
                (actor/exit (actor/whereis :healthy-clock) :kill))})))
