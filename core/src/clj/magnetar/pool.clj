(ns magnetar.pool
  "Pools of servers that are lent, each to one process at a time.

    (pool/start-link {:name :db :worker [gs/start-link 'my.connection url] :size 10})

    (pool/with-worker [connection :db]
      (gs/call connection [:query \"select 1\"]))

  start   start-link start
  borrow  with-worker, checkout checkin
  look    status

  A worker is a process. Prefer a pool where each call needs one of a few things with a state: connections,
  licences, native handles. Prefer `magnetar.resilience/bulkhead` where only the number of concurrent calls is
  limited, since it starts no process.

  A lent worker comes back when the borrower returns it or dies. A dead worker is replaced when a borrower
  needs one. Borrowers that find no free worker wait, first come, first served. How many may wait, and how
  long, is limited. The model is Erlang's library poolboy.

  Require it as `[magnetar.pool :as pool]`."
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
  "Starts a pool with its workers, linked to this process.

  A worker is started in the pool. While a start takes long, borrowers wait, as in a supervisor.

  Returns [:ok pid], or [:error [:worker why]] if a worker does not start.

  Blocks until all workers have started.

  Options:
    :worker       how a worker starts: [f & args], as in a child spec; required
    :size         how many workers there are at least; required
    :overflow     how many more may be started while all are lent; 0. They end when no borrower needs them
    :max-waiting  how many borrowers may wait; 1000, or :infinity
    :order        which free worker is lent: :lifo (the default), the one that came back last, or :fifo
    :shutdown     how long a worker may take to end, as in a child spec; 5000 ms
    :name         as in `magnetar.gen-server/start-link`

  Example:

    (pool/start-link {:name :db :worker [gs/start-link 'my.connection url] :size 10}) ;=> [:ok pid]
    {:id :db :type :supervisor
     :start [pool/start-link {:name :db :worker [gs/start-link 'my.connection url] :size 10}]} ; as a child"
  [options]
  (start-with "start-link" gs/start-link options))

(defn start
  "Starts a pool with its workers, without a link.

  Like `start-link` in all else.

  Example:

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
  "Withdraws the request for a worker, also while this process is being cancelled."
  [pool ref]
  (scope/shield (gs/cast pool [:give-up ref])))

(defn checkout
  "Borrows a worker for this process, and returns its pid.

  This process has to return it with `checkin`. If the process dies, the worker comes back by itself. Prefer
  `with-worker`, which returns the worker in any case.

  Blocks until a worker is free, at most for :timeout.

  Throws a magnetar.TimeoutException when time runs out and there is no :else. Throws an ExceptionInfo of
  :magnetar/pool-full if too many borrowers wait. The ExceptionInfo is :magnetar/worker-failed if a worker was
  started for this call and failed to start. Else throws as `magnetar.gen-server/call`. Throws an
  IllegalArgumentException outside of processes, where the pool would not learn of the end of the borrower.

  Cancellation: cancelled or interrupted, it throws, and no worker stays lent.

  Options:
    :timeout  how long to wait at most, a duration; 5000 ms
    :else     what to return when time runs out

  Example:

    (let [connection (pool/checkout :db)]
      (try
        (gs/call connection [:query \"select 1\"])
        (finally (pool/checkin :db connection))))"
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
  "Returns a worker to its pool, and returns :ok.

  Throws an IllegalArgumentException if the worker is not lent to this process.

  Example:

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
  "Evaluates body with `worker` bound to the pid of a borrowed worker.

  The worker is returned to the pool however body ends. A thread that is not a process becomes one for the
  time of the body. Options may follow the pool.

  Returns the value of body.

  Blocks and throws as `checkout`.

  Options:
    :timeout  how long to wait for a worker at most, a duration; 5000 ms

  Example:

    (pool/with-worker [connection :db {:timeout 100}]
      (gs/call connection [:query \"select 1\"]))"
  [[worker pool options] & body]
  `(with-worker* ~pool ~options (fn [~worker] ~@body)))

;; ---- look

(defn status
  "Returns how many workers and borrowers a pool has.

  The result is a map {:size :overflow :workers :free :lent :waiting}.

  Example:

    (pool/status :db) ;=> {:size 10 :overflow 0 :workers 10 :free 9 :lent 1 :waiting 0}"
  [pool]
  (gs/call pool [:status]))
