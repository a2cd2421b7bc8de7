(ns magnetar.impl.actor.start
  "Starts processes: on fibers, on platform threads, on the thread that is there."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.address :as address]
   [magnetar.impl.actor.text]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.context :as context]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions]
   [magnetar.impl.versions :as versions])
  (:import
   (clojure.lang ArraySeq)
   (java.util.function Consumer)
   (magnetar.kernel.fiber Cancelled Exit Fiber)
   (magnetar.kernel.process LocalProcess Pid Spawn Spawn$Guest Spawn$Options WhenFull)))

(set! *warn-on-reflection* true)

(defn- arrive
  "A process begins: it gets the caller's bindings, and notes the version of what it runs."
  [frame f]
  (fibers/install frame)
  (when (var? f)
    (versions/runs f)))

(defn- how-many
  "The number of arguments; -1 of a lazy sequence, which is realized by the process."
  ^long [args]
  (if (or (nil? args) (counted? args)) (long (count args)) -1))

(defn- argument
  "The argument at index i. Of the arguments of a call `nth` would make a sequence for each argument before it."
  [args ^long i]
  (if (instance? ArraySeq args)
    (aget (.-array ^ArraySeq args) (+ (.index ^ArraySeq args) (int i)))
    (nth (seq args) i)))

;; The frame of this work is on the stack for as long as the process lives. The frame of `apply` is too, with 3.5 kB once the JVM's first compiler has been at
;; it: so few arguments, as nearly all have, are passed without it, and what is done before is not done here.
(defn- work
  "The work of a process: (f & args) with the caller's bindings."
  ^Callable [f args bindings]
  (let [frame (when-not (= :none bindings) (fibers/shared-frame))
        n (how-many args)]
    (case n
      0 (^:once fn* [] (arrive frame f) (f))
      1 (let [a (argument args 0)] (^:once fn* [] (arrive frame f) (f a)))
      2 (let [a (argument args 0), b (argument args 1)] (^:once fn* [] (arrive frame f) (f a b)))
      3 (let [a (argument args 0), b (argument args 1), c (argument args 2)] (^:once fn* [] (arrive frame f) (f a b c)))
      (^:once fn* [] (arrive frame f) (apply f args)))))

(defn- check [operation f]
  (when-not (ifn? f)
    (arguments/function operation f (str "(" operation " serve state)"))))

;; ---- options

