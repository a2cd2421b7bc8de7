(ns magnetar.erlang.impl.global
  "The server of global names of a visible node, which the `global` of BEAMs expects at each node that they list.

  It speaks their protocol, version 8. Two nodes that connect greet each other by {init_connect, ..} with a tag each. Their
  lockers lock both sides, see `magnetar.erlang.impl.global.locks`. Then each server tells its names by {exchange, ..}, finds
  out what has to be done on both sides, and tells the other one by {resolved, ..}. At last each side tells its own other nodes
  by {new_nodes, ..}, and the locks end. A node that another one has told of is connected, and learns by {in_sync, ..} that it
  knows all names already.

  Invariants:

  - A message of a talk has the tag of its receiver. One with another tag is of a talk that was given up, and is dropped.
  - All known nodes have the same names. A name changes on all of them, while they are locked for one process.
  - If the connection with a node is lost, all known nodes are told, and end theirs with one of the two. So the nodes that stay
    connected are all connected with each other, as in Erlang with prevent_overlapping_partitions.

  Nothing here waits: messages and answers to other nodes neither connect nor wait for room. What comes is checked before
  anything is done. `magnetar.impl.actor.global` has the tables behind `magnetar.global`."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! self]]
   [magnetar.erlang.impl.global.locks :as locks]
   [magnetar.erlang.impl.global.names :as names]
   [magnetar.erlang.impl.nodes :as connections :refer [to-atom to-name]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.global :as tables]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (java.util.concurrent CompletableFuture)
   (java.util.function BiConsumer)
   (magnetar.erlang.wire Node Settings)
   (magnetar.kernel.process Peers Send)))

(set! *warn-on-reflection* true)

(def ^:private version 8)

(def ^:private jvm
  "Tells other JVMs that this node is one: no BEAM reads it."
  :magnetar)

;; ---- sending

(defn- inform [node message]
  (connections/tell [locks/server-name node] message))

(defn- cast-to [node message]
  (inform node [:magnetar/cast message]))

(defn- understood
  "The items that have the form. The others are left out and reported."
  [form? items]
  (let [items (if (sequential? items) items [items])
        bad (into [] (remove form?) items)]
    (when (seq bad)
      (reports/report "a message about global names of a node of Erlang"
                      (ex-info (str "A part of it is not understood: " (reports/beginning bad)) {:not-understood bad})))
    (filterv form? items)))

;; ---- talks. The state has :talks, from a node to what is known of the talk with it

(defn- talk [state node]
  (get-in state [:talks node]))

(defn- current? [state node tag]
  (let [{:keys [my-tag]} (talk state node)]
    (and my-tag (= my-tag tag))))

(defn- next-number [state]
  [(:next state) (update state :next inc)])

(defn- release
  "Lets the locker end the locks of a talk, after it has sent the messages."
  [{:keys [locker]} node tag messages]
  (! locker [::locks/release node tag messages]))

(defn- give-up
  "The state without the talk."
  [state node]
  (when-some [{:keys [my-tag]} (talk state node)]
    (release state node my-tag []))
  (update state :talks dissoc node))

(defn- greet
  "The state after the server of the node was greeted, unless it is known or there is a talk with it."
  [{:keys [known up me locker] :as state} node]
  (if (or (known node) (talk state node) (not (up node)))
    state
    (let [[tag state] (next-number state)]
      (cast-to node [:init_connect [version tag] (to-atom me) [:locker jvm {} locker]])
      (assoc-in state [:talks node] {:my-tag tag}))))

(defn- again
  "The state after the talk with the node has begun again. The other one is told to do the same."
  [state node his-tag]
  (inform node [:cancel_connect (to-atom (:me state)) his-tag])
  (greet (give-up state node) node))

(defn- greeted [{:keys [known] :as state} node vsn his-tag kind]
  (if (known node)
    state
    (let [vsn (min (long version) (long vsn))
          state (if (:his-tag (talk state node)) (again state node his-tag) (greet (update state :up conj node) node))
          {:keys [my-tag]} (talk state node)]
      (inform node [:init_connect_ack (to-atom (:me state)) his-tag my-tag])
      (update-in state [:talks node] assoc :his-tag his-tag :vsn vsn :jvm? (= jvm kind)))))

(defn- acknowledged [state node my-tag his-tag]
  (let [talk (talk state node)]
    (if (= [my-tag his-tag] [(:my-tag talk) (:his-tag talk)])
      state
      (again state node his-tag))))

(defn- cancelled [state node tag]
  (if (current? state node tag)
    (greet (give-up state node) node)
    state))

;; ---- what two servers tell each other once both sides are locked

