(ns magnetar.erlang.impl.nodes
  "What services have in common: messages about nodes that come and go, names of nodes as atoms, messages and answers that wait for
  nothing, and the server `user`."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Keyword)
   (magnetar.erlang.wire Links Links$Watcher)
   (magnetar.kernel.process Pid ProcessTable Ref Send)))

(set! *warn-on-reflection* true)

(defn watch
  "Lets the process be sent [:nodeup node visible?] and [:nodedown node], also for the nodes that are connected already. A :nodeup may come twice."
  [^Links links pid]
  (.watch links (reify Links$Watcher
                  (up [_ node visible?] (Send/signal pid [:nodeup node visible?]))
                  (down [_ node] (Send/signal pid [:nodedown node])))))

(defn to-atom
  "The name of a node as other nodes have it."
  [^String node]
  (Keyword/intern nil node))

(defn to-name
  "The name of a node of an atom."
  [node]
  (subs (str node) 1))

(defn tell
  "Sends the message to a pid or name, unless its node is not connected. Never waits, so no slow node holds others up."
  [to message]
  (Send/signal (address/target to) message))

(defn- answer-address
  "Where the answer to a call goes: to the alias that the tag is, else to the caller; nil if neither is an address."
  [from]
  (let [[caller tag] (when (vector? from) from)]
    (cond
      (and (instance? Ref tag) (not (.isPlain ^Ref tag))) tag
      (instance? Pid caller) caller)))

(defn reply
  "Answers a call as `gen-server/reply` does, and never waits. An answer to what is no caller is dropped."
  [from value]
  (when-some [to (answer-address from)]
    (Send/signal to [(nth from 1 nil) value]))
  nil)

;; ---- the server `user`

(def user-beside
  "The name of this node's server `user` if a program has the name :user."
  :magnetar.erlang/user)

(defn user
  "The pid of this node's server `user`; nil without one."
  ^Pid []
  (or (ProcessTable/whereis user-beside) (ProcessTable/whereis :user)))
