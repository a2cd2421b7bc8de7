(ns magnetar.gen-server.names
  "The names of servers: pids, names of this node, [name node], [:global name], [:via registry name]."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.global :as global]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Pid Processes)))

(set! *warn-on-reflection* true)

(defn- plain? [name]
  (or (keyword? name) (symbol? name)))

(def ^:private of-global
  {:register-name global/register-name, :unregister-name global/unregister-name, :whereis-name global/whereis-name})

(defn- registry-function [registry word]
  (or (if (map? registry)
        (registry word)
        (requiring-resolve (symbol (str registry) (name word))))
      (arguments/misuse :magnetar/bad-registry
                        (str "The registry of a [:via registry name] is a namespace or a map with register-name, unregister-name and "
                             "whereis-name; " (arguments/show registry) " has no " (name word) ".")
                        {:registry registry})))

(defn- ask [registry word & args]
  (apply (registry-function registry word) args))

(defn- parts
  "What kind of address it is, and what of it is the name."
  [address]
  (cond
    (plain? address) [:local address]
    (and (vector? address) (= 2 (count address)))
    (let [[a b] address]
      (cond
        (= :global a) [:via b of-global]
        (= :local a) [:local b]
        (= (actor/node) b) [:local a]
        (string? b) [:remote address]))
    (and (vector? address) (= 3 (count address)) (= :via (first address))) [:via (nth address 2) (nth address 1)]))

(defn- bad-address [operation address]
  (arguments/misuse :magnetar/bad-address
                    (str "`" operation "` wants a server as a pid, a name, [name node], [:global name] or [:via registry name]; this is "
                         (arguments/show address) ".")
                    {:server address}))

(defn- resolved [operation address]
  (let [[kind name registry] (parts address)]
    (case kind
      :local (Processes/whereis name)
      :via (ask registry :whereis-name name)
      :remote nil
      (bad-address operation address))))

(defn pid-of
  "The pid of the server at the address, or nil."
  ^Pid [operation address]
  (if (instance? Pid address)
    address
    (resolved operation address)))

(defn check-name
  "Refuses what cannot be the name of a server."
  [name]
  (when-not (or (nil? name) (#{:local :via} (first (parts name))))
    (arguments/misuse :magnetar/bad-name
                      (str "The :name of a server is a keyword, a symbol, [:global name] or [:via registry name]; this is "
                           (arguments/show name) ".")
                      {:name name})))

(defn- register-local [name]
  (try
    (actor/register name (actor/self))
    nil
    (catch IllegalArgumentException e
      (or (Processes/whereis name) (throw e)))))

(defn register
  "Gives the name to this process; the pid of the one that has it, if there is one."
  [name]
  (let [[kind plain registry] (parts name)]
    (case kind
      nil nil
      :local (register-local plain)
      :via (when-not (= :yes (ask registry :register-name plain (actor/self)))
             (ask registry :whereis-name plain)))))

(defn unregister
  "Takes the name of this process back, before it says that it did not come up."
  [name]
  (let [[kind plain registry] (parts name)]
    (case kind
      nil nil
      :local (Processes/unregister plain)
      :via (ask registry :unregister-name plain))))
