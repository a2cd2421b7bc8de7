(ns magnetar.sys
  "Looks into servers, supervisors and their like while they run, and changes them.

  state    get-state replace-state get-status
  control  suspend resume change-code terminate
  watch    trace statistics log install remove

    (sys/get-state :counter) ;=> 5

  All take a server as `magnetar.gen-server/call` does, and {:timeout ms}, 5000 if left out; they throw as it does. For a human at a prompt and for tests:
  a program that needs these to work has lost its way. Names are those of Erlang's module sys."
  (:refer-clojure :exclude [remove])
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.otp.debug :as debug]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(defn- ask [operation server request {:keys [timeout] :or {timeout 5000} :as options}]
  (arguments/options operation [:timeout] options)
  (request/system server request timeout))

(defn- good [operation server [how value]]
  (when-not (= :ok how)
    (throw (errors/failure (str "`" operation "` of " (arguments/show server) " failed: " (arguments/show value) ".")
             {:magnetar/reason :magnetar/sys-failed :reason value :server server :magnetar/exit [value [operation server]]})))
  value)

(defn- check-switch [operation word what wanted]
  (when-not (or (= :get what) (debug/switch? word what))
    (arguments/misuse :magnetar/bad-debug (str "`" operation "` wants " wanted "; this is " (arguments/show what) ".") {:value what})))

(defn get-state
  "The state of a server.

    (sys/get-state :counter) ;=> 5

  In Erlang: sys:get_state/1,2."
  {:erlang "sys:get_state/2"}
  ([server] (get-state server nil))
  ([server options]
   (good "get-state" server (ask "get-state" server [:get-state] options))))

(defn replace-state
  "Replaces the state of a server by (f state); returns the new one. If f throws, so does this, and the state stays.

    (sys/replace-state :counter inc) ;=> 6

  In Erlang: sys:replace_state/2,3."
  {:erlang "sys:replace_state/3"}
  ([server f] (replace-state server f nil))
  ([server f options]
   (arguments/function "replace-state" f "(sys/replace-state :counter inc)")
   (good "replace-state" server (ask "replace-state" server [:replace-state f] options))))

(defn get-status
  "What a server says of itself, as a map; its callback format-status decides what of the state is in it.

  A gen-server that was started with :shed also says what it has shed: {:shed {:passed 98 :shed 2 :expired 0 :overloaded? false}}.
  :expired are calls whose callers had given up.

    (:status (sys/get-status :counter)) ;=> :running

  In Erlang: sys:get_status/1,2."
  {:erlang "sys:get_status/2"}
  ([server] (get-status server nil))
  ([server options]
   (ask "get-status" server [:get-status] options)))

(defn suspend
  "Lets a server handle nothing but what this namespace asks, until `resume`; returns :ok. Messages wait meanwhile.

    (sys/suspend :counter)

  In Erlang: sys:suspend/1,2."
  {:erlang "sys:suspend/2"}
  ([server] (suspend server nil))
  ([server options]
   (ask "suspend" server [:suspend] options)))

(defn resume
  "Lets a suspended server go on; returns :ok.

    (sys/resume :counter)

  In Erlang: sys:resume/1,2."
  {:erlang "sys:resume/2"}
  ([server] (resume server nil))
  ([server options]
   (ask "resume" server [:resume] options)))

(defn change-code
  "Calls (code-change old state extra) of a suspended server, and installs the state that it returns: :ok.

  [:error why] if that fails, or if the server is not suspended.

    (sys/change-code :counter 1 nil) ;=> :ok

  In Erlang: sys:change_code/4,5."
  {:erlang "sys:change_code/5"}
  ([server old extra] (change-code server old extra nil))
  ([server old extra options]
   (ask "change-code" server [:change-code old extra] options)))

(defn terminate
  "Tells a server to end for the reason; returns :ok at once. `magnetar.gen-server/stop` waits.

    (sys/terminate :counter :shutdown)

  In Erlang: sys:terminate/2,3."
  {:erlang "sys:terminate/3"}
  ([server reason] (terminate server reason nil))
  ([server reason options]
   (ask "terminate" server [:terminate reason] options)))

(defn trace
  "Prints what a server receives and sends from now on, to its *out*; with false no longer. Returns :ok.

    (sys/trace :counter true)

  In Erlang: sys:trace/2,3."
  {:erlang "sys:trace/3"}
  ([server on?] (trace server on? nil))
  ([server on? options]
   (when-not (boolean? on?)
     (arguments/misuse :magnetar/bad-debug (str "`trace` wants true or false; this is " (arguments/show on?) ".") {:value on?}))
   (ask "trace" server [:trace on?] options)))

(defn statistics
  "Counts messages: true begins, false ends, :get gives [:ok {:start-time :current-time :messages-in :messages-out}], or [:ok :no-statistics].

    (sys/statistics :counter true) ;=> :ok

  In Erlang: sys:statistics/2,3."
  {:erlang "sys:statistics/3"}
  ([server what] (statistics server what nil))
  ([server what options]
   (check-switch "statistics" :statistics what "true, false or :get")
   (ask "statistics" server [:statistics what] options)))

(defn log
  "Keeps the last events: true for ten, a number for so many, false for none; :get gives [:ok events], the oldest first.

  An event is [:in message], [:out value to] or [:noreply state]; of a state machine [:in event state], [:out value to], [:postpone event
  state] or [:consume event old-state new-state].

    (sys/log :counter :get) ;=> [:ok [[:in ..] [:out ..]]]

  In Erlang: sys:log/2,3."
  {:erlang "sys:log/3"}
  ([server what] (log server what nil))
  ([server what options]
   (check-switch "log" :log what "true, false, :get or a number of events from 1 up")
   (ask "log" server [:log what] options)))

(defn install
  "Lets the server call (f state event who) for each event, see `log`; what f returns is its next state, :done removes it. Returns :ok.

  f runs in the server: it has to be quick. If it throws it is removed.

    (sys/install :counter :probe (fn [n event who] (inc n)) 0)

  In Erlang: sys:install/2,3."
  {:erlang "sys:install/3"}
  ([server id f state] (install server id f state nil))
  ([server id f state options]
   (arguments/function "install" f "(sys/install :counter :probe (fn [n event who] n) 0)")
   (ask "install" server [:install id f state] options)))

(defn remove
  "Takes back what `install` has installed under the id; returns :ok.

    (sys/remove :counter :probe)

  In Erlang: sys:remove/2,3."
  {:erlang "sys:remove/3"}
  ([server id] (remove server id nil))
  ([server id options]
   (ask "remove" server [:remove id] options)))
