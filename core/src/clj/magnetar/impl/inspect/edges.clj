(ns magnetar.impl.inspect.edges
  "From a wait to the nodes that can end it.

  An edge is a map. The node :to can end the wait.

    :how      :call, :start, :answer, :reply, :end, :room, :fork, :work, :result, :lock, :read-lock, :queue, :monitor, :hidden, :future, :worker, :thread, :awaited,
              :connection, :held, :put, :take or :tap; `text/clause` has a sentence for each
    :grade    :exact if the kernel or the JDK says so, :likely if it is concluded from what others hold
    :because  how it is known
    :object   the lock, the channel, the process or other object that it is about
    :before   true if the last operation of the node on the channel was of the kind that would end the wait, a take or a put
    :one      true if the wait cannot end before this node acts, as the owner of a lock or the callee of a call
    :either   true if the wait cannot end before one of the nodes with :either acts, as the holders of all connections of a pool
    :taken-at where the node took what it holds, if that is known"
  {:no-doc true}
  (:require
   [clojure.edn :as edn]
   [clojure.string :as str]
   [magnetar.impl.inspect.awaited :as awaited]
   [magnetar.impl.inspect.futures :as futures]
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.pools :as pools]
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (java.util HashMap IdentityHashMap)
   (magnetar.kernel.channel Channel Select Select$Operation)
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.process Calls Clauses LocalProcess Pid ProcessTable Ref)
   (magnetar.kernel.scope Fork Offload$Call Scope)))

(set! *warn-on-reflection* true)

(defn- edge
  "The edge to this node; nil without one."
  [to how because more]
  (when to
    (merge {:to to :how how :grade :exact :because because} more)))

;; ---- what the kernel knows

(def ^:private by-kernel
  {:call "the kernel knows whom it calls"
   :start "the kernel knows whom it starts"
   :room "the kernel knows whose mailbox it is"
   :end "the kernel knows whose end it waits for"
   :fork "the kernel knows the forks of a scope"
   :work "the kernel knows the thread that does the work"
   :result "the kernel knows what puts the result on the channel"
   :connection "it waits in the pool"})

(defn- sole [to how object]
  (edge to how (by-kernel how) {:one true :object object}))

(defn- forks-of-scope
  "The edges to the forks of the scope. They are :one if the joiner needs all forks, else :either, since the end of one may be enough."
  [snapshot ^Scope scope]
  (let [needed (if (.needsAll scope) {:one true} {:either true})]
    (for [^Fork fork (.live scope) :when (not (.isDaemon fork))]
      (edge (snapshot/id-of-fork snapshot fork) :fork (by-kernel :fork) (assoc needed :object fork)))))

;; ---- locks and monitors

