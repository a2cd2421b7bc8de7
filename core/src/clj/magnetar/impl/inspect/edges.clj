(ns magnetar.impl.inspect.edges
  "Who can end a wait.

  An edge is a map: the node :to can end the wait.

    :how      :call, :start, :reply, :end, :room, :fork, :work, :result, :lock, :monitor, :connection, :held, :put, :take or :tap
    :grade    :exact if the kernel or the JDK says so, :likely if it is concluded from what others hold
    :because  how it is known
    :object   the lock, the channel or the process that it is about
    :before   true if the node took from the channel before, or put on it, as is needed now
    :one      true if only this node can end the wait, as the owner of a lock or the callee of a call
    :either   true if only this node or another one whose edge has it can end the wait, as the holders of all connections of a pool
    :taken-at where the node took what it holds, if that is known"
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.locks :as locks]
   [magnetar.impl.inspect.pools :as pools]
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (java.util IdentityHashMap)
   (magnetar.kernel.channel Channel GoBody Select Select$Operation)
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.process LocalProcess ProcessTable Ref)
   (magnetar.kernel.scope Fork Offload$Call Scope)))

(set! *warn-on-reflection* true)

;; ---- from objects to nodes

(defn- of-thread [{:keys [by-thread]} ^Thread thread]
  (when thread
    (by-thread (.threadId thread))))

(defn- of-pid [{:keys [nodes]} pid]
  (let [id [:process pid]]
    (when (contains? nodes id) id)))

(defn- of-fork [world ^Fork fork]
  (some->> (.fiber fork) .get (of-thread world)))

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
   :result "the channel gets the value of this go block"
   :connection "it waits in the pool"})

(defn- sole [to how object]
  (edge to how (by-kernel how) {:one true :object object}))

(defn- forks-of-scope [world ^Scope scope]
  (for [^Fork fork (.live scope) :when (not (.isDaemon fork))]
    (sole (of-fork world fork) :fork fork)))

;; ---- locks and monitors

(defn- to-owner-of-lock [world {:keys [on]}]
  (edge (of-thread world (locks/owner on)) :lock "the lock names its owner" {:one true :object on}))

(defn- to-owner-of-monitor [{:keys [monitors]} id]
  (let [{:keys [owner awaited]} @monitors
        monitor (awaited id)]
    (edge (owner monitor) :monitor "the JDK knows the owner of a monitor" {:one true :object monitor})))

;; ---- pools

(defn- to-holders-of-pool [world {pool :object}]
  (let [{:keys [known all? grade because]} (pools/holders world pool)]
    (for [{:keys [to taken-at]} known]
      (edge to :held because {:grade grade :object pool :either all? :taken-at taken-at}))))

;; ---- replies to a raw process

(defn- name-of [pid]
  (some-> ^LocalProcess (ProcessTable/live pid) .name))

