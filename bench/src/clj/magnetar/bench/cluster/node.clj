(ns magnetar.bench.cluster.node
  "A node of the suite `cluster`, through the public API: one that serves, or one that reads lines `workload number ..` and answers each with numbers.

  `bin/magnetar run --node NAME .. bench/src/clj/magnetar/bench/cluster/node.clj [NODE]` starts it; with the name of the other node it is the one that measures."
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.cluster :as cluster]
   [magnetar.gen-server :as gs]))

(set! *warn-on-reflection* true)

(def ^:private payload (byte-array 100))

;; ---- what serves

(defn- sink
  "Answers each time that it has a whole batch, whose size the sender has told."
  [from batch ^long left]
  (receive
    [:start sender each] (recur sender each (long each))
    _ (if (= 1 left)
        (do (! from :batch)
            (recur from batch (long batch)))
        (recur from batch (dec left)))))

(def ^:private server
  {:init (fn [state] [:ok state])
   :handle-call (fn [request _ state] [:reply request state])})

(defn- target []
  (receive
    [:ping from] (do (! from :pong) (recur))
    :die nil))

(defn- starter []
  (receive
    [:start from] (do (! from [:started (spawn target)]) (recur))
    [:where from] (do (! from (mapv actor/whereis [:sink :server :starter])) (recur))))

(defn- serve []
  (actor/register :sink (spawn #(sink nil 0 0)))
  (gs/start server nil {:name :server})
  (actor/register :starter (spawn starter))
  (println "ready")
  (while (read-line)))

;; ---- what measures

(defn- send-batch [to batch]
  (dotimes [_ batch]
    (! to payload)))

(defn- await-batch []
  (receive :batch nil))

(defn- tell
  "Sends batches, so many ahead of what the sink has counted."
  [{:keys [sink]} batches batch ahead]
  (let [at-first (min (long batches) (long ahead))]
    (! sink [:start (self) batch])
    (dotimes [_ at-first]
      (send-batch sink batch))
    (dotimes [_ (- (long batches) at-first)]
      (await-batch)
      (send-batch sink batch))
    (dotimes [_ at-first]
      (await-batch))))

(defn- ask [{:keys [server]} callers n]
  (let [me (self)]
    (dotimes [_ callers]
      (spawn (fn []
               (dotimes [_ (quot (long n) (long callers))]
                 (gs/call server payload {:timeout 60000}))
               (! me :done))))
    (dotimes [_ callers]
      (receive :done nil))))

(defn- watched
  "A new process of the other node, and its monitor. It has answered since it was monitored."
  [{:keys [starter]}]
  (! starter [:start (self)])
  (let [pid (receive [:started pid] pid)
        ref (actor/monitor pid)]
    (! pid [:ping (self)])
    (receive :pong [pid ref])))

(defn- down-times
  "The round trip of a message; then the time from the message that ends the process to its :DOWN."
  [other]
  (let [[pid ref] (watched other)
        pinged (System/nanoTime)]
    (! pid [:ping (self)])
    (receive :pong nil)
    (let [ended (System/nanoTime)]
      (! pid :die)
      (receive [:DOWN ref _ _ _] [(- ended pinged) (- (System/nanoTime) ended)]))))

(defn- timed [f & arguments]
  (let [begin (System/nanoTime)]
    (apply f arguments)
    [(- (System/nanoTime) begin)]))

(defn- work
  "The numbers of an answer."
  [other watching what numbers]
  (case what
    "collect" (do (System/gc) [0])
    "tell" (apply timed tell other numbers)
    "ask" (apply timed ask other numbers)
    "downs" (doall (mapcat (fn [_] (down-times other)) (range (first numbers))))
    "watch" (do (reset! watching (watched other)) [0])
    "await-down" (let [[_ ref] @watching]
                   (receive [:DOWN ref _ _ _] [0]))))

(defn- answer [other watching line]
  (let [[what & numbers] (str/split line #" ")]
    (println (str/join " " (work other watching what (map parse-long numbers))))
    (flush)))

(defn- await-node
  "Waits until the other node is connected."
  [node]
  (cluster/monitor-nodes true)
  (when-not (some #{node} (cluster/nodes))
    (receive [:nodeup node] nil))
  (cluster/monitor-nodes false))

(defn- answering
  "Answers the lines that are sent to it."
  [node]
  (await-node node)
  (! [:starter node] [:where (self)])
  (let [other (receive [sink server starter] {:sink sink :server server :starter starter})
        watching (atom nil)]
    (println "ready")
    (flush)
    (loop []
      (let [line (receive [:line text] text)]
        (answer other watching line)
        (recur)))))

(defn- measure
  "Hands each line to a process that answers it."
  [node]
  (let [pid (spawn #(answering node))]
    (doseq [line (line-seq (java.io.BufferedReader. *in*))]
      (! pid [:line line]))))

(defn -main
  "The program of a node; the argument is the name of the other one, for the node that measures. Ends with its input.

  Example: (-main \"b@bench\")"
  ([] (-main nil))
  ([node]
   (if node (measure node) (serve))
   (shutdown-agents)
   (System/exit 0)))
