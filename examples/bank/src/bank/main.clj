(ns bank.main
  "A bank that balances while its accounts are killed."
  (:require
   [bank.account]
   [bank.books :as books]
   [bank.killer :as killer]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.supervisor :as sup])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(def ^:private accounts 20)
(def ^:private start-balance 1000)
(def ^:private clients 4)

(defn- address [id]
  (keyword "account" (str id)))

(defn- start-accounts [supervisor url transfer killer]
  (dotimes [id accounts]
    (let [account {:id id :url url :transfer transfer :between #(killer/between killer)}
          [how why] (sup/start-child supervisor {:start [gs/start-link 'bank.account account {:name (address id)}]})]
      (when (not= :ok how)
        (throw (ex-info "An account does not start." {:why why}))))))

(defn- pay
  "One transfer between two accounts at random; did it succeed?"
  []
  (let [[payer payee] (take 2 (shuffle (range accounts)))]
    (try
      (= :paid (gs/call (address payer) [:pay payee (inc (long (rand-int 10)))]))
      (catch ExceptionInfo _ false))))

(defn- client
  "Pays until the time, then tells the boss how often it worked and how often not."
  [boss ^long deadline]
  (loop [paid 0 failed 0]
    (cond
      (< deadline (System/nanoTime)) (! boss [:client paid failed])
      (pay) (recur (inc paid) failed)
      :else (recur paid (inc failed)))))

(defn- collect []
  (reduce (fn [[paid failed] _]
            (receive [:client more-paid more-failed] [(+ (long paid) (long more-paid)) (+ (long failed) (long more-failed))]))
          [0 0]
          (range clients)))

(defn- day
  "One day at the bank: transfers by many, while accounts are killed."
  [url seconds transfer]
  (books/open url accounts start-balance)
  (let [[_ supervisor] (sup/start-link {:strategy :dynamic :intensity 1000000 :period 1000})
        deadline (+ (System/nanoTime) (* 1000000000 (long seconds)))
        killer (actor/spawn killer/run supervisor)]
    (start-accounts supervisor url transfer killer)
    (dotimes [_ clients] (actor/spawn client (self) deadline))
    (let [[paid failed] (collect)]
      (! killer [:stop (self)])
      (let [kills (receive [:kills kills] kills)]
        (gs/stop supervisor)
        (merge kills {:paid paid :failed failed} (books/audit url start-balance))))))

(defn- report [{:keys [random between paid failed total transfers wrong]}]
  (println "transfers" paid "answered," failed "not," transfers "in the ledger")
  (println "kills    " random "at random," between "between debit and credit")
  (println "books    " total "of" (* (long accounts) (long start-balance)) "there," wrong "accounts differ from the ledger"))

(defn balanced?
  "Is all the money there, and does each account hold what the ledger says?"
  [{:keys [total wrong]}]
  (and (= total (* (long accounts) (long start-balance))) (zero? (long wrong))))

(defn run
  "Opens the bank for so many seconds, with transactions or careless; returns what came of it."
  [{:keys [seconds careless url] :or {seconds 60 url books/embedded}}]
  (let [silent (report/add-hook :report (fn [_]))]
    (try
      (actor/with-process {:trap-exit true}
        (day url seconds (if careless books/careless-transfer books/transfer)))
      (finally (report/remove-hook :report silent)))))

(defn -main
  "Arguments: seconds, 60 if left out; `careless`; the address of another database."
  [& arguments]
  (let [seconds (some #(when (re-matches #"\d+" %) (parse-long %)) arguments)
        url (some #(when (re-matches #"jdbc:.*" %) %) arguments)
        careless (boolean (some #{"careless"} arguments))
        outcome (run (cond-> {:careless careless} seconds (assoc :seconds seconds) url (assoc :url url)))]
    (report outcome)
    (println (if (balanced? outcome) "The books balance." "The books do not balance."))
    (shutdown-agents)
    (System/exit (if (balanced? outcome) 0 1))))