(defn- own-nodes [{:keys [me known]}]
  (into [me] (keys known)))

(defn- lock-wanted [{:keys [locker] :as state} node other tag]
  (when (current? state node tag)
    (! locker [::locks/negotiate node other tag (:his-tag (talk state node)) (own-nodes state)]))
  state)

(defn- first? [{:keys [me]} node]
  (neg? (compare me node)))

(defn- compare-names
  "Finds out in a process of its own what has to be done, since a resolver may take long. Both have told their names."
  [state node]
  (let [{:keys [lock-id theirs comparing my-tag]} (talk state node)]
    (if (and lock-id theirs (not comparing))
      (let [server (self)
            known (:names state)
            work #(! server (into [::compared node my-tag] (names/exchange known (first? state node) theirs)))
            [_ ref] (actor/spawn-opt work {:monitor true})]
        (assoc-in state [:talks node :comparing] ref))
      state)))

(defn- locked [{:keys [me] :as state} node tag id]
  (if (current? state node tag)
    (do
      (cast-to node [:exchange (to-atom me) (names/told state) () (:his-tag (talk state node))])
      (compare-names (assoc-in state [:talks node :lock-id] id) node))
    (do
      (release state node tag [])
      state)))

(defn- told [state node theirs tag]
  (if (current? state node tag)
    (compare-names (assoc-in state [:talks node :theirs] (understood names/entry? theirs)) node)
    state))

;; ---- nodes

(defn- node-told? [x]
  (or (keyword? x) (and (vector? x) (= 2 (count x)) (keyword? (nth x 0)) (int? (nth x 1)))))

