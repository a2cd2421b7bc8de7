(ns magnetar.impl.actor.address
  "Names of processes: those of this node, [name node], [:global name], [:via registry name]."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Address Peers Pid ProcessTable RemoteName)))

(set! *warn-on-reflection* true)

(defn node
  "The name of this node."
  []
  (Peers/name))

(defn plain?
  "Is it a name that the kernel knows?"
  [name]
  (or (keyword? name) (symbol? name)))

(defn parts
  "What kind of name it is, :local, :via or :remote, what of it is the name, and the registry; nil if it is not a name."
  [name]
  (cond
    (plain? name) [:local name]
    (and (vector? name) (= 2 (count name)))
    (let [[a b] name]
      (cond
        (= :global a) [:via b 'magnetar.global]
        (and (= :local a) (plain? b)) [:local b]
        (and (string? b) (plain? a) (= (node) b)) [:local a]
        (and (string? b) (plain? a)) [:remote name]))
    (and (vector? name) (= 3 (count name)) (= :via (nth name 0))) [:via (nth name 2) (nth name 1)]))

(defn via?
  "Is it a name in a registry?"
  [name]
  (and (vector? name) (= :via (first (parts name)))))

;; ---- registries

(defn- of-namespace [registry word]
  (when (or (symbol? registry) (instance? clojure.lang.Namespace registry))
    (try
      (requiring-resolve (symbol (str registry) (name word)))
      (catch java.io.FileNotFoundException _))))

(defn- registry-function [registry word]
  (or (if (map? registry) (registry word) (of-namespace registry word))
      (arguments/misuse :magnetar/bad-registry
                        (str "The registry of a [:via registry name] is a namespace or a map with register-name, unregister-name and "
                             "whereis-name; " (arguments/show registry) " has no " (name word) ".")
                        {:registry registry})))

(defn- ask [registry word & args]
  (apply (registry-function registry word) args))

(defn- find-in [registry name]
  (ask registry :whereis-name name))

;; ---- what is done with names

(defn find-pid
  "The pid of the process that has the name, or nil; also nil for what is no name."
  ^Pid [name]
  (let [[kind plain registry] (parts name)]
    (case kind
      :local (ProcessTable/whereis plain)
      :via (find-in registry plain)
      nil)))

(defn- taken [name ^Pid pid holder]
  (arguments/misuse :magnetar/name-taken
                    (str "Cannot register " pid " as " (arguments/show name) ": "
                         (if holder (str "the name belongs to " holder ". Take another, or `unregister` it first.") "its registry refuses that."))
                    {:name name :pid pid :holder holder}))

(defn register-via
  "Gives a name in a registry to the process; a misuse if it is taken."
  [name pid]
  (let [[_ plain registry] (parts name)]
    (when-not (= :yes (ask registry :register-name plain pid))
      (taken name pid (find-in registry plain)))))

(defn take-via
  "Gives a name in a registry to the process: nil, or the pid of the one that has it. A refusal without a holder is asked
  again, since the holder may just have died."
  [name pid]
  (let [[_ plain registry] (parts name)]
    (loop [tries 2]
      (when-not (= :yes (ask registry :register-name plain pid))
        (or (find-in registry plain)
            (if (= 1 tries) (taken name pid nil) (recur 1)))))))

(defn release-via
  "Takes a name in a registry back."
  [name]
  (let [[_ plain registry] (parts name)]
    (ask registry :unregister-name plain)))

(defn check-via
  "Refuses a name whose registry is not a registry."
  [name]
  (let [[_ _ registry] (parts name)]
    (run! #(registry-function registry %) [:register-name :unregister-name :whereis-name])))

(def nobody
  "A pid of no process: what is sent to it is dropped, and counted as any message to a dead process."
  (Pid. 0 0 0 nil))

(defn- remote-name ^RemoteName [peer [plain _ :as shown]]
  (when peer
    (RemoteName. peer plain shown)))

(defn elsewhere
  "The address of [name node] for the kernel; nil if this node is not connected with that node."
  ^RemoteName [[_ node :as address]]
  (remote-name (Peers/connected ^String node) address))

(defn reach
  "The same, after it has connected the node if need be and possible. Waits for that."
  ^RemoteName [[_ node :as address]]
  (remote-name (Peers/reach ^String node) address))

(defn- of-parts [to [kind plain registry] remote]
  (case kind
    :local (or (ProcessTable/whereis plain) nobody)
    :via (or (find-in registry plain) to)
    :remote (or (remote to) nobody)
    to))

(defn target
  "What the kernel sends to: the process that has the name in a registry; that of [name node], or nobody; else `to`."
  [to]
  (if (vector? to) (of-parts to (parts to) elsewhere) to))

(defn reached-target
  "The same for a sender that waits: connects the node of [name node] if need be."
  [to]
  (of-parts to (parts to) reach))

(defn- find-later [registry name]
  (try
    (find-in registry name)
    (catch IllegalArgumentException e ; the registry has ended meanwhile: then no process has the name
      (when-not (= :magnetar/no-such-registry (:magnetar/reason (ex-data e))) (throw e)))))

(defn later
  "What the kernel sends to when the time has come, as `target` now."
  [to]
  (let [[kind plain registry] (parts to)]
    (case kind
      :local plain
      :remote (or (elsewhere to) nobody)
      :via (do (check-via to)
               (reify
                 Address (find [_] (find-later registry plain))
                 Object (toString [_] (pr-str to))))
      to)))