(defn- monitors? [{:keys [monitors]} pid]
  (let [name (name-of pid)]
    (some #(or (= pid %) (and name (= name (if (vector? %) (first %) %)))) monitors)))

(defn- in-patterns
  "The references in the patterns of the receive in which the process waits."
  [world node]
  (filter #(instance? Ref %) (mapcat reach/parts (stacks/locals-of-class world node "magnetar.kernel.process.Receiver"))))

(defn- to-watched [world {:keys [pid monitors] :as node}]
  (when (seq monitors)
    (for [watched (distinct (keep #(.watched ^Ref %) (in-patterns world node)))
          :when (and (not= pid watched) (monitors? node watched))]
      (edge (of-pid world watched) :reply "it monitors it, and its receive names the reference" {:grade :likely :one true :object watched}))))

(defn- of-mailbox [world {:keys [calls starts] :as node}]
  (cond
    calls [(sole (of-pid world calls) :call calls)]
    starts [(sole (of-pid world starts) :start starts)]
    :else (to-watched world node)))

;; ---- channels

(defn- channels-of
  "The channels on which a wait waits."
  [{:keys [on]}]
  (cond
    (instance? Channel on) [on]
    (instance? Select on) (filterv #(instance? Channel %) (map #(.port ^Select$Operation %) (.operations ^Select on)))
    :else []))

(defn- slow-taps
  "The taps that have not taken yet: the channels of the mult with a put that waits as a callback."
  [world node]
  (filter #(some nil? (.putters (.info ^Channel %))) (reach/found (stacks/locals world node) #(instance? Channel %))))

(defn- taps-of
  "The taps for which a mult waits; nil of another node, or if it waits for a value."
  [world {:keys [wait] :as node}]
  (when (and (= :channel-take (:why wait)) (stacks/in? world node "magnetar.impl.mult$distribute"))
    (seq (slow-taps world node))))

(defn- last-used
  "The channel that the node took from or put on last, if it has not waited elsewhere since: [reason channel]."
  [{:keys [thread]}]
  (when thread
    (when-some [^FiberInfo last (FiberInfo/lastOf thread)]
      [(.reason last) (.on last)])))

(defn- result-of
  "The channel on which the node puts its value when it ends."
  [world node]
  (some-> ^GoBody (first (filter #(instance? GoBody %) (stacks/locals world node))) .out))

(defn- waited-channels
  "The channels on which somebody waits, and the taps for which a mult waits."
  ^IdentityHashMap [world taps]
  (let [targets (IdentityHashMap.)]
    (doseq [node (vals (:nodes world)), ch (channels-of (:wait node))]
      (.put targets ch ch))
    (doseq [ch (mapcat val taps)]
      (.put targets ch ch))
    targets))

(defn- add [^IdentityHashMap holders ch holder]
  (.put holders ch (conj (or (.get holders ch) []) holder)))

(defn- add-holder [world ^IdentityHashMap targets holders {:keys [id] :as node}]
  (let [[reason used] (last-used node)
        result (result-of world node)]
    (when (.containsKey targets used)
      (add holders used {:id id :used reason}))
    (when (.containsKey targets result)
      (add holders result {:id id :result true}))
    (doseq [ch (reach/found (stacks/locals world node) #(.containsKey targets %)) :when (not (identical? ch used))]
      (add holders ch {:id id}))))

(defn- channels
  "Who holds the channels that somebody waits on: {:taps {id [channel ..]}, :holders IdentityHashMap}, the latter from each channel to maps of :id, :used
  with the kind of its last wait there, and :result if the channel gets its value. One holds a channel if its local variables lead to it, if it used it
  last, or if it will end on it."
  [world]
  (let [nodes (vals (:nodes world))
        taps (into {} (keep (fn [node] (when-some [taps (taps-of world node)] [(:id node) taps]))) nodes)
        targets (waited-channels world taps)
        holders (IdentityHashMap.)]
    (run! #(add-holder world targets holders %) nodes)
    {:taps taps :holders holders}))

(defn- serves?
  "Does one who used the channel so end a wait of this kind?"
  [why used]
  (= used (if (= :channel-put why) "CHANNEL_TAKE" "CHANNEL_PUT")))

(defn- waits-beside?
  "Does the holder wait for the same as the one that asks?"
  [world holder why ch]
  (let [{:keys [wait]} (get-in world [:nodes holder])]
    (and (= why (:why wait)) (some #(identical? ch %) (channels-of wait)))))

(defn- to-holders
  "The edges to those that hold the channel, from a node that waits there for this kind of reason."
  [world id why how ch]
  (let [all (remove #(= id (:id %)) (.get ^IdentityHashMap (:holders @(:channels world)) ch))]
    (if-some [ending (first (filter :result all))]
      [(sole (:id ending) :result ch)]
      (for [{holder :id used :used} all
            :when (not (waits-beside? world holder why ch))
            :let [serves (serves? why used)]]
        (edge holder how (if serves "it did so before" "its local variables lead to the channel")
              {:grade :likely :object ch :before serves})))))

(defn- over-channels [world {:keys [id wait]}]
  (let [{:keys [why]} wait]
    (if-some [taps (get-in @(:channels world) [:taps id])]
      (mapcat #(to-holders world id :channel-put :tap %) taps)
      (mapcat #(to-holders world id why (if (= :channel-put why) :take :put) %) (channels-of wait)))))

;; ---- all

(defn with-what-is-read-late
  "The world with what edges need and what is read only when they ask."
  [world]
  (assoc world
         :monitors (delay (locks/monitors world))
         :channels (delay (channels world))))

(defn of
  "The edges of the node with this id."
  [world id]
  (let [{:keys [wait] :as node} (get-in world [:nodes id])
        {:keys [why on]} wait]
    (into [] (remove nil?)
          (case why
            :mailbox (of-mailbox world node)
            :mailbox-room [(sole (of-pid world on) :room on)]
            :process-end [(sole (of-pid world on) :end on)]
            :fork-join [(sole (of-fork world on) :fork on)]
            :scope-join (forks-of-scope world on)
            :offload [(sole (of-thread world (.worker ^Offload$Call on)) :work on)]
            :lock [(to-owner-of-lock world wait)]
            :monitor [(to-owner-of-monitor world id)]
            :connection [(sole (:pool wait) :connection on)]
            :held (to-holders-of-pool world node)
            (:channel-take :channel-put :select :mailbox-or-channels) (over-channels world node)
            nil))))
