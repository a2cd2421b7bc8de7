(ns magnetar.size-test
  "What one idle process or server keeps in the heap, by the JVM's histogram of classes. The stack is left out, since its size depends on what is compiled."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.support :refer [eventually]])
  (:import
   (java.lang.management ManagementFactory)
   (javax.management ObjectName)
   (magnetar.kernel.fiber Fibers)
   (magnetar.kernel.park Parked)
   (magnetar.kernel.process ProcessTable)))

(set! *warn-on-reflection* true)

(def ^:private many 3000)

(defn- histogram
  "From class name to [count bytes], after a collection."
  []
  (let [text (.invoke (ManagementFactory/getPlatformMBeanServer) (ObjectName. "com.sun.management:type=DiagnosticCommand")
                      "gcClassHistogram" (object-array [(make-array String 0)]) (into-array String ["[Ljava.lang.String;"]))]
    (into {} (for [[_ n size class] (re-seq #"(?m)^\s*\d+:\s+(\d+)\s+(\d+)\s+(\S+)" text)]
               [class [(parse-long n) (parse-long size)]]))))

(defn- kept
  "From class name to the bytes that each of many things keeps, in steps of the 8 bytes that objects are aligned to, so that a few that others left
  meanwhile do not count. `start` makes the things, returns them, and waits until they are idle."
  [start]
  (let [first-ones (start 100) ; loads what all of them share
        before (histogram)
        things (start many)
        after (histogram)]
    [(into first-ones things)
     (into {} (for [[class [n size]] after
                    :let [[n0 size0] (get before class [0 0])
                          more (- (long n) (long n0))]
                    :when (> more (* 0.9 (long many)))]
                [class (* 8 (Math/round (/ (- (long size) (long size0)) (* 8.0 (long many)))))]))]))

(defn- of-magnetar [sizes]
  (reduce + (vals (filter #(str/starts-with? (key %) "magnetar.") sizes))))

(defn- parked? [pid]
  (when-some [fiber (.fiber (ProcessTable/live pid))]
    (some? (Parked/waitOf (.get fiber)))))

(defn- idle []
  (receive :stop nil))

(defn- start-idle [n]
  (let [pids (vec (repeatedly n #(actor/spawn-opt idle {:bindings :none})))]
    (is (eventually (every? parked? pids)))
    pids))

(deftest a-process-in-a-receive-keeps-six-objects-beside-its-thread
  (let [[pids sizes] (kept start-idle)]
    (run! #(! % :stop) pids)
    (is (= {"magnetar.kernel.fiber.Fiber" 96
            "magnetar.kernel.process.Spawn$OnFiber" 72
            "magnetar.kernel.park.Parked" 64
            "magnetar.kernel.park.WaitSign" 40
            "magnetar.kernel.process.Pid" 40
            "magnetar.kernel.process.OpenMailbox" 40}
           (into {} (filter #(str/starts-with? (key %) "magnetar.kernel.") sizes))))))

(def ^:private gate (a/chan))

(defn- start-go-blocks [n]
  (let [results (vec (repeatedly n #(a/go (a/<! gate))))]
    (is (eventually (every? #(Parked/waitOf %) (filter #(.startsWith (.getName ^Thread %) "go ") (Fibers/threads)))))
    results))

;; The class of a channel depends on what is loaded, so that is left out. Where the JDK is closed each go block has an executor of its own, which keeps
;; what gave it the thread.
(deftest a-waiting-go-block-keeps-six-objects-beside-its-thread-and-the-channel-of-its-result
  (let [[results sizes] (kept start-go-blocks)]
    (a/close! gate)
    (run! a/<!! results)
    (is (= (cond-> {"magnetar.kernel.channel.Buffer$Fixed" 24
                    "magnetar.kernel.channel.GoBody" 32
                    "magnetar.kernel.channel.Node" 40
                    "magnetar.kernel.fiber.Fiber" 96
                    "magnetar.kernel.park.Parked" 64
                    "magnetar.kernel.park.WaitSign" 40}
             (= :executor (:go-blocks (inspect/runtime))) (assoc "magnetar.kernel.fiber.Fibers$Given" 16))
           (dissoc (into {} (filter #(str/starts-with? (key %) "magnetar.kernel.") sizes)) "magnetar.kernel.channel.Channel")))))

(def ^:private counter
  {:init (fn [_] [:ok 0])
   :handle-call (fn [_ _ n] [:reply n n])})

(defn- start-servers [n]
  (let [pids (actor/join (actor/spawn (fn [] (vec (repeatedly n #(second (gs/start counter nil {:hosting :activated})))))))]
    (is (eventually (every? #(nil? (.fiber (ProcessTable/live %))) pids)))
    pids))

(deftest a-passivated-server-keeps-256-bytes-and-shares-its-dictionary
  (let [[pids sizes] (kept start-servers)]
    (run! #(actor/exit % :kill) pids)
    (is (= 256 (of-magnetar sizes)) (str sizes))
    (is (nil? (sizes "clojure.lang.PersistentArrayMap")) (str sizes))))
