(ns magnetar.erlang.impl.observer
  "What Erlang's tool observer asks of a node: functions of the modules observer_backend and appmon_info. It shows the system and
  the processes of this node. What this library does not know is 0 or left out.

  A row of a process is the record etop_proc_info: pid, memory, reductions, name, run time, current function and length of
  the mailbox. observer ends if a name is neither an atom nor a tuple of three."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [! self]]
   [magnetar.erlang.impl.nodes :as connections]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime])
  (:import
   (java.lang.management ManagementFactory MemoryUsage)
   (magnetar.kernel.process LocalProcess Pid ProcessInfo ProcessTable)))

(set! *warn-on-reflection* true)

(defn- text
  "A string of Erlang."
  [s]
  (apply list (map int s)))

(def ^:private without-name
  "Stands for the first function of a process that is not registered, which this library does not keep."
  [:magnetar :process 0])

(defn- row [^LocalProcess p]
  (let [^ProcessInfo info (.info p)
        pid (.pid p)
        name (.name info)]
    [:etop_proc_info pid 0 0 (if (keyword? name) name without-name) 0 (text (str (.label pid))) (.messages info)]))

(defn- procs-info
  "Sends the rows of the processes of this node, so many in a message."
  [collector]
  (doseq [some-processes (partition-all 10000 (ProcessTable/all))]
    (! collector [:procs_info (self) (apply list (map row some-processes))]))
  :ok)

(defn- allocator
  "Memory of the JVM as an allocator of Erlang with one carrier: used and committed bytes. observer ends if there is no carrier."
  [name ^MemoryUsage usage]
  (let [used (.getUsed usage)
        committed (.getCommitted usage)]
    [name (list [:instance 0 (list [:mbcs (list [:blocks (list [name (list [:size used used used])])]
                                                [:carriers_size committed committed committed])])])]))

(defn- sys-info
  "Pairs of an item and its value."
  []
  (let [processors (.availableProcessors (Runtime/getRuntime))
        memory (ManagementFactory/getMemoryMXBean)
        heap (.getHeapMemoryUsage memory)
        other (.getNonHeapMemoryUsage memory)]
    (list [:uptime (.getUptime (ManagementFactory/getRuntimeMXBean))]
          [:otp_release (text "Magnetar")]
          [:version (text (str "Java " (System/getProperty "java.version")))]
          [:system_architecture (text (str (System/getProperty "os.arch")))]
          [:wordsize_external 8]
          [:wordsize_internal 8]
          [:logical_processors processors]
          [:logical_processors_online processors]
          [:logical_processors_available processors]
          [:schedulers processors]
          [:schedulers_online processors]
          [:schedulers_available processors]
          [:process_count (ProcessTable/count)]
          [:alloc_info (list (allocator :java_heap heap) (allocator :java_other other))]
          [:total (+ (.getUsed heap) (.getUsed other))]
          [:processes (.getUsed heap)]
          [:code (.getUsed other)])))

;; ---- applications. This node shows no application

(defn- handle-appmon [[from command of on?] state]
  (when (and on? (instance? Pid from))
    (case command
      :app_ctrl (connections/tell from [:delivery (self) :app_ctrl of ()])
      :app (connections/tell from [:delivery (self) :app of [() () () ()]])
      nil))
  [:noreply state])

(def ^:private appmon
  "A server that shows no application, as long as its client lives."
  {:init (fn [client]
           (actor/link client)
           [:ok nil])
   :handle-call (fn [_ _ state] [:reply :ok state])
   :handle-cast (fn [request state] (if (vector? request) (handle-appmon request state) [:noreply state]))
   :handle-info (fn [_ state] [:noreply state])})

(defn- start-appmon [_ client _]
  (gs/start appmon client))

(def all
  "From [module function] to the function."
  {[:observer_backend :sys_info] sys-info
   [:observer_backend :procs_info] procs-info
   [:observer_backend :get_table_list] (fn [_ _] ())
   [:observer_backend :get_port_list] (fn [] ())
   [:appmon_info :start_link2] start-appmon})
