(ns magnetar.table
  "Makes tables of rows that many processes read and write at once: Erlang's ets.

  A table is owned by a process and ends with it.

    (let [t (table/create :set {:access :public})]
      (table/insert t [:apples 3])
      (table/update-counter t :apples 2)  ;=> 5
      (table/lookup t :apples))           ;=> [[:apples 5]]

  made and gone  create drop whereis info rename give-away set-heir
  write          insert insert-new insert-all insert-all-new update-element update-counter compare-and-swap
  take out       delete delete-object delete-all take select-delete
  read           lookup lookup-element member? rows select select-count
  in order       first last next prev, and the ranges of `rows` and `select`
  patterns       query

  A row is a vector or a map, with its key at the place :key, which is 0. In a :set and an :ordered-set a key
  has one row, in a :bag several that differ, in a :duplicate-bag any. An :ordered-set compares its keys in
  one order of all values, where 1 and 1.0 are the same key. The other kinds compare them with `=`, so 1 and
  1.0 are two keys. nil can be a key, NaN cannot.

  Each operation happens in one instant, also `insert-all`. The exception is an operation that looks through
  many rows. It meets each row once which is there all the time; it may meet or miss the others.

  Readers never wait. The owner writes, and with {:access :public} every process. Other processes may read
  unless the table is :private. A table lives as long as its owner, or goes to its heir.
  `magnetar.table.snapshot` keeps one in a file.

  If only one process uses the rows, a map in its loop is simpler; for one value an atom is. Require it as
  `[magnetar.table :as table]`. Erlang's module is ets."
  (:refer-clojure :exclude [drop first last next take])
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.table.counters :as counters]
   [magnetar.impl.table.life :as life]
   [magnetar.impl.table.query :as q]
   [magnetar.impl.table.rows :as r]
   [magnetar.impl.table.store :as store])
  (:import
   (java.util.concurrent ConcurrentNavigableMap)
   (magnetar.impl.table.life Table)
   (magnetar.impl.table.store Store)))

(set! *warn-on-reflection* true)

;; ---- made and gone

(defn create
  "Makes a table that this process owns; returns the table.

  The kind is :set, :ordered-set, :bag or :duplicate-bag. A :bag looks through the rows of a key at each
  insert: let a key have few. Once a table is gone, each operation on it is refused with a sentence.

  Throws an IllegalArgumentException outside of a process, and where the name is taken.

  Options:
    :name    a keyword or symbol, which all operations then accept for the table
    :access  :protected: the owner writes, all processes read; :public: all write; :private: only the owner
             reads. Default :protected
    :key     the place of the key in a row: an index of a vector, or a key of a map, as :id. Default 0
    :heir    [pid data]: that process owns the table when the owner has died, and gets [:ETS-TRANSFER table
             owner data]

  Example:

    (table/create :ordered-set {:name :scores :access :public}) ;=> table

  Erlang: ets:new/2."
  {:erlang "ets:new/2" :added "0.1"}
  ([kind] (create kind nil))
  ([kind options]
   (arguments/options "create" [:name :access :key :heir] options)
   (life/create "create" (life/empty-store kind) options)))

(defn drop
  "Ends a table with all its rows; returns true.

  All processes that may write to the table may drop it.

  Example:

    (table/drop t) ;=> true

  Erlang: ets:delete/1."
  {:erlang "ets:delete/1" :added "0.1"}
  [table]
  (life/drop-table "drop" table))

(defn whereis
  "Returns the table of that name, or nil.

  Example:

    (table/whereis :scores) ;=> table

  Erlang: ets:whereis/1."
  {:erlang "ets:whereis/1" :added "0.1"}
  [name]
  (when-some [t (life/named name)]
    (:table (life/info t))))

(defn info
  "Returns what is known of a table, a map; nil if the table is gone.

  Its keys are :table :name :kind :key :access :owner :heir :size. Any process may ask. :size is the number
  of rows; it may miss rows that are being written.

  Example:

    (:size (table/info :scores)) ;=> 3

  See also `magnetar.inspect/tables` for all tables.

  Erlang: ets:info/1."
  {:erlang "ets:info/1" :added "0.1"}
  [table]
  (if (instance? Table table)
    (life/info table)
    (some-> (whereis table) life/info)))

