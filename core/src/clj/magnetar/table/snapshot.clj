(ns magnetar.table.snapshot
  "Keeps a table in a file, saved as a whole or not at all.

  A file that was changed or cut off is refused.

  save      writes the rows of a table to a file
  restore   makes a table of a file
  describe  what is in a file

    (snapshot/save scores \"scores.table\")    ;=> 3
    (snapshot/restore \"scores.table\" {:name :scores})

  The file is text, a line of EDN for each row. So rows have to be plain data, and reading runs no code.
  Erlang has ets:tab2file/3 and ets:file2tab/2; their options sync, extended_info and verify are always on
  here.

  Require it as `[magnetar.table.snapshot :as snapshot]`."
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.table.life :as life]
   [magnetar.impl.table.rows :as rows]
   [magnetar.impl.table.snapshot :as file]
   [magnetar.scope :as scope]))

(set! *warn-on-reflection* true)

(defn save
  "Writes the rows of a table to a file; returns how many.

  A file that already has this name is replaced in one instant, at the end. It stays as it is if anything
  fails: a row that is not plain data, a full disk, the end of the program. Rows that other processes write
  meanwhile may be in the file or not.

  Blocks until the rows are on the disk; the work runs on a thread of `magnetar.scope/offload`.

  Example:

    (snapshot/save :scores \"scores.table\") ;=> 3

  Erlang: ets:tab2file/2,3."
  {:erlang "ets:tab2file/2" :added "0.1"}
  [table to]
  (let [path (file/path-of "save" to)
        t (life/table "save" table)
        [s values] (rows/values "save" t nil)]
    (scope/offload #(file/save path t (rows/reducible s values)))))

(defn restore
  "Makes a table of a file, which this process owns; returns the table.

  It has the kind, the key and the access of the saved table. Its name is not taken from the file. The file
  is checked before anything is made.

  Blocks until the file was read; the work runs on a thread of `magnetar.scope/offload`.

  Throws an IllegalStateException for a file that was cut off, was changed, or never was a snapshot; the
  sentence says which.

  Options:
    :name :access :heir   as of `magnetar.table/create`

  Example:

    (snapshot/restore \"scores.table\" {:name :scores})

  Erlang: ets:file2tab/1,2."
  {:erlang "ets:file2tab/1" :added "0.1"}
  ([from] (restore from nil))
  ([from options]
   (arguments/options "restore" [:name :access :heir] options)
   (let [path (file/path-of "restore" from)
         [{:keys [key access]} s] (scope/offload #(file/fill "restore" path (comp life/empty-store :kind) rows/add-to))]
     (life/create "restore" s (merge {:access access} options {:key key})))))

(defn describe
  "Returns what is in a file, {:kind :key :access :name :rows}.

  The file is checked as by `restore`.

  Example:

    (snapshot/describe \"scores.table\") ;=> {:kind :set, :key 0, :access :public, :name :scores, :rows 3}

  Erlang: ets:tabfile_info/1."
  {:erlang "ets:tabfile_info/1" :added "0.1"}
  [from]
  (let [path (file/path-of "describe" from)]
    (scope/offload #(file/describe "describe" path))))