(defn- versions
  "From names of nodes to the version of their servers, of a list of nodes, perhaps with versions."
  [nodes]
  (into {} (map #(if (vector? %) [(to-name (first %)) (second %)] [(to-name %) 0])) (understood node-told? nodes)))

(defn- versions-told [versions]
  (apply list (for [[node vsn] versions] [(to-atom node) vsn])))

(defn- connect-with
  "Connects with the nodes, and tells their servers that they know all names."
  [{:keys [me ^Node node]} others]
  (doseq [other others
          :let [server (self)
                connected ^CompletableFuture (.connect node other 0)]]
    (.whenComplete connected (reify BiConsumer
                               (accept [_ connected? _]
                                 (if (true? connected?)
                                   (cast-to other [:in_sync (to-atom me) true])
                                   (Send/signal server [::unreached other])))))))

(defn- with-known
  "The state in which the nodes are known, and the ones that were not."
  [{:keys [me known] :as state} nodes]
  (let [added (apply dissoc nodes me (keys known))]
    [(update state :known into added) (keys added)]))

(defn- in-sync [state node]
  (-> (give-up state node) (update :synced conj node)))

(defn- apply-operation [state [kind what]]
  (case kind
    :insert (let [[name pid method] what] (names/insert state name pid method nil))
    :delete (names/delete state what)
    state))

(defn- finished
  "The state after both sides have told what the other one has to do."
  [{:keys [me known] :as state} node]
  (let [{:keys [my-tag ops his vsn lock-id]} (talk state node)]
    (if (and ops his)
      (let [ops (into ops (:resolved his))
            nodes (assoc (:known his) node vsn)
            extra (list [:vsn vsn] [:lock lock-id])
            message [:magnetar/cast [:new_nodes (to-atom me) (apply list ops) (:external his) (versions-told nodes) extra]]
            state (reduce apply-operation state ops)
            state (reduce give-up state (keys (:known his)))]
        (connect-with state (remove #{me} (keys (:known his))))
        (release state node my-tag (for [other (keys known)] [[locks/server-name other] message]))
        (-> (first (with-known state nodes))
            (update :talks dissoc node)
            (update :synced conj node)))
      state)))

(defn- compared [{:keys [me known] :as state} node tag ours theirs]
  (if (current? state node tag)
    (do
      (cast-to node [:resolved (to-atom me) (apply list theirs) (versions-told known) :unused () (:his-tag (talk state node))])
      (finished (assoc-in state [:talks node :ops] ours) node))
    state))

(defn- left-undecided
  "The state after the process that compares names has ended. If it has given no answer, a resolver has ended it. Then both
  sides lose each name that two processes have, as where a resolver fails."
  [{:keys [names] :as state} node]
  (let [{:keys [my-tag theirs ops]} (talk state node)]
    (if ops
      state
      (let [[ours theirs] (names/exchange names (first? state node) theirs (constantly :none))]
        (compared state node my-tag ours theirs)))))

(defn- resolved [state node resolved known external tag]
  (if (current? state node tag)
    (finished (assoc-in state [:talks node :his]
                        {:resolved (understood names/operation? resolved) :known (versions known) :external external})
              node)
    state))

(defn- new-nodes [state ops nodes]
  (let [ops (understood names/operation? ops)
        [state added] (with-known state (versions nodes))]
    (connect-with state added)
    (reduce apply-operation state ops)))

;; ---- nodes that are lost

(defn- potentially-known? [{:keys [known] :as state} node]
  (boolean (or (known node) (:his-tag (talk state node)))))

(defn- tell-loss
  "Tells all nodes but the given one of a lost connection. They end theirs with one of the two."
  [{:keys [known talks]} message ignored]
  (doseq [node (distinct (concat (keys known) (for [[node {:keys [his-tag]}] talks :when his-tag] node)))
          :when (not= node ignored)]
    (inform node message)))

(defn- without [state node]
  (-> (give-up state node)
      (update :known dissoc node)
      (update :synced disj node)))

(defn- lost
  "The state without a node whose connection has ended."
  [{:keys [me removing] :as state} node]
  (let [[number state] (next-number state)]
    (when-not (removing node)
      (tell-loss state [:lost_connection (to-atom me) (Peers/incarnation) number (to-atom node)] node))
    (-> (without state node)
        (update :removing disj node)
        (update :up disj node))))

(defn- down [{:keys [up known] :as state} node]
  (if (or (up node) (known node)) (lost state node) state))

(defn- removed
  "The state without a node, with which the connection is about to end."
  [state node]
  (-> (without state node) (update :removing conj node)))

(defn- lost-elsewhere [{:keys [me] :as state} a incarnation number b]
  (let [message [:lost_connection (to-atom a) incarnation number (to-atom b)]
        [before-incarnation before] (get-in state [:losses [a b]])
        unwanted (if (= me b) a b)]
    (if (and (= incarnation before-incarnation) (<= (long number) (long before)))
      state
      (let [state (assoc-in state [:losses [a b]] [incarnation number])]
        (tell-loss state message a)
        (if (potentially-known? state unwanted)
          (do
            (inform unwanted [:remove_connection (to-atom me)])
            (removed state unwanted))
          state)))))

(defn- unwanted
  "The state after a node has asked to be disconnected."
  [{:keys [^Node node] :as state} other]
  (if (potentially-known? state other)
    (do
      (.drop node other "another node has lost it or this one")
      (removed state other))
    state))

;; ---- sync

(defn- unsynced
  "The nodes that will tell their names. Of two JVMs none begins: they learn of each other by a BEAM."
  [{:keys [up synced] :as state}]
  (into #{} (remove #(or (synced %) (:jvm? (talk state %)))) up))

(defn- answer-syncs
  "Answers calls of sync when each of the nodes that they wait for is in sync or gone."
  [{:keys [syncs] :as state}]
  (if (empty? syncs)
    state
    (let [left (unsynced state)
          {done false waiting true} (group-by #(boolean (some left (second %))) syncs)]
      (run! #(connections/reply (first %) :ok) done)
      (assoc state :syncs (vec waiting)))))

;; ---- messages

(defn- handle-cast
  "The state after a message that one server casts to another."
  [state [kind a b c d e f]]
  (case kind
    :init_connect (let [[vsn tag] a] (greeted state (to-name b) vsn tag (nth c 1)))
    :lock_set (if b (lock-wanted state (actor/node a) a d) state)
    :exchange (told state (to-name a) b d)
    :resolved (resolved state (to-name a) b c e f)
    :new_nodes (new-nodes state b d)
    :in_sync (in-sync state (to-name a))
    state))

(defn- compared-by
  "The node whose names the process with this monitor compares with the ones of this node."
  [{:keys [talks]} ref]
  (some (fn [[node {:keys [comparing]}]] (when (and comparing (= comparing ref)) node)) talks))

(defn- process-ended [{:keys [refs lockers] :as state} ref pid]
  (cond
    (nil? ref) state
    (refs ref) (names/ended state ref)
    (= ref (get-in lockers [pid :ref])) (locks/ended state pid)
    :else (if-some [node (compared-by state ref)]
            (left-undecided state node)
            state)))

(defn- handle-info [state [kind a b c d]]
  (case kind
    :nodeup (if b (greet (update state :up conj a) a) state)
    :nodedown (down state a)
    :init_connect_ack (acknowledged state (to-name a) b c)
    :cancel_connect (cancelled state (to-name a) b)
    :lost_connection (lost-elsewhere state (to-name a) b c (to-name d))
    :remove_connection (unwanted state (to-name a))
    :DOWN (process-ended state a c)
    ::locks/locked (locked state a b c)
    ::compared (compared state a b c d)
    ::unreached (down state a)
    state))

(defn- find-listed [{:keys [names]} name]
  (if-some [[listed] (find names name)]
    [listed (some? (tables/find-name listed))]
    [name false]))

(defn- registered [state name pid method resolve]
  (if (seq (understood names/entry? [[name pid method]]))
    [:yes (names/insert state name pid method resolve)]
    [[:error :badarg] state]))

(defn- handle-call
  "[answer state] after a call, or [nil state] if the answer comes later."
  [state [kind a b c d] [pid :as from]]
  (case kind
    :set_lock (locks/lock state a pid)
    :del_lock [true (locks/unlock state a pid)]
    :register (registered state a b c nil)
    :register_ext (registered state a b c nil)
    :unregister [:ok (names/delete state a)]
    ::locks/register (registered state a b c d)
    ::locks/find [(find-listed state a) state]
    ::wanted (do (! (:registrar state) (into [(first a) from] (rest a))) [nil state])
    ::adopt [:ok (names/adopt state)]
    [[:error :notsup] state]))

(defn- plain-call
  "The same for a call that is one atom."
  [state request from]
  (case request
    :get_known [(versions-told (:known state)) state]
    :get_synced [(apply list (map to-atom (:synced state))) state]
    :get_protocol_version [version state]
    :get_names_ext [() state]
    ::locks/nodes [(own-nodes state) state]
    ::sync [nil (update state :syncs conj [from (unsynced state)])]
    [[:error :notsup] state]))

(defn- own?
  "Is it a request of this library, as only processes of this node may have?"
  [request]
  (qualified-keyword? (if (vector? request) (first request) request)))

(defn- call
  "[answer state] after a call."
  [state request [pid :as from]]
  (cond
    (and (own? request) (nodes/elsewhere? pid)) [[:error :notsup] state]
    (vector? request) (handle-call state request from)
    :else (plain-call state request from)))

(defn- guarded
  "(f), or `otherwise` if a message is not understood, as of another version. That is reported."
  [f otherwise]
  (try
    (f)
    (catch RuntimeException e
      (reports/report "a message about global names of a node of Erlang" e)
      otherwise)))

;; ---- what processes of this node ask

(defn- ask-server
  "[[node answer]] of the server of this node; nil without one."
  [nodes request]
  (proc-lib/in-process
    (fn []
      (let [[how answer] (gs/receive-response (gs/send-request locks/server-name request))]
        (when (= :reply how)
          [[(first nodes) answer]])))))

(defn- ask-for
  "The function by which `magnetar.global` asks."
  [codec]
  (fn [nodes [kind a b c d]]
    (case kind
      :register (if-some [why (names/refusal {:codec codec} a)]
                  [[(first nodes) [:error why]]]
                  (ask-server nodes [::wanted [:register a b (names/method c) (when (fn? c) c) d]]))
      :unregister (ask-server nodes [::wanted [:unregister a]])
      :adopt (ask-server nodes [::adopt])
      :sync (ask-server nodes ::sync)
      :lock (locks/hold nodes a)
      :unlock (locks/end-hold nodes a)
      nil)))

;; ---- the server

(defn- begin [{:keys [links node codec ^Settings settings]}]
  (let [server (self)]
    (tables/serve server (ask-for codec))
    (connections/watch links server)
    [:ok (names/adopt {:me (.name settings)
                       :node node
                       :codec codec
                       :locker (actor/spawn-opt #(locks/locker server) {:link true})
                       :registrar (actor/spawn-opt #(locks/registrar server) {:link true})
                       :next 1
                       :up #{}
                       :talks {}
                       :known {}
                       :synced #{}
                       :removing #{}
                       :losses {}
                       :names {}
                       :refs {}
                       :lockers {}
                       :syncs []})]))

(defn- init
  "A hidden node takes no part, nor does one whose names are the ones of a cluster."
  [{:keys [^Settings settings] :as options}]
  (if (and (.visible settings) (nil? (tables/asker)))
    (begin options)
    :ignore))

(def callbacks
  "The callbacks of the server."
  {:init init
   :handle-call (fn [request from state]
                  (let [[value state] (guarded #(call state request from) [[:error :notsup] state])]
                    (when (some? value)
                      (connections/reply from value))
                    [:noreply (answer-syncs state)]))
   :handle-cast (fn [message state]
                  [:noreply (answer-syncs (guarded #(if (vector? message) (handle-cast state message) state) state))])
   :handle-info (fn [message state]
                  [:noreply (answer-syncs (guarded #(if (vector? message) (handle-info state message) state) state))])})
