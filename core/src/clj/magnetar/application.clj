(ns magnetar.application
  "Applications: trees of processes that start and stop as one, in an order that follows from what they need of each other.

    (application/run [{:name :store :start {:children [{:id :db :start [gs/start-link 'my.db nil]}]}}
                      {:name :shop :applications [:store] :env {:port 8080} :start {:children [..]}}])

  a program    run shutdown
  applications load unload loaded-applications
  start, stop  start stop ensure-started ensure-all-started which-applications get-application
  environment  get-env get-all-env put-env unset-env

  The spec of an application is a map:

  :name          a keyword or symbol
  :start         the spec of a supervisor, see `magnetar.supervisor`; or [f & args], or f, which starts a process linked to it and returns
                 [:ok pid], [:ok pid state], the pid or [:error why]. Without it the application is a name that others depend on, with its :env
  :applications  names of those that have to run before
  :optional-applications    names of those that have to run before if they are loaded
  :included-applications    specs that are loaded with this one; its own tree starts what is in them
  :env           a map of what can be configured, with its defaults
  :prep-stop     a function of the state that start returned, called before the tree is stopped, whose value is the state then
  :stop          a function of the state, called once the tree has ended
  :description :vsn    for humans

  An application starts in one of three ways. When the tree of a :permanent one ends, whatever for, all the others are stopped as well; of a
  :transient one, if it did not end for :normal; of a :temporary one nobody but the log hears. Names are those of Erlang's module application."
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
  "The :start of a spec as a vector of a function and its arguments; nil if there is none."
  [start]
  (cond
    (map? start) [supervisor/start-link start]
    (or (nil? start) (vector? start)) start
    :else [start]))

(defn- with-calls
  "The spec, and those that it includes, with each :start as a call."
  [spec]
  (-> spec
      (update :start call-of)
      (update :included #(mapv with-calls %))))

(defn load
  "Makes an application known, with those that it includes: :ok, or [:error [:already-loaded name]].

  Throws an IllegalArgumentException if the spec is wrong. Its `ex-data` has :magnetar/reason, which is :magnetar/bad-application-spec or that
  of the supervisor below, :path (where the flaw is, as [:start :children 1 :restart]), :value, :why and :meant.

    (application/load {:name :shop :env {:port 8080}}) ;=> :ok

  In Erlang: application:load/1."
  {:erlang "application:load/1"}
  [spec]
  (let [{:keys [name] :as checked} (specs/application spec)]
    (if (contains? (loaded/specs) name)
      [:error [:already-loaded name]]
      (do (loaded/put-spec (with-calls checked)) :ok))))

(defn unload
  "Forgets an application and its environment: :ok, [:error [:running name]] or [:error [:not-loaded name]].

    (application/unload :shop) ;=> :ok

  In Erlang: application:unload/1."
  {:erlang "application:unload/1"}
  [name]
  (controller/ask [:unload name]))

(defn- shown [{:keys [name description vsn]}]
  {:name name :description description :vsn vsn})

(defn loaded-applications
  "The applications that are known, each {:name :description :vsn}, by name.

    (application/loaded-applications) ;=> [{:name :shop :description nil :vsn nil}]

  In Erlang: application:loaded_applications/0."
  {:erlang "application:loaded_applications/0"}
  []
  (mapv shown (sort-by (comp str :name) (vals (loaded/specs)))))

;; ---- start, stop

(def ^:private types [:permanent :transient :temporary])

(defn- check-type [type]
  (when-not (some #{type} types)
    (arguments/misuse :magnetar/bad-type
                      (str "An application is started :permanent, :transient or :temporary; this is " (arguments/show type) "."
                           (when-some [meant (suggest/near type types)] (str " Is " meant " meant?")))
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
  "Starts an application, given by name or by its spec; waits until its tree is up: :ok.

  [:error [:already-started name]], [:error [:not-started dependency]], [:error [:not-loaded name]], [:error [why start]] if its start
  returned [:error why], [:error [:bad-return [start value]]] if that returned or threw something else. Throws as `load` if the spec is wrong.
  The type is :temporary if none is given. The tree starts in a process of its own, without context values and bindings of the caller.

    (application/start :shop :permanent) ;=> :ok

  In Erlang: application:start/1,2."
  {:erlang "application:start/2"}
  ([application] (start application :temporary))
  ([application type]
   (check-type type)
   (let [[how name :as outcome] (named "start" application)]
     (if (= :ok how)
       (controller/ask [:start name type])
       outcome))))

(defn stop
  "Stops an application, and waits until its tree has ended: :ok, or [:error [:not-started name]]. Those that depend on it go on.

    (application/stop :shop) ;=> :ok

  In Erlang: application:stop/1."
  {:erlang "application:stop/1"}
  [name]
  (check-name "stop" name)
  (controller/ask [:stop name]))

(defn- already-started? [outcome]
  (and (vector? outcome) (= :already-started (first (second outcome)))))

(defn ensure-started
  "Starts an application unless it runs: :ok, or [:error why] as `start`.

    (application/ensure-started :shop) ;=> :ok

  In Erlang: application:ensure_started/1,2."
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
  "Starts applications, and before them all that they depend on, unless they run: [:ok names], those that it has started, in their order.

  x is the name of a loaded application, or a vector of names. If one does not start, those that this call has started are stopped again:
  [:error [name why]]. [:error [:application-spec flaw]] if one is not loaded, or if they depend on each other in a cycle, which is named;
  the flaw is a map with :why, :path (where it is), :value, :meant and :message.

    (application/ensure-all-started :shop) ;=> [:ok [:store :shop]]

  In Erlang: application:ensure_all_started/1,2."
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
  "The applications that run, in the order of their start: each {:name :type :description :vsn}.

    (application/which-applications) ;=> [{:name :shop :type :permanent :description nil :vsn nil}]

  In Erlang: application:which_applications/0, in the other order."
  {:erlang "application:which_applications/0"}
  []
  (let [specs (loaded/specs)]
    (vec (for [{:keys [name state type]} (controller/which)
               :when (= :running state)]
           (merge {:name name :type type :description nil :vsn nil} (select-keys (specs name) [:description :vsn]))))))

(defn get-application
  "[:ok name] of the application that this process, or the one with the pid, belongs to by its group leader; nil if to none.

    (application/get-application) ;=> [:ok :shop]

  In Erlang: application:get_application/0,1."
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
  "[:ok value] of a key in the environment of an application, or nil; with a default the value or the default.

    (application/get-env :shop :port)     ;=> [:ok 8080]
    (application/get-env :shop :host \"::\") ;=> \"::\"

  In Erlang: application:get_env/2,3."
  {:erlang "application:get_env/3"}
  ([application key]
   (when-some [found (find (loaded/env application) key)]
     [:ok (val found)]))
  ([application key default]
   (get (loaded/env application) key default)))

(defn get-all-env
  "The environment of an application, a map.

    (application/get-all-env :shop) ;=> {:port 8080}

  In Erlang: application:get_all_env/1."
  {:erlang "application:get_all_env/1"}
  [application]
  (loaded/env application))

(defn put-env
  "Sets a key in the environment of an application, which need not be loaded yet; it counts more than what the spec says. Returns :ok.

    (application/put-env :shop :port 80)

  In Erlang: application:set_env/3,4."
  {:erlang "application:set_env/3"}
  [application key value]
  (check-name "put-env" application)
  (loaded/put-env application key value)
  :ok)

(defn unset-env
  "Takes a key out of the environment of an application; returns :ok.

    (application/unset-env :shop :port)

  In Erlang: application:unset_env/2."
  {:erlang "application:unset_env/2"}
  [application key]
  (check-name "unset-env" application)
  (loaded/unset-env application key)
  :ok)

;; ---- a program

(defn set-end-hook
  "Adds a hook of ends in place of the one that this has added before, which it returns; nil adds none.

  Deprecated: `magnetar.report/add-hook` takes several of them.

    (application/set-end-hook nil) ; (report/remove-hook :end f)"
  {:deprecated "0.2"}
  [f]
  (hooks/set-one :end f))

(defn run
  "Runs a program of applications: starts them, keeps the JVM alive, and stops them in reverse order when it is told to; then ends the JVM.

  x is a spec, a name of what is loaded, or a vector of both; what these depend on has to be among them, or loaded. All are :permanent. It is told
  to by SIGTERM, by SIGINT (Ctrl-C), by `shutdown`, by an application that ends on its own, or by System/exit. The second signal halts the JVM at once.
  The status is 0 if all stopped in order, that of `shutdown`, 1 if an application did not start, ended on its own, or did not stop in time; 128
  and the number of the signal for the second one. What went wrong is a report, as those of supervisors; one that did not stop in time is
  named, with the processes that it waits for and where they are. Waits for ever otherwise; call it from -main, in no fiber. Options:

    :stop-timeout  how long all of them may take to stop; 30000
    :exit          a function of the status, called at the end; System/exit. With `identity`, run returns the status

    (defn -main [& args] (application/run {:name :shop :start {:children [..]}}))

  In Erlang: a release, and init:stop/1."
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
  "Tells the program that is in `run` to stop, and to end with the status, 0 if none is given; returns :ok at once, or nil if there is no such program.
  While it stops already, the status is that of the last call: so a `terminate` that could not write its result says so.

    (application/shutdown)

  In Erlang: init:stop/0,1."
  {:erlang "init:stop/1"}
  ([] (shutdown 0))
  ([status]
   (arguments/from-zero "status of `shutdown`" status 255)
   (program/tell [:shutdown status])))
