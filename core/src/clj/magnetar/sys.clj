(ns magnetar.sys
  "Inspects and changes servers, supervisors and their like while they run.

  state    get-state replace-state get-status
  control  suspend resume change-code terminate
  watch    trace statistics log install remove

    (sys/get-state :counter) ;=> 5

  Each function takes a server as `magnetar.gen-server/call` does, and as its last argument options:

    :timeout  how long to wait at most, a duration. Default 5000 ms
    :else     what to return when time runs out

  Each blocks until the server has answered, and throws as `call`: a magnetar.TimeoutException when time runs
  out and there is no :else.

  The functions work on servers of other nodes too. A function travels to no other node, so `replace-state`
  and `install` are for servers of this one.

  They are for a human at a prompt and for tests. A program should not need them to work. The names follow
  Erlang's module sys.

  Require it as `[magnetar.sys :as sys]`."
  (:refer-clojure :exclude [remove])
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.otp.debug :as debug]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.impl.timeouts :as timeouts]))

(set! *warn-on-reflection* true)

(defn- called
  "What the program called, [operation server & arguments], of the request that is made of it."
  [server [word & args] timeout]
  (-> [(symbol "magnetar.sys" (name word)) server] (into args) (conj timeout)))

(defn- ask [server [word :as request] {:keys [timeout] :or {timeout 5000} :as options}]
  (arguments/options (name word) [:timeout :else] options)
  (request/system (called server request timeout) server request timeout options))

