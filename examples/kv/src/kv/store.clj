(ns kv.store
  "The server that owns the data: all changes go through it, one after the other.

  Commands that arrive together are a batch: they are executed, written to the log, synced once if each acknowledgement needs it, published and
  then answered. The data are one immutable value in an atom. So readers look at it without asking the server, and see what is logged
  only. If the log cannot be written, the old value is still there."
  (:require
   [kv.commands :as commands]
   [kv.db :as db]
   [kv.log :as log]
   [kv.resp :as resp]
   [magnetar.actor :as actor]
   [magnetar.application :as application]
   [magnetar.gen-server :as gs]
   [magnetar.scope :as scope]
   [magnetar.timer :as timer])
  (:import
   (java.io IOException)))

(set! *warn-on-reflection* true)

(def ^:private ^:const most-waiting "Callers that one batch answers." 1024)

;; ---- a batch. An outcome has the :db, the :replies and the :log, a StringBuilder.

(defn- logged [^StringBuilder log command]
  (when command
    (resp/write log command)))

(defn- expire [{:keys [db log] :as outcome}]
  (let [ks (db/expired-keys db)]
    (run! #(logged log ["DEL" %]) ks)
    (assoc outcome :db (reduce db/delete db ks))))

(defn- execute [{:keys [db log] :as outcome} command]
  (let [[db reply change] (commands/execute db command)]
    (logged log change)
    (-> outcome (assoc :db db) (update :replies conj reply))))

(defn- execute-all [db waiting]
  (reduce execute (expire {:db db :replies [] :log (StringBuilder.)}) (mapcat second waiting)))

(defn- refuse-writes
  "The outcome of the batch when nothing can be written."
  [db waiting ^IOException why]
  (let [refusal (resp/->Failure (str "MISCONF Errors writing to the AOF file: " (ex-message why)))]
    {:db db
     :log (StringBuilder.)
     :replies (mapv #(if (commands/write? %) refusal (second (commands/execute db %))) (mapcat second waiting))}))

;; ---- the log

(defn- or-end
  "Calls f, which works on the file. If the file is broken after it, the program ends."
  [{:keys [tell]} f]
  (try
    (f)
    (catch clojure.lang.ExceptionInfo e
      (tell (ex-message e))
      (application/shutdown 1)
      (actor/exit :log-broken))))

(defn- write-and-sync [log text]
  (log/write log text)
  (log/sync-all log))

(defn- write-log [{:keys [log appendfsync] :as state} ^StringBuilder text]
  (when (and log (pos? (.length text)))
    (or-end state (if (= :always appendfsync)
                    #(scope/offload write-and-sync log (str text))
                    #(log/write log (str text))))))

(defn- write-or-refuse [{:keys [waiting] :as state} before outcome]
  (try
    (write-log state (:log outcome))
    outcome
    (catch IOException e
      (refuse-writes before waiting e))))

(defn- answer [waiting replies]
  (reduce (fn [replies [from commands]]
            (gs/reply from (subvec replies 0 (count commands)))
            (subvec replies (count commands)))
          replies waiting))

(defn- commit
  "Executes what waits, and answers it when it is on the disk as :appendfsync says."
  [{:keys [published waiting clock] :as state}]
  (let [before (assoc @published :now (clock))
        {:keys [db replies log]} (write-or-refuse state before (execute-all before waiting))]
    (reset! published db)
    (answer waiting replies)
    (assoc state :waiting [] :dirty? (or (:dirty? state) (pos? (.length ^StringBuilder log))))))

(defn- sync-beside
  "Syncs the log in a process of its own, so that writes go on meanwhile. One that still runs is left to its work."
  [{:keys [log dirty? syncer] :as state}]
  (if (and log dirty? (not (and syncer (actor/alive? syncer))))
    (assoc state :dirty? false :syncer (actor/spawn-link or-end state #(scope/offload log/sync-all log)))
    state))

;; ---- the server

(defn- open [{:keys [open-disk published] :as options}]
  (if-not open-disk
    options
    (let [[log db] (log/open (open-disk) (:tell options))]
      (reset! published db)
      (assoc options :log log))))

(defn init
  "Options: :published the atom for the data, :open-disk a function or nil, :appendfsync, :clock and :tell."
  [options]
  (actor/flag :trap-exit true)
  (try
    (let [state (scope/offload open options)]
      (timer/send-interval 100 :expire)
      (timer/send-interval 1000 :sync)
      [:ok (assoc state :waiting [])])
    (catch clojure.lang.ExceptionInfo e
      [:error (ex-message e)])
    (catch IOException e
      [:error (str "The append-only file cannot be opened: " (ex-message e) ".")])))

(defn handle-call
  "Commands wait until no other message is there, or until they are many."
  [commands from state]
  (let [state (update state :waiting conj [from commands])]
    (if (< (count (:waiting state)) most-waiting)
      [:noreply state 0]
      [:noreply (commit state)])))

(defn handle-cast
  "Nothing is cast."
  [_ state]
  [:noreply state])

(defn handle-info
  "No message was there, for :timeout; or it is time to do something."
  [message state]
  (case message
    (:timeout :expire) [:noreply (commit state)]
    :sync [:noreply (cond-> (commit state) (= :everysec (:appendfsync state)) sync-beside)]
    (let [[_ _ why] message]
      (if (= :normal why)
        [:noreply state 0]
        [:stop why state]))))

(defn terminate
  "An ordered stop syncs the file. The clients have been stopped before."
  [_ {:keys [log] :as state}]
  (when log
    (or-end state #(scope/offload log/sync-all log))
    (log/close (:disk log))))

;; ---- for clients

(defn execute-reads
  "The replies to commands of which none writes, from the data as they are published."
  [{:keys [published clock]} commands]
  (let [db (assoc @published :now (clock))]
    (mapv #(second (commands/execute db %)) commands)))

(defn execute-writes
  "The replies to commands, in their order and without others in between. If the store fails, they may have been executed or not, and this
  process ends."
  [commands]
  (try
    (gs/call :kv/store commands {:timeout :infinity})
    (catch clojure.lang.ExceptionInfo e
      (actor/exit [:shutdown (:reason (ex-data e))]))))
