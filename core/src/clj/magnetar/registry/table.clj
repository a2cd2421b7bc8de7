(ns magnetar.registry.table
  "The entries of a registry: a map from keys to processes and their values. Reads take no lock.

  A live process owns the table while it has entries and the registry is alive. The death of the process removes its entries. The death of the
  registry ends all ownership, so that the table can be collected. The entries of a process that is exiting are ignored by lookups, and may be
  replaced."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent ConcurrentHashMap)
   (java.util.concurrent.atomic AtomicLong)
   (java.util.function BiFunction)
   (magnetar.kernel.fiber Simulated)
   (magnetar.kernel.process Owned Pid Send)))

(set! *warn-on-reflection* true)

;; ---- keys: what is `=` is one key, as in a map of Clojure

(deftype Key [k ^int hash]
  Object
  (hashCode [_] hash)
  (equals [_ other] (and (instance? Key other) (= k (.-k ^Key other)))))

(defn- index
  "The key as the JDK's maps can compare it; keywords and strings they can as they are."
  [k]
  (if (or (keyword? k) (string? k) (instance? Pid k))
    k
    (Key. k (hash k))))

;; ---- entries

(definterface Cell
  (get [])
  (put [value]))

;; The value is written by its process only.
(deftype Entry [^Pid pid key ^long number ^:volatile-mutable value]
  Cell
  (get [_] value)
  (put [_ x] (set! value x)))

(declare forget disown-by-all)

