(ns magnetar.pool
  "A pool of servers that are lent: each to one process at a time.

    (pool/start-link {:name :db :worker [gs/start-link 'my.connection url] :size 10})

    (pool/with-worker [connection :db]
      (gs/call connection [:query \"select 1\"]))

  start   start-link start
  borrow  with-worker, checkout checkin
  look    status

  A worker is a process. Prefer a pool where each call needs one of a few things with a state: connections, licences, native handles. Prefer
  `magnetar.resilience/bulkhead` where only the number of calls that run at once is limited: it starts no process.

  What is lent comes back when the borrower gives it back or dies. A worker that has died is replaced when someone wants one. Those who find none wait,
  in the order in which they came, so many of them and so long, and no more. Learn from poolboy what it is for."
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.pool.desk :as desk]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar.kernel.process LocalProcess Pid)))

(set! *warn-on-reflection* true)

;; ---- start

(def ^:private known [:name :worker :size :overflow :max-waiting :order :shutdown])

(defn- check-worker [worker]
  (let [[f :as start] (if (vector? worker) worker [worker])]
    (when-not (and (ifn? f) (not (ident? f)) (not (coll? f)))
      (arguments/misuse :magnetar/bad-option
                        (str (arguments/subject :worker) " how a worker starts, as in [gs/start-link 'my.connection url]; this is "
                             (arguments/show worker) ".")
                        (arguments/data :worker worker)))
    start))

(defn- check-order [order]
  (when-not (#{:lifo :fifo} order)
    (arguments/misuse :magnetar/bad-option (str (arguments/subject :order) " :lifo or :fifo; this is " (arguments/show order) ".")
                      (arguments/data :order order)))
  order)

(defn- start-with [operation start {:keys [name worker size overflow max-waiting order shutdown] :as options}]
  (arguments/options operation known options)
  (when (some? shutdown)
    (arguments/shutdown operation shutdown))
  (start desk/behaviour
         {:who name
          :start (check-worker worker)
          :size (arguments/whole :size size)
          :overflow (arguments/from-zero :overflow (or overflow 0))
          :max-waiting (if (= :infinity max-waiting) Long/MAX_VALUE (arguments/from-zero :max-waiting (if (nil? max-waiting) 1000 max-waiting)))
          :order (check-order (or order :lifo))
          :shutdown (if (nil? shutdown) 5000 shutdown)}
         {:name name :spawn-opt {:bindings :none}}))

(defn start-link
  "Starts a pool, linked to this process, with its workers: [:ok pid], or [:error [:worker why]] if one does not start. Options:

  :worker       how a worker starts: [f & args], as in a child spec, called in the pool; there is no default
  :size         how many there are at least; there is no default
  :overflow     how many more may be started while all are lent; they end when nobody needs them; 0
  :max-waiting  how many may wait for one; 1000, or :infinity
  :order        which of those that are free is lent: :lifo, the one that came back last, or :fifo; :lifo
  :shutdown     how long a worker may take to end, as in a child spec; 5000
  :name         as for `magnetar.gen-server/start-link`

  A start that takes long holds up those who want a worker meanwhile, as in a supervisor.

    {:id :db :type :supervisor :start [pool/start-link {:name :db :worker [gs/start-link 'my.connection url] :size 10}]}"
  [options]
  (start-with "start-link" gs/start-link options))

(defn start
  "Like `start-link`, without a link.

    (pool/start {:worker [gs/start-link 'my.connection url] :size 10}) ;=> [:ok pid]"
  [options]
  (start-with "start" gs/start options))

;; ---- borrow

(defn- refused [pool [word x]]
  (case word
    :full (errors/failure (str "The pool " (arguments/show pool) " lends nothing: all workers are lent, and " x " wait already.")
            {:magnetar/reason :magnetar/pool-full :pool pool :waiting x})
    :failed (errors/failure (str "A worker of the pool " (arguments/show pool) " did not start: " (arguments/show x) ".")
              {:magnetar/reason :magnetar/worker-failed :pool pool :reason x})))

(defn- give-up
  "Takes back what was asked for, also by who is being cancelled."
  [pool ref]
  (scope/shield (gs/cast pool [:give-up ref])))

(defn checkout
  "Borrows a worker: its pid, which this process has to give back with `checkin`. If this process dies, it comes back by itself.

  Waits for {:timeout ms} at most, 5000; then throws a TimeoutException, or returns :else if that is given. Throws an ExceptionInfo of
  :magnetar/pool-full if too many wait, :magnetar/worker-failed if a worker was started for this and did not come up; else as `magnetar.gen-server/call`. Fails outside of
  processes, where nobody would know of a borrower that is gone: there, and mostly, `with-worker` is right.

    (let [c (pool/checkout :db)] (try (gs/call c :x) (finally (pool/checkin :db c))))"
  ([pool] (checkout pool nil))
  ([pool {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "checkout" [:timeout :else] options)
   (LocalProcess/require "checkout")
   (let [ref (actor/make-ref)
         [word x :as answer] (try
                               (gs/call pool [:checkout ref] {:timeout timeout :else [:late]})
                               (catch Throwable t
                                 (give-up pool ref)
                                 (throw t)))]
     (case word
       :ok x
       :late (do (give-up pool ref)
                 (timeouts/outcome options `checkout pool timeout [pool options]))
       (throw (refused pool answer))))))

(defn checkin
  "Gives a worker back to its pool: :ok. Fails if it is not lent to this process.

    (pool/checkin :db connection)"
  [pool worker]
  (when-not (instance? Pid worker)
    (arguments/misuse :magnetar/not-a-pid (str "`checkin` wants the worker that `checkout` returned; this is " (arguments/show worker) ".")
                      {:worker worker}))
  (let [answer (gs/call pool [:checkin worker])]
    (when-not (= :ok answer)
      (arguments/misuse :magnetar/not-lent
                        (str "The pool " (arguments/show pool) " has not lent " worker " to this process"
                             (if (= :lent answer) ", but to another one: who borrows gives back." ", or has got it back already."))
                        {:pool pool :worker worker}))
    :ok))

(defn- give-back
  "Gives the worker back if it lives, also when this process is being cancelled."
  [pool worker]
  (scope/shield (gs/cast pool [:checkin worker (actor/self)])))

(defn with-worker*
  "Calls f with a borrowed worker; see `with-worker`."
  [pool options f]
  (arguments/options "with-worker" [:timeout] options)
  (proc-lib/in-process
    #(let [worker (checkout pool options)]
       (try
         (f worker)
         (finally (give-back pool worker))))))

(defmacro with-worker
  "Does body with `worker` bound to the pid of a worker, which is given back however body ends; returns the value of body.

  Waits and throws as `checkout`; {:timeout ms} may stand behind the pool. Outside of processes the thread is one for as long.

    (pool/with-worker [connection :db {:timeout 100}]
      (gs/call connection [:query \"select 1\"]))"
  [[worker pool options] & body]
  `(with-worker* ~pool ~options (fn [~worker] ~@body)))

;; ---- look

(defn status
  "How many workers and borrowers there are: {:size :overflow :workers :free :lent :waiting}.

    (pool/status :db) ;=> {:size 10 :overflow 0 :workers 10 :free 9 :lent 1 :waiting 0}"
  [pool]
  (gs/call pool [:status]))
