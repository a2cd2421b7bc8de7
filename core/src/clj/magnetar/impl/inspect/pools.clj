(ns magnetar.impl.inspect.pools
  "Connection pools: the threads that wait for a connection, and those that hold one.

  A pool that the program has wrapped by `resource` records both. HikariCP is known by its classes: a fiber that waits in its `ConcurrentBag` waits for a
  connection, and a fiber whose local variables lead to a connection holds it.

  A pool is a map.

    :object   the resource, or the pool of HikariCP
    :name     what the program calls it
    :size     how many connections it has at most; nil if that is not known
    :taken    the connections that are in use
    :holders  of a resource: from each connection in use to its holder, {:thread .. :at ..}
    :limit-ms how long a thread waits for a connection at most; nil if that is not known"
  {:no-doc true}
  (:require
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.resources :as resources]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Reflector)
   (java.util IdentityHashMap)
   (magnetar.impl.inspect.resources Resource)))

(set! *warn-on-reflection* true)

;; ---- resources

(defn- of-resource [^Resource resource]
  (let [held (into {} (.-held resource))]
    {:object resource
     :name (.-name resource)
     :size (.-size resource)
     :taken (vec (keys held))
     :holders held}))

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

(defn- holders-by-locals
  "For each of these connections, in their order, the nodes whose local variables lead to it: [{:to id} ..]."
  [snapshot taken]
  (let [holders (IdentityHashMap.)]
    (doseq [entry taken]
      (.put holders entry []))
    (doseq [{:keys [id thread] :as node} (vals (:nodes snapshot))
            :when thread
            entry (held-by snapshot node)
            :when (.containsKey holders entry)]
      (.put holders entry (conj (.get holders entry) {:to id})))
    (into [] (map (fn [entry] (.get holders entry))) taken)))

(defn- holders-on-record
  "For each of these connections the node of the thread that took it: [{:to id :taken-at line}], empty if that has no node."
  [{:keys [by-thread]} holders]
  (for [[_ {:keys [^Thread thread at]}] holders]
    (if-some [id (by-thread (.threadId thread))] [{:to id :taken-at at}] [])))

(defn holders
  "The holders of the connections of this pool: {:known [{:to id :taken-at line} ..] :all? .. :grade .. :because ..}. :all? is true if the pool has no
  connection before one of these returns it."
  [snapshot {:keys [size taken holders]}]
  (let [found (if holders (holders-on-record snapshot holders) (holders-by-locals snapshot taken))]
    {:known (sort-by (comp pr-str :to) (distinct (mapcat identity found)))
     :all? (boolean (and size (<= (long size) (count taken)) (every? seq found)))
     :grade (if holders :exact :likely)
     :because (if holders "it took a connection, and has not closed it" "its local variables lead to a connection")}))
