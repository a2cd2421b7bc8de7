(ns magnetar.table
  "Tables of rows that many processes read and write at once, each owned by a process and gone with it: Erlang's ets.

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

  A row is a vector or a map, with its key at the place :key, which is 0. Kinds: in a :set and an :ordered-set a key has one row, in a :bag
  several that differ, in a :duplicate-bag any. Keys of an :ordered-set are those that are neighbours in one order of all values, where 1
  and 1.0 are the same key; in the other kinds keys are the same that are `=`, so 1 and 1.0 are two. nil is a key, NaN is none.

  Each operation happens in one instant, `insert-all` too, but for what looks through many rows: that meets each row once which is there all
  the time, and others or not. Readers never wait. The owner and, with {:access :public}, everybody writes; others may read unless it is
  :private. A table lives as long as its owner, or goes to its heir. `magnetar.table.snapshot` keeps one in a file.

  If one process uses it, a map in its loop is less; for one value an atom is. Require it as `[magnetar.table :as table]`. In Erlang: the module ets."
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
  "Makes a table that belongs to this process; returns it.

  The kind is :set, :ordered-set, :bag or :duplicate-bag. A :bag looks through the rows of a key at each insert: let it have few. Options:

  :name    a keyword or symbol, by which all operations know it then as well
  :access  :protected (the default): the owner writes, all read; :public: all write; :private: only the owner reads
  :key     the place of the key in a row: an index of a vector (0), or a key of a map, as :id
  :heir    [pid data]: that process owns it when the owner has died, and gets [:ETS-TRANSFER table owner data]

  Fails outside of a process, and where the name is taken. What others hold of a table that is gone is refused, with a sentence.

    (table/create :ordered-set {:name :scores :access :public})

  In Erlang: ets:new/2."
  {:erlang "ets:new/2" :added "0.1"}
  ([kind] (create kind nil))
  ([kind options]
   (arguments/options "create" [:name :access :key :heir] options)
   (life/create "create" (life/empty-store kind) options)))

(defn drop
  "Ends a table with all its rows; returns true. Whoever may write may do that.

    (table/drop t)

  In Erlang: ets:delete/1."
  {:erlang "ets:delete/1" :added "0.1"}
  [table]
  (life/drop-table "drop" table))

(defn whereis
  "The table of that name, or nil.

    (table/whereis :scores)

  In Erlang: ets:whereis/1."
  {:erlang "ets:whereis/1" :added "0.1"}
  [name]
  (when-some [t (life/named name)]
    (:table (life/info t))))

(defn info
  "What is known of a table: {:table :name :kind :key :access :owner :heir :size}; nil if it is gone. Anybody may ask.

  :size is the number of rows; while others write it may miss what is being written. All tables: `magnetar.inspect/tables`.

    (:size (table/info :scores)) ;=> 3

  In Erlang: ets:info/1."
  {:erlang "ets:info/1" :added "0.1"}
  [table]
  (if (instance? Table table)
    (life/info table)
    (some-> (whereis table) life/info)))

(defn rename
  "Gives a table another name, or its first; returns the name.

    (table/rename :scores :old-scores)

  In Erlang: ets:rename/2."
  {:erlang "ets:rename/2" :added "0.1"}
  [table name]
  (life/rename "rename" table name))

(defn give-away
  "Makes another process the owner of a table of this one, and sends it [:ETS-TRANSFER table from data]; returns true.

  Fails, and changes nothing, if the other is not alive. The heir stays what it is.

    (table/give-away t worker :yours-now)

  In Erlang: ets:give_away/3."
  {:erlang "ets:give_away/3" :added "0.1"}
  [table pid data]
  (life/give-away "give-away" table pid data))

(defn set-heir
  "Makes another process the heir of a table of this one, or with nil none; returns true.

  If the heir is not alive when the owner dies the table is gone. It stays the heir when the table has another owner; of itself it does not inherit.

    (table/set-heir t supervisor :crashed)

  In Erlang: ets:setopts/2."
  {:erlang "ets:setopts/2" :added "0.1"}
  ([table nobody]
   (when (some? nobody)
     (arguments/misuse :magnetar/bad-heir "`set-heir` takes a table, the pid of the heir and the data that it shall get; or a table and nil." {:heir nobody}))
   (life/set-heir "set-heir" table nil))
  ([table pid data]
   (life/set-heir "set-heir" table [pid data])))

;; ---- write

(defn insert
  "Adds a row; in a set it replaces the row with its key, in a bag it adds nothing if it is there already. Returns true.

    (table/insert t [:apples 3])

  In Erlang: ets:insert/2."
  {:erlang "ets:insert/2" :added "0.1"}
  [table row]
  (r/insert "insert" table row))

