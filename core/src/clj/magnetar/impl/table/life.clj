(ns magnetar.impl.table.life
  "Tables: whose they are, what they are called, who may use them, and what becomes of them when their owner dies.

  One word holds owner, heir and name: nil once the table is gone. Whoever changes it decides; a process may list a table that has another
  owner by now, and then its death does nothing. An owner that is dead is dealt with by the first who meets the table, before anything else:
  so nobody who knows of the death finds the table as it was."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime]
   [magnetar.impl.table.store :as store]
   [magnetar.impl.transactions :as transactions])
  (:import
   (java.util.concurrent.atomic AtomicReference)
   (magnetar.impl.table.store Store)
   (magnetar.kernel.fiber Fiber Simulated)
   (magnetar.kernel.process LocalProcess Owned Pid ProcessTable Ref Refs Send)))

(set! *warn-on-reflection* true)

(declare resolve-owner)

(defrecord Holding [owner heir name])

(deftype Table [^Ref id kind key access ^AtomicReference holding ^AtomicReference content]
  Owned
  (ownerDied [this _] (resolve-owner this))

  Object
  (toString [_]
    (str "#magnetar/table \"" (.text id) " " (name kind)
         (some->> ^Holding (.get holding) .-name (str " ")) "\"")))

(defmethod print-method Table [table ^java.io.Writer w]
  (.write w (str table)))

(defn holding
  "Owner, heir and name of a table; nil if it is gone."
  ^Holding [^Table t]
  (.get ^AtomicReference (.-holding t)))

(defn- change-holding [^Table t before after]
  (Simulated/switchPoint)
  (.compareAndSet ^AtomicReference (.-holding t) before after))

;; ---- names

(defonce ^:private real-names (atom {}))

(defn- names []
  (environment/local real-names ::names {}))

(defn named
  "The table of that name, or nil."
  [table-name]
  (@(names) table-name))

