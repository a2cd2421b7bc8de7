;; Healthy: waits that seem to be in a cycle, and that something else ends. :healthy-till calls :healthy-bank,
;; which passes the call on and calls the till back. The answer comes 60 ms later. A fork waits for the fiber
;; whose scope it is in, and another fork wins the race. Two fibers wait for each other until the deadlines
;; of their scopes.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-11
  (:require
   [magnetar.actor :as actor]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope :refer [with-scope fork]]))

(def ^:private bank
  {:init (fn [_] [:ok nil])
   :handle-call (fn [_pay client state]
                  (actor/spawn (fn []
                                 (scope/sleep 60)
                                 (gs/reply client :paid)))
                  (gs/cast :healthy-bank :ask)
                  [:noreply state])
   :handle-cast (fn [_ask state]
                  (gs/call :healthy-till :address {:timeout :infinity})
                  [:noreply state])})

(def ^:private till
  {:init (fn [_] [:ok nil])
   :handle-call (fn [request _client state]
                  [:reply (if (= :buy request) (gs/call :healthy-bank :pay {:timeout :infinity}) :home) state])})

(defn- buy []
  (gs/call :healthy-till :buy {:timeout :infinity}))

(defn- first-of-two [own]
  (with-scope [s {:joiner scope/race}]
    (fork s (fn [] (a/<! @own)))
    (fork s scope/sleep 60)))

(defn- race []
  (let [own (promise)
        winner (a/go (first-of-two own))]
    (deliver own winner)
    (a/<! winner)))

(defn- take-for-a-while [other]
  (try
    (with-scope [_ {:deadline 70}]
      (a/<! @other))
    (catch clojure.lang.ExceptionInfo _ :late)))

(defn- meet []
  (let [[one other] (repeatedly 2 promise)
        fibers (vec (for [other [one other]]
                      (a/go (take-for-a-while other))))]
    (deliver one (fibers 1))
    (deliver other (fibers 0))
    (run! a/<! fibers)))

(defn- repeatedly-do [running done f]
  (while @running
    (f)
    (swap! done inc)))

(defn start []
  (gs/start bank nil {:name :healthy-bank})
  (gs/start till nil {:name :healthy-till})
  (let [running (atom true)
        done (atom 0)
        fibers (vec (for [f [buy race meet]]
                      (a/go (repeatedly-do running done f))))]
    {:ready #(< 10 @done)
     :stop #(do
              (reset! running false)
              (run! a/<! fibers)
              (run! gs/stop [:healthy-till :healthy-bank]))}))
