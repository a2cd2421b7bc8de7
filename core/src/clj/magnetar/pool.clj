(ns magnetar.pool
  "Pools of worker processes. Each worker is checked out by one process at a time.

    (pool/start-link {:name :db :worker [gs/start-link 'my.connection url] :size 10})

    (pool/with-worker [connection :db]
      (gs/call connection [:query \"select 1\"]))

  The symbol 'my.connection names a namespace of callbacks, as in `magnetar.gen-server`.

  start      start-link start
  check out  with-worker, checkout checkin
  look       status

  A worker is a process, such as a server that owns a socket or a native handle. Use a pool if each resource
  should be a supervised process. For JDBC keep your connection pool (HikariCP): a fiber may block in
  `getConnection`. Prefer `magnetar.resilience/bulkhead` where only the number of concurrent calls is limited,
  since it starts no process.

  A process checks a worker out and in again. If it dies, the pool checks the worker in. A dead worker is
  replaced when a call needs one. Calls that find no free worker wait, first come, first served. How many may
  wait, and how long, is limited. The model is Erlang's library poolboy.

  Require it as `[magnetar.pool :as pool]`."
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]
   [magnetar.pool.server :as server]
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
  (start server/behaviour
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

  The pool's process starts workers, one at a time. Until a start returns, every other call of the pool waits.
  Give the worker's `start-link` a :timeout.

  Returns [:ok pid], or [:error [:worker why]] if a worker does not start.

  Blocks until all workers have started.

  Options:
    :worker       how a worker starts: [f & args], as in a child spec; required
    :size         how many workers are started with the pool and kept; a dead one is replaced when a call
                  needs it; required
    :overflow     how many more may be started while all are checked out. Default 0. They end when no call
                  needs them
    :max-waiting  how many calls may wait for a worker, or :infinity. Default 1000
    :order        which free worker is checked out next: :lifo, the one that was checked in last, or :fifo,
                  the one that has been free longest. Default :lifo
    :shutdown     how long a worker may take to end, as in a child spec. Default 5000 ms
    :name         as in `magnetar.gen-server/start-link`

  Example:

    (pool/start-link {:name :db :worker [gs/start-link 'my.connection url] :size 10}) ;=> [:ok pid]
    {:id :db :type :supervisor ; as a child
     :start [pool/start-link {:name :db :worker [gs/start-link 'my.connection url {:timeout 2000}] :size 10}]}"
  [options]
  (start-with "start-link" gs/start-link options))

(defn start
  "Starts a pool with its workers, without a link.

  Like `start-link` in all else.

  Example:

    (pool/start {:worker [gs/start-link 'my.connection url] :size 10}) ;=> [:ok pid]"
  [options]
  (start-with "start" gs/start options))

;; ---- check out

(defn- ask
  "The pool's answer to the request, which is made of what the program called, [operation pool & arguments]."
  [[_ pool :as called] request]
  (request/call called pool request :infinity nil))

(defn- refused [pool [word x]]
  (case word
    :full (errors/failure (str "The pool " (arguments/show pool) " has no free worker, and " x (if (= 1 x) " call already waits" " calls already wait")
                               " (`:max-waiting`). Try again later, or raise `:size`.")
            {:magnetar/reason :magnetar/pool-full :pool pool :waiting x})
    :failed (errors/failure (str "A worker of the pool " (arguments/show pool) " did not start: " (arguments/show x) ".")
              {:magnetar/reason :magnetar/worker-failed :pool pool :reason x})))

(defn- give-up
  "Withdraws the request for a worker, also while this process is being cancelled."
  [pool ref]
  (scope/shield (gs/cast pool [:give-up ref])))

(defn- check-out
  "The value of f, called with the worker that was checked out. When time runs out, returns the :else of the options, or throws in the name of the operation."
  [operation pool {:keys [timeout] :or {timeout 5000} :as options} f]
  (let [ref (actor/make-ref)
        [word x :as answer] (try
                              (request/call [operation pool options] pool [:checkout ref] timeout {:else [:late]})
                              (catch Throwable t
                                (give-up pool ref)
                                (throw t)))]
    (case word
      :ok (f x)
      :late (do (give-up pool ref)
                (timeouts/outcome options operation pool timeout [pool options]))
      (throw (refused pool answer)))))

(defn checkout
  "Checks a worker out for this process, and returns its pid.

  This process has to check it in with `checkin`. If the process dies, the pool checks the worker in. Prefer
  `with-worker`, which checks the worker in however its body ends.

  Blocks until a worker is free, at most for :timeout.

  Throws a magnetar.TimeoutException when time runs out and there is no :else. Throws an ExceptionInfo of
  :magnetar/pool-full if too many calls wait. The ExceptionInfo is :magnetar/worker-failed if a worker was
  started for this call and failed to start. Else throws as `magnetar.gen-server/call`. Throws an
  IllegalArgumentException outside of processes, where the pool would not learn of the end of the caller.

  Cancellation: cancelled or interrupted, it throws, and no worker stays checked out.

  Options:
    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (let [connection (pool/checkout :db)]
      (try
        (gs/call connection [:query \"select 1\"])
        (finally (pool/checkin :db connection))))"
  ([pool] (checkout pool nil))
  ([pool options]
   (arguments/options "checkout" [:timeout :else] options)
   (LocalProcess/require "checkout")
   (check-out `checkout pool options identity)))

(defn- not-checked-out [pool worker answer]
  (arguments/misuse :magnetar/not-checked-out
                    (str "Worker " worker
                         (if (= :by-another answer)
                           (str " is checked out from the pool " (arguments/show pool) " by another process. Only that process can check it in.")
                           (str " is not checked out from the pool " (arguments/show pool) ". Check a worker in once, and to its own pool.")))
                    {:pool pool :worker worker}))

(defn checkin
  "Checks in a worker that this process has checked out, and returns :ok.

  Check a worker in even if it has died. The pool keeps a record of the checkout until then, or until this
  process ends.

  Blocks until the pool has taken the worker, without a time-out: it is a call of the pool's process, which
  may be starting another worker.

  Throws an IllegalArgumentException of :magnetar/not-checked-out if this process has not checked the worker
  out. Throws an ExceptionInfo of :magnetar/call-failed if the pool is dead.

  Cancellation: it is masked, so that the worker is checked in also while this process is being cancelled.

  Example:

    (pool/checkin :db connection)"
  [pool worker]
  (when-not (instance? Pid worker)
    (arguments/misuse :magnetar/not-a-pid (str "`checkin` wants the worker that `checkout` returned; this is " (arguments/show worker) ".")
                      {:worker worker}))
  (let [answer (scope/shield (ask [`checkin pool worker] [:checkin worker]))]
    (when-not (= :ok answer)
      (not-checked-out pool worker answer))
    :ok))

(defn- checkin-at-end
  "Checks the worker in without an answer, also while this process is being cancelled."
  [pool worker]
  (scope/shield (gs/cast pool [:checkin worker (actor/self)])))

(defn with-worker*
  "Calls f with a worker that is checked out for the call; see `with-worker`."
  [pool options f]
  (arguments/options "with-worker" [:timeout :else] options)
  (proc-lib/in-process
    #(check-out `with-worker pool options
                (fn [worker]
                  (try
                    (f worker)
                    (finally (checkin-at-end pool worker)))))))

(defmacro with-worker
  "Checks a worker out, and evaluates body with `worker` bound to its pid.

  The worker is checked in however body ends. A thread that is not a process becomes one for the
  time of the body. Options may follow the pool.

  Returns the value of body. Returns the value of :else if no worker came in time, and does not evaluate body.

  Blocks and throws as `checkout`, except that it also works outside of processes.

  Options:
    :timeout  how long to wait for a worker at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Example:

    (pool/with-worker [connection :db {:timeout 100}]
      (gs/call connection [:query \"select 1\"]))"
  [[worker pool options] & body]
  `(with-worker* ~pool ~options (fn [~worker] ~@body)))

;; ---- look

(defn status
  "Returns how many workers a pool has, and how many calls wait for one.

  The result is a map {:size :overflow :workers :free :checked-out :waiting}. Its :size and :overflow are the
  options of the pool, the rest are counts.

  Blocks until the pool has answered.

  Example:

    (pool/status :db) ;=> {:size 10 :overflow 0 :workers 10 :free 9 :checked-out 1 :waiting 0}"
  [pool]
  (ask [`status pool] [:status]))
