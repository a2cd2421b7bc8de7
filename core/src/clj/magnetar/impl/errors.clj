(ns magnetar.impl.errors
  "The constructors of errors about misuse: a sentence that names culprit, place and remedy, with data."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang RT)
   (magnetar IndexException MisuseException NullException StateException TypeException)
   (magnetar.kernel.report Frames)))

(set! *warn-on-reflection* true)

(defn at-caller
  "The error, as if it was thrown where the program called the library: so that a prompt names that line."
  [^Throwable error]
  (let [frames (drop-while (complement reports/of-program?) (.getStackTrace error))]
    (when (seq frames)
      (.setStackTrace error (into-array StackTraceElement frames)))
    error))

(defn- public-name
  "The name of the function of the library that the frame belongs to, as a program calls it: a macro calls `scope*` for with-scope, `fork-at` for fork."
  [^StackTraceElement frame]
  (when-some [[_ namespace function] (re-find #"^(magnetar\.(?!impl\.)[^$]+)\$([^$]+)" (.getClassName frame))]
    (let [namespace (symbol (main/demunge namespace))
          function (main/demunge function)
          short (str/replace function #"(-at|\*)$" "")
          public (some-> (find-ns namespace) ns-publics)]
      (some #(when (contains? public (symbol %)) (str namespace "/" %))
            [short (str "with-" short) function]))))

(defn operation
  "The function of the library that the program called on this thread, as \"magnetar.pool/start\"; nil if the library called itself."
  []
  (let [[ours [caller]] (split-with (complement reports/of-program?) (.getStackTrace (Thread/currentThread)))]
    (when caller
      (last (keep public-name ours)))))

;; ---- failures that are no misuse

(defn- own-frames-only
  "The error with the frames of the program alone.

  `clojure.repl/pst` shows of a cause only as many frames as it has beyond the frames of the error it caused. Our frames would take the room of
  the program's."
  [^Throwable error]
  (.setStackTrace error (Frames/own (.getStackTrace error)))
  error)

(defn failure
  "An ex-info, as if it was thrown where the program called the library."
  ([message data] (at-caller (ex-info message data)))
  ([message data cause] (own-frames-only (ex-info message data cause))))

;; ---- misuse

(defonce ^:private makers
  {:argument (fn [message data cause] (MisuseException. message data cause))
   :state (fn [message data cause] (StateException. message data cause))
   :type (fn [message data cause] (TypeException. message data cause))
   :null (fn [message data cause] (NullException. message data cause))
   :index (fn [message data cause] (IndexException. message data cause))})

(run! #(% "" {} nil) (vals makers)) ; loads and links the classes: the first error may come where the stack is full

(defn- make [kind reason message cause data]
  (at-caller ((makers kind) message (assoc data :magnetar/reason reason) cause)))

(defn illegal-argument
  "A MisuseException, which is an IllegalArgumentException, with `ex-data`: `data` and the keyword `reason` under :magnetar/reason."
  ([reason message data] (illegal-argument reason message data nil))
  ([reason message data cause] (make :argument reason message cause data)))

(defn illegal-state
  "A StateException, which is an IllegalStateException, with `ex-data`, as `illegal-argument`."
  [reason message data]
  (make :state reason message nil data))

(defn class-cast
  "A TypeException, which is a ClassCastException, with `ex-data`, as `illegal-argument`."
  ([reason message data] (class-cast reason message data nil))
  ([reason message data cause] (make :type reason message cause data)))

(defn null-pointer
  "A NullException, which is a NullPointerException, with `ex-data`, as `illegal-argument`."
  ([reason message data] (null-pointer reason message data nil))
  ([reason message data cause] (make :null reason message cause data)))

(defn index-out-of-bounds
  "An IndexException, which is an IndexOutOfBoundsException, with `ex-data`, as `illegal-argument`."
  [reason message data]
  (make :index reason message nil data))

;; ---- optional libraries

(defn library-class
  "The class of a library that the program adds if it wants the operation. Without it, a failure that names the library and a version."
  ^Class [operation library version ^String named]
  (try
    (Class/forName named true (RT/baseLoader))
    (catch ClassNotFoundException e
      (throw (failure
               (str "`" operation "` needs " (namespace library) ":" (name library) ", which is not on the class path: add it to the "
                    "libraries of the project, as in " library " {:mvn/version \"" version "\"}.")
               {:magnetar/reason :magnetar/library-missing :library library :class named}
               e)))))
