(ns magnetar.impl.actor.nodes
  "Which node a process is on, and the error of what works on this one only."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.process Peer Peers Pid Ref RemoteName)))

(set! *warn-on-reflection* true)

(defn name-of
  "The name of the node that the pid, the RemoteName or the maker of the reference is on; nil if that is not known."
  [x]
  (cond
    (instance? RemoteName x) (.name (.peer ^RemoteName x))
    (instance? Pid x) (.nodeName ^Pid x)
    (= (Peers/creation) (.creation ^Ref x)) (Peers/name)
    :else (some-> (.maker ^Ref x) .nodeName)))

(defn elsewhere?
  "Is the process with this pid or RemoteName on another node?"
  [server]
  (or (instance? RemoteName server) (pos? (.node ^Pid server))))

(defn erlang?
  "Is the process with this pid or RemoteName on a node of Erlang?"
  [server]
  (if (instance? RemoteName server)
    (.isErlang (.peer ^RemoteName server))
    (and (pos? (.node ^Pid server)) (Peers/isErlang server))))

(defn peers-of-cluster
  "The peers that this node is connected with in a cluster, and not as a node of Erlang."
  []
  (into [] (remove #(.isErlang ^Peer %)) (Peers/connected)))

(defn of-cluster
  "The names of these peers."
  []
  (mapv #(.name ^Peer %) (peers-of-cluster)))

(defn connected?
  "Is this node connected with the one of the pid, which is another one?"
  [^Pid pid]
  (when-some [^Peer peer (some-> (.nodeName pid) Peers/connected)]
    (= (.creation peer) (.creation pid))))

(defn here
  "The pid, which the operation refuses if its process is on another node."
  ^Pid [operation ^Pid pid]
  (when (elsewhere? pid)
    (let [node (name-of pid)]
      (arguments/misuse :magnetar/not-here
                        (str "`" operation "` works on processes of this node; " pid " is on "
                             (if node (str "the node " (arguments/show node)) "another one")
                             ". Call it there, or watch the process with `monitor`.")
                        {:pid pid :node node})))
  pid)