(defn rename
  "Gives a table another name, or its first; returns the name.

  Example:

    (table/rename :scores :old-scores) ;=> :old-scores

  Erlang: ets:rename/2."
  {:erlang "ets:rename/2" :added "0.1"}
  [table name]
  (life/rename "rename" table name))

(defn give-away
  "Makes another process the owner of a table of this one; returns true.

  The other process gets [:ETS-TRANSFER table from data]. The heir stays the same.

  Throws an IllegalArgumentException, and changes nothing, if the other process is not alive.

  Example:

    (table/give-away t worker :yours-now)

  Erlang: ets:give_away/3."
  {:erlang "ets:give_away/3" :added "0.1"}
  [table pid data]
  (life/give-away "give-away" table pid data))

(defn set-heir
  "Sets the heir of a table of this process, or with nil removes it; returns true.

  If the heir is not alive when the owner dies, the table is gone. The heir stays the heir when the table has
  another owner. A process does not inherit its own table.

  Example:

    (table/set-heir t supervisor :crashed)

  Erlang: ets:setopts/2."
  {:erlang "ets:setopts/2" :added "0.1"}
  ([table nobody]
   (when (some? nobody)
     (arguments/misuse :magnetar/bad-heir "`set-heir` takes a table, the pid of the heir and the data that it shall get; or a table and nil." {:heir nobody}))
   (life/set-heir "set-heir" table nil))
  ([table pid data]
   (life/set-heir "set-heir" table [pid data])))

;; ---- write

(defn insert
  "Adds a row; returns true.

  In a set it replaces the row with its key. In a :bag nothing is added if the row is already there.

  Example:

    (table/insert t [:apples 3]) ;=> true

  Erlang: ets:insert/2."
  {:erlang "ets:insert/2" :added "0.1"}
  [table row]
  (r/insert "insert" table row))

(defn insert-new
  "Adds a row if its key has none.

  Returns true, or false if the key has a row.

  Example:

    (table/insert-new t [:leader (self)]) ;=> true

  Erlang: ets:insert_new/2."
  {:erlang "ets:insert_new/2" :added "0.1"}
  [table row]
  (r/insert-new "insert-new" table row))

(defn insert-all
  "Adds the rows of a collection, all in one instant; returns true.

  No process sees only some of them. If other processes write to the same keys meanwhile, it starts again. If
  that happens too often, they wait for it.

  Example:

    (table/insert-all t [[:apples 3] [:pears 4]]) ;=> true

  Erlang: ets:insert/2 of a list."
  {:erlang "ets:insert/2" :added "0.1"}
  [table rows]
  (r/insert-all "insert-all" table rows false))

(defn insert-all-new
  "Adds the rows of a collection if none of their keys has a row.

  All are added in one instant.

  Returns true, or false if a key has a row; then none of the rows is added.

  Example:

    (table/insert-all-new t [[:a 1] [:b 2]]) ;=> true

  Erlang: ets:insert_new/2 of a list."
  {:erlang "ets:insert_new/2" :added "0.1"}
  [table rows]
  (r/insert-all "insert-all-new" table rows true))

(defn update-element
  "Replaces the elements at places of the row of a key.

  places is a map from place to value. With a default row, that row is changed and inserted if the key has
  none. It is for sets only. The key cannot be changed.

  Returns true, or false if there is no such row.

  Example:

    (table/update-element t :apples {1 4}) ;=> true

  Erlang: ets:update_element/3,4."
  {:erlang "ets:update_element/3" :added "0.1"}
  ([table key places] (r/update-element "update-element" table key places nil))
  ([table key places default] (r/update-element "update-element" table key places default)))

(defn update-counter
  "Adds to an integer in the row of a key; returns the sum.

  The change has one of four shapes. Numbers grow as large as they have to. It is for sets only.

    n                          adds n at the place behind the key
    [place n]                  adds n at the place
    [place n threshold value]  sets the value when the sum is beyond the threshold, in the direction of n
    [change change ..]         does several of the vectors above in turn, and returns the vector of their sums

  Throws an IllegalArgumentException if there is no row, unless there is a default row, whose key is
  replaced.

  Examples:

    (table/update-counter t :hits 1)
    (table/update-counter t :turn [1 1 3 0] [:turn 0]) ;=> 1 ; then 2, 3, 0, 1 ..

  Erlang: ets:update_counter/3,4."
  {:erlang "ets:update_counter/3" :added "0.1"}
  ([table key change] (counters/update-counter "update-counter" table key change nil))
  ([table key change default] (counters/update-counter "update-counter" table key change default)))

