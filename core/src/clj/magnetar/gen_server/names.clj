(ns magnetar.gen-server.names
  "The names of servers: pids, names of this node, [name node], [:global name], [:via registry name]."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid Processes)))

(set! *warn-on-reflection* true)

(defn pid-of
  "The pid of the server at the address, or nil."
  ^Pid [operation server]
  (address/server operation server))

(defn check-name
  "Refuses what cannot be the name of a server."
  [name]
  (when-not (or (nil? name) (#{:local :via} (first (address/parts name))))
    (arguments/misuse :magnetar/bad-name
                      (str "The :name of a server is a keyword, a symbol, [:global name] or [:via registry name]; this is "
                           (arguments/show name) ".")
                      {:name name}))
  (when (address/via? name)
    (address/check-via name)))

(defn check-own
  "Exits unless this process has the name, as Erlang's enter_loop does."
  [name]
  (when-not (or (nil? name) (= (actor/self) (address/find-pid name)))
    (actor/exit (let [[kind _ registry] (address/parts name)]
                  (cond
                    (= :local kind) :process-not-registered
                    (= 'magnetar.global registry) :process-not-registered-globally
                    :else [:process-not-registered-via registry])))))

(defn- register-local [name]
  (try
    (actor/register name (actor/self))
    nil
    (catch IllegalArgumentException e
      (or (Processes/whereis name) (throw e)))))

(defn register
  "Gives the name to this process; the pid of the one that has it, if there is one."
  [name]
  (let [[kind plain] (address/parts name)]
    (case kind
      nil nil
      :local (register-local plain)
      :via (address/take-via name (actor/self)))))

(defn unregister
  "Takes the name of this process back, before it says that it did not come up."
  [name]
  (let [[kind plain] (address/parts name)]
    (case kind
      nil nil
      :local (Processes/unregister plain)
      :via (address/release-via name))))
