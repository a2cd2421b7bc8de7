(ns magnetar.impl.runtime
  "Refuses a Java that cannot load the kernel, in a sentence instead of a class file version.
  Every namespace that imports magnetar.kernel.* requires this one before its imports."
  {:no-doc true})

(def ^:private needed-feature 25)

(def ^:private kernel-class "magnetar.kernel.channel.Channel")

(defn feature
  "Feature number of a java.specification.version: 8 for \"1.8\", 25 for \"25\"."
  [^String specification]
  (Long/parseLong (if (.startsWith specification "1.") (subs specification 2) specification)))

(defn- too-old [{:keys [version home]}]
  {:message (str "Magnetar needs JDK " needed-feature " or newer; this is " version " at " home
                 ". Point JAVA_HOME, or the `java` on the PATH, at a JDK " needed-feature ".")
   :data {:magnetar/reason :magnetar/java-too-old
          :needed needed-feature
          :version version
          :home home}})

(defn- not-compiled []
  {:message (str "Magnetar: the kernel is not compiled: "
                 "run `bin/magnetar classpath` (in a checkout) or "
                 "`clojure -X:deps prep` (as a git dependency).")
   :data {:magnetar/reason :magnetar/kernel-not-compiled
          :missing kernel-class}})

(defn complaint
  "Message and data of what is wrong with a runtime, or nil.
  `specification`, `version` and `home` describe the Java; `kernel?` says whether the kernel was found."
  [{:keys [specification kernel?] :as java}]
  (cond
    (< (long (feature specification)) (long needed-feature)) (too-old java)
    (not kernel?) (not-compiled)))

(defn- kernel-found? []
  (some? (.getResource (clojure.lang.RT/baseLoader)
                       (str (.replace ^String kernel-class "." "/") ".class"))))

(defn this-java
  "The running Java, in the shape `complaint` takes."
  []
  {:specification (System/getProperty "java.specification.version")
   :version (System/getProperty "java.version")
   :home (System/getProperty "java.home")
   :kernel? (kernel-found?)})

;; A namespace counts as loaded once its ns form ran: without this, a second require would skip the check.
(defn- forget-me []
  (dosync (alter (deref #'clojure.core/*loaded-libs*) disj 'magnetar.impl.runtime)))

(when-let [{:keys [message data]} (complaint (this-java))]
  (forget-me)
  (throw (ex-info message data)))

;; By reflection: an import would load the class before the checks above.
(defn- call [class-name method]
  (.invoke (.getMethod (Class/forName class-name true (clojure.lang.RT/baseLoader)) method (make-array Class 0))
           nil
           (object-array 0)))

(defn call-startup
  "Calls the static method of this name of the kernel's Startup, which initialises classes while there is stack for it."
  [^String method]
  (call "magnetar.kernel.inspect.Startup" method))

(call-startup "prepare")

;; From here on the program can be asked from outside what it does.
(call "magnetar.impl.inspect.RecorderEvents" "register")

;; And a recording of the JDK can have the events of the program.
(call "magnetar.impl.telemetry.RecorderTelemetry" "register")