(defn compare-and-swap
  "Replaces the row `before` by the row `after`, which has the same key.

  It is for sets only.

  Returns true, or false if the key has another row than `before`, or no row.

  Example:

    (let [[[_ n :as row]] (table/lookup t :n)]
      (table/compare-and-swap t row [:n (* 2 n)])) ;=> true

  Erlang: ets:select_replace/2 of one object."
  {:erlang "ets:select_replace/2" :added "0.1"}
  [table before after]
  (r/compare-and-swap "compare-and-swap" table before after))

;; ---- take out

(defn delete
  "Removes the rows of a key; returns true, also if there are no such rows.

  Example:

    (table/delete t :apples) ;=> true

  Erlang: ets:delete/2."
  {:erlang "ets:delete/2" :added "0.1"}
  [table key]
  (r/take-rows "delete" table key)
  true)

(defn delete-object
  "Removes the rows that are equal to a row; returns true, also without such rows.

  Example:

    (table/delete-object t [:apples 3]) ;=> true

  Erlang: ets:delete_object/2."
  {:erlang "ets:delete_object/2" :added "0.1"}
  [table row]
  (r/delete-object "delete-object" table row))

(defn delete-all
  "Removes all rows, in one instant; returns true.

  Example:

    (table/delete-all t) ;=> true

  Erlang: ets:delete_all_objects/1."
  {:erlang "ets:delete_all_objects/1" :added "0.1"}
  [table]
  (life/clear "delete-all" table))

(defn take
  "Atomically removes and returns all rows of a key, as a vector.

  If several processes race, each row is returned to exactly one of them.

  Example:

    (table/take t :apples) ;=> [[:apples 3]]

  Erlang: ets:take/2."
  {:erlang "ets:take/2" :added "0.1"}
  [table key]
  (r/take-rows "take" table key))

;; ---- read

(defn lookup
  "Returns the rows of a key as a vector, of a bag in the order in which they came.

  Example:

    (table/lookup t :apples) ;=> [[:apples 3]]

  Erlang: ets:lookup/2."
  {:erlang "ets:lookup/2" :added "0.1"}
  [table key]
  (r/rows-of-key "lookup" table key))

(defn- element [t row place]
  (when-not (contains? row place)
    (arguments/misuse :magnetar/bad-place
                      (str "`lookup-element` on " t ": the row " (arguments/show row) " has nothing at " (arguments/show place) ".") {:row row :place place}))
  (get row place))

