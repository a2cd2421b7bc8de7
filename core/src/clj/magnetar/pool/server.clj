(ns magnetar.pool.server
  "The callbacks of a pool, which is a server and traps exits.

  A client is a process that asks for a worker. A checkout is a map {:monitor :ref :from :client :worker}. Its :monitor is the reference of the
  monitor of the client. While it waits, it has no :worker, and :n is its place in the queue.

  The state has, besides the options of the pool:

    :workers      the set of the workers whose end the pool has not heard of
    :free         a vector of the workers that are not checked out
    :checkouts    from :monitor to checkout, of those that wait and those that have a worker
    :checked-out  from worker to :monitor; a worker that has died stays until its client checks it in or dies
    :waiting      from :n to :monitor, in order
    :next         the :n of the next checkout that waits"
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

;; `children/stop-all` takes whatever DOWN comes, so it is for the end of the pool only: before, one may be about a client.
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

;; ---- checkouts

(defn- check-out
  "Gives the worker to the client of the checkout."
  [state {:keys [monitor from n] :as checkout} worker]
  (gs/reply from [:ok worker])
  (-> state
      (update :waiting dissoc n)
      (assoc-in [:checkouts monitor] (assoc checkout :worker worker))
      (assoc-in [:checked-out worker] monitor)))

(defn- forget [state {:keys [monitor n worker]}]
  (actor/demonitor monitor {:flush true})
  (-> state
      (update :checkouts dissoc monitor)
      (update :waiting dissoc n)
      (update :checked-out dissoc worker)))

(defn- next-waiting [{:keys [waiting checkouts]}]
  (some-> (first waiting) val checkouts))

(defn- offer
  "The state once a worker is not checked out any more. The next client that waits gets it; else it is free, or stopped if it is one too many."
  [{:keys [workers size] :as state} worker]
  (let [checkout (next-waiting state)]
    (cond
      (not (actor/alive? worker)) state ; the signal of its end is on its way, or was heard
      checkout (check-out state checkout worker)
      (< (long size) (count workers)) (retire state worker)
      :else (update state :free conj worker))))

(defn- room? [{:keys [workers size overflow]}]
  (< (count workers) (+ (long size) (long overflow))))

(defn- replace-worker
  "The state once a worker has died. The next client that waits gets a new one, or is told that it did not start."
  [state]
  (let [checkout (next-waiting state)]
    (if (and checkout (room? state))
      (let [[how x started] (start-worker state)]
        (if (= :ok how)
          (recur (check-out started checkout x))
          (do
            (gs/reply (:from checkout) [:failed x])
            (recur (forget state checkout)))))
      state)))

(defn- end
  "The client has checked its worker in, has given up, or is dead."
  [state {:keys [worker] :as checkout}]
  (let [state (forget state checkout)]
    (if worker (offer state worker) state)))

;; ---- requests

(defn- new-checkout [[client :as from] ref]
  {:monitor (actor/monitor client) :ref ref :from from :client client})

(defn- enqueue [{:keys [next] :as state} from ref]
  (let [{:keys [monitor] :as checkout} (assoc (new-checkout from ref) :n next)]
    [:noreply (-> state
                  (update :next inc)
                  (assoc-in [:checkouts monitor] checkout)
                  (assoc-in [:waiting next] monitor))]))

(defn- start-one-more [state from ref]
  (let [[how x started] (start-worker state)]
    (if (= :ok how)
      [:noreply (check-out started (new-checkout from ref) x)]
      [:reply [:failed x] state])))

(defn- checkout [{:keys [waiting max-waiting] :as state} from ref]
  (let [[worker taken] (take-free state)]
    (cond
      worker [:noreply (check-out taken (new-checkout from ref) worker)]
      (room? state) (start-one-more state from ref)
      (< (count waiting) (long max-waiting)) (enqueue state from ref)
      :else [:reply [:full (count waiting)] state])))

(defn- checkin
  "[answer state] of a worker that the client checks in."
  [{:keys [checkouts checked-out] :as state} worker client]
  (let [checkout (checkouts (checked-out worker))]
    (cond
      (nil? checkout) [:not-checked-out state]
      (= client (:client checkout)) [:ok (end state checkout)]
      :else [:by-another state])))

(defn- status [{:keys [size overflow workers checked-out waiting]}]
  (let [busy (count (filter workers (keys checked-out)))]
    {:size size :overflow overflow :workers (count workers) :free (- (count workers) busy) :checked-out busy :waiting (count waiting)}))

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
  (start-all (assoc options :free [] :checkouts {} :checked-out {} :waiting (sorted-map) :workers #{} :next 0)))

(defn- handle-call [request [caller :as from] state]
  (let [[word x] (when (vector? request) request)]
    (case word
      :checkout (checkout state from x)
      :checkin (let [[answer state] (checkin state x caller)] [:reply answer state])
      :status [:reply (status state) state]
      [:reply [:error :unknown-call] state])))

(defn- give-up [{:keys [checkouts] :as state} ref]
  (if-some [checkout (some #(when (= ref (:ref %)) %) (vals checkouts))]
    (end state checkout)
    state))

(defn- handle-cast [request state]
  (let [[word x client] (when (vector? request) request)]
    [:noreply (case word
                :checkin (second (checkin state x client))
                :give-up (give-up state x)
                state)]))

(defn- died [state worker]
  (-> state
      (update :free (fn [free] (filterv #(not= worker %) free)))
      (update :workers disj worker)
      replace-worker))

(defn- handle-info [message {:keys [checkouts workers] :as state}]
  (let [[word x] (when (vector? message) message)]
    [:noreply (cond
                (and (= :DOWN word) (checkouts x)) (end state (checkouts x))
                (and (= :EXIT word) (workers x)) (died state x)
                :else state)]))

(defn- terminate [_ {:keys [workers] :as state}]
  (stop-workers state workers))

(defn- format-status [status]
  (update status :state #(if (map? %) (dissoc % :checkouts :checked-out :waiting :free :workers) %)))

(def behaviour
  "What a pool does."
  {:name 'magnetar.pool
   :init init
   :handle-call handle-call
   :handle-cast handle-cast
   :handle-info handle-info
   :terminate terminate
   :format-status format-status})
