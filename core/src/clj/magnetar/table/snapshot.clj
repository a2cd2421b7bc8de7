(ns magnetar.table.snapshot
  "A table in a file: saved as a whole or not at all, and refused when something has happened to it.

  save      writes the rows of a table to a file
  restore   makes a table of a file
  describe  what is in a file

    (snapshot/save scores \"scores.table\")    ;=> 3
    (snapshot/restore \"scores.table\" {:name :scores})

  The file is text: a line of EDN for each row, so rows have to be plain data, and reading runs no code. In Erlang: ets:tab2file/3 and
  ets:file2tab/2 with their options sync, extended_info and verify, which are always on here."
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

  Waits until they are on the disk, on a thread for such work. What is there already under that name is replaced in one instant, at the end; it stays as
  it is if anything fails: a row that is no plain data, a full disk, the end of the program. Rows that others write meanwhile are in it or not.

    (snapshot/save :scores \"scores.table\") ;=> 3

  In Erlang: ets:tab2file/2,3."
  {:erlang "ets:tab2file/2" :added "0.1"}
  [table to]
  (let [path (file/path-of "save" to)
        t (life/table "save" table)
        [s values] (rows/values "save" t nil)]
    (scope/offload #(file/save path t (rows/reducible s values)))))

(defn restore
  "Makes a table of a file, which belongs to this process; returns it.

  It has the kind, the key and the access of the one that was saved. :name, which is not taken from the file, :access and :heir may be given as to
  `create`. The file is looked through before anything is made: one that was cut off, changed, or never was a snapshot is refused with an
  IllegalStateException that says so. Waits on a thread for such work.

    (snapshot/restore \"scores.table\" {:name :scores})

  In Erlang: ets:file2tab/1,2."
  {:erlang "ets:file2tab/1" :added "0.1"}
  ([from] (restore from nil))
  ([from options]
   (arguments/options "restore" [:name :access :heir] options)
   (let [path (file/path-of "restore" from)
         [{:keys [key access]} s] (scope/offload #(file/fill "restore" path (comp life/empty-store :kind) rows/add-to))]
     (life/create "restore" s (merge {:access access} options {:key key})))))

(defn describe
  "What is in a file, which is looked through as by `restore`: {:kind :key :access :name :rows}.

    (snapshot/describe \"scores.table\") ;=> {:kind :set, :key 0, :access :public, :name :scores, :rows 3}

  In Erlang: ets:tabfile_info/1."
  {:erlang "ets:tabfile_info/1" :added "0.1"}
  [from]
  (let [path (file/path-of "describe" from)]
    (scope/offload #(file/describe "describe" path))))
