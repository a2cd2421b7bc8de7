(ns magnetar.hot
  "Changes the code of a program that runs.

  load      loads changed source, all of it or none
  upgrade   the same, while the servers of a tree stand still, and lets each change its state; or takes all of it back
  version   which version of a namespace is loaded
  watch     loads what changes in files, folders and jars; unwatch ends that

    (hot/upgrade :app 'my.counter)

  A server whose behaviour is a namespace, or a var, handles the next message with what its callbacks are by then; a process that loops takes
  new code when it goes on with (continue #'serve state). A map of functions, and a function that somebody holds, are the old code for ever.

  The version of a namespace is its metadata :version, (ns my.counter {:version 2}), or else the digest of the source that was loaded here. Which
  process runs which version is in `magnetar.actor/process-info` and `magnetar.inspect/processes`, under :code: for a server it is the version that
  its state was made by, or changed to.

  In Erlang: the modules code and release_handler."
  (:refer-clojure :exclude [load])
  (:require
   [magnetar.actor :as actor]
   [magnetar.hot.load :as loading]
   [magnetar.hot.sources :as sources]
   [magnetar.hot.upgrade :as upgrade]
   [magnetar.hot.watch :as watch]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.impl.versions :as versions]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report])
  (:import
   (java.io File)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defn load
  "Loads sources, all or none; returns {:loaded [{:namespace :from :to :removed} ..]} in the order in which it did.

  A source is the symbol of a namespace, found on the class path, or the path of a file, a folder or a jar, of which everything is loaded that is
  not what was loaded before; sources is one or a collection. Each is loaded behind those of them that it requires. Vars that the new source
  does not have are :removed. Servers that run meanwhile may see some of the new vars and some of the old: see `upgrade`.

  If one does not load, vars, mappings and aliases of all namespaces are what they were, and this throws an ExceptionInfo that says why, with
  :namespace and the compiler's error as its cause. What else the source did to the world, or to the inside of an atom, stays; what other threads
  have defined meanwhile does not. Waits while somebody else loads.

    (hot/load 'my.counter) ;=> {:loaded [{:namespace my.counter, :from 1, :to 2, :removed []}]}

  In Erlang: code:load_file/1, code:atomic_load/1."
  {:erlang "code:atomic_load/1"}
  [sources]
  (loading/alone
    #(dissoc (loading/load-units (loading/wanted (sources/units "load" sources))) :undo)))

(defn- trees [tree]
  (if (and (coll? tree) (not (map? tree)) (not-any? #{:via :global :local} (take 1 tree)))
    tree
    [tree]))

(defn- upgrade-to [tree units {:keys [extra timeout] :or {timeout 5000}}]
  (arguments/nanos :timeout timeout)
  (if (seq units)
    (upgrade/run (trees tree) (map :namespace units) #(loading/load-units units) {:extra extra :timeout timeout})
    {:loaded [] :processes [] :started [] :stopped [] :failed []}))

(defn upgrade
  "Loads sources, see `load`, and changes the state of the servers below a supervisor, while they stand still.

  tree is a supervisor or a server, or a collection of them. Suspended are its supervisors and pools, and the servers whose behaviours are loaded; then
  the sources are loaded, (code-change old-version state extra) of the new code is called in each of these servers, and all go on. Nobody's call
  fails: it waits. A supervisor whose spec is a var, (sup/start-link #'my.app/spec), takes its new one: children keep running by the new
  rules, those that are new are started, and those that are not in it any more are ended.

  Returns {:loaded [..] :processes [{:pid :name :from :to} ..] :started [id ..] :stopped [id ..] :failed [[id why] ..]}; the last three are
  about children of supervisors with a new spec. If a namespace does not load, a code-change fails, or a server does not answer in time, all
  states and all namespaces are what they were, all servers go on, and this throws an ExceptionInfo with :server, :reason and :step. A server that
  dies meanwhile is started again by its supervisor at the end. It goes on to its end if the caller dies. Options:

  :extra    what code-change is given, nil
  :timeout  how long each server may take to come to rest, and to change its state, 5000 ms

    (hot/upgrade :app 'my.counter {:extra {:currency :EUR}})

  In Erlang: release_handler:install_release/1."
  {:erlang "release_handler:install_release/1"}
  ([tree sources] (upgrade tree sources nil))
  ([tree sources options]
   (arguments/options "upgrade" [:extra :timeout] options)
   (upgrade-to tree (loading/wanted (sources/units "upgrade" sources)) options)))

(defn version
  "The version of a namespace that is loaded: its metadata :version, or the digest of what was loaded here; nil if it has neither.

    (hot/version 'my.counter) ;=> 2

  In Erlang: the attribute vsn of a module."
  {:erlang "Module:module_info/1"}
  [ns]
  (when-not (symbol? ns)
    (arguments/misuse :magnetar/not-a-namespace
                      (str "`version` wants the symbol of a namespace, as in (hot/version 'my.counter); this is " (arguments/show ns) ".") {:value ns}))
  (versions/version ns))

;; ---- watching

(defn- tell [{:keys [event] :as report}]
  (report/tell (assoc report :level (if (= :code-loaded event) :info :error))))

(defn- attempt [tree units options]
  (try
    (merge {:event :code-loaded} (if (some? tree) (upgrade-to tree units options) (dissoc (loading/alone #(loading/load-units units)) :undo)))
    (catch Exception e
      (merge {:event :code-not-loaded :namespaces (mapv :namespace units) :message (ex-message e)} (select-keys (ex-data e) [:server :reason :step])))))

(defn- report-to [f report]
  (try
    (f report)
    (catch Exception e
      (tell {:event :report-failed :message (ex-message e) :report report}))))

(defn- attempted
  "Reports an attempt; the namespaces that still have to be loaded, since one of them did not."
  [report {:keys [namespaces] :as outcome}]
  (report-to report outcome)
  (set namespaces))

(defn- watching [files {:keys [tree report] :or {report tell} :as options}]
  (with-open [service (watch/open)]
    (watch/register service files)
    (let [begin (watch/first-look files)]
      (proc-lib/init-ack [:ok (actor/self)])
      (loop [seen begin, pending #{}]
        (watch/await-event service)
        (watch/register service files)
        (let [[units seen] (watch/look seen pending)]
          (recur seen (if (seq units)
                        (attempted report (attempt tree units options))
                        pending)))))))

(defn- watched [path]
  (let [file (sources/file-of path)]
    (when-not (some-> file .exists)
      (arguments/misuse :magnetar/no-source
                        (str "`watch` wants the path of a file, a folder or a jar that exists; this is " (arguments/show path) ".") {:source path}))
    file))

(defn watch
  "Loads what changes in files, folders or jars, from now on; returns the pid of the process that does. End it with `unwatch`.

  paths is one or a collection. Files that are saved at about the same time are loaded together; if one of them does not load, none is, until
  something changes again. Options:

  :tree     upgrades this, see `upgrade`, with its options :extra and :timeout; else the files are only loaded
  :report   called for each loading with {:event :code-loaded ..} and what `load` or `upgrade` return, or {:event :code-not-loaded :message ..};
            these go where the reports of servers go unless told, see `magnetar.report`

    (hot/watch \"src\" {:tree :app})

  In Elixir: what Phoenix.CodeReloader is for."
  ([paths] (watch paths nil))
  ([paths {:keys [report tree] :as options}]
   (arguments/options "watch" [:tree :report :extra :timeout] options)
   (arguments/option-function :report report "println")
   (let [files (mapv watched (if (coll? paths) paths [paths]))]
     (let [[how x] (proc-lib/in-process #(proc-lib/start-here (fn [] (watching files options)) {:label "hot/watch"}))]
       (if (= :ok how)
         x
         (throw (errors/failure (str "The watch did not start: " (arguments/show x)) {:magnetar/reason :magnetar/watch-failed :reason x})))))))

(defn unwatch
  "Ends a watch; returns :ok once it has ended.

    (hot/unwatch (hot/watch \"src\")) ;=> :ok"
  [watch]
  (when-not (instance? Pid watch)
    (arguments/misuse :magnetar/not-a-watch (str "`unwatch` wants what `watch` returned; this is " (arguments/show watch) ".") {:value watch}))
  (proc-lib/in-process
    (fn []
      (let [ref (actor/monitor watch)]
        (actor/exit watch :shutdown)
        (actor/receive [:DOWN ref :process _ _] :ok)))))
