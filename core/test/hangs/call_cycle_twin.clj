;; What hangs: a cycle of three calls through a raw process: the server :loans calls the server :accounts,
;; which calls the raw process :auditor, which calls :loans. All calls wait without a limit.
;; Innocent beside it: the same shape without a cycle. :letters calls :labels, :labels calls the raw process
;; :printer, which works for 10 ms and answers. The server :returns is idle.
;;
;; Expected answer
;;   kind   :deadlock, a cycle of three: :loans -> :accounts -> :auditor -> :loans
;;   names  :loans, :accounts, :auditor
;;   lines  [A] :loans calls :accounts; [B] :accounts calls :auditor; [C] :auditor calls :loans
;;   victim the go block of [client], which waits for :loans
;;   never  :letters, :labels, :printer, :returns; the go block of [writer]; the line [L]
(ns call-cycle-twin
  (:require
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]))

(def ^:private loans
  {:init (fn [_] [:ok nil])
   :handle-call (fn [[_ customer] _client state]
                  (let [limit (gs/call :accounts [:limit customer] {:timeout :infinity})] ; [A]
                    [:reply limit state]))})

(def ^:private accounts
  {:init (fn [_] [:ok nil])
   :handle-call (fn [[_ customer] _client state]
                  (let [limit (gs/call :auditor [:check customer] {:timeout :infinity})] ; [B]
                    [:reply limit state]))})

(defn- auditor [asked]
  (receive
    [:magnetar/call client [:check customer]]
    (do
      (deliver asked true)
      (gs/reply client (gs/call :loans [:open customer] {:timeout :infinity})) ; [C]
      (recur asked))))

(def ^:private letters
  {:init (fn [_] [:ok nil])
   :handle-call (fn [address _client state]
                  [:reply (gs/call :labels address {:timeout :infinity}) state])}) ; [L]

(def ^:private labels
  {:init (fn [_] [:ok nil])
   :handle-call (fn [address _client state]
                  [:reply (gs/call :printer [:print address] {:timeout :infinity}) state])})

(def ^:private returns
  {:init (fn [_] [:ok 0])
   :handle-call (fn [_ _client n] [:reply n n])})

(defn- printer []
  (receive
    [:magnetar/call client [:print address]]
    (do
      (scope/sleep 10)
      (gs/reply client [:printed address])
      (recur))))

(defn- messages [name]
  (some-> (actor/whereis name) inspect/mailbox :messages))

(defn start []
  (let [asked (promise)
        running (atom true)]
    (gs/start loans nil {:name :loans})
    (gs/start accounts nil {:name :accounts})
    (actor/spawn-opt auditor asked {:name :auditor})
    (gs/start letters nil {:name :letters})
    (gs/start labels nil {:name :labels})
    (actor/spawn-opt printer {:name :printer})
    (gs/start returns nil {:name :returns})
    (a/go ; [client]
      (gs/call :loans [:ask "ada"] {:timeout :infinity}))
    (let [written (a/go ; [writer]
                    (while @running
                      (gs/call :letters "Main Street 1" {:timeout :infinity})))]
      {:ready #(and (realized? asked) (= 1 (messages :loans)))
       :stop #(do
                (reset! running false)
                (a/<! written)
                (doseq [name [:loans :accounts :auditor :letters :labels :printer :returns]]
                  (some-> (actor/whereis name) (actor/exit :kill))))})))
