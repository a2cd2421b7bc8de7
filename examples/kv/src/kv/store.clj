(ns kv.store
  "The data, and the server that writes them to the log.

  The data are one immutable value in an atom. Readers look at it. Without a log a client changes it itself, and
  has the atom's lock meanwhile.
  With a log all changes go through the server: commands that arrive together are executed, written, synced
  once if each acknowledgement needs it, published and then answered. So readers see what is logged only. If
  the log cannot be written, the old value is still there."
  (:require
   [kv.commands :as commands]
   [kv.db :as db]
   [kv.log :as log]
   [kv.resp :as resp]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.application :as application]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope]
   [magnetar.timer :as timer])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io IOException)
   (java.nio.channels FileChannel)))

(set! *warn-on-reflection* true)

(def ^:private ^:const most-waiting "Callers that one batch answers." 1024)

(def ^:private ^:const most-expired "Keys that are removed at a time because they are expired." 1000)

;; ---- a batch: [db replies log]

(defn- execute [[db replies log] command]
  (let [[db reply more] (commands/execute db command)]
    [db (conj replies reply) (into log more)]))

(defn- execute-all [db commands]
  (reduce execute [db [] []] commands))

(defn- current
  "The published data, as they are now."
  [{:keys [published clock]}]
  (assoc @published :now (clock)))

(defn- swap
  "Publishes what f makes of the current data; returns the outcome, in which the new data are the first. Writers
  take turns: with compare-and-set a long command would begin again at each short one, and never end."
  [{:keys [published] :as options} f]
  (locking published
    (let [[after :as outcome] (f (current options))]
      (reset! published after)
      outcome)))

;; ---- the log. The server's :waiting has [from commands] of each caller. While a sync in the background
;; runs, :syncing is the number of ticks that it has lasted. After a failed sync the server is :broken?, and
;; silent. :failure is an atom with the exception then. It outlives the server, so that no other one is started,
;; and its lock lets one sync run at a time: a second one beside a failing one could succeed.

(defn- end-program [{:keys [tell failure broken?] :as state} ^ExceptionInfo e]
  (when-not broken?
    (reset! failure e)
    (tell (ex-message e))
    (application/shutdown 1))
  (assoc state :broken? true :waiting []))

(defn- text-of [log]
  (str (reduce resp/write (StringBuilder.) log)))

(defn- check-failure [{:keys [failure]}]
  (when-some [e @failure]
    (throw e)))

(defn- sync-now [{:keys [log failure] :as state}]
  (locking failure
    (check-failure state)
    (try
      (log/sync-all log)
      (catch ExceptionInfo e
        (reset! failure e)
        (throw e)))))

(defn- write-log [{:keys [log appendfsync] :as state} text]
  (check-failure state)
  (log/write log text)
  (when (= :always appendfsync)
    (sync-now state)))

