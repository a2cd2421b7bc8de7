(ns magnetar.bench.peers.savina
  "Magnetar in the workloads of the group `savina`, through its public API. Each checks its result."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as async :refer [<! <!! >! chan go go-loop]]
   [magnetar.bench.peers.serve :as serve]
   [magnetar.gen-server :as gs]
   [magnetar.report :as report]
   [magnetar.supervisor :as sup])
  (:import
   (java.io File)
   (java.util SplittableRandom)
   (java.util.logging FileHandler Logger SimpleFormatter)))

(set! *warn-on-reflection* true)

;; as for the peers that run the same source
(set! *unchecked-math* true)

(defn- in-process
  "The nanoseconds that f takes in a process of its own."
  [f]
  (actor/join (spawn (fn [] (serve/nanos (f))))))

;; --- threadring

(defn- ring-node [i boss]
  (receive
    [:next next]
    (loop []
      (receive
        0 (do (! boss [:last i]) (recur))
        :stop nil
        left (do (! next (dec (long left))) (recur))))))

(defn- threadring [n hops]
  (in-process
    (fn []
      (let [boss (self)
            nodes (mapv (fn [i] (spawn ring-node i boss)) (range n))]
        (run! (fn [[node next]] (! node [:next next])) (partition 2 1 (take 1 nodes) nodes))
        (! (nodes 0) hops)
        (serve/check (rem (long hops) (long n)) (receive [:last i] i))
        (run! #(! % :stop) nodes)))))

;; --- big

(defn- ping [^SplittableRandom random all i]
  (let [other (.nextInt random (dec (count all)))]
    (! (nth all (if (>= other (long i)) (inc other) other)) [:ping (self)])))

(defn- big-worker [i n boss]
  (receive
    [:all all]
    (let [random (SplittableRandom. i)]
      (ping random all i)
      (loop [left (long n) answered 0]
        (receive
          [:ping from] (do (! from :pong) (recur left (inc answered)))
          :pong (do (if (= 1 left) (! boss :done) (ping random all i))
                    (recur (dec left) answered))
          :stop (! boss [:answered answered]))))))

(defn- big [workers n]
  (in-process
    (fn []
      (let [boss (self)
            all (mapv (fn [i] (spawn big-worker i n boss)) (range workers))]
        (run! #(! % [:all all]) all)
        (dotimes [_ workers] (receive :done nil))
        (run! #(! % :stop) all)
        (serve/check (* (long workers) (long n))
                     (reduce (fn [sum _] (+ (long sum) (long (receive [:answered k] k)))) 0 all))))))

;; --- skynet

(defn- skynet-node [parent number size]
  (if (= 1 (long size))
    (! parent number)
    (let [me (self)
          part (quot (long size) 10)]
      (dotimes [i 10]
        (spawn skynet-node me (+ (long number) (* i part)) part))
      (! parent (loop [i 0 sum 0]
                  (if (< i 10)
                    (recur (inc i) (+ sum (long (receive part-sum part-sum))))
                    sum))))))

(defn- skynet [leaves]
  (in-process
    (fn []
      (spawn skynet-node (self) 0 leaves)
      (serve/check (quot (* (long leaves) (dec (long leaves))) 2) (receive sum sum)))))

;; --- uct

(defn- next-random ^long [^long x]
  (bit-and (+ (* x 1103515245) 12345) 0x7fffffff))

(defn- compute [work]
  (loop [i 0 x (long work)]
    (if (< i (long work))
      (recur (inc i) (next-random x))
      x)))

(declare uct-node)

(defn- uct-children [root work]
  (let [parent (self)]
    (mapv (fn [_] (spawn uct-node root parent work)) (range 10))))

(defn- tell [children message]
  (run! #(! % message) children))

(defn- sizes-of [children]
  (reduce (fn [sum _] (+ (long sum) (long (receive [:size n] n)))) 0 children))

(defn- uct-node [root parent work]
  (! root [:may-i (self)])
  (let [children (receive
                   [:yes of-children] (uct-children root of-children)
                   :no nil)]
    (receive :traverse nil)
    (! root [:computed (compute work)])
    (tell children :traverse)
    (receive :stop nil)
    (tell children :stop)
    (! parent [:size (inc (long (sizes-of children)))])))

(defn- grow
  "Answers all nodes, of which there are ten at first; returns how many there are in the end."
  [most]
  (loop [asked 0 nodes 10 random 1]
    (if (< asked nodes)
      (let [node (receive [:may-i node] node)
            random (next-random random)
            more? (and (bit-test random 16) (<= (+ nodes 10) (long most)))]
        (! node (if more? [:yes (rem (bit-shift-right random 8) 100)] :no))
        (recur (inc asked) (if more? (+ nodes 10) nodes) random))
      nodes)))

(defn- uct [most]
  (in-process
    (fn []
      (let [children (uct-children (self) 1)
            nodes (grow most)]
        (tell children :traverse)
        (dotimes [_ nodes] (receive [:computed _] nil))
        (tell children :stop)
        (serve/check [most most] [nodes (sizes-of children)])))))

;; --- superv

(def ^:private crasher
  {:init (fn [[i boss]] (! boss [:up i (self)]) [:ok i])
   :handle-cast (fn [_ _] (throw (ex-info "crash" {})))})

(defn- supervised [servers crashes]
  (second
    (sup/start-link {:strategy :one-for-one :intensity (* (long servers) (long crashes)) :period 1000
                     :children (mapv (fn [i] {:id i :start [gs/start-link crasher [i (self)]]}) (range servers))})))

(defn- crash-all
  "Crashes each server so often, and waits until all are up again."
  [servers crashes]
  (let [left (long-array servers (long crashes))]
    (dotimes [_ (* (long servers) (inc (long crashes)))]
      (receive
        [:up i pid]
        (when (pos? (aget left i))
          (aset left i (dec (aget left i)))
          (gs/cast pid :crash))))))

(defn- supervise [servers crashes]
  (in-process
    (fn []
      (let [supervisor (supervised servers crashes)]
        (crash-all servers crashes)
        (serve/check servers (:active (sup/count-children supervisor)))
        (gs/stop supervisor)))))

(defn- superv [servers crashes]
  (let [silent (report/add-hook :report (fn [_]))]
    (try
      (supervise servers crashes)
      (finally (report/remove-hook :report silent)))))

(defn- logging-to
  "Calls f while the logger of the default reports writes to the file, in the format of the JDK's console."
  [^File file f]
  (let [logger (Logger/getLogger "magnetar")
        handler (doto (FileHandler. (str file)) (.setFormatter (SimpleFormatter.)))]
    (.setUseParentHandlers logger false)
    (.addHandler logger handler)
    (try
      (f)
      (finally
        (.removeHandler logger handler)
        (.setUseParentHandlers logger true)
        (.close handler)))))

(defn- crashes-in [^File file]
  (with-open [lines (io/reader file)]
    (count (filter #(str/includes? % " crashed: ") (line-seq lines)))))

(defn- superv-reports
  "The first crash is not measured: its report loads the logger."
  [servers crashes]
  (let [file (File/createTempFile "magnetar-superv" ".log")]
    (try
      (let [took (logging-to file #(do (supervise 1 1) (supervise servers crashes)))]
        (serve/check (inc (* (long servers) (long crashes))) (crashes-in file))
        took)
      (finally (.delete file)))))

;; --- channels

(defmacro ^:private in-go
  "The nanoseconds that the body takes in a go block."
  [& body]
  `(<!! (go (serve/nanos ~@body))))

(defn- fibonacci [n]
  (go
    (let [n (long n)]
      (if (< n 2)
        n
        (let [a (fibonacci (- n 1))
              b (fibonacci (- n 2))]
          (+ (long (<! a)) (long (<! b))))))))

(defn- fib [n]
  (in-go
    (serve/check (ffirst (drop n (iterate (fn [[a b]] [b (+ (long a) (long b))]) [0 1])))
                 (<! (fibonacci n)))))

(defn- seen-in-order [c]
  (go-loop [seen 0]
    (if-some [event (<! c)]
      (recur (if (= seen (long (:n event))) (inc seen) seen))
      seen)))

(defn- last-seen
  "Waits a millisecond after each event, and misses those for which there is no room meanwhile."
  [c]
  (go-loop [seen 0]
    (if-some [event (<! c)]
      (do (<! (async/timeout 1))
          (recur (inc (long (:n event)))))
      seen)))

(defn- subscribe [p i slow]
  (if (< (long i) (long slow))
    (last-seen (async/sub p :price (chan (async/sliding-buffer 4))))
    (seen-in-order (async/sub p :price (chan 64)))))

(defn- pubsub [subscribers slow events]
  (in-go
    (let [source (chan 64)
          p (async/pub source :topic)
          all (mapv #(subscribe p % slow) (range subscribers))]
      (dotimes [n events]
        (>! source {:topic :price :n n}))
      (async/close! source)
      (dotimes [i subscribers]
        (serve/check events (<! (nth all i)))))))

(def workloads
  "What it can be asked, as part of `magnetar.bench.peers.ours`.

  Example: ((workloads \"skynet\") 1000)"
  {"threadring" threadring
   "big" big
   "skynet" skynet
   "uct" uct
   "superv" superv
   "superv-reports" superv-reports
   "fib" fib
   "pubsub" pubsub})