(defn insert-new
  "Adds a row if its key has none: true, or false if it has.

    (table/insert-new t [:leader (self)])

  In Erlang: ets:insert_new/2."
  {:erlang "ets:insert_new/2" :added "0.1"}
  [table row]
  (r/insert-new "insert-new" table row))

(defn insert-all
  "Adds the rows of a collection, all in one instant: nobody sees some of them. Returns true.

  If others write to the same keys meanwhile it starts again; if that happens too often they wait for it.

    (table/insert-all t [[:apples 3] [:pears 4]])

  In Erlang: ets:insert/2 of a list."
  {:erlang "ets:insert/2" :added "0.1"}
  [table rows]
  (r/insert-all "insert-all" table rows false))

(defn insert-all-new
  "Adds the rows of a collection in one instant if none of their keys has a row: true; else none of them, and false.

    (table/insert-all-new t [[:a 1] [:b 2]])

  In Erlang: ets:insert_new/2 of a list."
  {:erlang "ets:insert_new/2" :added "0.1"}
  [table rows]
  (r/insert-all "insert-all-new" table rows true))

(defn update-element
  "Replaces what is at places of the row of a key, a map from place to value: true, or false if there is no such row.

  With a default row it is changed and inserted if there is none. Of sets only; the key cannot be changed.

    (table/update-element t :apples {1 4, 2 :ripe})

  In Erlang: ets:update_element/3,4."
  {:erlang "ets:update_element/3" :added "0.1"}
  ([table key places] (r/update-element "update-element" table key places nil))
  ([table key places default] (r/update-element "update-element" table key places default)))

(defn update-counter
  "Adds to an integer in the row of a key, and returns the sum.

  The change is an integer, for the place behind the key; [place n]; [place n threshold value], which sets the value when the sum is beyond the
  threshold, in the direction of n; or a vector of those, done in turn, which returns the vector of their sums. Fails if there is no row, unless
  there is a default row, whose key is replaced. Numbers grow as large as they have to. Of sets only.

    (table/update-counter t :hits 1)
    (table/update-counter t :turn [1 1 3 0] [:turn 0]) ;=> 1, 2, 3, 0, 1 ..

  In Erlang: ets:update_counter/3,4."
  {:erlang "ets:update_counter/3" :added "0.1"}
  ([table key change] (counters/update-counter "update-counter" table key change nil))
  ([table key change default] (counters/update-counter "update-counter" table key change default)))

(defn compare-and-swap
  "Replaces the row `before` by the row `after`, which has the same key: true, or false if the key has another row than `before`, or none.

    (let [[[_ n :as row]] (table/lookup t :n)]
      (table/compare-and-swap t row [:n (* 2 n)]))

  Of sets only. In Erlang: ets:select_replace/2 of one object."
  {:erlang "ets:select_replace/2" :added "0.1"}
  [table before after]
  (r/compare-and-swap "compare-and-swap" table before after))

;; ---- take out

(defn delete
  "Takes out the rows of a key; returns true, also if there are none.

    (table/delete t :apples)

  In Erlang: ets:delete/2."
  {:erlang "ets:delete/2" :added "0.1"}
  [table key]
  (r/take-rows "delete" table key)
  true)

(defn delete-object
  "Takes out the rows that are equal to this one; returns true, also if there are none.

    (table/delete-object t [:apples 3])

  In Erlang: ets:delete_object/2."
  {:erlang "ets:delete_object/2" :added "0.1"}
  [table row]
  (r/delete-object "delete-object" table row))

(defn delete-all
  "Takes out all rows, in one instant; returns true.

    (table/delete-all t)

  In Erlang: ets:delete_all_objects/1."
  {:erlang "ets:delete_all_objects/1" :added "0.1"}
  [table]
  (life/clear "delete-all" table))

(defn take
  "Takes out the rows of a key, and returns them as a vector: of several who take one gets a row.

    (table/take t :apples) ;=> [[:apples 3]]

  In Erlang: ets:take/2."
  {:erlang "ets:take/2" :added "0.1"}
  [table key]
  (r/take-rows "take" table key))

;; ---- read

