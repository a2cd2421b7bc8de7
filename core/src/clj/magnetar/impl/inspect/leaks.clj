(ns magnetar.impl.inspect.leaks
  "What waits for something that cannot come.

  The garbage collector proves that a go block is lost: it collects a go block when nothing can reach what the go block waits for. As a control, a fiber is lost
  on purpose. If that is not collected, nothing is proved. Processes and forks are held by their owners, so for them the answer is only likely, since it is not
  known what platform threads hold, for example. It is given only if the caller asks for it."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors]
   [magnetar.impl.inspect.answer :as answer]
   [magnetar.impl.inspect.edges :as edges]
   [magnetar.impl.inspect.reach :as reach]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.stacks :as stacks]
   [magnetar.impl.inspect.stuck :as stuck]
   [magnetar.impl.inspect.waits :as waits]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent.atomic AtomicLong)
   (java.util.concurrent.locks LockSupport)
   (magnetar.kernel.channel Channel)
   (magnetar.kernel.fiber Fiber Fibers Fibers$Hold)
   (magnetar.kernel.process LocalProcess Pid ProcessInfo)))

(set! *warn-on-reflection* true)

;; ---- go blocks

(defn- place
  "The description of a fiber that waits, without a reference to the fiber."
  [snapshot {:keys [kind name wait] :as node}]
  {:kind kind :name name :at (stacks/line snapshot node) :why (:why wait) :words (:words wait)})

(defn- waiting-go-blocks
  "[fiber place] of each go block that waits. The fiber refers to its thread weakly."
  []
  (let [snapshot (snapshot/now)]
    (vec (for [{:keys [kind wait thread] :as node} (vals (:nodes snapshot))
               :when (and (= :go kind) wait)
               :let [fiber (waits/fiber-of thread)]
               :when fiber]
           [fiber (place snapshot node)]))))

(defn- start-control
  "A fiber that waits for a channel to which nothing else refers."
  ^Fiber []
  (Fibers/start "magnetar-control" Fibers$Hold/WEAK
                (reify Runnable (run [_] (.receive (Channel/rendezvous))))))

(def ^:private tries 50)
(def ^:private pause-nanos 2000000)

(defn- collected?
  "Collects garbage until the control is collected; false if it never is."
  [^Fiber control]
  (loop [n 1]
    (System/gc)
    (LockSupport/parkNanos pause-nanos)
    (cond
      (.isLost control) true
      (= n (long tries)) false
      :else (recur (inc n)))))

(def ^:private ^AtomicLong controls
  "How many controls have been collected."
  (AtomicLong.))

(defn lost-so-far
  "How many go blocks have been collected since the program started, while they waited."
  []
  (- (Fibers/lost) (.get controls)))

(defn- collect []
  (if (collected? (start-control))
    (.incrementAndGet controls)
    (throw (errors/illegal-state :magnetar/no-collection
                                 (str "`leaks` asked the JVM to collect garbage, and a go block that was lost on purpose was not collected, so nothing is proved. "
                                      "Start the JVM without -XX:+DisableExplicitGC, and end recordings and debuggers that hold threads.") {}))))

(defn- lost
  "The places of the go blocks that the garbage collector has found to be lost. With -Dmagnetar.track-go-blocks=true no go block is collected, so none is found."
  []
  (if (Boolean/getBoolean "magnetar.track-go-blocks")
    []
    (let [waiting (waiting-go-blocks)]
      (collect)
      (for [[^Fiber fiber place] waiting :when (.isLost fiber)]
        (assoc place :grade :exact :because "the garbage collector found that nothing can reach what it waits for")))))

;; ---- processes and forks

(defn- waits-without-end?
  "Has the node waited for so many milliseconds, without a time limit?"
  [after-ms {{:keys [since-ms left-ms]} :wait}]
  (and since-ms (nil? left-ms) (<= (long after-ms) (long since-ms))))

(defn- unknown?
  "Does no name, link or monitor lead to the process?"
  [^LocalProcess process]
  (let [^ProcessInfo info (.info process)]
    (and (nil? (.name info)) (empty? (.links info)) (empty? (.monitoredBy info)))))

(defn- held-pids
  "Those of the pids to which the local variables of waiting fibers lead. That a process holds its own pid does not count."
  [snapshot pids]
  (into #{}
        (mapcat (fn [{own :pid :as node}]
                  (disj (set (reach/found (stacks/locals snapshot node) #(and (instance? Pid %) (pids %)))) own)))
        (filter :wait (vals (:nodes snapshot)))))

(defn- forgotten-processes [snapshot after-ms]
  (let [candidates (filter (fn [{:keys [kind wait messages application object] :as node}]
                             (and (= :process kind) (= :mailbox (:why wait)) (nil? application) (zero? (long messages))
                                  (waits-without-end? after-ms node) (unknown? object)))
                           (vals (:nodes snapshot)))
        held (if (seq candidates) (held-pids snapshot (set (map :pid candidates))) #{})]
    (for [{:keys [pid] :as node} candidates
          :when (not (held pid))]
      (assoc (place snapshot node) :grade :likely
             :because "it has no name, link or monitor, it waits without a time limit, and no waiting fiber is known to hold its pid"))))

(defn- forgotten-forks [snapshot after-ms]
  (for [{:keys [kind id wait] :as node} (vals (:nodes snapshot))
        :when (and (= :fork kind) (#{:channel-take :channel-put} (:why wait)) (waits-without-end? after-ms node) (empty? (edges/of snapshot id)))]
    (assoc (place snapshot node) :grade :likely :because "it waits without a time limit, and no fiber is known that can end its wait")))

;; ---- all

(defn- waited-for [{:keys [why at]}]
  (str (case why
         :channel-take "the channel that it takes from"
         :channel-put "the channel that it puts on"
         :mailbox "its mailbox, from which it takes"
         "what it waits for")
       (when at (str " at " at))))

(defn- sentence [{:keys [name grade at count] :as leak}]
  (str (if (= 1 count) name (str count " of " name))
       (if (= :exact grade)
         (str " can never go on: nothing can reach " (waited-for leak) ".")
         (str (if (= 1 count) " waits" " wait") (when at (str " at " at)) ", and " (:because leak) "."))))

(defn- alike [found]
  (for [[leak places] (group-by identity found)
        :let [leak (assoc leak :count (clojure.core/count places))]]
    (-> leak
        (assoc :kind :leak :of (:kind leak) :text (sentence leak))
        (dissoc :why :words))))

(defn- forgotten [after-ms]
  (let [snapshot (stuck/with-edges)]
    (concat (forgotten-processes snapshot after-ms) (forgotten-forks snapshot after-ms))))

(defn now
  "What `magnetar.inspect/leaks` returns. Processes and forks are in it after they have waited for so many milliseconds, and not at all with nil."
  [after-ms]
  (let [lost (vec (lost)) ; first, so that nothing here holds a fiber
        forgotten (if after-ms (forgotten after-ms) [])]
    (vec (sort-by (juxt (comp - :count) :name) (alike (concat lost forgotten))))))

(defn text
  "The lost go blocks, as EDN."
  []
  (answer/text {:magnetar/leaks 1 :leaks (now nil)}))
