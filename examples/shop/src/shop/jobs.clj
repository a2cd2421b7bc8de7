(ns shop.jobs
  "The queue: jobs in a table, each with the time at which it is due.

  A worker claims a job by a row lock that other workers skip, also in other programs. The claim moves `due` into the future. If
  the job has not ended until then, as after a crash of the worker or of its program, it is claimed again. The number of attempts
  tells an old claim from a newer one."
  (:require
   [clojure.java.jdbc :as jdbc]
   [magnetar.resilience :as r]
   [shop.db :as db]))

(set! *warn-on-reflection* true)

(def max-attempts "A job that has failed so often is dead." 6)

(def states "The states of a job." ["ready" "running" "done" "dead"])

(def lease "For how many milliseconds a claim is good. The call of an outside service takes less." 15000)

(def ^:private longest-sleep 1000)

(def backoff
  "The pause in milliseconds after the nth failure: it doubles, and a random share keeps jobs from coming back together."
  (r/exponential {:initial 200 :max 30000}))

(defn- now ^long []
  (System/currentTimeMillis))

(defn add
  "Adds a job, in the transaction of what it follows from."
  [tx order-id step]
  (jdbc/insert! tx :jobs {:order_id order-id :step step :state "ready" :attempts 0 :due (now)}))

(defn claim
  "Claims the job that is due first, for one worker; nil if no job is due."
  [db]
  (db/transaction [tx db]
    (when-some [{:keys [id attempts] :as job}
                (first (jdbc/query tx ["select id, order_id, step, attempts from jobs where state in ('ready', 'running') and due <= ?
                                        order by due limit 1 for update skip locked" (now)]))]
      (let [claimed {:state "running" :attempts (inc (long attempts)) :due (+ (now) (long lease))}]
        (when (= [1] (jdbc/update! tx :jobs claimed ["id = ? and attempts = ?" id attempts]))
          (merge job claimed))))))

(defn- end-claim
  "Writes what became of a claimed job. False if the claim is an old one."
  [tx {:keys [id attempts]} changes]
  (= [1] (jdbc/update! tx :jobs changes ["id = ? and state = 'running' and attempts = ?" id attempts])))

(defn done
  "The claimed job is done. False if the claim is an old one."
  [tx job]
  (end-claim tx job {:state "done"}))

(defn failed
  "The claimed job has failed for that reason: it is due again after a pause, or dead. Returns :again or :dead; nil if the claim is an
  old one."
  [tx {:keys [attempts] :as job} why]
  (let [again? (< (long attempts) (long max-attempts))]
    (when (end-claim tx job {:state (if again? "ready" "dead")
                             :due (+ (now) (if again? (long (backoff attempts)) 0))
                             :last_error (subs why 0 (min 500 (count why)))})
      (if again? :again :dead))))

;; An order has one job at a time that waits or runs. How many orders have one stands in a row of its own, so that no order counts
;; the jobs, and orders of several programs at once do not pass the bound. The row is locked from its change to the end of the
;; transaction. So that is the last statement, and orders wait for the commit of one another, no longer.

(defn room?
  "Do fewer orders wait now? Another one may take the place."
  [tx max-queue]
  (seq (jdbc/query tx ["select 1 from queue where waiting < ?" max-queue])))

(defn take-place
  "Takes a place in the queue for a new order, as the last statement of its transaction. False if so many orders wait, or more."
  [tx max-queue]
  (= [1] (jdbc/execute! tx ["update queue set waiting = waiting + 1 where waiting < ?" max-queue])))

(defn leave-place
  "Leaves the place of an order, as the last statement of the transaction that ends it."
  [tx]
  (jdbc/execute! tx ["update queue set waiting = waiting - 1"]))

(defn open-jobs
  "The jobs that are not done, the dead ones first; at most a hundred."
  [db]
  (db/query db ["select id, order_id, step, state, attempts, due, last_error from jobs where state in ('ready', 'running', 'dead')
                 order by case state when 'dead' then 0 else 1 end, due limit 100"]))

(defn sleep-time
  "For how many milliseconds no job is due, as far as is known now."
  [db]
  (let [[{:keys [due]}] (db/query db ["select min(due) as due from jobs where state in ('ready', 'running')"])]
    (if due
      (max 0 (min (long longest-sleep) (- (long due) (now))))
      longest-sleep)))
