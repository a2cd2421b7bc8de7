(ns magnetar.hot.upgrade
  "The steps of an upgrade: suspend, load, migrate, resume; and back, when a migration fails.

  A server here is {:pid :name :versions :supervisor?}. Servers are suspended in the order in which a supervisor stops its children,
  the last one first, since a later one may wait for an earlier one; and migrated and resumed in the order of their start. A supervisor is
  suspended behind its children, so that none of them is started again meanwhile: one that dies is when the supervisor goes on, with the code that
  is there by then.

  Only the loading may take any time; each request has the timeout of the upgrade. A server that does not answer in time gets the undoing
  request all the same, behind the first one in its mailbox. So it is never left suspended."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.hot.load :as loading]
   [magnetar.impl.actor.info :as info]
   [magnetar.impl.actor.servers :as servers]
   [magnetar.impl.actor.start :as start]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.otp.request :as request]
   [magnetar.impl.runtime]
   [magnetar.impl.versions :as versions]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.supervisor.requests :as supervisor])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar TimeoutException)
   (magnetar.impl.otp.behaviour Behaviour)
   (magnetar.impl.otp.host Server)
   (magnetar.kernel.process LocalProcess Pid ProcessTable Send)))

(set! *warn-on-reflection* true)

;; ---- the servers that there are

(defn- label [^LocalProcess process]
  (when-some [^Server server (.server process)]
    (.-label ^Behaviour (.-behaviour server))))

