(ns magnetar.erlang.impl.builtins
  "Functions of Erlang's modules erlang and global that this node answers itself."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.erlang.impl.global.names :as names]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime])
  (:import
   (java.lang.management ManagementFactory)
   (magnetar.kernel.process LocalProcess Pid ProcessTable Ref)))

(set! *warn-on-reflection* true)

(defn- refuse
  "Throws an error of Erlang."
  [reason]
  (throw (ex-info (str "This is " reason " in Erlang.") {::refused reason})))

(defn- own-pid
  "The pid, which is of this node."
  ^Pid [x]
  (if (and (instance? Pid x) (zero? (.node ^Pid x)))
    x
    (refuse :badarg)))

(defn- processes []
  (apply list (map (fn [^LocalProcess p] (.pid p)) (ProcessTable/all))))

(defn- whereis [name]
  (when-not (keyword? name)
    (refuse :badarg))
  (or (actor/whereis name) :undefined))

;; ---- process_info

(defn- monitored [x]
  [:process (if (vector? x) [(first x) (keyword (second x))] x)])

(def ^:private items
  "From an item of process_info to its value, of what this library knows of the process."
  {:registered_name #(:registered-name % ())
   :status :status
   :message_queue_len :message-queue-len
   :links #(apply list (:links %))
   :monitors #(apply list (map monitored (:monitors %)))
   :monitored_by #(apply list (:monitored-by %))
   :trap_exit :trap-exit
   :group_leader :group-leader})

(defn- item [info k]
  (if-some [f (items k)]
    (let [x (f info)]
      [k (if (and (= :registered_name k) (nil? x)) () x)])
    (refuse :badarg)))

(defn- process-info
  ([pid]
   (if-some [info (actor/process-info (own-pid pid))]
     (apply list (for [k [:registered_name :status :message_queue_len :links :trap_exit :group_leader]
                       :when (or (not= :registered_name k) (:registered-name info))]
                   (item info k)))
     :undefined))
  ([pid wanted]
   (let [info (actor/process-info (own-pid pid))
         found (fn [k] (item info k))]
     (cond
       (and (seq? wanted) (nil? info)) (do (run! found wanted) :undefined)
       (seq? wanted) (apply list (map found wanted))
       (= :registered_name wanted) (cond
                                     (nil? info) :undefined
                                     (:registered-name info) (found wanted)
                                     :else ()) ; as in Erlang
       :else (let [value (found wanted)] (if info value :undefined))))))

;; ---- the node

(defn- memory
  ([] (let [memory (ManagementFactory/getMemoryMXBean)
            heap (.getUsed (.getHeapMemoryUsage memory))
            other (.getUsed (.getNonHeapMemoryUsage memory))]
        (list [:total (+ heap other)] [:processes heap] [:system other])))
  ([kind] (or (some (fn [[k n]] (when (= k kind) n)) (memory))
              (refuse :badarg))))

(defn- processors []
  (.availableProcessors (Runtime/getRuntime)))

(def ^:private of-system
  {:process_count #(ProcessTable/count)
   :schedulers processors
   :schedulers_online processors
   :logical_processors processors
   :machine #(apply list (map int "JVM"))
   :system_version #(apply list (map int (str "Magnetar on Java " (System/getProperty "java.version"))))
   :wordsize (constantly 8)})

(defn- system-info [wanted]
  (if-some [f (of-system wanted)]
    (f)
    (refuse :badarg)))

(defn- nodes [kind]
  (when-not (= :connected kind)
    (refuse :badarg))
  (apply list (map keyword (gs/call :magnetar.erlang/node :nodes))))

(def all
  "From [module function] to the function."
  (assoc
   (update-keys
   {:processes processes
    :registered #(apply list (filter keyword? (actor/registered)))
    :whereis whereis
    :process_info process-info
    :is_process_alive #(actor/alive? (own-pid %))
    :node (fn
            ([] (keyword (actor/node)))
            ([x] (if (or (instance? Pid x) (instance? Ref x)) (keyword (actor/node x)) (refuse :badarg))))
    :nodes nodes
    :memory memory
    :system_info system-info}
   (fn [function] [:erlang function]))
   [:global :resolve_it] names/resolve-it))
