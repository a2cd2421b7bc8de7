(ns kv.commands
  "The commands on data, as functions of the data.

  A command is a map. :arity counts the arguments with the name, and is negative for a least number, as in Redis; :most is the greatest. A
  :read is (f db & arguments), and returns the reply. A :write returns [db reply], or [db reply log]: the command that does the same at any
  later time, if that is another one."
  (:require
   [clojure.string :as str]
   [kv.commands.hashes :as hashes]
   [kv.commands.keys :as keys]
   [kv.commands.lists :as lists]
   [kv.commands.sets :as sets]
   [kv.commands.strings :as strings]
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

(defn- changed
  "The outcome of a :write. What changes nothing is not logged."
  [before [after reply log] command]
  [after reply (when-not (identical? before after) (or log command))])

(defn execute
  "Executes a command. Returns [db reply log], where log is the command for the log, nil if nothing changed."
  [db [name & arguments :as command]]
  (let [{:keys [arity most read write]} (lookup name)]
    (if-not (arity-fits? arity most (count command))
      [db (wrong-arity name) nil]
      (try
        (if read
          [db (apply read db arguments) nil]
          (changed db (apply write db arguments) command))
        (catch clojure.lang.ExceptionInfo e
          [db (or (:reply (ex-data e)) (throw e)) nil])))))