(defn- forget-name [table-name table]
  (when table-name
    (swap! (names) #(if (identical? table (% table-name)) (dissoc % table-name) %))))

(defn- check-name [table-name]
  (when-not (or (keyword? table-name) (symbol? table-name))
    (arguments/misuse :magnetar/bad-name
                      (str "The name of a table is a keyword or a symbol; this is " (arguments/show table-name) ".") {:name table-name})))

(defn- claim-name
  "Gives the name to the table, or throws."
  [operation table-name table]
  (check-name table-name)
  (some-> (named table-name) resolve-owner)
  (let [[before _] (swap-vals! (names) #(if (% table-name) % (assoc % table-name table)))]
    (when-some [other (before table-name)]
      (arguments/misuse :magnetar/name-taken
                        (str "`" operation "` cannot name a table " table-name ": that is the name of " other ".") {:name table-name :table other}))))

;; ---- the death of an owner

(defn- remove-table
  "The table is gone, if the holding is still that one."
  [^Table t ^Holding seen]
  (when (change-holding t seen nil)
    (.set ^AtomicReference (.-content t) nil)
    (forget-name (.-name seen) t)
    true))

(defn- tell [^Pid to table ^Pid from data]
  (Send/signal to [:ETS-TRANSFER table from data]))

(defn- receiver
  "The process, if it is alive and lists the table now."
  ^LocalProcess [^Pid pid ^Table t]
  (when-some [^LocalProcess p (ProcessTable/live pid)]
    (Simulated/switchPoint)
    (when (and (.isAlive pid) (.own p t))
      p)))

(defn- owner? [^Table t ^LocalProcess p]
  (= (.pid p) (some-> (holding t) .-owner)))

;; T1 makes a process the owner, T2 takes the table from it: both change the holding, then come here.
(defn- update-listing
  "The process lists the table if it is the owner, else not. A dead process lists nothing."
  [^Table t ^LocalProcess p]
  (owned/update-ownership (.pid p) t #(owner? t p)))

(defn- let-go
  "The process lists the table no more, unless it has come to own it meanwhile."
  [t p]
  (update-listing t p)
  (resolve-owner t))

;; The listing is updated once the table is owned: a thread that failed to hand it over to the same process may just have let it go. And the receiver may
;; die after it lists the table and before it is the owner: then only this thread decides what becomes of it.
(defn- hand-over
  "Makes another process the owner and tells it; false if that could not be: the holding has changed, or the other is not alive."
  [^Table t ^Holding seen ^Pid to data]
  (if-some [p (receiver to t)]
    (if (change-holding t seen (assoc seen :owner (.pid p)))
      (do
        (Simulated/switchPoint)
        (update-listing t p)
        (tell to t (.-owner seen) data)
        (resolve-owner t)
        true)
      (do (let-go t p) false))
    false))

(defn- bequeath [^Table t ^Holding seen]
  (let [[heir data] (.-heir seen)]
    (when-not (and heir (not= heir (.-owner seen)) (hand-over t seen heir data))
      (when (or (nil? heir) (= heir (.-owner seen)) (not (.isAlive ^Pid heir)))
        (remove-table t seen)))))

(defn resolve-owner
  "Looks whether the owner is dead: then the heir is the owner, or the table is gone."
  [t]
  (loop []
    (when-some [seen (holding t)]
      (when (.ended ^Pid (.-owner seen))
        (bequeath t seen)
        (recur)))))

;; ---- what tables are given as

(defn- no-table [operation x]
  (.check (Fiber/current)) ; one that has been killed has no names any more
  (arguments/misuse :magnetar/no-such-table
                    (if (or (keyword? x) (symbol? x))
                      (str "`" operation "` found no table named " x ": it was never made, or went with its owner.")
                      (str "`" operation "` wants a table, as `create` returns it, or the name of one; this is " (arguments/show x) "."))
                    {:table x}))

(defn table
  "The table that x is or names."
  ^Table [operation x]
  (if (instance? Table x)
    x
    (or (named x) (no-table operation x))))

(defn- gone
  "Throws what one meets whose table is gone: of a process that has been killed, and its tables with it, the exit."
  [operation t]
  (.check (Fiber/current))
  (throw (errors/illegal-state :magnetar/table-gone
           (str "`" operation "` on " t ", which is gone: it was dropped, or its owner has died and had no heir.") {:table t})))

(defn live-holding
  "Owner, heir and name of a table that is there."
  ^Holding [operation t]
  (resolve-owner t)
  (or (holding t) (gone operation t)))

;; ---- who may do what

(defn- who-asks []
  (if-some [p (LocalProcess/current)]
    (str "This is " (.pid p) ".")
    (str "This is no process, but \"" (.getName (Thread/currentThread)) "\": forks and futures of the owner are not the owner.")))

(defn- refuse-access [operation ^Table t ^Pid owner]
  (throw (errors/illegal-state :magnetar/no-access
           (str "`" operation "` on " t ", which belongs to " owner " and is " (symbol (.-access t)) ": "
                (if (= :private (.-access t)) "only its owner reads and writes it" "others may read it, and not write")
                ". Ask the owner, or make it with {:access :public}. " (who-asks))
           {:table t :access (.-access t) :owner owner})))

(defn- own? [^Holding held]
  (when-some [p (LocalProcess/current)]
    (= (.-owner held) (.pid p))))

(defn- content ^Store [operation ^Table t]
  (or (.get ^AtomicReference (.-content t)) (gone operation t)))

(defn- check-owner [operation t]
  (let [held (live-holding operation t)]
    (when-not (own? held)
      (refuse-access operation t (.-owner held)))))

(defn- resolved-holding [operation ^Table t]
  (let [held (holding t)]
    (if (and held (nil? (.ended ^Pid (.-owner held))))
      held
      (live-holding operation t))))

(defn reading
  "The rows of the table, for who may read it."
  ^Store [operation x]
  (let [t (table operation x)]
    (if (identical? :private (.-access t))
      (check-owner operation t)
      (resolved-holding operation t))
    (content operation t)))

(defn check-writer
  "Refuses who may not write to the table."
  [operation ^Table t]
  (transactions/check operation)
  (.enter (Fiber/current))
  (if (identical? :public (.-access t))
    (resolved-holding operation t)
    (check-owner operation t)))

(defn writing
  "The rows of the table, for who may write to it."
  ^Store [operation x]
  (let [t (table operation x)]
    (check-writer operation t)
    (content operation t)))

(defn- owned
  "The holding of a table that belongs to the current process."
  ^Holding [operation t]
  (transactions/check operation)
  (.enter (Fiber/current))
  (let [held (live-holding operation t)]
    (when-not (own? held)
      (throw (errors/illegal-state :magnetar/not-owner
               (str "`" operation "` on " t ", which belongs to " (.-owner held) ": only its owner may do that, so ask it by a message. " (who-asks))
               {:table t :owner (.-owner held)})))
    held))

;; ---- made and gone

(defn- check-heir [heir]
  (when-not (or (nil? heir) (and (vector? heir) (= 2 (count heir)) (instance? Pid (first heir))))
    (arguments/misuse :magnetar/bad-heir
                      (str "The heir of a table is [pid data], or nil; this is " (arguments/show heir) ".") (arguments/data :heir heir))))

(defn- check-one-of [what known x]
  (when-not (some #{x} known)
    (arguments/misuse :magnetar/bad-option
                      (str "The " (name what) " of a table is " (apply str (interpose ", " known)) "; this is " (arguments/show x) ".")
                      (arguments/data what x))))

(defn- check-place [key]
  (when-not (or (nat-int? key) (keyword? key) (string? key) (symbol? key))
    (arguments/misuse :magnetar/bad-option
                      (str "The :key of a table is where a row has its key: an index from 0 up, or a key of a map as :id; this is " (arguments/show key) ".")
                      (arguments/data :key key))))

(def kinds
  "The kinds of tables."
  [:set :ordered-set :bag :duplicate-bag])

(defn create
  "A new table of the current process with the rows of the store."
  [operation ^Store s {:keys [key access heir] table-name :name :or {key 0 access :protected}}]
  (transactions/check operation)
  (let [p (LocalProcess/require operation)
        t (Table. (Refs/make) (.-kind s) key access (AtomicReference. (Holding. (.pid p) heir table-name)) (AtomicReference. s))]
    (.enter (Fiber/current))
    (check-one-of :access [:public :protected :private] access)
    (check-place key)
    (check-heir heir)
    (when (some? table-name) (claim-name operation table-name t))
    ;; The name first: a process that dies in between is found dead by who uses the name. By the name another process may drop the table already.
    (let-go t p)
    t))

(defn empty-store
  "A store for a kind of table, which is checked."
  ^Store [kind]
  (check-one-of :kind kinds kind)
  (store/store kind))

(defn- disown [t owner]
  (some->> (ProcessTable/live owner) (let-go t)))

(defn drop-table
  "The table is gone."
  [operation x]
  (let [t (table operation x)]
    (check-writer operation t)
    (loop []
      (let [held (live-holding operation t)]
        (if (remove-table t held)
          (disown t (.-owner held))
          (recur))))
    true))

(defn clear
  "The table has no rows. Who writes at the same time may write to the old ones: as if just before."
  [operation x]
  (let [t (table operation x)
        s (writing operation t)]
    (Simulated/switchPoint)
    (when-not (.compareAndSet ^AtomicReference (.-content t) s (store/store (.-kind s)))
      (content operation t))
    true))

;; ---- other owners and names

(defn give-away
  "The table belongs to another process."
  [operation x ^Pid to data]
  (let [t (table operation x)
        owner (.-owner (owned operation t))]
    (when-not (instance? Pid to)
      (arguments/misuse :magnetar/not-a-pid (str "`" operation "` wants the pid of the new owner; this is " (arguments/show to) ".") {:value to}))
    (when (= to owner)
      (arguments/misuse :magnetar/own-table (str "`" operation "` of " t " to its owner: it has it already.") {:table t :pid to}))
    (loop []
      (let [held (owned operation t)]
        (cond
          (hand-over t held to data) (disown t owner)
          ;; Others rename a public table at any time.
          (identical? held (holding t)) (arguments/misuse :magnetar/noproc (str "`" operation "` of " t " to " to ", which is not alive.")
                                                          {:table t :pid to})
          :else (recur))))
    true))

(defn set-heir
  "Replaces the heir, [pid data] or nil."
  [operation x heir]
  (let [t (table operation x)]
    (check-heir heir)
    (loop []
      (let [held (owned operation t)]
        (when-not (change-holding t held (assoc held :heir heir))
          (recur))))
    true))

(defn rename
  "Gives the table, which need not have one, a new name."
  [operation x new-name]
  (let [t (table operation x)]
    (check-writer operation t)
    (claim-name operation new-name t)
    (loop []
      (let [held (holding t)]
        (cond
          (nil? held) (do (forget-name new-name t) (gone operation t))
          (change-holding t held (assoc held :name new-name)) (forget-name (.-name held) t)
          :else (recur))))
    new-name))

;; ---- views

(defn info
  "What is known of a table as a map; nil if it is gone."
  [^Table t]
  (resolve-owner t)
  (let [held (holding t)
        s (.get ^AtomicReference (.-content t))]
    (when (and held s)
      {:table t
       :name (.-name held)
       :kind (.-kind t)
       :key (.-key t)
       :access (.-access t)
       :owner (.-owner held)
       :heir (first (.-heir held))
       :size (store/size s)})))

(defn all
  "All tables, in the order of their owners' pids, and of an owner in the order in which they came to it."
  []
  (vec (for [^LocalProcess p (sort-by #(.pid ^LocalProcess %) (ProcessTable/all))
             t (.owned p)
             :when (and (instance? Table t) (= (.pid p) (some-> (holding t) .-owner)))]
         t)))
