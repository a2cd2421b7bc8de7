(ns magnetar.dev.hops.trace
  "Runs a program in a JVM of its own, as a debugger, and records the methods that it enters between its marks.
  A recording is a map of :title and :entries; an entry is a map of :thread (a number), :class, :method and :file."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (com.sun.jdi AbsentInformationException Bootstrap Location Method ObjectCollectedException ReferenceType StringReference ThreadReference VMDisconnectedException VirtualMachine)
   (com.sun.jdi.connect Connector$Argument LaunchingConnector)
   (com.sun.jdi.event BreakpointEvent ClassPrepareEvent Event EventSet LocatableEvent MethodEntryEvent)
   (com.sun.jdi.request EventRequest MethodEntryRequest)
   (java.io StringWriter)
   (java.util Map)))

(set! *warn-on-reflection* true)

;; --- start

(defn- connector ^LaunchingConnector []
  (->> (.launchingConnectors (Bootstrap/virtualMachineManager))
       (filter #(= "com.sun.jdi.CommandLineLaunch" (.name ^LaunchingConnector %)))
       first))

(defn- launch
  "Starts the JVM, suspended, with `clojure.main -m` of the namespace."
  ^VirtualMachine [{:keys [class-path options main]}]
  (let [connector (connector)
        ^Map arguments (.defaultArguments connector)
        set-argument (fn [k v] (.setValue ^Connector$Argument (.get arguments k) v))]
    (set-argument "options" (str/join " " (conj (vec options) "-cp" (str "\"" class-path "\""))))
    (set-argument "main" (str "clojure.main -m " main))
    (.launch connector arguments)))

(defn- output-of
  "A future of all that the process prints."
  [^Process process]
  (let [text (StringWriter.)
        copies (mapv #(future (io/copy (io/reader %) text)) [(.getInputStream process) (.getErrorStream process)])]
    (future (run! deref copies) (str text))))

;; --- what is recorded

(def ^:private mark-classes
  ["magnetar.dev.hops.marks$begin" "magnetar.dev.hops.marks$end"])

(defn- request-marks [^VirtualMachine vm]
  (doseq [mark mark-classes]
    (doto (.createClassPrepareRequest (.eventRequestManager vm))
      (.addClassFilter ^String mark)
      (.enable))))

;; The program goes on while an event is on its way: an operation keeps its pace, and the threads their order of events.
(defn- request-entries ^MethodEntryRequest [^VirtualMachine vm]
  (doto (.createMethodEntryRequest (.eventRequestManager vm))
    (.addClassFilter "magnetar.*")
    (.addClassExclusionFilter "magnetar.dev.hops.program*")
    (.addClassExclusionFilter "magnetar.dev.hops.marks*")
    (.setSuspendPolicy EventRequest/SUSPEND_NONE)))

(defn- break-at-mark [^VirtualMachine vm ^ReferenceType mark]
  (doseq [^Method method (.methodsByName mark "invokeStatic")]
    (doto (.createBreakpointRequest (.eventRequestManager vm) (.location method))
      (.setSuspendPolicy EventRequest/SUSPEND_EVENT_THREAD)
      (.enable))))

(def ^:private left-out
  "Platform threads that serve all operations; what they do meanwhile is no part of one."
  #"magnetar-(timer|scheduler-monitor|carriers|signal|watchdog)")

(defn- serves-all? [^ThreadReference thread]
  (try
    (and (not (.isVirtual thread)) (some? (re-find left-out (.name thread))))
    (catch ObjectCollectedException _ false)))

(defn- source-name [^Location location]
  (try (.sourceName location) (catch AbsentInformationException _ nil)))

(defn- file-of
  "Path of the source file below its source folder. The class of a deftype has its namespace as package, a function has it as name."
  [class-name source]
  (let [outer (first (str/split class-name #"\$"))
        package (subs outer 0 (str/last-index-of outer "."))
        base (first (str/split source #"\."))
        path (if (str/ends-with? package (str "." base)) package (str package "." base))]
    (str (str/replace path "." "/") (subs source (count base)))))

(defn- entry-of
  "The entry, or nil for a method that stands in no source file: a lambda's class, the arity that Clojure asks of a function."
  [^MethodEntryEvent event]
  (let [class-name (.name (.declaringType (.location event)))
        method (.name (.method event))
        source (source-name (.location event))]
    (when-not (or (nil? source) (str/includes? class-name "$$Lambda") (= "getRequiredArity" method))
      {:thread (.uniqueID (.thread event)) :class class-name :method method :file (file-of class-name source)})))

;; --- the events. State: :recordings, the finished ones; :recording, the one that runs, or nil; :left-out, by thread.

(defn- title-of [^BreakpointEvent event]
  (.value ^StringReference (first (.getArgumentValues (.frame (.thread event) 0)))))

(defn- left-out? [state ^ThreadReference thread]
  (if-some [known (get-in state [:left-out (.uniqueID thread)])]
    known
    (serves-all? thread)))

(defn- add-entry [state ^MethodEntryEvent event]
  (let [thread (.thread event)
        out? (left-out? state thread)
        entry (when-not out? (entry-of event))]
    (cond-> (assoc-in state [:left-out (.uniqueID thread)] out?)
      entry (update-in [:recording :entries] conj entry))))

(defn- begin? [^LocatableEvent event]
  (str/ends-with? (.name (.declaringType (.location event))) "$begin"))

(defn- at-mark [state event ^MethodEntryRequest entries]
  (if (begin? event)
    (do (.enable entries)
        (assoc state :recording {:title (title-of event) :entries []}))
    (do (.disable entries)
        (-> (update state :recordings conj (:recording state))
            (dissoc :recording)))))

(defn- after-event [state ^Event event entries]
  (condp instance? event
    ClassPrepareEvent (do (break-at-mark (.virtualMachine event) (.referenceType ^ClassPrepareEvent event)) state)
    BreakpointEvent (at-mark state event entries)
    MethodEntryEvent (if (:recording state) (add-entry state event) state)
    state))

(defn- next-events
  "The next set of events, or nil when the JVM has ended."
  ^EventSet [^VirtualMachine vm]
  (try (.remove (.eventQueue vm)) (catch VMDisconnectedException _ nil)))

(defn- record-all [^VirtualMachine vm]
  (request-marks vm)
  (let [entries (request-entries vm)]
    (loop [state {:recordings [] :left-out {}}]
      (if-some [events (next-events vm)]
        (let [state (reduce #(after-event %1 %2 entries) state events)]
          (.resume events)
          (recur state))
        (:recordings state)))))

(defn recordings
  "Runs the namespace `main` with the class path, a string, and the JVM options; returns its recordings in order.
  Throws with what the program printed if it ends with another code than 0."
  [program]
  (let [vm (launch program)
        process (.process vm)
        output (output-of process)
        found (record-all vm)
        code (.waitFor process)]
    (when-not (zero? code)
      (throw (ex-info (str "The counted program ended with " code ". It printed:\n" @output) {:exit code :program program})))
    found))
