(ns magnetar.hot
  "Changes the code of a running program.

  load      loads changed source, all of it or none
  upgrade   also suspends the servers of a tree and lets each change its state; a failure undoes all of it
  version   which version of a namespace is loaded
  watch     loads what changes in files, folders and jars; unwatch ends that

    (hot/upgrade :app 'my.counter)

  A server whose callback module is a namespace or a var handles the next message with the callbacks that are
  current by then. A process that loops takes new code when it goes on with (continue #'serve state). A map of
  functions, and a function that is held as a value, stay the old code.

  The version of a namespace is its metadata :version, as in (ns my.counter {:version 2}), else the digest of
  the source that was loaded here. `magnetar.actor/process-info` and `magnetar.inspect/processes` show under
  :code which process runs which version. For a server it is the version that its state was made by, or
  changed to.

  Require it as `[magnetar.hot :as hot]`.

  Erlang: the modules code and release_handler."
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
  "Loads sources, all of them or none.

  sources is one source or a collection. A source is the symbol of a namespace on the class path, or the path
  of a file, a folder or a jar. Of a folder or jar everything is loaded that differs from what was loaded
  before. A source is loaded after the given sources that it requires. Running servers may see some of the new
  vars and some of the old meanwhile; `upgrade` avoids that.

  If a source does not load, vars, mappings and aliases of all namespaces become what they were. Other effects
  of the source stay, also inside of an atom. What other threads have defined meanwhile is undone as well.

  Returns {:loaded [{:namespace :from :to :removed} ..]} in the order of loading. :removed are vars that the
  new source does not have.

  Blocks until the sources are loaded, and before that while another thread loads.

  Throws an ExceptionInfo if a source does not load. It has :namespace, and the compiler's error as its cause.

  Example:

    (hot/load 'my.counter) ;=> {:loaded [{:namespace my.counter, :from 1, :to 2, :removed []}]}

  See also `upgrade`, `watch`.

  Erlang: code:load_file/1, code:atomic_load/1."
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
  "Loads sources and changes the states of suspended servers, all or nothing.

  tree is a supervisor or a server, or a collection of them; see `load` for sources. An upgrade has these
  steps:

    1. Its supervisors and pools, and the servers whose callback modules are loaded, are suspended.
    2. The sources are loaded.
    3. (code-change old-version state extra) of the new code is called in each of these servers.
    4. All go on.

  No call fails meanwhile: it waits. A supervisor whose spec is a var, (sup/start-link #'my.app/spec), takes
  its new spec. Children keep running by the new rules, new ones are started, and children that are not in it
  any more are ended. A server that dies meanwhile is restarted by its supervisor at the end. The upgrade goes
  on to its end if the caller dies.

  Returns {:loaded [..] :processes [{:pid :name :from :to} ..] :started [id ..] :stopped [id ..] :failed [[id
  why] ..]}. The last three are about children of supervisors with a new spec.

  Blocks until the upgrade has ended.

  Throws an ExceptionInfo with :server, :reason and :step if a namespace does not load, a code-change fails,
  or a server does not answer in time. All states and all namespaces are then what they were, and all servers
  go on.

  Options:
    :extra    what code-change is given. Default nil
    :timeout  how long each server may take to be suspended, and to change its state, a duration. Default
              5000 ms

  Example:

    (hot/upgrade :app 'my.counter {:extra {:currency :EUR}})

  See also `load`, `magnetar.sys/change-code`.

  Erlang: release_handler:install_release/1."
  {:erlang "release_handler:install_release/1"}
  ([tree sources] (upgrade tree sources nil))
  ([tree sources options]
   (arguments/options "upgrade" [:extra :timeout] options)
   (upgrade-to tree (loading/wanted (sources/units "upgrade" sources)) options)))

(defn version
  "Returns the version of a loaded namespace.

  It is the metadata :version, or the digest of the source that was loaded here; nil if there is neither.

  Example:

    (hot/version 'my.counter) ;=> 2

  Erlang: the attribute vsn of a module."
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
  "Reports an attempt; returns the namespaces that are still to be loaded."
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
  "Loads what changes in files, folders or jars from now on, until `unwatch`.

  paths is one path or a collection. Files that are saved at about the same time are loaded together. If one
  of them does not load, none is, until something changes again.

  Returns the pid of the process that watches.

  Options:
    :tree             upgrades this tree, see `upgrade`; without it the files are only loaded
    :extra, :timeout  as in `upgrade`
    :report           a function that is called after each loading with {:event :code-loaded ..} and what
                      `load` or `upgrade` returned, or with {:event :code-not-loaded :message ..}. Default:
                      the reports go where those of servers go, see `magnetar.report`

  Example:

    (hot/watch \"src\" {:tree :app})

  Elixir: what Phoenix.CodeReloader is for."
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
  "Ends a watch, and returns :ok.

  Blocks until the watching process has ended.

  Example:

    (hot/unwatch (hot/watch \"src\")) ;=> :ok"
  [watch]
  (when-not (instance? Pid watch)
    (arguments/misuse :magnetar/not-a-watch (str "`unwatch` wants what `watch` returned; this is " (arguments/show watch) ".") {:value watch}))
  (proc-lib/in-process
    (fn []
      (let [ref (actor/monitor watch)]
        (actor/exit watch :shutdown)
        (actor/receive [:DOWN ref :process _ _] :ok)))))
