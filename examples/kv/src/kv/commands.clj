(ns kv.commands
  "The commands on data, as functions of the data.

  A command is a map. :arity counts the arguments with the name, and is negative for a least number, as in
  Redis; :most is the greatest. A :read is (f db & arguments), and returns the reply. A :write returns [db
  reply], or [db reply log]: the command that does the same at any later time, if that is another one. :keys
  tells which arguments of a :write are keys: :all, :every-second, or the first if it is left out."
  (:require
   [clojure.string :as str]
   [kv.commands.hashes :as hashes]
   [kv.commands.keys :as keys]
   [kv.commands.lists :as lists]
   [kv.commands.sets :as sets]
   [kv.commands.strings :as strings]
   [kv.db :as db]
   [kv.resp :as resp]))

(set! *warn-on-reflection* true)

(def ^:private commands
  (merge strings/commands lists/commands hashes/commands sets/commands keys/commands))

(defn lookup
  "The command of that name, nil if the data have none."
  [name]
  (or (commands name)
      (commands (str/upper-case name))))

(defn write?
  "Is it a command that may change the data?"
  [[name]]
  (contains? (lookup name) :write))

(defn arity-fits?
  "Does a command take so many arguments, its name among them?"
  [^long arity most ^long n]
  (and (if (neg? arity) (<= (- arity) n) (= arity n))
       (or (nil? most) (<= n (long most)))))

(defn wrong-arity
  "The error for a command with too many or too few arguments."
  [name]
  (resp/->Failure (str "ERR wrong number of arguments for '" (str/lower-case name) "' command")))

(defn- keys-of [keys arguments]
  (case keys
    :all arguments
    :every-second (take-nth 2 arguments)
    (take 1 arguments)))

(defn- delete-each
  "[db log] without these keys."
  [db ks]
  [(reduce db/delete db ks) (mapv #(vector "DEL" %) ks)])

(defn- execute-write
  "An expired key is deleted in the log before it gets a new value: when the log is read, no time passes."
  [db {:keys [write keys]} [_ & arguments :as command]]
  (let [[before deleted] (delete-each db (db/expired-among db (keys-of keys arguments)))
        [after reply log] (apply write before arguments)]
    [after reply (if (identical? before after) deleted (conj deleted (or log command)))]))

(defn- failed [^Exception e]
  (or (:reply (ex-data e))
      (resp/->Failure (str "ERR the command failed: " e))))

(defn execute
  "Executes a command. Returns [db reply log], where log has the commands for the log."
  [db [name & arguments :as command]]
  (let [{:keys [arity most read] :as spec} (lookup name)]
    (if-not (arity-fits? arity most (count command))
      [db (wrong-arity name) []]
      (try
        (if read
          [db (apply read db arguments) []]
          (execute-write db spec command))
        (catch Exception e
          [db (failed e) []])))))

(defn delete-expired
  "Deletes at most n of the expired keys. Returns [db log]."
  [db n]
  (delete-each db (take n (db/expired-keys db))))