(defn lookup
  "The rows of a key as a vector, in a bag in the order in which they came.

    (table/lookup t :apples) ;=> [[:apples 3]]

  In Erlang: ets:lookup/2."
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
  "What is at a place of the row of a key, in a bag the vector of that of its rows. Fails if there is no row, unless there is a default.

    (table/lookup-element t :apples 1)   ;=> 3
    (table/lookup-element t :pears 1 0)  ;=> 0

  In Erlang: ets:lookup_element/3,4."
  {:erlang "ets:lookup_element/3" :added "0.1"}
  ([table key place] (lookup-element-or table key place #(r/no-row "lookup-element" % key)))
  ([table key place default] (lookup-element-or table key place (constantly default))))

(defn member?
  "Has the key a row?

    (table/member? t :apples)

  In Erlang: ets:member/2."
  {:erlang "ets:member/2" :added "0.1"}
  [table key]
  (let [^Store s (life/reading "member?" table)]
    (some? (store/value s (store/key-of s key)))))

(defn rows
  "The rows of a table, to reduce or to take a seq of, again and again: each time those of then.

  Of an :ordered-set in the order of the keys, within the bounds :from or :after, :to or :below, and with {:reverse true} from the greatest one.

    (reduce (fn [sum [_ n]] (+ sum n)) 0 (table/rows t))
    (into [] (table/rows scores {:from 100 :below 200}))

  In Erlang: ets:foldl/3, ets:foldr/3 and ets:tab2list/1."
  {:erlang "ets:foldl/3" :added "0.1"}
  ([table] (rows table nil))
  ([table options]
   (arguments/options "rows" r/range-options options)
   (r/values "rows" table options)
   (r/->Rows "rows" (life/table "rows" table) options)))

(defmacro query
  "A query: clauses of a pattern and what it gives, as those of `magnetar.match/match`, compiled once, to be used with `select` and its like.

  A row gives what stands beside the first pattern that matches it, and nothing if none does. Locals that are bound match by value. Where the
  pattern says the key only that row is looked at, else all are.

    (table/select t (table/query ([name n] :when (< 3 n)) name))
    (table/select t (table/query ([:apples n] :as row) row))

  In Erlang: a match specification, and ets:fun2ms/1."
  {:erlang "ets:fun2ms/1" :added "0.1"}
  [& clauses]
  (q/expansion &env &form clauses))

(defn select
  "What a query makes of the rows of a table: a vector.

  Options are those of a range, see `rows`, and :limit, the most results at a time: then the value is [results more], more is nil at the end, and
  (select more) gives the next of the kind. `more` holds the place where it stopped, and may be used again.

    (table/select t (table/query [name n] name)) ;=> [:apples :pears]
    (let [[names more] (table/select t q {:limit 100})] (when more (table/select more)))

  In Erlang: ets:select/1,2,3, ets:match/1,2,3 and ets:match_object/1,2,3."
  {:erlang "ets:select/2" :added "0.1"}
  ([more] (q/more "select" more))
  ([table query] (q/select "select" table query nil))
  ([table query options] (q/select "select" table query options)))

(defn select-count
  "How many rows the query gives something true for.

    (table/select-count t (table/query [_ n] (< 3 n)))

  In Erlang: ets:select_count/2."
  {:erlang "ets:select_count/2" :added "0.1"}
  [table query]
  (q/select-count "select-count" table query))

(defn select-delete
  "Takes out the rows that the query gives something true for; returns how many. Each is looked at as it is when it is taken out.

    (table/select-delete t (table/query [_ n] (zero? n)))

  In Erlang: ets:select_delete/2 and ets:match_delete/2."
  {:erlang "ets:select_delete/2" :added "0.1"}
  [table query]
  (q/select-delete "select-delete" table query))

;; ---- in order

(defn first
  "The least key of an :ordered-set; nil if there is no row.

    (table/first scores)

  In Erlang: ets:first/1."
  {:erlang "ets:first/1" :added "0.1"}
  [table]
  (r/neighbour "first" table (fn [^ConcurrentNavigableMap m k] (if k (.higherEntry m k) (.firstEntry m)))))

(defn last
  "The greatest key of an :ordered-set; nil if there is no row.

    (table/last scores)

  In Erlang: ets:last/1."
  {:erlang "ets:last/1" :added "0.1"}
  [table]
  (r/neighbour "last" table (fn [^ConcurrentNavigableMap m k] (if k (.lowerEntry m k) (.lastEntry m)))))

(defn next
  "The least key of an :ordered-set that is greater than this one, which need not be there; nil if there is none.

    (table/next scores 100)

  In Erlang: ets:next/2."
  {:erlang "ets:next/2" :added "0.1"}
  [table key]
  (r/neighbour "next" table (fn [^ConcurrentNavigableMap m k] (.higherEntry m (or k (r/sorted-key key))))))

(defn prev
  "The greatest key of an :ordered-set that is less than this one, which need not be there; nil if there is none.

    (table/prev scores 100)

  In Erlang: ets:prev/2."
  {:erlang "ets:prev/2" :added "0.1"}
  [table key]
  (r/neighbour "prev" table (fn [^ConcurrentNavigableMap m k] (.lowerEntry m (or k (r/sorted-key key))))))
