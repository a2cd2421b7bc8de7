(ns magnetar.impl.inspect.pools
  "Connection pools: the threads that wait for a connection, and those that hold one.

  A pool that the program has wrapped by `resource` records which threads wait and which one took a connection. Local variables tell
  whether the taker still has it, or has handed it to another fiber. HikariCP is known by its classes: a fiber that
  waits in its `ConcurrentBag` waits for a connection, and a fiber whose local variables lead to a connection holds it.

  A pool is a map.

    :object   the resource, or the pool of HikariCP
    :name     what the program calls it
    :size     how many connections it has at most; nil if that is not known
    :taken    the connections that are in use
    :takers   of a resource: from each connection in use to the one that took it, {:thread .. :at ..}
    :limit-ms how long a thread waits for a connection at most; nil if that is not known"
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.resources :as resources]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Reflector)
   (java.util IdentityHashMap Map)
   (magnetar.impl.inspect.resources Resource)))

(set! *warn-on-reflection* true)

;; ---- resources

(defn- of-resource [^Resource resource]
  (let [held (into {} (.-held resource))]
    {:object resource
     :name (.-name resource)
     :size (.-size resource)
     :taken (vec (keys held))
     :takers held}))

(defn- waiting-for-resources
  "[id pool] of each node that waits for a resource."
  [{:keys [by-thread]}]
  (for [^Resource resource (resources/all)
        :let [pool (delay (of-resource resource))]
        thread (vec (keys (.-waiting resource)))
        :let [id (by-thread (Thread/.threadId thread))]
        :when id]
    [id @pool]))

;; ---- HikariCP

(def ^:private in-use 1)

(defn- ask [x method & args]
  (Reflector/invokeInstanceMethod x method (to-array args)))

(defn- of-hikari [pool]
  (let [config (reach/field pool "config")]
    {:object pool
     :name (str pool)
     :size (ask config "getMaximumPoolSize")
     :taken (vec (ask (reach/field pool "connectionBag") "values" (int in-use)))
     :limit-ms (ask config "getConnectionTimeout")}))

(defn- class-named? [name x]
  (= name (.getName (class x))))

(defn- may-wait-in-bag?
  "May the node wait in the bag of HikariCP? A cheap check before its stack is read."
  [{{:keys [why on]} :wait}]
  (and (= :park why) (some? on) (.startsWith (.getName (class on)) "java.util.concurrent.SynchronousQueue")))