;; `at`: from keys to an entry, or where keys are not unique to a sorted map from numbers to entries. `of`: from pids to such a map.
(deftype Table [unique? listeners parent ^Pid registry ^ConcurrentHashMap at ^ConcurrentHashMap of ^ConcurrentHashMap metadata ^AtomicLong numbers
                outbox others]
  Owned
  (ownerDied [this pid] (owned/clear-away #(forget this %) pid)))

(def ^:private no-others
  {:at {}      ; from a key to a sorted map from [peer number] to rows
   :of {}      ; from a pid to the same
   :peers {}}) ; from a peer, a number, to a map from numbers to rows

(defn table
  "An empty table of the registry, a pid, whose death lets all processes disown the table."
  [registry {:keys [unique? listeners parent meta all-nodes?]}]
  (let [table (Table. unique? listeners parent registry (ConcurrentHashMap.) (ConcurrentHashMap.)
                      (ConcurrentHashMap. ^java.util.Map (update-keys meta index)) (AtomicLong.)
                      (when all-nodes? (atom (sorted-map)))
                      (when all-nodes? (atom no-others)))]
    (owned/own registry (owned/clean-up (fn [_] (disown-by-all table))))
    table))

(defn- alive? [^Entry entry]
  (.isAlive ^Pid (.-pid entry)))

(defn- alter-in
  "What is at k in the map becomes (f it): nothing, if that is empty."
  [^ConcurrentHashMap m k f]
  (Simulated/switchPoint)
  (.compute m k (reify BiFunction
                  (apply [_ _ there] (not-empty (f there))))))

(defn- with-entry [^Entry entry]
  #(assoc (or % (sorted-map)) (.-number entry) entry))

(defn- without-entry [^Entry entry]
  #(dissoc % (.-number entry)))

;; ---- changes

(defn- mark
  "Lets the registry tell other nodes of the entry, which has changed."
  [^Table table ^Entry entry]
  (when-some [outbox (.-outbox table)]
    (Simulated/switchPoint)
    (let [[before _] (swap-vals! outbox assoc (.-number entry) entry)]
      (when (empty? before)
        (Send/signal (.-registry table) [::changed])))))

(defn- put-unique
  "Nil once the entry is there; else the one of a process that lives."
  [^ConcurrentHashMap at ^Entry entry]
  (let [k (index (.-key entry))]
    (loop []
      (Simulated/switchPoint)
      (let [there (.putIfAbsent at k entry)]
        (cond
          (nil? there) nil
          (alive? there) there
          (do (Simulated/switchPoint) (.replace at k there entry)) nil
          :else (recur))))))

(defn- put-at [^Table table ^Entry entry]
  (if (.-unique? table)
    (put-unique (.-at table) entry)
    (do (alter-in (.-at table) (index (.-key entry)) (with-entry entry))
        nil)))

(defn- remove-at [^Table table ^Entry entry]
  (let [k (index (.-key entry))]
    (Simulated/switchPoint)
    (if (.-unique? table)
      (.remove ^ConcurrentHashMap (.-at table) k entry)
      (alter-in (.-at table) k (without-entry entry)))))

(defn forget
  "Removes all entries of the process."
  [^Table table pid]
  (Simulated/switchPoint)
  (doseq [entry (vals (.remove ^ConcurrentHashMap (.-of table) pid))]
    (remove-at table entry)
    (mark table entry)))

(defn- owner?
  "True if the process has to own the table."
  [^Table table ^Pid pid]
  (and (.isAlive ^Pid (.-registry table))
       (.isAlive pid)
       (.containsKey ^ConcurrentHashMap (.-of table) pid)))

;; T1 removes the last entry of a process, T2 adds one, T3 ends the registry: all change their data, then come here. If T2 adds an entry after the process
;; has died, T2 removes it.
(defn- update-ownership
  "Lets the process own the table if it has to, else disown it."
  [^Table table pid]
  (owned/update-ownership pid table #(owner? table pid))
  (when (owned/dying? pid) (forget table pid)))

(defn- disown-by-all
  "Ends the ownership of each process: the registry is dead."
  [^Table table]
  (run! #(update-ownership table %) (.keySet ^ConcurrentHashMap (.-of table))))

(defn add
  "Registers the process: nil, or the pid of the one that has the key."
  [^Table table ^Pid pid key value]
  (let [entry (Entry. pid key (.incrementAndGet ^AtomicLong (.-numbers table)) value)]
    (if-some [^Entry holder (put-at table entry)]
      (.-pid holder)
      (do
        (alter-in (.-of table) pid (with-entry entry))
        (update-ownership table pid)
        (mark table entry)
        nil))))

(defn- remove-entry [^Table table ^Entry entry]
  (remove-at table entry)
  (alter-in (.-of table) (.-pid entry) (without-entry entry))
  (update-ownership table (.-pid entry))
  (mark table entry))

;; ---- looks

(defn- entries-at
  "The entries under the key, the oldest first, with the entries of dead processes."
  [^Table table key]
  (let [there (.get ^ConcurrentHashMap (.-at table) (index key))]
    (cond
      (nil? there) nil
      (.-unique? table) (list there)
      :else (vals there))))

(defn- entries-of [^Table table pid]
  (vals (.get ^ConcurrentHashMap (.-of table) pid)))

(defn- own [table pid key]
  (filter #(= key (.-key ^Entry %)) (entries-of table pid)))

(defn- value-of [^Entry entry]
  (.get ^Cell entry))

(defn- pair [^Entry entry]
  [(.-pid entry) (value-of entry)])

(defn- there?
  "True of a row whose node is connected."
  [[_ _ pid _]]
  (nodes/connected? pid))

(defn- with-others
  "The vector with what the transducer makes of the rows of other nodes that (part others) has."
  [found ^Table table part xform]
  (if-some [others (.-others table)]
    (into found (comp (filter there?) xform) (vals (part @others)))
    found))

(defn at
  "The [pid value] of each process under the key whose value is (wanted? value). Processes of this node are first."
  ([table key] (at table key any?))
  ([table key wanted?]
   (let [wanted (filter (fn [[_ value]] (wanted? value)))]
     (-> (into [] (comp (filter alive?) (map pair) wanted) (entries-at table key))
         (with-others table #(get (:at %) key) (comp (map (fn [[_ _ pid value]] [pid value])) wanted))))))

(defn pid-at
  "The process that has the key, which is unique, or nil."
  ^Pid [^Table table key]
  (when-some [^Entry entry (.get ^ConcurrentHashMap (.-at table) (index key))]
    (when (alive? entry) (.-pid entry))))

(defn keys-of
  "The keys of the process, the oldest first, each as often as it has registered it."
  [table pid]
  (-> (into [] (comp (filter alive?) (map #(.-key ^Entry %))) (entries-of table pid))
      (with-others table #(get (:of %) pid) (map second))))

(defn values-of
  "The values that the process has under the key."
  [table pid key]
  (-> (into [] (comp (filter alive?) (map value-of)) (own table pid key))
      (with-others table #(get (:of %) pid) (comp (filter #(= key (second %))) (map peek)))))

(defn- local-entries [^Table table]
  (let [there (.values ^ConcurrentHashMap (.-at table))]
    (eduction (filter alive?) (if (.-unique? table) there (eduction (mapcat vals) there)))))

(defn- other-rows [^Table table]
  (when-some [others (.-others table)]
    (eduction (mapcat vals) (filter there?) (vals (:at @others)))))

(defn triples
  "[key pid value] of each entry, through the transducer."
  [table xform]
  (into []
        xform
        (eduction cat [(eduction (map (fn [^Entry e] [(.-key e) (.-pid e) (value-of e)])) (local-entries table))
                       (eduction (map (fn [[_ key pid value]] [key pid value])) (other-rows table))])))

(defn size
  "How many entries there are."
  ^long [^Table table]
  (+ (long (transduce (comp (filter (fn [[^Pid pid _]] (.isAlive pid))) (map (fn [[_ entries]] (count entries))))
                      + 0 (.of table)))
     (long (transduce (map (constantly 1)) + 0 (other-rows table)))))

;; ---- changes of one's own

(defn remove-own
  "Removes the entries of the process under the key whose value is (wanted? value); true if there was one."
  [table pid key wanted?]
  (let [gone (filterv (comp wanted? value-of) (own table pid key))]
    (run! #(remove-entry table %) gone)
    (boolean (seq gone))))

(defn update-own
  "[new old] once the value of the process under the key is (f value); nil if it has none."
  [table pid key f]
  (when-some [entry (first (own table pid key))]
    (let [old (value-of entry)
          new (f old)]
      (.put ^Cell entry new)
      (mark table entry)
      [new old])))

;; ---- metadata

(defn metadata
  "The value of the key, or `else`."
  [^Table table key else]
  (let [value (.getOrDefault ^ConcurrentHashMap (.-metadata table) (index key) else)]
    (if (identical? ::nil value) nil value)))

(defn put-metadata
  "Sets the value of the key."
  [^Table table key value]
  (.put ^ConcurrentHashMap (.-metadata table) (index key) (if (nil? value) ::nil value)))

(defn delete-metadata
  "Removes the key."
  [^Table table key]
  (.remove ^ConcurrentHashMap (.-metadata table) (index key)))

;; ---- what other nodes are told

(defn- row [^Entry entry]
  [(.-number entry) (.-key entry) (.-pid entry) (value-of entry)])

(defn- in-table? [^Table table ^Entry entry]
  (let [there (.get ^ConcurrentHashMap (.-at table) (index (.-key entry)))]
    (and (if (.-unique? table)
           (identical? entry there)
           (contains? there (.-number entry)))
         (alive? entry))))

(defn take-outbox
  "Empties the outbox; rows of what was in it, as that is now."
  [^Table table]
  (let [[changed _] (swap-vals! (.-outbox table) empty)]
    (Simulated/switchPoint)
    (mapv (fn [[number entry]] (if (in-table? table entry) (row entry) [number])) changed)))

(defn rows
  "Rows of all entries of processes of this node, the oldest first."
  [table]
  (vec (sort-by first (eduction (map row) (local-entries table)))))

;; ---- what other nodes have told

(defn- without-in [others part k id]
  (let [left (dissoc (get-in others [part k]) id)]
    (if (seq left) (assoc-in others [part k] left) (update others part dissoc k))))

(defn- without-row [others peer number]
  (if-some [[_ key pid _] (get-in others [:peers peer number])]
    (-> (update-in others [:peers peer] dissoc number)
        (without-in :at key [peer number])
        (without-in :of pid [peer number]))
    others))

(defn- with-row [others peer [number key pid _ :as row]]
  (let [add (fnil assoc (sorted-map))]
    (-> (assoc-in others [:peers peer number] row)
        (update-in [:at key] add [peer number] row)
        (update-in [:of pid] add [peer number] row))))

(defn- told [others peer rows]
  (reduce (fn [others [number _ pid :as row]]
            (cond-> (without-row others peer number)
              pid (with-row peer row)))
          others
          rows))

(defn- forgotten [others peer]
  (update (reduce #(without-row %1 peer %2) others (keys (get-in others [:peers peer]))) :peers dissoc peer))

(defn put-rows
  "The peer, a number, has told of these rows."
  [^Table table peer rows]
  (swap! (.-others table) told peer rows))

(defn replace-rows
  "These are all rows that the peer, a number, has."
  [^Table table peer rows]
  (swap! (.-others table) #(told (forgotten % peer) peer rows)))

(defn forget-rows
  "The peer, a number, has no rows any more."
  [^Table table peer]
  (swap! (.-others table) forgotten peer))
