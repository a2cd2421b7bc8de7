(ns kv.db
  "The data: one immutable value, with a time. Readers do not see a key that is expired at that time.

  A value is a string, a number of Redis is a string too; a list is a kv.deque, a hash is a map, a set is a
  set."
  (:require
   [kv.deque]
   [kv.resp :as resp])
  (:import
   (kv.deque Deque)))

(set! *warn-on-reflection* true)

;; `deadlines` has the keys that expire, in milliseconds since 1970. `due` has [deadline key] in the order of
;; time.
(defrecord Db [entries deadlines due now])

(def empty-db
  "No data. Nothing expires at its time."
  (->Db {} {} (sorted-set) 0))

(defn deadline
  "When the key expires, nil for never."
  [db k]
  (get (:deadlines db) k))

(defn- expired? [db k]
  (when-some [deadline (deadline db k)]
    (< (long deadline) (long (:now db)))))

(defn value
  "The value of a key, nil if it has none."
  [db k]
  (when-some [v (get (:entries db) k)]
    (when-not (expired? db k)
      v)))

(defn type-of
  "The type of a value as TYPE says it."
  [v]
  (cond
    (nil? v) :none
    (string? v) :string
    (instance? Deque v) :list
    (map? v) :hash
    :else :set))

(defn typed
  "The value of a key, nil if it has none; fails if it is of another type."
  [db type k]
  (when-some [v (value db k)]
    (if (= type (type-of v))
      v
      (resp/fail "WRONGTYPE Operation against a key holding the wrong kind of value"))))

(defn persist
  "Lets the key live for ever."
  [db k]
  (if-some [deadline (deadline db k)]
    (-> db (update :deadlines dissoc k) (update :due disj [deadline k]))
    db))

(defn expire
  "Lets the key expire at that time."
  [db k deadline]
  (-> (persist db k) (update :deadlines assoc k deadline) (update :due conj [deadline k])))

(defn delete
  "Removes a key."
  [db k]
  (if (contains? (:entries db) k)
    (assoc (persist db k) :entries (dissoc (:entries db) k))
    db))

(defn put
  "Gives the key a value, and leaves its deadline as it is. An empty list, hash or set is removed."
  [db k v]
  (if (or (string? v) (seq (if (instance? Deque v) (:items v) v)))
    (assoc db :entries (assoc (:entries db) k v))
    (delete db k)))

(defn put-new
  "Gives the key a value that does not expire."
  [db k v]
  (put (persist db k) k v))

(defn expired-among
  "Those of the keys whose deadline has passed."
  [{:keys [deadlines] :as db} ks]
  (when (seq deadlines)
    (filterv #(expired? db %) (distinct ks))))

(defn expired-keys
  "The keys whose deadline has passed, and which are not deleted yet."
  [{:keys [due now]}]
  (map second (take-while (fn [[deadline]] (< (long deadline) (long now))) due)))

(defn live-keys
  "The keys that readers see."
  [{:keys [entries deadlines] :as db}]
  (if (empty? deadlines)
    (keys entries)
    (remove #(expired? db %) (keys entries))))