(defn- within-ok
  "The options, with the :else of a caller that looks into the answer."
  [options]
  (cond-> options (and (map? options) (contains? options :else)) (update :else #(vector :ok %))))

(defn- failed [server request timeout why]
  (let [[operation & args] (called server request timeout)]
    (errors/failure (str "`" (name operation) "` of " (arguments/show server) " failed: " (arguments/show why) ".")
      {:magnetar/reason :magnetar/sys-failed :reason why :server server :magnetar/exit [why (timeouts/call operation args)]})))

(defn- ask-state
  "What the server answered within [:ok x]."
  [server request {:keys [timeout] :or {timeout 5000} :as options}]
  (let [[how value] (ask server request (within-ok options))]
    (when-not (= :ok how)
      (throw (failed server request timeout value)))
    value))

(defn- check-switch [operation word what wanted]
  (when-not (or (= :get what) (debug/switch? word what))
    (arguments/misuse :magnetar/bad-debug (str "`" operation "` wants " wanted "; this is " (arguments/show what) ".") {:value what})))

(defn get-state
  "Returns the state of a server.

  Example:

    (sys/get-state :counter) ;=> 5

  Erlang: sys:get_state/1,2."
  {:erlang "sys:get_state/2"}
  ([server] (get-state server nil))
  ([server options]
   (ask-state server [:get-state] options)))

(defn replace-state
  "Replaces the state of a server by (f state), and returns the new state.

  f runs in the server. If it throws, the state stays.

  Throws an ExceptionInfo if f throws.

  Example:

    (sys/replace-state :counter inc) ;=> 6

  Erlang: sys:replace_state/2,3."
  {:erlang "sys:replace_state/3"}
  ([server f] (replace-state server f nil))
  ([server f options]
   (arguments/function "replace-state" f "(sys/replace-state :counter inc)")
   (ask-state server [:replace-state f] options)))

(defn get-status
  "Returns a map that describes a server: its state, status and more.

  The callback format-status decides which part of the state is shown. A gen-server that was started with
  :shed also shows what it has refused: {:shed {:passed 98 :shed 2 :expired 0 :overloaded? false}}. :expired
  are calls whose callers had given up.

  Of a server on a node of Erlang the map has :pid, :module, :status, :parent, :dictionary, :debug and :misc.

  Example:

    (:status (sys/get-status :counter)) ;=> :running

  Erlang: sys:get_status/1,2."
  {:erlang "sys:get_status/2"}
  ([server] (get-status server nil))
  ([server options]
   (ask server [:get-status] options)))

(defn suspend
  "Suspends a server until `resume`, and returns :ok.

  A suspended server handles only the requests of this namespace. All other messages wait.

  Example:

    (sys/suspend :counter) ;=> :ok

  Erlang: sys:suspend/1,2."
  {:erlang "sys:suspend/2"}
  ([server] (suspend server nil))
  ([server options]
   (ask server [:suspend] options)))

(defn resume
  "Lets a suspended server go on, and returns :ok.

  Example:

    (sys/resume :counter) ;=> :ok

  Erlang: sys:resume/1,2."
  {:erlang "sys:resume/2"}
  ([server] (resume server nil))
  ([server options]
   (ask server [:resume] options)))

(defn change-code
  "Calls (code-change old state extra) of a suspended server to change its state.

  The state that code-change returns becomes the state of the server.

  Returns :ok, or [:error why] if code-change fails, or if the server is not suspended.

  Example:

    (sys/change-code :counter 1 nil) ;=> :ok

  See also `suspend`, `magnetar.hot/upgrade`.

  Erlang: sys:change_code/4,5."
  {:erlang "sys:change_code/5"}
  ([server old extra] (change-code server old extra nil))
  ([server old extra options]
   (ask server [:change-code old extra] options)))

(defn terminate
  "Tells a server to end for the reason, and returns :ok without waiting.

  Example:

    (sys/terminate :counter :shutdown) ;=> :ok

  See also `magnetar.gen-server/stop`, which waits.

  Erlang: sys:terminate/2,3."
  {:erlang "sys:terminate/3"}
  ([server reason] (terminate server reason nil))
  ([server reason options]
   (ask server [:terminate reason] options)))

(defn trace
  "Switches the printing of what a server receives and sends on or off.

  The server prints to its *out*. true switches it on, false off.

  Returns :ok.

  Example:

    (sys/trace :counter true) ;=> :ok

  Erlang: sys:trace/2,3."
  {:erlang "sys:trace/3"}
  ([server on?] (trace server on? nil))
  ([server on? options]
   (when-not (boolean? on?)
     (arguments/misuse :magnetar/bad-debug (str "`trace` wants true or false; this is " (arguments/show on?) ".") {:value on?}))
   (ask server [:trace on?] options)))

(defn statistics
  "Counts the messages of a server.

  true begins to count, false ends it, and :get asks for the counts.

  Returns :ok; for :get, [:ok {:start-time :current-time :messages-in :messages-out}] or [:ok :no-statistics].

  Example:

    (sys/statistics :counter true) ;=> :ok

  Erlang: sys:statistics/2,3."
  {:erlang "sys:statistics/3"}
  ([server what] (statistics server what nil))
  ([server what options]
   (check-switch "statistics" :statistics what "true, false or :get")
   (ask server [:statistics what] options)))

(defn log
  "Keeps the last events of a server, or returns them.

  true keeps ten, a number that many, and false none; :get asks for them.

  An event is [:in message], [:out value to] or [:noreply state]. The events of a state machine are [:in event
  state], [:out value to], [:postpone event state] and [:consume event old-state new-state].

  Returns :ok; for :get, [:ok events], the oldest first.

  Example:

    (sys/log :counter :get) ;=> [:ok [[:in ..] [:out ..]]]

  Erlang: sys:log/2,3."
  {:erlang "sys:log/3"}
  ([server what] (log server what nil))
  ([server what options]
   (check-switch "log" :log what "true, false, :get or a number of events from 1 up")
   (ask server [:log what] options)))

(defn install
  "Lets a server call (f state event who) for each event, and returns :ok.

  What f returns is its state at the next event; :done removes it. See `log` for the events. f runs in the
  server, so it has to be quick. If it throws, it is removed.

  Example:

    (sys/install :counter :probe (fn [n event who] (inc n)) 0) ;=> :ok

  Erlang: sys:install/2,3."
  {:erlang "sys:install/3"}
  ([server id f state] (install server id f state nil))
  ([server id f state options]
   (arguments/function "install" f "(sys/install :counter :probe (fn [n event who] n) 0)")
   (ask server [:install id f state] options)))

(defn remove
  "Removes the function that `install` has installed under the id, and returns :ok.

  Example:

    (sys/remove :counter :probe) ;=> :ok

  Erlang: sys:remove/2,3."
  {:erlang "sys:remove/3"}
  ([server id] (remove server id nil))
  ([server id options]
   (ask server [:remove id] options)))
