(ns magnetar.erlang.impl.remote
  "Processes and calls of functions on BEAMs. A call is a process there that ends with its value as the reason, as `erpc`
  has it."
  {:no-doc true}
  (:refer-clojure :exclude [cast])
  (:require
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.proc-lib.remote :as remote])
  (:import
   (magnetar.erlang.wire Call)
   (magnetar.kernel.fiber Environment)
   (magnetar.kernel.process Peer Peers Pid Spawn)))

(set! *warn-on-reflection* true)

(defn- leader
  "The group leader of a process on a BEAM: this one's if that is on another node too, else the server `user` of this node."
  ^Pid []
  (let [^Pid own (actor/group-leader)]
    (if (pos? (.node own))
      own
      (or (connections/user) own))))

(defn- node-of-erlang
  "The node, which is connected if need be; nil if it cannot be, or is a node of another transport."
  ^Peer [node]
  (when-some [^Peer peer (Peers/reach node)]
    (when (.isErlang peer)
      peer)))

(defn- work [module function args]
  (Call. module function (vec args) (leader)))

;; ---- processes

(defn- not-started [node why]
  (errors/failure (str "No process was started on the node " (pr-str node) ": "
                       (if (= :noconnection why) "it is not connected." (str (reasons/text why) ".")))
    {:node node :reason why}))

(defn- unless-refused
  "What f returns; [:error :notsup] if the node starts no processes for others, such as one of jinterface."
  [f]
  (try
    (f)
    (catch UnsupportedOperationException _ [:error :notsup])))

(defn spawn
  "Starts a process on the node; its pid, or with :monitor [pid reference]."
  [node module function args options]
  (let [peer (or (node-of-erlang node) (throw (not-started node :noconnection)))
        [how x ref] (unless-refused #(remote/start "spawn" peer (work module function args) options))]
    (cond
      (= :error how) (throw (not-started node x))
      (:monitor options) [x ref]
      :else x)))

;; ---- calls

(def ^:private ^:const no-limit
  "A time-out of so many ns or more never comes."
  (quot Long/MAX_VALUE 2))

(defn- left
  "How many ms are left until then, 0 or more, rounded up."
  [deadline]
  (if deadline
    (max 0 (quot (+ 999999 (- (long deadline) (.nanoTime (Environment/current)))) 1000000))
    :infinity))

(defn- ended
  "What the reason says of a process that was to call a function: [kind value stack]."
  [tag why]
  (cond
    (= :noconnection why) [:erpc why]
    (and (vector? why) (<= 3 (count why) 4) (= tag (first why))) (subvec why 1)
    :else [:signal why]))

(defn- await-end [ref tag deadline]
  (loop []
    (let [end (receive
                [:spawn-reply ref :ok _] nil
                [:spawn-reply ref :error why] [:erpc why]
                [:DOWN ref :process _ why] (ended tag why)
                (after (left deadline) [:timeout]))]
      (or end (recur)))))

(defn- call-of-peer [^Peer peer module function args deadline]
  (let [tag (actor/make-ref)
        ref (remote/request "call" peer (work :erpc :execute_call [tag module function (apply list args)]) {:monitor true})
        give-up #(do (remote/forget peer ref {:monitor true})
                     (actor/demonitor ref {:flush true}))]
    (try
      (let [end (await-end ref tag deadline)]
        (when (= [:timeout] end)
          (give-up))
        end)
      (catch Throwable t
        (give-up)
        (throw t)))))

(defn- deadline-after [nanos]
  (when (and nanos (< (long nanos) no-limit))
    (+ (.nanoTime (Environment/current)) (long nanos))))

(defn call
  "Calls the function on the node for so many ns, or nil for ever, from when it is connected: [:return value], [:error reason stack], [:exit reason], [:throw value],
  [:signal reason] of a process that was ended, [:erpc reason] of a call that was not made, or [:timeout]."
  [node module function args nanos]
  (if-some [peer (node-of-erlang node)]
    (let [end (unless-refused #(call-of-peer peer module function args (deadline-after nanos)))]
      (if (= [:error :notsup] end) [:erpc :notsup] end))
    [:erpc :noconnection]))

(defn cast
  "Calls the function on the node, and waits for nothing."
  [node module function args]
  (when-some [peer (node-of-erlang node)]
    (unless-refused
      #(remote/forget peer (remote/request "cast" peer (work :erpc :execute_cast [module function (apply list args)]) nil) nil))))

(defn- how [[kind reason]]
  (if (= [:error :undef] [kind reason])
    "there is no such function"
    (str (case kind
           :error "it has thrown the error "
           :exit "it has exited: "
           :throw "it has thrown "
           :signal "its process was ended: "
           :erpc "the call was not made, or its answer was lost: ")
         (reasons/text reason))))

(defn failure
  "The error of a call that has ended otherwise than with a value."
  [node module function args [kind reason stack :as end]]
  (errors/failure (str "The call of " (name module) ":" (name function) "/" (count args) " on the node " (pr-str node) " has failed: " (how end) ".")
    (cond-> {:node node :module module :function function :args args :class kind :reason reason}
      stack (assoc :stack stack))))