(defn- pool-awaited
  "The pool of HikariCP from which the node waits for a connection; nil if it waits for something else, or if its local variables cannot be read."
  [snapshot node]
  (when (and (may-wait-in-bag? node) (stacks/in? snapshot node "com.zaxxer.hikari.util.ConcurrentBag" "borrow"))
    (first (filter #(class-named? "com.zaxxer.hikari.pool.HikariPool" %) (stacks/locals snapshot node)))))

(defn- waiting-for-hikari
  "[id pool] of each node that waits for a connection of HikariCP."
  [snapshot]
  (let [pools (IdentityHashMap.)]
    (for [{:keys [id] :as node} (vals (:nodes snapshot))
          :let [pool (pool-awaited snapshot node)]
          :when pool]
      [id (or (.get pools pool)
              (let [described (of-hikari pool)]
                (.put pools pool described)
                described))])))

;; ---- pools as nodes

(defn- pool-id
  "The id of a pool, which is the same in each snapshot."
  [{:keys [object]}]
  [:pool (System/identityHashCode object)])

(defn- pool-node [{:keys [name] :as pool}]
  {:id (pool-id pool)
   :kind :pool
   :name (str "the pool " (pr-str name))
   :object pool
   :wait {:why :held :words "a connection that comes back" :on (:object pool)}})

(def ^:private short-ms
  "A wait for a connection with a shorter limit counts as one that ends by itself."
  1000)

(defn- waiting-node
  "The node with its wait for a connection of the pool. HikariCP always gives a wait a limit, which may be years."
  [node {:keys [limit-ms] :as pool}]
  (let [long? (or (nil? limit-ms) (<= (long short-ms) (long limit-ms)))]
    (update node :wait
            #(cond-> (assoc % :why :connection :words "a connection" :on (:object pool) :pool (pool-id pool))
               long? (dissoc :left-ms)
               limit-ms (assoc :limit-ms limit-ms)))))

(defn with-pools
  "The snapshot with a node for each pool that a thread waits for."
  [snapshot]
  (let [waiting (into {} (concat (waiting-for-hikari snapshot) (waiting-for-resources snapshot)))
        pools (map pool-node (vals waiting))]
    (update snapshot :nodes #(into (reduce-kv (fn [nodes id pool] (update nodes id waiting-node pool)) % waiting)
                               (map (juxt :id identity))
                               pools))))

;; ---- holders

(defn- connection?
  "Is it an open connection of HikariCP?"
  [x]
  (and (some->> (.getSuperclass (class x)) .getName (= "com.zaxxer.hikari.pool.ProxyConnection"))
       (not (ask x "isClosed"))))

(defn- held-by
  "The entries in the pool of the connections of HikariCP to which the local variables of the node lead."
  [snapshot node]
  (map #(reach/field % "poolEntry") (reach/found (vec (stacks/locals snapshot node)) connection?)))

(defn- leading-to
  "From each of these connections to the ids of the nodes that hold it as far as (held-by node) says."
  ^IdentityHashMap [snapshot taken held-by]
  (let [ids (IdentityHashMap.)]
    (doseq [connection taken]
      (.put ids connection []))
    (doseq [{:keys [id thread] :as node} (vals (:nodes snapshot))
            :when thread
            connection (held-by node)
            :when (.containsKey ids connection)]
      (.put ids connection (conj (.get ids connection) id)))
    ids))

(defn- by-locals [id]
  {:to id :grade :likely :because "its local variables lead to a connection"})

(defn- holders-by-locals
  "For each of these connections of HikariCP, in their order, its holders, as of `holders`."
  [snapshot taken]
  (let [ids (leading-to snapshot taken #(held-by snapshot %))]
    (mapv #(mapv by-locals (.get ids %)) taken)))

(defn- of-resource-held-by
  "Those of these connections of a resource to which the local variables of the node lead. A waiting taker's lead to the
  resource itself, and it has a record of all of them."
  [snapshot ^IdentityHashMap taken node]
  (filter #(.containsKey taken %)
          (reach/found (vec (stacks/locals snapshot node))
                       #(or (instance? Resource %) (.containsKey taken %)))))

(defn- after-taken
  "The holders of a connection that the node `taker` took, and to which the local variables of the nodes `leading` lead.
  The taker holds it for certain only if its own do, and no other's. It may have handed it on, also to a place that
  cannot be read, such as a channel: then it has :lost."
  [snapshot taker at leading]
  (let [taken {:to taker :taken-at at}
        because #(assoc taken :grade :likely :because %)]
    (cond
      (nil? taker) (mapv by-locals leading)
      (= [taker] leading) [(assoc taken :grade :exact :because "it took a connection, and has not closed it")]
      (empty? (:frames (stacks/of snapshot (get-in snapshot [:nodes taker]))))
      (into [(because "it took a connection, and its local variables cannot be read")] (map by-locals) leading)
      (seq leading) (mapv by-locals leading)
      :else [(assoc (because "it took a connection, to which its local variables no longer lead") :lost true)])))

(defn- holders-on-record
  "For each of these connections of a resource, in their order, its holders."
  [{:keys [by-thread] :as snapshot} taken takers]
  (let [among (IdentityHashMap. ^Map (zipmap taken taken))
        ids (leading-to snapshot taken #(of-resource-held-by snapshot among %))]
    (for [connection taken
          :let [{:keys [^Thread thread at]} (takers connection)]]
      (after-taken snapshot (by-thread (.threadId thread)) at (.get ids connection)))))

(defn holders
  "The holders of the connections of this pool: {:known [{:to id :taken-at line :grade .. :because ..} ..] :all? ..}.
  :all? is true if the pool has no connection before one of these returns it. Then all have one grade, since a cycle
  over one of them needs the others."
  [snapshot {:keys [size taken takers]}]
  (let [found (if takers (holders-on-record snapshot taken takers) (holders-by-locals snapshot taken))
        known (distinct (mapcat identity found))
        all? (boolean (and size
                           (<= (long size) (count taken))
                           (every? seq found)
                           (not-any? :lost known)))
        unsure (when all? (first (filter #(= :likely (:grade %)) known)))]
    {:known (sort-by (comp pr-str :to) (map #(merge % (select-keys unsure [:grade])) known))
     :all? all?}))
