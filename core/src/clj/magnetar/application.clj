(ns magnetar.application
  "Applications: trees of processes that start and stop as a unit.

  They start in an order that follows from their dependencies.

    (application/run [{:name :store :start {:children [{:id :db :start [gs/start-link 'my.db nil]}]}}
                      {:name :shop :applications [:store] :env {:port 8080} :start {:children [..]}}])

  a program    run shutdown
  applications load unload loaded-applications
  start, stop  start stop ensure-started ensure-all-started which-applications get-application
  environment  get-env get-all-env put-env unset-env

  The spec of an application is a map:

  :name                   a keyword or symbol
  :start                  the spec of a supervisor, see `magnetar.supervisor`; or [f & args], or f. A function
                          starts a process linked to it and returns [:ok pid], [:ok pid state], the pid or
                          [:error why]. Without :start the application is a name that others depend on, with
                          its :env
  :applications           names of applications that must have started before this one starts
  :optional-applications  names of applications that must have started before this one starts, if they are
                          loaded
  :included-applications  specs that are loaded with this one; its own tree starts what is in them
  :env                    a map of what can be configured, with its defaults
  :prep-stop              a function of the state, called before the tree is stopped. It returns the state for
                          :stop. The state is that of [:ok pid state], otherwise nil
  :stop                   a function of the state, called once the tree has ended
  :description :vsn       for humans

  An application has one of three types. When the tree of a :permanent one ends, for any reason, all the other
  applications are stopped as well. The end of a :transient one does so unless its reason is :normal. The end
  of a :temporary one is only reported. After such a stop, `run` ends the JVM with status 1. Elsewhere the JVM
  goes on, and a hook of the kind :end (`magnetar.report/add-hook`) replaces the stop of the others.

  The names follow Erlang's module application; `put-env` is set_env.

  Require it as `[magnetar.application :as application]`."
  (:refer-clojure :exclude [load])
  (:require
   [magnetar.actor :as actor]
   [magnetar.application.controller :as controller]
   [magnetar.application.loaded :as loaded]
   [magnetar.application.master :as master]
   [magnetar.application.program :as program]
   [magnetar.application.specs :as specs]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.hooks :as hooks]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest]
   [magnetar.supervisor :as supervisor])
  (:import
   (magnetar.kernel.process LocalProcess Pid)))

(set! *warn-on-reflection* true)

;; ---- applications

(defn- call-of
  "The :start of a spec as a vector of a function and its arguments; nil if it has no :start."
  [start]
  (cond
    (map? start) [supervisor/start-link start]
    (or (nil? start) (vector? start)) start
    :else [start]))

(defn- with-calls
  "The spec and the specs that it includes, with each :start as a call."
  [spec]
  (-> spec
      (update :start call-of)
      (update :included #(mapv with-calls %))))

(defn load
  "Makes an application known, with the applications that it includes.

  Returns :ok, or [:error [:already-loaded name]].

  Throws an IllegalArgumentException if the spec is wrong. Its `ex-data` has :magnetar/reason, which is
  :magnetar/bad-application-spec or the reason of the supervisor spec below it. Other keys are :path (where
  the error is, as [:start :children 1 :restart]), :value, :why and :meant.

  Example:

    (application/load {:name :shop :env {:port 8080}}) ;=> :ok

  Erlang: application:load/1."
  {:erlang "application:load/1"}
  [spec]
  (let [{:keys [name] :as checked} (specs/application spec)]
    (if (contains? (loaded/specs) name)
      [:error [:already-loaded name]]
      (do (loaded/put-spec (with-calls checked)) :ok))))

(defn unload
  "Removes an application and its environment from the loaded ones.

  Returns :ok, [:error [:running name]] or [:error [:not-loaded name]].

  Example:

    (application/unload :shop) ;=> :ok

  Erlang: application:unload/1."
  {:erlang "application:unload/1"}
  [name]
  (controller/ask [:unload name]))

(defn- shown [{:keys [name description vsn]}]
  {:name name :description description :vsn vsn})

(defn loaded-applications
  "Returns the loaded applications, each {:name :description :vsn}, sorted by name.

  Example:

    (application/loaded-applications) ;=> [{:name :shop :description nil :vsn nil}]

  Erlang: application:loaded_applications/0."
  {:erlang "application:loaded_applications/0"}
  []
  (mapv shown (sort-by (comp str :name) (vals (loaded/specs)))))

;; ---- start, stop

(def ^:private types [:permanent :transient :temporary])

(defn- check-type [type]
  (when-not (some #{type} types)
    (arguments/misuse :magnetar/bad-type
                      (str "An application is started :permanent, :transient or :temporary; this is " (arguments/show type) "."
                           (when-some [meant (suggest/closest type types)] (str " Is " meant " meant?")))
                      {:type type})))

(defn- check-name [operation x]
  (when-not (or (keyword? x) (symbol? x))
    (arguments/misuse :magnetar/not-a-name
                      (str "`" operation "` wants the name of an application, a keyword or symbol; this is " (arguments/show x) ".") {:value x})))

(defn- check-given [operation x]
  (when-not (or (keyword? x) (symbol? x))
    (arguments/misuse :magnetar/not-an-application
                      (str "`" operation "` wants an application: its spec, a map with :name and :start, or its name; this is " (arguments/show x) ".")
                      {:value x})))

(defn- named
  "[:ok name] of an application that is given by name, or by a spec, which is loaded in place of an earlier one that does not run."
  [operation x]
  (if-not (map? x)
    (do (check-given operation x) [:ok x])
    (let [{:keys [name] :as spec} (specs/application x)]
      (if (some #{name} (map :name (controller/which)))
        [:error [:already-started name]]
        (do (loaded/put-spec (with-calls spec)) [:ok name])))))

(defn start
  "Starts an application, given by name or by its spec.

  The type is :permanent, :transient or :temporary. Default :temporary. The tree starts in a process of its
  own, without context values and bindings of the caller.

  Returns :ok, or one of these values:

    [:error [:already-started name]]      it runs already
    [:error [:not-started dependency]]    an application that it needs does not run
    [:error [:not-loaded name]]           no application of that name is loaded
    [:error [why start]]                  its start returned [:error why]
    [:error [:bad-return [start value]]]  its start threw, or returned something else

  Blocks until the tree has started.

  Throws an IllegalArgumentException if the spec is wrong, as `load`, or if the type is.

  Example:

    (application/start :shop :permanent) ;=> :ok

  See also `ensure-all-started`, `run`.

  Erlang: application:start/1,2."
  {:erlang "application:start/2"}
  ([application] (start application :temporary))
  ([application type]
   (check-type type)
   (let [[how name :as outcome] (named "start" application)]
     (if (= :ok how)
       (controller/ask [:start name type])
       outcome))))

(defn stop
  "Stops an application; applications that depend on it go on.

  Returns :ok, or [:error [:not-started name]].

  Blocks until its tree has ended.

  Example:

    (application/stop :shop) ;=> :ok

  Erlang: application:stop/1."
  {:erlang "application:stop/1"}
  [name]
  (check-name "stop" name)
  (controller/ask [:stop name]))

(defn- already-started? [outcome]
  (and (vector? outcome) (= :already-started (first (second outcome)))))

(defn ensure-started
  "Starts an application unless it runs.

  Returns :ok, or [:error why] as `start`.

  Example:

    (application/ensure-started :shop) ;=> :ok

  Erlang: application:ensure_started/1,2."
  {:erlang "application:ensure_started/2"}
  ([application] (ensure-started application :temporary))
  ([application type]
   (let [outcome (start application type)]
     (if (already-started? outcome) :ok outcome))))

(defn- start-each
  "Starts the applications one after the other: [:ok those started], or [:error [name why]], with those stopped again."
  [names type]
  (loop [[name & others :as names] names, started []]
    (if (empty? names)
      [:ok started]
      (let [outcome (controller/ask [:start name type])]
        (cond
          (= :ok outcome) (recur others (conj started name))
          (already-started? outcome) (recur others started)
          :else (do
                  (run! stop (reverse started))
                  [:error [name (second outcome)]]))))))

(defn ensure-all-started
  "Starts applications unless they run, and before them all that they depend on.

  x is the name of a loaded application, or a vector of names.

  Returns [:ok names], the applications that it has started, in their order. If one does not start, those that
  this call has started are stopped again: [:error [name why]]. If one is not loaded, or the dependencies form
  a cycle: [:error [:application-spec error]]. The error is a map with :why, :path (where it is), :value,
  :meant and :message, which names the cycle.

  Blocks until all trees have started.

  Example:

    (application/ensure-all-started :shop) ;=> [:ok [:store :shop]]

  Erlang: application:ensure_all_started/1,2."
  {:erlang "application:ensure_all_started/2"}
  ([x] (ensure-all-started x :temporary))
  ([x type]
   (check-type type)
   (let [names (if (sequential? x) x [x])
         _ (run! #(check-name "ensure-all-started" %) names)
         [how order :as outcome] (specs/in-order (loaded/specs) names)]
     (if (= :ok how)
       (start-each order type)
       outcome))))

(defn which-applications
  "Returns the applications that run, in the order of their start, as maps.

  Each is {:name :type :description :vsn}.

  Example:

    (application/which-applications) ;=> [{:name :shop :type :permanent :description nil :vsn nil}]

  Erlang: application:which_applications/0, in the other order."
  {:erlang "application:which_applications/0"}
  []
  (let [specs (loaded/specs)]
    (vec (for [{:keys [name state type]} (controller/which)
               :when (= :running state)]
           (merge {:name name :type type :description nil :vsn nil} (select-keys (specs name) [:description :vsn]))))))

(defn get-application
  "Returns the application that a process belongs to, by default this process.

  It is found by the group leader of the process.

  Returns [:ok name], or nil if the process belongs to no application.

  Example:

    (application/get-application pid) ;=> [:ok :shop]

  Erlang: application:get_application/0,1."
  {:erlang "application:get_application/1"}
  ([] (get-application (actor/self)))
  ([pid]
   (when-not (instance? Pid pid)
     (arguments/misuse :magnetar/not-a-pid
                       (str "`get-application` wants a pid, as `self` or `whereis` return it; this is " (arguments/show pid) ".") {:value pid}))
   (let [leader (if (= pid (some-> (LocalProcess/current) .pid))
                  (actor/group-leader)
                  (actor/process-info pid :group-leader))]
     (when-some [name (some-> leader master/application-of)]
       [:ok name]))))

;; ---- environment

(defn get-env
  "Returns the value of a key in the environment of an application.

  Returns [:ok value] or nil; with a default, the value or the default.

  Example:

    (application/get-env :shop :port)     ;=> [:ok 8080]
    (application/get-env :shop :host \"::\") ;=> \"::\"

  Erlang: application:get_env/2,3."
  {:erlang "application:get_env/3"}
  ([application key]
   (when-some [found (find (loaded/env application) key)]
     [:ok (val found)]))
  ([application key default]
   (get (loaded/env application) key default)))

(defn get-all-env
  "Returns the environment of an application, a map.

  Example:

    (application/get-all-env :shop) ;=> {:port 8080}

  Erlang: application:get_all_env/1."
  {:erlang "application:get_all_env/1"}
  [application]
  (loaded/env application))

(defn put-env
  "Sets a key in the environment of an application, and returns :ok.

  The application need not be loaded yet. The value takes precedence over the spec.

  Example:

    (application/put-env :shop :port 80) ;=> :ok

  Erlang: application:set_env/3,4."
  {:erlang "application:set_env/3"}
  [application key value]
  (check-name "put-env" application)
  (loaded/put-env application key value)
  :ok)

(defn unset-env
  "Removes a key from the environment of an application, and returns :ok.

  Example:

    (application/unset-env :shop :port) ;=> :ok

  Erlang: application:unset_env/2."
  {:erlang "application:unset_env/2"}
  [application key]
  (check-name "unset-env" application)
  (loaded/unset-env application key)
  :ok)

;; ---- a program

(defn set-end-hook
  "Adds an end hook in place of the one that this function added before.

  Deprecated: `magnetar.report/add-hook` takes several of them.

  Returns the hook that was there; nil as an argument adds none.

  Example:

    (application/set-end-hook nil) ; (report/remove-hook :end f)"
  {:deprecated "0.2"}
  [f]
  (hooks/set-one :end f))

(defn run
  "Runs a program of applications until it is told to stop, then ends the JVM.

  x is a spec, the name of a loaded application, or a vector of both. Their dependencies have to be among
  them, or loaded. All are :permanent. It starts them, keeps the JVM alive, and stops them in reverse order.
  Call it from -main, in no fiber.

  SIGTERM, SIGINT (Ctrl-C), `shutdown`, System/exit, and an application that ends on its own tell it to stop.
  A second signal halts the JVM at once. The exit status is one of these:

    0                          all stopped in order
    1                          an application did not start, ended on its own, or did not stop in time
    the status of `shutdown`   it was given there
    128 + the signal's number  after a second signal

  A failure is reported, as the failures of supervisors are. The report of an application that did not stop in
  time names the processes that it waits for, and where they are.

  Blocks until the program ends.

  Options:
    :stop-timeout  how long all applications together may take to stop, a duration. Default 30000 ms
    :exit          a function of the status, called at the end. Default System/exit. With `identity`, run
                   returns the status

  Example:

    (defn -main [& args] (application/run {:name :shop :start {:children ['my.counter]}}))

  See also `shutdown`.

  Erlang: a release, and init:stop/1."
  ([x] (run x nil))
  ([x {:keys [stop-timeout exit] :or {stop-timeout 30000 exit program/exit} :as options}]
   (arguments/options "run" [:stop-timeout :exit] options)
   (arguments/nanos :stop-timeout stop-timeout)
   (arguments/function "run" exit "(application/run spec {:exit identity})")
   (program/run {:given (if (sequential? x) (vec x) [x])
                 :named #(named "run" %)
                 :start #(ensure-all-started % :permanent)
                 :stop-timeout stop-timeout
                 :exit exit})))

(defn shutdown
  "Tells the program in `run` to stop and to end with the status. Default 0.

  While the program is stopping already, the status of the last call counts. So a `terminate` that could not
  write its result can say so.

  Returns :ok at once, or nil if there is no such program.

  Example:

    (application/shutdown)

  Erlang: init:stop/0,1."
  {:erlang "init:stop/1"}
  ([] (shutdown 0))
  ([status]
   (arguments/from-zero "status of `shutdown`" status 255)
   (program/tell [:shutdown status])))