(defn- to-readers
  "The edges from a node that waits for the write lock: to itself if it holds the read lock, since that alone keeps it waiting, else to the others that hold
  it."
  [{:keys [by-thread]} {:keys [id] {:keys [on]} :wait}]
  (let [readers (into #{} (keep by-thread) (locks/readers on))]
    (mapv #(edge % :read-lock "the lock names its readers" {:one true :object on}) (if (readers id) [id] readers))))

(defn- over-lock
  "The edges from a node that waits for a lock: to its owner, else from a writer to the readers, and from a reader to the writer that it may not overtake."
  [snapshot {{:keys [on]} :wait :keys [thread] :as node}]
  (if-some [owner (snapshot/id-of-thread snapshot (locks/owner on))]
    [(edge owner :lock "the lock names its owner" {:one true :object on})]
    (when (locks/read-write? on)
      (case (locks/shared? snapshot thread on)
        false (to-readers snapshot node)
        true [(edge (snapshot/id-of-thread snapshot (locks/first-writer snapshot on)) :queue "a reader does not overtake the first writer in the queue of the lock"
                    {:one true :object on})]
        nil))))

(defn- over-monitor
  "The edge from a node that waits for a monitor to its owner; if that cannot be read, the edges to the nodes that may own
  it."
  [{:keys [monitors]} id]
  (let [{:keys [owner awaited unread]} @monitors
        monitor (awaited id)]
    (if-some [owner (owner monitor)]
      [(edge owner :monitor "the JDK knows the owner of a monitor" {:one true :object monitor})]
      (for [to unread :when (not= id to)]
        (edge to :hidden "no other thread owns the monitor, and the monitors of this one cannot be read" {:grade :likely :object monitor})))))

;; ---- pools

(defn- to-holders-of-pool [snapshot {pool :object}]
  (let [{:keys [known all?]} (pools/holders snapshot pool)]
    (for [{:keys [to taken-at grade because]} known]
      (edge to :held because {:grade grade :object pool :either all? :taken-at taken-at}))))

;; ---- messages that another process is to send

(defn- name-of [pid]
  (some-> ^LocalProcess (ProcessTable/live pid) .name))

(defn- monitors? [{:keys [monitors]} pid]
  (let [name (name-of pid)]
    (some #(or (= pid %) (and name (= name (if (vector? %) (first %) %)))) monitors)))

(defn- refs [xs]
  (filter #(instance? Ref %) xs))

(defn- symbols-of
  "The symbols that a value must match for this pattern to match, as far as they are in its vectors and maps."
  [pattern]
  (cond
    (symbol? pattern) [pattern]
    (vector? pattern) (mapcat symbols-of pattern)
    (map? pattern) (mapcat symbols-of (vals pattern))
    :else []))

(defn- pattern-of
  "The pattern of a clause, whose text is `receive at FILE:LINE, clause PATTERN`; nil if the text cannot be read."
  [text]
  (try
    (edn/read-string {:default (fn [_ _] nil)} (second (str/split text #", clause " 2)))
    (catch RuntimeException _ nil)))

(defn- needs-ref?
  "Does this clause match only a message with a reference that its receive has closed over?"
  [^Clauses clauses text]
  (some #(instance? Ref (reach/field clauses (munge (name %)))) (symbols-of (pattern-of text))))

(defn- refs-of-clauses
  "The references in the patterns of these clauses; nil if a clause may match a message without one."
  [^Clauses clauses]
  (let [size (.size clauses)]
    (when (and (< size Clauses/WIDTH) ; the last one of so many may stand for more
               (every? #(needs-ref? clauses (.text clauses %)) (range size)))
      (refs (reach/parts clauses)))))

(defn- refs-in-patterns
  "The references in the patterns of the receive in which the process waits. Empty if a clause of it needs none, since
  any process may send a message for that one."
  [snapshot node]
  (->> (stacks/locals-of-class snapshot node "magnetar.kernel.process.Receiver")
       (filter #(instance? Clauses %))
       distinct
       (mapcat refs-of-clauses)))

(defn refs-of-answer
  "The reference of the answer for which the process waits, as the owner of a task does; empty if it waits for another message."
  [snapshot node]
  (refs (stacks/locals-of-class snapshot node "magnetar.kernel.process.Calls")))

(defn- to-watched [snapshot {:keys [pid monitors] :as node} how because refs]
  (for [watched (distinct (keep #(.watched ^Ref %) refs))
        :when (and (not= pid watched) (monitors? node watched))]
    (edge (snapshot/id-of-process snapshot watched) how because {:grade :likely :one true :object watched})))

(defn- to-repliers
  "The edges from a process that waits for a message to the processes that it monitors and that are to send it."
  [snapshot {:keys [monitors] :as node}]
  (when (seq monitors)
    (or (seq (to-watched snapshot node :answer "it waits for an answer, and monitors the process that is to give it" (refs-of-answer snapshot node)))
        (to-watched snapshot node :reply "it monitors that process, and each clause of its receive names a reference" (refs-in-patterns snapshot node)))))

(defn passed-on?
  "Has the callee passed on the call for whose answer the node waits, so that another node may answer? Reads the mailbox of the callee."
  [{:keys [nodes]} id]
  (let [{:keys [calls object]} (get nodes id)]
    (boolean (and calls (Calls/isPassedOn ^LocalProcess object)))))

(defn- to-callee
  "The edge to the process that this one calls. Only a server tells whether it still has the call."
  [snapshot callee]
  (let [id (snapshot/id-of-process snapshot callee)
        server (some-> ^LocalProcess (:object (get-in snapshot [:nodes id])) .server)]
    (cond-> (sole id :call callee)
      (and id (nil? server))
      (assoc :grade :likely
             :because "the kernel knows whom it calls; that is no server, so it may have given the call to another process"))))

(defn- of-mailbox [snapshot {:keys [calls starts] :as node}]
  (cond
    calls [(to-callee snapshot calls)]
    starts [(sole (snapshot/id-of-process snapshot starts) :start starts)]
    :else (to-repliers snapshot node)))

;; ---- channels whose finisher, the fiber that will deliver the result and close the channel, is known

(defn- operations
  "What a wait on channels would do: pairs of a port and the value to put there, which is nil for a take."
  [{:keys [why on]}]
  (if (instance? Select on)
    (mapv (fn [^Select$Operation operation] [(.port operation) (.item operation)]) (.operations ^Select on))
    [[on (when (= :channel-put why) :value)]]))

(defn- finisher-of
  "The node that will finish the channel from which the operation takes; nil of a put, and if the kernel knows none."
  [snapshot [port item]]
  (when (and (nil? item) (instance? Channel port))
    (some->> (.finisher ^Channel port) .get (snapshot/id-of-thread snapshot))))

(defn- to-finishers
  "The edges to the finishers of the channels of this wait. They are :one or :either if each operation of the wait takes from a channel with a known finisher,
  so that nothing else can end it."
  [snapshot {:keys [why] :as wait}]
  (let [operations (operations wait)
        finishers (mapv #(finisher-of snapshot %) operations)
        all? (and (not= :mailbox-or-channels why) (every? some? finishers))
        needed (cond
                 (not all?) nil
                 (apply = finishers) {:one true}
                 :else {:either true})]
    (distinct (keep (fn [[[port] finisher]]
                      (edge finisher :result (by-kernel :result) (assoc needed :object port)))
                    (map vector operations finishers)))))

;; ---- channels without a known finisher

(defn channels-of
  "The channels on which a wait waits."
  [{:keys [on]}]
  (cond
    (instance? Channel on) [on]
    (instance? Select on) (filterv #(instance? Channel %) (map #(.port ^Select$Operation %) (.operations ^Select on)))
    :else []))

(defn taps-of
  "The taps for which a mult waits: the channels with a waiting put that is a callback. Returns nil for another node, or if the mult waits for a value."
  [snapshot {:keys [wait] :as node}]
  (when (and (= :channel-take (:why wait)) (stacks/in? snapshot node "magnetar.impl.mult$distribute"))
    (seq (filter #(some nil? (.putters (.info ^Channel %))) (reach/found (stacks/locals snapshot node) #(instance? Channel %))))))

(defn- last-used
  "What the node waited for last, if it runs now and has not parked elsewhere since: [reason object], such as [CHANNEL_TAKE channel]."
  [{:keys [thread]}]
  (when thread
    (when-some [^FiberInfo last (FiberInfo/lastOf thread)]
      [(.reason last) (.on last)])))

(def most-read
  "The most nodes whose local variables are read to find the holders of channels."
  10000)

(defn- rare-first
  "Nodes that can hold a channel, at most `most-read`. Nodes come first if few have the same name and kind of wait, since one of many that do the same seldom
  holds what the others wait for."
  [nodes]
  (take most-read (mapcat val (sort-by (comp count val) (group-by (juxt :kind :name (comp :why :wait)) (filter :thread nodes))))))

(defn- add [^IdentityHashMap holders x holder]
  (.put holders x (conj (or (.get holders x) []) holder)))

(def ^:private most-tries
  "Of how many nodes that wait on the same object of the JDK the local variables are read to find what they await."
  8)

(defn- awaited-by
  "What the node waits for in the JDK or in Clojure, such as a promise; nil if it is not known. All nodes with the same :on, an object inside of it, wait for it.
  So it is read from the first of them that shows it, and from no more than `most-tries`."
  [{:keys [^HashMap known] :as snapshot} {{:keys [on]} :wait :as node}]
  (if (nil? on)
    (awaited/object snapshot node)
    (let [place [:awaited (snapshot/number-of snapshot on)]
          {:keys [object tries]} (.get known place)]
      (or object
          (when (< (long (or tries 0)) (long most-tries))
            (let [object (awaited/object snapshot node)]
              (.put known place {:object object :tries (inc (long (or tries 0)))})
              object))))))

(defn- awaited-objects
  "The objects of the JDK or of Clojure that these nodes wait for, such as promises, as an identity map."
  ^IdentityHashMap [snapshot nodes]
  (let [objects (IdentityHashMap.)]
    (doseq [node nodes
            :let [x (awaited-by snapshot node)]
            :when x]
      (.put objects x x))
    objects))

(def ^:private class-of-copier #"^magnetar\.impl\.(mult|pub|mix)\$start\$fn__\d+$")

(defn- copier
  "[kind function] of a fiber of this library that copies between channels: \"mult\", \"pub\" or \"mix\", and the
  function that it runs; nil for another node."
  [snapshot node]
  (some (fn [x]
          (when-some [[_ kind] (when x (re-find class-of-copier (.getName (class x))))]
            [kind x]))
        (stacks/locals snapshot node)))

(defn- ends-of
  "The channels that a copier takes from and puts on, by the kind of its wait there. It can reach more of them, as a pub
  reaches the taps of its mults, and never uses these."
  [[kind x]]
  (let [field #(reach/field x %)
        state (fn [name] (some-> ^clojure.lang.IDeref (field name) deref))]
    (case kind
      "mult" {"CHANNEL_TAKE" [(field "ch")] "CHANNEL_PUT" (keys (state "state"))}
      "pub" {"CHANNEL_TAKE" [(field "ch")] "CHANNEL_PUT" (map #(reach/field % "ch") (vals (state "mults")))}
      "mix" {"CHANNEL_TAKE" (keys (state "inputs")) "CHANNEL_PUT" [(field "out")]})))

(defn- add-holder [snapshot holders held? {:keys [id] :as node}]
  (let [[reason used] (last-used node)]
    (when (instance? Channel used)
      (add holders used {:id id :used reason}))
    (if-some [copier (copier snapshot node)]
      (doseq [[kind channels] (ends-of copier), x channels]
        (add holders x {:id id :used kind :only true}))
      (doseq [x (reach/found (stacks/locals snapshot node) held?) :when (not (identical? x used))]
        (add holders x {:id id})))))

(defn- holders
  "From each channel, and from each object that is awaited in the JDK, to its holders: maps of :id, and :used with the kind of the last wait there. A node holds
  an object if its local variables lead to it, or if its last wait was on it."
  ^IdentityHashMap [snapshot]
  (let [nodes (rare-first (vals (:nodes snapshot)))
        awaited (awaited-objects snapshot nodes)
        held? #(or (instance? Channel %) (.containsKey awaited %))
        holders (IdentityHashMap.)]
    (run! #(add-holder snapshot holders held? %) nodes)
    holders))

(defn- serves?
  "Does an operation of the kind `used` on a channel end a wait of the kind `why`?"
  [why used]
  (= used (if (= :channel-put why) "CHANNEL_TAKE" "CHANNEL_PUT")))

(defn- waits-beside?
  "Does the holder wait on this channel, or for this object, for the same reason?"
  [snapshot holder why x]
  (let [{:keys [wait] :as node} (get-in snapshot [:nodes holder])]
    (and (= why (:why wait))
         (some #(identical? x %) (if (instance? Channel x) (channels-of wait) [(awaited-by snapshot node)])))))

(defn- find-holders [snapshot why how x]
  (vec (for [{holder :id :keys [used only]} (.get ^IdentityHashMap @(:holders snapshot) x)
             :let [serves (serves? why used)]
             :when (and (or serves (not only))
                        (not (waits-beside? snapshot holder why x)))]
         (edge holder how (if serves "it did so before" (str "its local variables lead to " (if (= :awaited how) "it" "the channel")))
               {:grade :likely :object x :before serves}))))

(defn- to-holders
  "The edges from a node that waits for this reason on the channel or other object to its holders. They are computed once for all nodes that wait there for the
  same reason."
  [{:keys [^HashMap known] :as snapshot} id why how x]
  (let [wait [why how (snapshot/number-of snapshot x)]
        edges (or (.get known wait)
                  (let [edges (find-holders snapshot why how x)]
                    (.put known wait edges)
                    edges))]
    (remove #(= id (:to %)) edges)))

(defn- over-channels [snapshot {:keys [id wait] :as node}]
  (let [{:keys [why]} wait
        known (to-finishers snapshot wait)
        finished (set (map :object known))]
    (if-some [taps (when (empty? known) (taps-of snapshot node))]
      (mapcat #(to-holders snapshot id :channel-put :tap %) taps)
      (concat known
              (mapcat #(to-holders snapshot id why (if (= :channel-put why) :take :put) %)
                      (remove finished (channels-of wait)))))))

;; ---- futures and other objects of the JDK

(defn- to-runners
  "The edges to the thread that runs the future for which the node waits, or to the threads of the pool that has it in its queue. No stack is read."
  [snapshot {{:keys [on]} :wait}]
  (if-some [runner (snapshot/id-of-thread snapshot (futures/runner on))]
    [(edge runner :future "the future names the thread that runs it" {:one true :object on})]
    (let [[pool nodes] (futures/workers @(:thread-pools snapshot) on)]
      (mapv #(edge (:id %) :worker "the future is in the queue of its pool, but any thread that has it can complete or cancel it"
                   {:grade :likely :either true :object pool})
            nodes))))

(defn- to-awaited
  "The edges from a node that waits for an object of the JDK, or of Clojure: to the thread whose end it awaits, else to the holders of the object."
  [snapshot {:keys [id wait] :as node}]
  (when-some [x (awaited-by snapshot node)]
    (if (instance? Thread x)
      [(edge (snapshot/id-of-thread snapshot x) :thread "it is in the method that waits for the end of that thread" {:one true :object x})]
      (to-holders snapshot id (:why wait) :awaited x))))

(defn- in-jdk [snapshot node]
  (or (seq (to-runners snapshot node))
      (to-awaited snapshot node)))

;; ---- all

(defn with-what-is-read-late
  "The snapshot with what edges need, as delays, so that it is read only when it is needed."
  [snapshot]
  (let [snapshot (assoc snapshot :known (HashMap.))]
    (assoc snapshot
           :monitors (delay (locks/monitors snapshot (vals (:nodes snapshot))))
           :holders (delay (holders snapshot))
           :thread-pools (delay (futures/pools (vals (:nodes snapshot)))))))

(defn among
  "The same snapshot for edges among these nodes alone. The owner of a monitor is known only if it is one of them, or a platform thread."
  [snapshot nodes]
  (assoc (with-what-is-read-late snapshot)
         :monitors (delay (locks/monitors snapshot nodes))))

(def ^:private over-channels? #{:channel-take :channel-put :select :mailbox-or-channels})
(def ^:private in-jdk? #{:latch :semaphore :condition :park})

(defn- find-edges [snapshot {:keys [id wait] :as node}]
  (let [{:keys [why on]} wait]
    (case why
      :mailbox (of-mailbox snapshot node)
      :mailbox-room [(sole (snapshot/id-of-process snapshot on) :room on)]
      :process-end [(sole (snapshot/id-of-process snapshot on) :end on)]
      :fork-join [(sole (snapshot/id-of-fork snapshot on) :fork on)]
      :scope-join (forks-of-scope snapshot on)
      :offload [(sole (snapshot/id-of-thread snapshot (.worker ^Offload$Call on)) :work on)]
      :lock (over-lock snapshot node)
      :monitor (over-monitor snapshot id)
      :connection [(sole (:pool wait) :connection on)]
      :held (to-holders-of-pool snapshot node)
      (cond
        (over-channels? why) (over-channels snapshot node)
        (in-jdk? why) (in-jdk snapshot node)
        :else []))))

(defn of
  "The edges of the node with this id. They are computed once for a snapshot."
  [{:keys [nodes ^HashMap known] :as snapshot} id]
  (or (.get known id)
      (let [edges (into [] (remove nil?) (find-edges snapshot (get nodes id)))]
        (.put known id edges)
        edges)))

(defn decisive
  "The edges of the node that have :one or :either. For a wait on channels, or in the JDK, no local variables are read, since the edges that these give have
  neither. An edge to a thread whose end is awaited has :one, and is left out."
  [{:keys [nodes] :as snapshot} id]
  (let [{:keys [wait] :as node} (get nodes id)
        {:keys [why]} wait]
    (filterv (some-fn :one :either)
             (cond
               (over-channels? why) (to-finishers snapshot wait)
               (in-jdk? why) (to-runners snapshot node)
               :else (of snapshot id)))))

(defn- unknown
  "A placeholder for edges that may lead to any node: an edge to the node itself."
  [id]
  [{:to id :one true}])

(defn- to-all-monitored [snapshot {:keys [monitors]}]
  (for [watched monitors
        :let [to (snapshot/id-of-process snapshot (if (instance? Pid watched) watched (ProcessTable/whereis (if (vector? watched) (first watched) watched))))]
        :when to]
    {:to to :one true}))

(defn possible
  "Like `decisive`, without reading a stack. There may be edges that `decisive` does not have, and the placeholder of `unknown`."
  [{:keys [nodes] :as snapshot} id]
  (let [{:keys [wait calls starts] :as node} (get nodes id)
        {:keys [why]} wait]
    (cond
      (#{:monitor :held} why) (unknown id)
      (and (= :mailbox why) (not (or calls starts))) (vec (to-all-monitored snapshot node))
      :else (decisive snapshot id))))
