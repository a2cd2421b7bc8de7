(ns magnetar.impl.otp.names
  "The names of servers: pids, names of this node, [name node], [:global name], [:via registry name]."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.current :refer [self]]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process LocalProcess ProcessTable Send)))

(set! *warn-on-reflection* true)

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
  (when-not (or (nil? name) (= (self) (address/find-pid name)))
    (let [[kind _ registry] (address/parts name)]
      (throw (Send/exit (cond
                          (= :local kind) :process-not-registered
                          (= 'magnetar.global registry) :process-not-registered-globally
                          :else [:process-not-registered-via registry]))))))

(defn- try-register
  "Gives the name to this process: nil, the pid of the process that has it, or ::again if that one has just died."
  [name]
  (try
    (ProcessTable/register name (self))
    nil
    (catch IllegalArgumentException e
      (or (ProcessTable/whereis name)
          (if (.name (LocalProcess/current))
            (throw e)
            ::again)))))

(defn- register-local [name]
  (let [taken (try-register name)]
    (if (= ::again taken) (recur name) taken)))

(defn register
  "Gives the name to this process; the pid of the one that has it, if there is one."
  [name]
  (let [[kind plain] (address/parts name)]
    (case kind
      nil nil
      :local (register-local plain)
      :via (address/take-via name (self)))))

(defn unregister
  "Takes the name of this process back, before it says that it did not come up."
  [name]
  (let [[kind plain] (address/parts name)]
    (case kind
      nil nil
      :local (ProcessTable/unregister plain)
      :via (address/release-via name))))
