(ns magnetar.impl.inspect.containers
  "The virtual threads that the JDK knows. It keeps all of them in a tree of thread containers, which it shows with an option of the JVM.

  `HotSpotDiagnosticMXBean.dumpThreads` lists them without an option, but may crash a JVM of JDK 25 while virtual threads run: JDK-8364343."
  {:no-doc true}
  (:import
   (java.lang.reflect Method)
   (java.util.stream Stream)))

(set! *warn-on-reflection* true)

(def ^:private no-classes (make-array Class 0))

(defn- method ^Method [class-name method-name]
  (.getMethod (Class/forName class-name) method-name no-classes))

(defn- invoke [^Method method x]
  (.invoke method x (object-array 0)))

(defn- listed [^Method method container]
  (iterator-seq (.iterator ^Stream (invoke method container))))

(defn- open
  "Returns a function of no arguments that lists all threads in containers; nil if the JVM does not let us read them."
  []
  (try
    (let [root (invoke (method "jdk.internal.vm.ThreadContainers" "root") nil)
          children (method "jdk.internal.vm.ThreadContainer" "children")
          threads (method "jdk.internal.vm.ThreadContainer" "threads")]
      (fn []
        (mapcat #(listed threads %) (tree-seq some? #(listed children %) root))))
    (catch java.lang.ReflectiveOperationException _ nil)))

(defonce ^:private threads-in-containers (open))

(defn- tracked?
  "Does the JDK keep the virtual threads that no container of its own has started?"
  []
  (not= "false" (System/getProperty "jdk.trackAllThreads")))

(defn virtual-threads
  "The virtual threads that the JDK knows, in a vector; nil if some of them cannot be found. The kernel's own go blocks are not among them."
  []
  (when (and threads-in-containers (tracked?))
    (filterv #(.isVirtual ^Thread %) (threads-in-containers))))
