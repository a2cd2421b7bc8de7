(ns tickets.ledger
  "What stands for a database: keeps the number of the last ticket, outside of the cluster.

  Each request has a fencing token. One with an older token than the ledger has seen is refused: it is from an office
  that does not know yet that another one has taken over."
  (:require
   [clojure.edn :as edn]
   [magnetar.actor :as actor]
   [magnetar.net :as net]))

(set! *warn-on-reflection* true)

;; ---- the ledger

(defn- written
  "The ledger after the request."
  [{:keys [token last] :as ledger} [what theirs number]]
  (cond
    (< (long theirs) (long token)) (assoc ledger :answer :stale)
    (= :open what) (assoc ledger :token theirs :answer last)
    :else (assoc ledger :token theirs :last number :answer :ok)))

(defn- answer-all [ledger conn]
  (loop []
    (when-some [line (net/recv conn)]
      (net/send conn (str (pr-str (:answer (swap! ledger written (edn/read-string line)))) "\n"))
      (recur))))

(defn- serve
  "Is one connection, and starts the process of the next one."
  [ledger listener]
  (try
    (let [conn (net/accept listener)]
      (actor/spawn serve ledger listener)
      (answer-all ledger conn))
    (catch clojure.lang.ExceptionInfo _))) ; the node was killed, or the ledger is gone

(defn start
  "Starts a ledger, and returns its port. It ends with this process."
  []
  (let [listener (net/listen 0 {:host "127.0.0.1" :packet :line :as :string :active false})]
    (actor/spawn serve (atom {:token 0 :last 0}) listener)
    (net/port listener)))

;; ---- for an office

(defn connect
  "A connection to the ledger at this port."
  [port]
  (net/connect "127.0.0.1" port {:packet :line :as :string :active false}))

(defn- ask [conn request]
  (net/send conn (str (pr-str request) "\n"))
  (edn/read-string (net/recv conn {:timeout 2000})))

(defn open
  "The number of the last ticket; from now on older tokens are refused. Or :stale, if this one is."
  [conn token]
  (ask conn [:open token]))

(defn write
  "Notes the number of a ticket that is sold: :ok, or :stale."
  [conn token number]
  (ask conn [:write token number]))