(def known
  "The options of a process."
  #{:name :link :monitor :mailbox :trap-exit :platform-thread :context :bindings})

(def guest-known
  "The options of a process that a thread becomes."
  [:name :mailbox :trap-exit :context])

(defn- check-bindings [bindings]
  (when-not (or (nil? bindings) (= :none bindings))
    (arguments/misuse :magnetar/bad-bindings
                      (str "The :bindings of a process are :none, or left out; these are " (arguments/show bindings) ".") {:bindings bindings})))

(defn- check-name [name]
  (when-not (or (address/plain? name) (address/via? name))
    (arguments/misuse :magnetar/bad-name
                      (str "A process is registered under a keyword, a symbol or [:via registry name]; this is " (arguments/show name) ".")
                      {:name name})))

(defn- naming [name]
  (reify Consumer
    (accept [_ pid] (address/register-via name pid))))

(def ^:private policies
  {:block WhenFull/BLOCK, :drop-new WhenFull/DROP_NEW, :drop-old WhenFull/DROP_OLD, :fail WhenFull/FAIL})

(defn- bound [^Spawn$Options options {:keys [capacity when-full] :or {when-full :block} :as mailbox}]
  (arguments/options ":mailbox" [:capacity :when-full] mailbox)
  (when-not (and (int? capacity) (< 0 (long capacity) Integer/MAX_VALUE))
    (arguments/misuse :magnetar/bad-capacity
                      (str "The :capacity of a mailbox is a whole number from 1 up; this is " (arguments/show capacity) ".") {:mailbox mailbox}))
  (when-not (policies when-full)
    (arguments/misuse :magnetar/bad-policy
                      (str "The :when-full of a mailbox is :block, :drop-new, :drop-old or :fail; this is " (arguments/show when-full) ".")
                      {:mailbox mailbox}))
  (.bound options (int capacity) (policies when-full)))

(defn- named ^Spawn$Options [^Spawn$Options options name]
  (if (address/via? name)
    (.naming options (naming name))
    (.name options name)))

(defn- kernel-options ^Spawn$Options [operation ^String site {:keys [name link monitor mailbox trap-exit platform-thread] :as options}]
  (when (some? name) (check-name name))
  (let [kernel (-> (Spawn$Options. (if (some? name) (str name) site))
                   (.site site)
                   (named name)
                   (.links (boolean (arguments/flag :link link)))
                   (.monitors (boolean (arguments/flag :monitor monitor)))
                   (.traps (boolean (arguments/flag :trap-exit trap-exit)))
                   (.platform (boolean (arguments/flag :platform-thread platform-thread))))]
    (when mailbox (bound kernel mailbox))
    kernel))

(defn spawn
  "Starts (f & args) on a fiber of its own; its pid."
  ^Pid [^String site f args]
  (check "spawn" f)
  (if (transactions/running?)
    (transactions/on-commit #(spawn site f args))
    (Spawn/spawn site (work f args nil))))

(defn- in-context [context f]
  (cond
    (nil? context) f
    (= :none context) (fn [& args] (context/without #(apply f args)))
    (map? context) (fn [& args] (context/with context #(apply f args)))
    :else (arguments/misuse :magnetar/bad-context
                            (str "The :context of a process is :none or a map from contexts to values; this is " (arguments/show context) ".")
                            {:context context})))

(defn spawn-opt
  "Starts (f & args) with options, named after the site: its pid, or with a monitor [pid reference]. Errors name the operation."
  [operation site {:keys [bindings context] :as options} f args]
  (arguments/options operation known options)
  (let [f (in-context context f)]
    (check operation f)
    (check-bindings bindings)
    (transactions/refuse operation)
    (let [started (Spawn/spawn (kernel-options operation site options) (work f args bindings))]
      (if-some [ref (.monitor started)]
        [(.pid started) ref]
        (.pid started)))))

;; ---- guests

(defn exited
  "The error of a caller that asked for the value of a process which ended for another reason than :normal."
  [^Pid pid reason]
  (errors/failure (str pid " has exited: " (reasons/sentence reason)) {:magnetar/reason :magnetar/exited :reason reason :pid pid}))

(defn- of-exit?
  "True if what the body threw is how the process has met its exit; told? says whether it was told to exit."
  [thrown told?]
  (or (nil? thrown)
      (instance? Exit thrown)
      (and told? (Cancelled/isBehind thrown))))

(defn- outcome [^Spawn$Guest guest ^LocalProcess process]
  (let [pid (.pid guest)
        thrown (.thrown guest)
        ended (.ended pid)
        reason (.reason ended)]
    (.check (Fiber/current))
    (cond
      (= :normal reason) (.value ended)
      (of-exit? thrown (and process (.cause process))) (throw (exited pid reason))
      :else (throw thrown))))

(defn host
  "Makes this thread a process, named after the site, while it calls f; the value of f."
  [site {:keys [context] :as options} f]
  (arguments/options "with-process" guest-known options)
  (let [f (in-context context f)
        process (volatile! nil)
        work (fn []
               (vreset! process (LocalProcess/current))
               (f))
        guest (Spawn/host (kernel-options "with-process" site options) work)]
    (outcome guest @process)))

(defn host-here
  "Like `host`, named after the thread."
  [options f]
  (let [thread (.getName (Thread/currentThread))]
    (host (if (.isEmpty thread) "with-process (line unknown)" thread) options f)))