(defn- lookup-element-or [table key place otherwise]
  (let [t (life/table "lookup-element" table)
        rows (r/rows-of-key "lookup-element" t key)]
    (cond
      (empty? rows) (otherwise t)
      (store/bag? (.-kind t)) (mapv #(element t % place) rows)
      :else (element t (nth rows 0) place))))

(defn lookup-element
  "Returns the element at a place of the row of a key.

  Of a bag it is the vector of the elements of its rows.

  Throws an IllegalArgumentException if there is no row, unless there is a default.

  Examples:

    (table/lookup-element t :apples 1)   ;=> 3
    (table/lookup-element t :pears 1 0)  ;=> 0

  Erlang: ets:lookup_element/3,4."
  {:erlang "ets:lookup_element/3" :added "0.1"}
  ([table key place] (lookup-element-or table key place #(r/no-row "lookup-element" % key)))
  ([table key place default] (lookup-element-or table key place (constantly default))))

(defn member?
  "Returns true if the key has a row.

  Example:

    (table/member? t :apples) ;=> true

  Erlang: ets:member/2."
  {:erlang "ets:member/2" :added "0.1"}
  [table key]
  (let [^Store s (life/reading "member?" table)]
    (some? (store/value s (store/key-of s key)))))

(defn rows
  "Returns the rows of a table, to reduce or to take a seq of.

  They can be read again and again: each time they are the current rows. The rows of an :ordered-set are in
  the order of the keys; the options are for it only.

  Options:
    :from     no keys less than this one
    :after    only keys greater than this one
    :to       no keys greater than this one
    :below    only keys less than this one
    :reverse  true to begin with the greatest key

  Examples:

    (reduce (fn [sum [_ n]] (+ sum n)) 0 (table/rows t)) ;=> 7
    (into [] (table/rows scores {:from 100 :below 200})) ;=> [[100 \"ada\"] [150 \"bob\"]]

  Erlang: ets:foldl/3, ets:foldr/3 and ets:tab2list/1."
  {:erlang "ets:foldl/3" :added "0.1"}
  ([table] (rows table nil))
  ([table options]
   (arguments/options "rows" r/range-options options)
   (r/values "rows" table options)
   (r/->Rows "rows" (life/table "rows" table) options)))

(defmacro query
  "Compiles a query, to be used with `select` and its like.

  Its clauses are pairs of a pattern and a result, as in `magnetar.match/match`. A row gives the result
  beside the first pattern that matches it, and nothing if no pattern does. Locals that are already bound
  match by value. Where the pattern has the key, only the row of that key is looked at, else all rows are.

  Examples:

    (table/select t (table/query ([name n] :when (< 3 n)) name)) ;=> [:pears]
    (table/select t (table/query ([:apples n] :as row) row)) ;=> [[:apples 3]]

  Erlang: a match specification, and ets:fun2ms/1."
  {:erlang "ets:fun2ms/1" :added "0.1"}
  [& clauses]
  (q/expansion &env &form clauses))

(defn select
  "Returns a vector of what a query makes of the rows of a table.

  Returns with :limit [results more]. (select more) returns the next pair of the same shape; more is nil at
  the end. `more` holds the place where it stopped, and may be used again.

  Options:
    :from :after :to :below :reverse   the range, as in `rows`
    :limit                             the most results at a time

  Examples:

    (table/select t (table/query [name n] name)) ;=> [:apples :pears]
    (let [[names more] (table/select t (table/query [name n] name) {:limit 100})]
      (when more (table/select more)))

  Erlang: ets:select/1,2,3, ets:match/1,2,3 and ets:match_object/1,2,3."
  {:erlang "ets:select/2" :added "0.1"}
  ([more] (q/more "select" more))
  ([table query] (q/select "select" table query nil))
  ([table query options] (q/select "select" table query options)))

(defn select-count
  "Returns the number of rows for which the query gives a true value.

  Example:

    (table/select-count t (table/query [_ n] (< 3 n))) ;=> 1

  Erlang: ets:select_count/2."
  {:erlang "ets:select_count/2" :added "0.1"}
  [table query]
  (q/select-count "select-count" table query))

(defn select-delete
  "Removes the rows for which the query gives a true value; returns how many.

  Each row is looked at in the state in which it is removed.

  Example:

    (table/select-delete t (table/query [_ n] (zero? n))) ;=> 0

  Erlang: ets:select_delete/2 and ets:match_delete/2."
  {:erlang "ets:select_delete/2" :added "0.1"}
  [table query]
  (q/select-delete "select-delete" table query))

;; ---- in order

(defn first
  "Returns the least key of an :ordered-set; nil if there is no row.

  Example:

    (table/first scores) ;=> 100

  Erlang: ets:first/1."
  {:erlang "ets:first/1" :added "0.1"}
  [table]
  (r/neighbour "first" table (fn [^ConcurrentNavigableMap m k] (if k (.higherEntry m k) (.firstEntry m)))))

(defn last
  "Returns the greatest key of an :ordered-set; nil if there is no row.

  Example:

    (table/last scores) ;=> 200

  Erlang: ets:last/1."
  {:erlang "ets:last/1" :added "0.1"}
  [table]
  (r/neighbour "last" table (fn [^ConcurrentNavigableMap m k] (if k (.lowerEntry m k) (.lastEntry m)))))

(defn next
  "Returns the least key of an :ordered-set that is greater than a key; or nil.

  The given key need not be in the table.

  Example:

    (table/next scores 100) ;=> 150

  Erlang: ets:next/2."
  {:erlang "ets:next/2" :added "0.1"}
  [table key]
  (r/neighbour "next" table (fn [^ConcurrentNavigableMap m k] (.higherEntry m (or k (r/sorted-key key))))))

(defn prev
  "Returns the greatest key of an :ordered-set that is less than a key; or nil.

  The given key need not be in the table.

  Example:

    (table/prev scores 100) ;=> nil

  Erlang: ets:prev/2."
  {:erlang "ets:prev/2" :added "0.1"}
  [table key]
  (r/neighbour "prev" table (fn [^ConcurrentNavigableMap m k] (.lowerEntry m (or k (r/sorted-key key))))))
