(ns magnetar.pool.desk
  "The callbacks of a pool, which is a server and traps exits.

  Its state, besides the options: :free, the workers that are not lent; :loans, from the reference of the monitor of its borrower to a loan
  {:monitor :ref :from :borrower :worker}, whose :worker is nil and whose :n is its number while it waits; :lent, from worker to monitor; :waiting, from number to
  monitor, in order; :workers, the set of all whose end it has not heard of."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.supervisor.children :as children]))

(set! *warn-on-reflection* true)

;; ---- workers

(defn- start-worker
  "[:ok pid state] or [:failed why]."
  [{:keys [start] :as state}]
  (let [[how pid] (children/start {:start start})]
    (if (= :ok how)
      (do
        (actor/link pid) ; a start that forgot to: its end would never be heard of
        [:ok pid (update state :workers conj pid)])
      [:failed (if (= :ignore how) :ignore pid)])))

(defn- as-child [{:keys [shutdown]} pid]
  {:id :worker :pid pid :shutdown shutdown :restart :temporary})

;; `children/stop-all` takes whatever DOWN comes, so it is for the end of the pool only: before, one may be about a borrower.
(defn- stop-workers [{:keys [who shutdown] :as state} pids]
  (children/stop-all (or who (actor/self)) (mapv #(as-child state %) pids) shutdown))

(defn- retire
  "Stops a worker that is one too many."
  [{:keys [who] :as state} worker]
  (children/stop (or who (actor/self)) (as-child state worker))
  (update state :workers disj worker))

(defn- take-free
  "[worker state] with the next free worker that lives; nil for it if there is none. Of one that has died the exit signal is on its way."
  [{:keys [free order] :as state}]
  (let [living (filterv actor/alive? free)
        worker (if (= :lifo order) (peek living) (first living))]
    [worker (assoc state :free (filterv #(not= worker %) free))]))

;; ---- loans

(defn- lend [state {:keys [monitor from n] :as loan} worker]
  (gs/reply from [:ok worker])
  (-> state
      (update :waiting dissoc n)
      (assoc-in [:loans monitor] (assoc loan :worker worker))
      (assoc-in [:lent worker] monitor)))

(defn- forget-loan [state {:keys [monitor n worker]}]
  (actor/demonitor monitor {:flush true})
  (-> state
      (update :loans dissoc monitor)
      (update :waiting dissoc n)
      (update :lent dissoc worker)))

(defn- next-loan [{:keys [waiting loans]}]
  (some-> (first waiting) val loans))

(defn- offer
  "The state once a worker is not lent any more. The next waiting borrower gets it; else it is free, or stopped if it is one too many."
  [{:keys [workers size] :as state} worker]
  (let [loan (next-loan state)]
    (cond
      (not (actor/alive? worker)) state ; the signal of its end is on its way
      loan (lend state loan worker)
      (< (long size) (count workers)) (retire state worker)
      :else (update state :free conj worker))))

(defn- room? [{:keys [workers size overflow]}]
  (< (count workers) (+ (long size) (long overflow))))

(defn- replace-worker
  "The state once a worker has died. The next waiting borrower gets a new one, or is told that it did not start."
  [state]
  (let [loan (next-loan state)]
    (if (and loan (room? state))
      (let [[how x started] (start-worker state)]
        (if (= :ok how)
          (recur (lend started loan x))
          (do
            (gs/reply (:from loan) [:failed x])
            (recur (forget-loan state loan)))))
      state)))

(defn- end-loan
  "The borrower has given its worker back, has given up, or is dead."
  [state {:keys [worker] :as loan}]
  (let [state (forget-loan state loan)]
    (if worker (offer state worker) state)))

;; ---- requests

(defn- loan-of [[borrower :as from] ref]
  {:monitor (actor/monitor borrower) :ref ref :from from :borrower borrower})

(defn- wait-in-line [{:keys [next] :as state} from ref]
  (let [{:keys [monitor] :as loan} (assoc (loan-of from ref) :n next)]
    [:noreply (-> state
                  (update :next inc)
                  (assoc-in [:loans monitor] loan)
                  (assoc-in [:waiting next] monitor))]))

(defn- start-one-more [state from ref]
  (let [[how x started] (start-worker state)]
    (if (= :ok how)
      [:noreply (lend started (loan-of from ref) x)]
      [:reply [:failed x] state])))

(defn- checkout [{:keys [waiting max-waiting] :as state} from ref]
  (let [[worker taken] (take-free state)]
    (cond
      worker [:noreply (lend taken (loan-of from ref) worker)]
      (room? state) (start-one-more state from ref)
      (< (count waiting) (long max-waiting)) (wait-in-line state from ref)
      :else [:reply [:full (count waiting)] state])))

(defn- loan-to [{:keys [loans lent]} worker borrower]
  (let [loan (loans (lent worker))]
    (cond
      (nil? loan) :free
      (= borrower (:borrower loan)) loan
      :else :lent)))

(defn- checkin
  "[answer state] of a worker that comes back."
  [state worker borrower]
  (let [loan (loan-to state worker borrower)]
    (if (map? loan)
      [:ok (end-loan state loan)]
      [loan state])))

(defn- status [{:keys [size overflow workers lent waiting]}]
  {:size size :overflow overflow :workers (count workers) :free (- (count workers) (count lent)) :lent (count lent) :waiting (count waiting)})

;; ---- callbacks

(defn- start-all [{:keys [size] :as state}]
  (if (= size (count (:workers state)))
    [:ok state]
    (let [[how x started] (start-worker state)]
      (if (= :ok how)
        (recur (update started :free conj x))
        (do
          (stop-workers state (:free state))
          [:stop [:worker x]])))))

(defn- init [options]
  (actor/flag :trap-exit true)
  (start-all (assoc options :free [] :loans {} :lent {} :waiting (sorted-map) :workers #{} :next 0)))

(defn- handle-call [request [caller :as from] state]
  (let [[word x] (when (vector? request) request)]
    (case word
      :checkout (checkout state from x)
      :checkin (let [[answer state] (checkin state x caller)] [:reply answer state])
      :status [:reply (status state) state]
      [:reply [:error :unknown-call] state])))

(defn- give-up [{:keys [loans] :as state} ref]
  (if-some [loan (some #(when (= ref (:ref %)) %) (vals loans))]
    (end-loan state loan)
    state))

(defn- handle-cast [request state]
  (let [[word x borrower] (when (vector? request) request)]
    [:noreply (case word
                :checkin (second (checkin state x borrower))
                :give-up (give-up state x)
                state)]))

(defn- died [state worker]
  (let [loan (get-in state [:loans (get-in state [:lent worker])])]
    (-> (if loan (forget-loan state loan) state)
        (update :free (fn [free] (filterv #(not= worker %) free)))
        (update :workers disj worker)
        replace-worker)))

(defn- handle-info [message {:keys [loans workers] :as state}]
  (let [[word x] (when (vector? message) message)]
    [:noreply (cond
                (and (= :DOWN word) (loans x)) (end-loan state (loans x))
                (and (= :EXIT word) (workers x)) (died state x)
                :else state)]))

(defn- terminate [_ {:keys [workers] :as state}]
  (stop-workers state workers))

(defn- format-status [status]
  (update status :state #(if (map? %) (dissoc % :loans :lent :waiting :free :workers) %)))

(def behaviour
  "What a pool does."
  {:name 'magnetar.pool
   :init init
   :handle-call handle-call
   :handle-cast handle-cast
   :handle-info handle-info
   :terminate terminate
   :format-status format-status})