(defn- refusals
  "The replies when nothing can be written: reads have theirs."
  [db commands ^IOException why]
  (let [refusal (resp/->Failure (str "MISCONF Errors writing to the AOF file: " (ex-message why)))]
    (mapv #(if (commands/write? %) refusal (second (commands/execute db %))) commands)))

(defn- answer [waiting replies]
  (reduce (fn [replies [from commands]]
            (gs/reply from (subvec replies 0 (count commands)))
            (subvec replies (count commands)))
          replies waiting))

(defn- write-batch
  "Writes and publishes a batch, and answers."
  [{:keys [published waiting] :as state} [db replies log]]
  (when (seq log)
    (scope/offload write-log state (text-of log)))
  (reset! published db)
  (answer waiting replies)
  (cond-> (assoc state :waiting [])
    (seq log) (assoc :dirty? true)))

(defn- commit
  "Executes what waits, after some of the keys that are expired have been deleted, and answers it."
  [{:keys [waiting] :as state}]
  (let [before (current state)
        commands (mapcat second waiting)
        [db deleted] (commands/delete-expired before most-expired)
        [db replies log] (execute-all db commands)]
    (try
      (write-batch state [db replies (into deleted log)])
      (catch IOException e
        (answer waiting (refusals before commands e))
        (assoc state :waiting []))
      (catch ExceptionInfo e
        (end-program state e)))))

(defn- late?
  "Has the sync in the background lasted for two seconds? Then callers wait, since a crash would lose even
  more."
  [{:keys [syncing]}]
  (<= 2 (long (or syncing 0))))

(defn- commit-if-possible [{:keys [log broken?] :as state}]
  (if (and log (not broken?) (not (late? state)))
    (commit state)
    state))

(defn- sync-log
  "Syncs the log; returns nil, or why that failed."
  [state]
  (try
    (scope/offload sync-now state)
    nil
    (catch ExceptionInfo e e)))

(defn- tick
  "Once a second: syncs the log in a process of its own, so that writes go on meanwhile."
  [{:keys [appendfsync dirty? syncing broken?] :as state}]
  (let [server (actor/self)]
    (cond
      syncing (update state :syncing inc)
      (and dirty? (= :everysec appendfsync) (not broken?))
      (do (actor/spawn-link (fn [] (! server [:synced (sync-log state)])))
          (assoc state :dirty? false :syncing 0))
      :else state)))

(defn- synced [state failure]
  (let [state (assoc state :syncing nil)]
    (if failure
      (end-program state failure)
      (commit-if-possible state))))

;; ---- the server

(defn- open
  "The state with the log, and the data published. The file of a server that was killed is closed before."
  [{:keys [open-file published opened tell] :as options}]
  (if-not open-file
    options
    (do
      (check-failure options)
      (some-> ^FileChannel @opened .close)
      (let [[log db] (log/open (reset! opened (open-file)) tell)]
        (reset! published db)
        (assoc options :log log)))))

(defn init
  "Options: :published the atom for the data, :open-file a function or nil, :opened and :failure atoms,
  :appendfsync, :clock and :tell."
  [options]
  (actor/flag :trap-exit true)
  (try
    (let [state (scope/offload open options)]
      (timer/send-interval 100 :expire)
      (timer/send-interval 1000 :tick)
      [:ok (assoc state :waiting [])])
    (catch ExceptionInfo e
      [:error (ex-message e)])
    (catch IOException e
      [:error (str "The append-only file cannot be opened: " (ex-message e) ".")])))

(defn handle-call
  "Commands wait until no other message is there, or until they are many."
  [commands from {:keys [broken?] :as state}]
  (let [state (if broken? state (update state :waiting conj [from commands]))]
    (if (< (count (:waiting state)) most-waiting)
      [:noreply state 0]
      [:noreply (commit-if-possible state)])))

(defn- expire
  "Deletes expired keys. If that were not all, goes on after the messages that are there."
  [{:keys [log published] :as state}]
  (let [before @published
        state (if log
                (commit-if-possible state)
                (do (swap state #(commands/delete-expired % most-expired))
                    state))]
    (when (and (not (identical? before @published)) (seq (db/expired-keys (current state))))
      (! (actor/self) :expire))
    state))

(defn handle-info
  "No message was there, for :timeout; or it is time to do something."
  [message state]
  (case message
    :timeout [:noreply (commit-if-possible state)]
    :expire [:noreply (expire state)]
    :tick [:noreply (tick state) 0]
    (let [[kind a why] message]
      (cond
        (= :synced kind) [:noreply (synced state a)]
        (= :normal why) [:noreply state 0]
        :else [:stop why state]))))

(defn terminate
  "An ordered stop syncs the file. The clients have been stopped before."
  [_ {:keys [log broken?] :as state}]
  (when log
    (when-not broken?
      (some->> (sync-log state) (end-program state)))
    (log/close log)))

;; ---- for clients

(defn execute-reads
  "The replies to commands of which none writes, from the data as they are published."
  [options commands]
  (let [db (current options)]
    (mapv #(second (commands/execute db %)) commands)))

(defn execute-writes
  "The replies to commands, in their order and without others in between. If the store fails, they may have
  been executed or not, and this process ends."
  [{:keys [open-file] :as options} commands]
  (if-not open-file
    (second (swap options #(execute-all % commands)))
    (try
      (gs/call :kv/store commands {:timeout :infinity})
      (catch ExceptionInfo e
        (actor/exit [:shutdown (:reason (ex-data e))])))))
