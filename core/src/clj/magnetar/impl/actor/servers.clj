(ns magnetar.impl.actor.servers
  "Finds a server by its address, and makes the error where there is no server."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest])
  (:import
   (magnetar.kernel.process Peer Peers Pid ProcessTable)))

(set! *warn-on-reflection* true)

(defn- called
  "The function that the program called: the operation, or with its namespace another one that is built on it."
  [operation]
  (let [function (some-> (errors/operation) symbol)]
    (if (or (nil? function) (= operation (name function))) operation function)))

(defn refuse-server
  "Throws that this is no address of a server."
  [operation x]
  (arguments/misuse :magnetar/bad-address
                    (if (codec/of-error? x)
                      (str "`" (called operation) "` got no server but the reason of a start that failed: " (reasons/text x)
                           ". Look first at what the start returns, [:ok pid] or [:error reason].")
                      (str "`" (called operation) "` wants a server as a pid, a name, [name node], [:global name] or "
                           "[:via registry name]; this is " (arguments/show x) "."))
                    {:server x}))

(defn server
  "The pid of the server at the address, or its RemoteName on another node, which is connected if need be; nil if there is no server, and for nil."
  [operation x]
  (cond
    (instance? Pid x) x
    (nil? x) nil
    :else (case (first (address/parts x))
            nil (refuse-server operation x)
            :remote (address/reach x)
            (address/find-pid x))))

(defn local-server
  "The pid of the server at the address, which is on this node; nil if there is no server. Refuses one of another node."
  ^Pid [operation x]
  (let [found (server operation x)]
    (when (and found (nodes/elsewhere? found))
      (arguments/misuse :magnetar/not-here
                        (str "`" (called operation) "` works on servers of this node; " (arguments/show x) " is on another one. Call it there.") {:server x}))
    found))

(defn absent
  "Why a call finds no server at the address: :noproc, or [:nodedown node] for another node."
  [x]
  (let [[kind name] (when-not (instance? Pid x) (address/parts x))]
    (if (= :remote kind) [:nodedown (peek name)] :noproc)))

(defn absent-note
  "What to know or do where no server is found at the address."
  [x]
  (let [[reason other] (let [why (absent x)] (when (vector? why) why))]
    (cond
      (nil? x) "Give it the pid of a server, or its name."
      (= :nodedown reason) (str "This node, " (arguments/show (address/node)) ", is not connected with " (arguments/show other)
                                (if-some [names (seq (map #(.name ^Peer %) (Peers/connected)))]
                                  (str "; it is with " (arguments/show (vec names)) ".")
                                  " or any other node."))
      :else (str "No process has this name."
                 (when-some [meant (suggest/closest x (filter keyword? (ProcessTable/names)))] (str " Is " meant " meant?"))))))
