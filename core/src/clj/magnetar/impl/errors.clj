(ns magnetar.impl.errors
  "The constructors of errors about misuse: a sentence that names culprit, place and remedy, with data."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.classes :as classes]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang DynamicClassLoader IExceptionInfo IPersistentMap IProxy)
   (java.lang.classfile ClassFile CodeBuilder)
   (java.lang.constant ConstantDescs)
   (java.lang.reflect Constructor)
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
  (when-some [[_ namespace function] (re-find #"^(magnetar\.[^$]+)\$([^$]+)" (.getClassName frame))]
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
  "The error with the frames of the program alone. `clojure.repl/pst` shows of a cause no more frames than it has beyond those of what it caused: so
  those of ours would take the room of the program's."
  [^Throwable error]
  (.setStackTrace error (Frames/own (.getStackTrace error)))
  error)

(defn failure
  "An ex-info, as if it was thrown where the program called the library."
  ([message data] (at-caller (ex-info message data)))
  ([message data cause] (own-frames-only (ex-info message data cause))))

;; ---- their classes

;; A proxy would be headed IllegalArgumentException$IExceptionInfo$1ab3efb7 at a prompt, and the kernel's Java is compiled without Clojure. So the
;; classes are made here, when this is loaded: the first error may come where the stack is full.

(def ^:private package "magnetar.misuse.")

(def ^:private members
  "A field of data, and what reads it."
  [(classes/field "data" Object (bit-or ClassFile/ACC_PRIVATE ClassFile/ACC_FINAL))
   (classes/method "getData" IPersistentMap []
                   (classes/code [this b]
                     (.aload b 0)
                     (.getfield b this "data" ConstantDescs/CD_Object)
                     (.checkcast b (classes/desc IPersistentMap))
                     (.areturn b)))])

(defn- printing
  "A toString that names the class above and says the message, as that class does."
  [^Class above]
  (classes/method "toString" String []
                  (classes/code [_this b]
                    (.ldc b (str (.getName above) ": "))
                    (.aload b 0)
                    (.invokevirtual b (classes/desc Throwable) "getMessage" (classes/method-type String []))
                    (.invokestatic b (classes/desc String) "valueOf" (classes/method-type String [Object]))
                    (.invokevirtual b (classes/desc String) "concat" (classes/method-type String [String]))
                    (.areturn b))))

(defn- constructing
  "A constructor of a message and data; not all of the JDK's errors take a cause."
  [above]
  (classes/constructor above [String Object] 1
                       (classes/code [this b]
                         (.aload b 0)
                         (.aload b 2)
                         (.putfield b this "data" ConstantDescs/CD_Object))))

(defn- constructor
  "The constructor, of a message and data, of a class that extends this one, with its name. Used once, so that it is linked."
  ^Constructor [^Class above]
  (let [loader (DynamicClassLoader. (.getClassLoader IExceptionInfo))
        made (classes/define loader (str package (.getSimpleName above)) above [IExceptionInfo] (conj members (printing above) (constructing above)))]
    (doto (.getConstructor made (into-array Class [String Object]))
      (.newInstance (object-array ["" {}])))))

(defonce ^:private constructors
  (update-vals {:argument IllegalArgumentException
                :state IllegalStateException
                :cast ClassCastException
                :null NullPointerException
                :index IndexOutOfBoundsException}
               constructor))

(defn- make [kind reason message ^Throwable cause data]
  (let [data (assoc data :magnetar/reason reason)
        ^Throwable error (.newInstance ^Constructor (constructors kind) (object-array [message data]))]
    (when cause (.initCause error cause))
    (at-caller error)))

(defn class-of
  "The class of an error; of one that is made here, or by `proxy`, the one that it stands for."
  ^Class [^Throwable error]
  (let [of (class error)]
    (if (or (instance? IProxy error) (str/starts-with? (.getName of) package))
      (.getSuperclass of)
      of)))

;; ---- the errors

(defn illegal-argument
  "An IllegalArgumentException with `ex-data`: `data` and the keyword `reason` under :magnetar/reason."
  ([reason message data] (illegal-argument reason message data nil))
  ([reason message data cause] (make :argument reason message cause data)))

(defn illegal-state
  "An IllegalStateException with `ex-data`, as `illegal-argument`."
  [reason message data]
  (make :state reason message nil data))

(defn class-cast
  "A ClassCastException with `ex-data`, as `illegal-argument`."
  ([reason message data] (class-cast reason message data nil))
  ([reason message data cause] (make :cast reason message cause data)))

(defn null-pointer
  "A NullPointerException with `ex-data`, as `illegal-argument`."
  ([reason message data] (null-pointer reason message data nil))
  ([reason message data cause] (make :null reason message cause data)))

(defn index-out-of-bounds
  "An IndexOutOfBoundsException with `ex-data`, as `illegal-argument`."
  [reason message data]
  (make :index reason message nil data))
