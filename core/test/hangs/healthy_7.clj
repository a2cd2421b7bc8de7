;; Healthy: much that is idle, and may be idle for hours. Twenty servers, ten of them passivated. A state
;; agent, an event manager, a pool of workers, a process in a receive. Two threads of an executor of the JDK,
;; which wait for a task. A fiber that waits for the shutdown of the program, on a channel that `:stop`
;; closes.
;;
;; Expected answer: nothing is stuck, deadlocked or leaked.
(ns healthy-7
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.agent :as agent]
   [magnetar.async :as a]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.pool :as pool])
  (:import
   (java.util.concurrent Callable Executors ExecutorService)))

(def ^:private account
  {:init (fn [n] [:ok n])
   :handle-call (fn [_ _client n] [:reply n n])
   :handle-cast (fn [k n] [:noreply (+ n k)])})

(def ^:private tally
  {:name 'healthy-7/tally
   :init (fn [n] [:ok n])
   :handle-event (fn [_event n] [:ok (inc n)])})

(defn- wait-for-mail []
  (receive
    [:mail _text] (recur)
    :stop :stopped))

(defn- warm-up [^ExecutorService executor]
  (dotimes [_ 2]
    (.submit executor ^Callable (fn [] :warm))))

(defn start []
  (let [servers (vec (for [n (range 20)]
                       (second (gs/start account n {:hosting (if (even? n) :threaded :activated)}))))
        _ (agent/start (fn [] {}) {:name :healthy-settings})
        _ (ge/start {:name :healthy-events})
        _ (pool/start {:name :healthy-pool :worker [gs/start-link account 0] :size 3})
        reader (actor/spawn-opt wait-for-mail {:name :healthy-mail})
        executor (doto (Executors/newFixedThreadPool 2) warm-up)
        shutdown (a/chan)]
    (ge/add-handler :healthy-events tally 0)
    (a/go (a/<! shutdown))
    {:ready #(and (= 0 (gs/call (first servers) :get))
                  (= :waiting (actor/process-info reader :status)))
     :stop #(do
              (run! gs/stop servers)
              (agent/stop :healthy-settings)
              (ge/stop :healthy-events)
              (gs/stop :healthy-pool)
              (actor/exit reader :kill)
              (.shutdown executor)
              (a/close! shutdown))}))
