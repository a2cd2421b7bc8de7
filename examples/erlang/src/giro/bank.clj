(ns giro.bank
  "A day of two banks: one on this node, one on a BEAM, and what came of it."
  (:require
   [giro.courier :as courier]
   [giro.killer :as killer]
   [giro.ledger :as ledger]
   [giro.machine :as machine]
   [giro.tally]
   [giro.teller :as teller]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]))

(set! *warn-on-reflection* true)

(def here
  "The name of this node."
  "clojure@127.0.0.1")

(def there
  "The name of the BEAM."
  "erlang@127.0.0.1")

(def at-first
  "The money of both banks at first."
  (* 2 (long ledger/accounts) (long ledger/balance)))

;; ---- the bank on this node

(defn- started [[how x]]
  (when-not (= :ok how)
    (throw (ex-info (str "The bank does not open: " (pr-str x)) {:reason x})))
  x)

(defn- start-bank [folder port mode]
  (started (sup/start-link
             {:intensity 100000
              :period 1000
              :children [{:id :erlang :shutdown 10000
                          :start [erlang/start-link {:name here
                                                     :cookie-file (machine/cookie-file folder)
                                                     :epmd port
                                                     :spawnable #{#'courier/run}}]}
                         {:id :tally :start [gs/start-link 'giro.tally nil {:name :giro_tally}]}
                         {:id :ledger :start [gs/start-link 'giro.ledger mode {:name :giro_ledger}]}]}
             {:name :giro_bank})))

(def ^:private couriers
  {:id :couriers :type :supervisor :start [courier/start-link there]})

;; ---- a day

(defn- books
  "What the ledgers say, here and there."
  []
  (mapv #(gs/call % :books) [:giro_ledger [:giro_ledger there]]))

(defn- await-end-of-work
  "Waits until no transfer is open."
  []
  (loop [tries 3000]
    (when-not (every? #(zero? (long (:open %))) (books))
      (when (zero? tries)
        (throw (ex-info "Transfers are still open a minute after the last payment." {:books (books)})))
      (scope/sleep 20)
      (recur (dec tries)))))

(defn- stop-killer [killer]
  (! killer [:stop (self)])
  (receive
    [:hits hits] hits
    [:EXIT killer why] (throw (ex-info (str "The killer has failed: " (pr-str why)) {:reason why}))))

(defn- day
  "Payments and kills until (until) has returned, and then what is left of the work. Returns what came of it."
  [until seed note]
  (started (sup/start-child :giro_bank couriers))
  (note :open)
  (try
    (let [tellers [(actor/spawn-link teller/run :giro_ledger :here (inc (long seed)))
                   (actor/spawn-link teller/run [:giro_ledger there] :there (+ 2 (long seed)))]
          killer (actor/spawn-link killer/run there seed note)]
      (until)
      (let [hits (stop-killer killer)]
        (run! #(! % :stop) tellers)
        (run! actor/join tellers)
        (await-end-of-work)
        (merge {:hits hits :books (books)} (gs/call :giro_tally :counts))))
    (finally
      (sup/terminate-child :giro_bank :couriers))))

(defn run
  "A day of the banks, which ends when (until) returns. Returns {:hits :books :started :connected}.

  note is called with :open, and with each target that is struck. With :careless a deposit that is repeated is
  booked again."
  [{:keys [until seed careless note]}]
  (let [silent (report/add-hook :report (fn [_])) ; of each courier that ends
        mode (if careless :careless :careful)
        folder (machine/prepare)]
    (try
      (machine/with-epmd folder
        (fn [port]
          (actor/with-process {:trap-exit true}
            (start-bank folder port mode)
            (try
              (machine/with-beam folder port there here (name mode) #(day until seed note))
              (finally (gs/stop :giro_bank))))))
      (finally (report/remove-hook :report silent)))))

(defn money
  "The money of both banks at the end."
  [{:keys [books]}]
  (apply + (map :money books)))

(defn balanced?
  "Is all money there, and has each transfer been booked?"
  [{:keys [books] :as outcome}]
  (and (= at-first (money outcome))
       (= (map :sent books) (map :booked (rseq books)))))