(defn- supervisor?
  "Does the process start others, and keep them? A pool does as well."
  [process]
  (contains? #{'magnetar.supervisor 'magnetar.pool} (label process)))

(defn- known
  "What is known of the process without asking it; nil if it is dead."
  [pid]
  (when (info/alive? pid)
    (when-some [^LocalProcess process (ProcessTable/live pid)]
      {:pid pid :name (.name process) :versions (versions/served-by process) :supervisor? (supervisor? process)})))

(defn- gone?
  "Did the request fail since the server is dead, or dying?"
  [{:keys [pid]} ^ExceptionInfo e]
  (or (= :noproc (:reason (ex-data e))) (not (info/alive? pid))))

(defn- name-of [{:keys [pid name]}]
  (or name pid))

(defn- late [server step timeout]
  (errors/failure (str "The server " (arguments/show (name-of server)) " did not " step " within " (arguments/show-duration timeout)
                    ". Let its callbacks be quicker, or give the upgrade a longer :timeout.")
    {:magnetar/reason :magnetar/upgrade-failed :server (name-of server) :reason :timeout :step step}))

(defn- ask
  "The answer of the server, ::gone if it is dead. The step is what the server did not do if it does not answer in time."
  [{:keys [pid] :as server} request step timeout]
  (try
    (request/system ['magnetar.hot/upgrade pid timeout] pid request timeout nil)
    (catch ExceptionInfo e
      (cond
        (gone? server e) ::gone
        (instance? TimeoutException e) (throw (late server step timeout))
        :else (throw e)))))

(defn- tell
  "Sends a request whose answer is not awaited; a dead process gets none."
  [{:keys [pid]} request]
  (when (info/alive? pid)
    (Send/control pid [:magnetar/system [(actor/self) nil] request])))

(defn- state-of [server timeout]
  (let [answer (ask server [:get-state] "tell its children" timeout)]
    (when (vector? answer) (second answer))))

(defn- children
  "The children of a supervisor that run, the last one first. It is asked for its state, since that it answers suspended too."
  [supervisor timeout]
  (let [{:keys [kids workers]} (state-of supervisor timeout)]
    (->> (concat (map :pid (sort-by :n > (vals kids))) (sort #(compare %2 %1) workers))
         (filter #(instance? Pid %))
         (keep known))))

;; ---- suspend

(defn- affected? [{:keys [versions]} namespaces]
  (some namespaces (keys versions)))

(defn- suspend-one
  "Suspends a server, if that has not been done. It counts as :held before it is, since it may be so late."
  [{:keys [pid] :as server} progress timeout]
  (when-not (some #(= pid (:pid %)) (:held @progress))
    (swap! progress update :held conj server)
    (ask server [:suspend] "come to rest" timeout)))

(declare suspend-tree)

(defn- suspend-children [supervisor namespaces progress timeout]
  (run! #(suspend-tree % namespaces progress timeout) (children supervisor timeout)))

(defn- suspend-tree
  "Suspends those below and at the process that the upgrade is about. The children of a supervisor are looked at again once it is suspended:
  by then no new one can come."
  [{:keys [supervisor?] :as process} namespaces progress timeout]
  (when supervisor?
    (suspend-children process namespaces progress timeout)
    (suspend-one process progress timeout)
    (suspend-children process namespaces progress timeout))
  (when (and (not supervisor?) (affected? process namespaces))
    (suspend-one process progress timeout)))

;; ---- migrate

(defn- recheck
  "Refuses code that has lost a callback which the server needs."
  [{:keys [pid]}]
  (when-some [^Server server (some-> (ProcessTable/live pid) .server)]
    (behaviour/recheck (.-behaviour server))))

(defn- old-version
  "What code-change is told: the version; of a process with callbacks of several namespaces, a map."
  [versions]
  (if (= 1 (count versions)) (val (first versions)) versions))

(defn- in-words [reason]
  (let [error (when (vector? reason) (first reason))]
    (if (string? (:message error)) (str/replace (:message error) #"\.$" "") (arguments/show reason))))

(defn- told-version
  "What the server is told. An event manager knows of each handler what its state was made by, and is told all."
  [{:keys [pid versions]}]
  (if (= 'magnetar.gen-event (some-> (ProcessTable/live pid) label))
    versions
    (old-version versions)))

(defn- failed [{:keys [versions] :as server} reason]
  (errors/failure (str "The upgrade was rolled back: code-change of " (arguments/show (name-of server)) " from version " (pr-str (old-version versions))
                    " failed: " (in-words reason) ". All namespaces and all states are as they were before.")
    {:magnetar/reason :magnetar/upgrade-failed :server (name-of server) :reason reason :step "change its code"}))

(defn- answer-of-change [server extra timeout]
  (try
    (ask server [:change-code (told-version server) extra] "change its code" timeout)
    (catch ExceptionInfo e
      (throw (failed server (:reason (ex-data e) e))))))

(defn- current [versions]
  (into {} (map (fn [[name _]] [name (versions/version name)])) versions))

(defn- migrated [{:keys [pid name versions]}]
  {:pid pid :name name :from (old-version versions) :to (old-version (current versions))})

(defn- migrate
  "Changes the code of the servers in their order; those that were."
  [servers extra timeout]
  (run! recheck servers)
  (reduce (fn [done server]
            (let [answer (answer-of-change server extra timeout)]
              (cond
                (= :ok answer) (conj done server)
                (= ::gone answer) done
                :else (throw (failed server (second answer))))))
          [] servers))

;; ---- the children of supervisors with a new spec

(defn- changed-children
  "What a supervisor that has a new spec has to start and to end: [[pid what id] ..]. It is suspended."
  [{:keys [pid] :as supervisor} timeout]
  (for [{:keys [id fresh dropped] :as child} (sort-by :n (vals (:kids (state-of supervisor timeout))))
        :when (or dropped (and fresh (nil? (:pid child))))]
    [pid (if dropped :stopped :started) id]))

(defn- finish-child [[supervisor what id]]
  (try
    (let [[how why :as answer] (if (= :started what)
                                 (supervisor/restart-child supervisor id)
                                 (do (supervisor/terminate-child supervisor id) [(supervisor/delete-child supervisor id)]))]
      (if (= :ok how) [what id] [:failed [id (or why answer)]]))
    (catch ExceptionInfo e
      [:failed [id (:reason (ex-data e))]])))

(defn- finish-children
  "Starts and ends them: {:started [id ..] :stopped [id ..] :failed [[id why] ..]}."
  [changes]
  (reduce (fn [report change]
            (let [[what x] (finish-child change)]
              (update report what conj x)))
          {:started [] :stopped [] :failed []} changes))

;; ---- all of it

;; What has been done so far: :held, the servers that were suspended, the first to resume at the front, and :undo, which takes back the loading.
(defn- progress []
  (atom {:held () :undo nil}))

(defn- leave
  "Takes back what has been loaded and migrated, unless it was :done, and lets all go on."
  [progress]
  (let [{:keys [held undo]} (first (reset-vals! progress {:held () :undo nil}))]
    (when undo
      (run! #(tell % [:undo-change]) held)
      (undo))
    (run! #(tell % [:resume]) held)))

(defn- load-and-migrate [progress load {:keys [extra timeout]}]
  (let [{:keys [loaded undo]} (load)
        _ (swap! progress assoc :undo undo)
        namespaces (into #{} (map :namespace) loaded)
        done (migrate (filterv #(affected? % namespaces) (:held @progress)) extra timeout)
        changes (vec (mapcat #(changed-children % timeout) (filter :supervisor? done)))]
    (swap! progress assoc :undo nil)
    {:loaded loaded :processes (mapv migrated done) :changes changes}))

(defn- upgrade-here [roots namespaces load progress {:keys [timeout] :as options}]
  (let [{:keys [changes] :as done}
        (try
          (run! #(suspend-tree % namespaces progress timeout) roots)
          (load-and-migrate progress load options)
          ;; What a process sends that has been told to exit is dropped: then the caller does this, once it knows.
          (finally (when (proc-lib/alive-here?) (leave progress))))]
    (merge (dissoc done :changes) (finish-children changes))))

(defn- killed [progress pid why]
  (loading/alone #(leave progress))
  (throw (errors/failure (str "The process of the upgrade, " pid ", has exited: " (arguments/show why) ". All is as it was before, unless it was done already.")
           {:magnetar/reason :magnetar/upgrade-failed :reason why})))

(defn- in-its-own-process
  "The value of (f), called in a process that goes on when the caller dies: or else what is suspended would stay so. If it dies itself, the
  caller does what is left."
  [progress f]
  (let [me (actor/self)
        tag (actor/make-ref)
        [pid monitor] (start/spawn-opt "upgrade" "hot/upgrade" {:monitor true}
                                       #(! me [tag (try [:value (loading/alone f)] (catch Exception e [:error e]))]) nil)]
    (receive
      [tag [how x]] (do (actor/demonitor monitor {:flush true}) (if (= :value how) x (throw x)))
      [:DOWN monitor :process _ why] (killed progress pid why))))

(defn- root [server]
  (when (nil? server)
    (servers/refuse-server "upgrade" server))
  (or (some-> (servers/local-server "upgrade" server) known)
      (arguments/misuse :magnetar/no-such-server
                        (str "`upgrade` wants a supervisor or a server that is alive; there is none at " (arguments/show server)
                             ". Start it first, or check the name with `actor/whereis`.")
                        {:server server})))

(defn- all-below [{:keys [supervisor?] :as process} timeout]
  (lazy-seq (cons process (when supervisor? (mapcat #(all-below % timeout) (children process timeout))))))

(defn- refuse-own [roots timeout]
  (let [me (actor/self)]
    (when (and (or (.server (LocalProcess/current)) (versions/served-by (LocalProcess/current)))
               (or (some #(= me (:pid %)) roots)
                   (some #(= me (:pid %)) (mapcat #(all-below % timeout) roots))))
      (arguments/misuse :magnetar/upgrades-itself
                        "`upgrade` was called in a process of the tree that it has to suspend: call it in another process, with `spawn` for instance."
                        {:pid me}))))

(defn run
  "Upgrades the trees to what (load) loads, which is of these namespaces."
  [trees namespaces load {:keys [timeout] :as options}]
  (loading/refuse-within "upgrade")
  (proc-lib/in-process
    (fn []
      (let [roots (mapv root trees)]
        (refuse-own roots timeout)
        (let [progress (progress)]
          (in-its-own-process progress #(upgrade-here roots (set namespaces) load progress options)))))))
