(ns magnetar.impl.errors
  "The constructors of errors about misuse: a sentence that names culprit, place and remedy, with data."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang DynamicClassLoader IExceptionInfo IProxy)
   (java.lang.classfile ClassBuilder ClassFile CodeBuilder)
   (java.lang.constant ClassDesc ConstantDescs MethodTypeDesc)
   (java.lang.reflect Constructor)
   (java.util List)
   (java.util.function Consumer)
   (magnetar.kernel.park Failures Frames)))

(set! *warn-on-reflection* true)

(defn- of-program? [^StackTraceElement frame]
  (Failures/isOfProgram (.getClassName frame)))

(defn at-caller
  "The error, as if it was thrown where the program called the library: so that a prompt names that line."
  [^Throwable error]
  (let [frames (drop-while (complement of-program?) (.getStackTrace error))]
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
  (let [[ours [caller]] (split-with (complement of-program?) (.getStackTrace (Thread/currentThread)))]
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
;; classes are made here, when the first error of each is.

(def ^:private package "magnetar.misuse.")

(defn- desc ^ClassDesc [^String class-name]
  (ClassDesc/of class-name))

(defn- method-type ^MethodTypeDesc [^ClassDesc returns & parameters]
  (MethodTypeDesc/of returns ^"[Ljava.lang.constant.ClassDesc;" (into-array ClassDesc parameters)))

(defmacro ^:private code
  "Writes instructions with the builder `b`."
  [b & instructions]
  `(reify Consumer
     (accept [_# ~b]
       (doto ~(with-meta b {:tag `CodeBuilder}) ~@instructions))))

(def ^:private ^ClassDesc data-type ConstantDescs/CD_Object)

(defn- write-constructor
  "A constructor of a message, a cause and data; not all of the JDK's errors take a cause."
  [^ClassBuilder to ^ClassDesc this above]
  (.withMethodBody to "<init>" (method-type ConstantDescs/CD_void ConstantDescs/CD_String ConstantDescs/CD_Throwable data-type) ClassFile/ACC_PUBLIC
                   (code b
                         (.aload 0)
                         (.aload 1)
                         (.invokespecial above "<init>" (method-type ConstantDescs/CD_void ConstantDescs/CD_String))
                         (.aload 0)
                         (.aload 3)
                         (.putfield this "data" data-type)
                         (.return_))))

(defn- write-data [^ClassBuilder to this]
  (let [persistent-map (desc "clojure.lang.IPersistentMap")]
    (.withField to "data" data-type (int (bit-or ClassFile/ACC_PRIVATE ClassFile/ACC_FINAL)))
    (.withMethodBody to "getData" (method-type persistent-map) ClassFile/ACC_PUBLIC
                     (code b
                           (.aload 0)
                           (.getfield this "data" data-type)
                           (.checkcast persistent-map)
                           (.areturn)))))

(defn- bytes-of ^bytes [^String class-name ^String super-name]
  (let [this (desc class-name)
        above (desc super-name)]
    (.build (ClassFile/of) this
            (reify Consumer
              (accept [_ to]
                (doto ^ClassBuilder to
                  (.withFlags (bit-or ClassFile/ACC_PUBLIC ClassFile/ACC_FINAL))
                  (.withSuperclass above)
                  (.withInterfaceSymbols ^List (vector (desc "clojure.lang.IExceptionInfo")))
                  (write-data this)
                  (write-constructor this above)))))))

(defn- constructor
  "The constructor, of a message, a cause and data, of a class that extends this one, with its name."
  ^Constructor [^Class above]
  (let [class-name (str package (.getSimpleName above))
        made (.defineClass (DynamicClassLoader. (.getClassLoader IExceptionInfo)) class-name (bytes-of class-name (.getName above)) nil)]
    (.getConstructor ^Class made (into-array Class [String Throwable Object]))))

(defonce ^:private constructors
  {:argument (delay (constructor IllegalArgumentException))
   :state (delay (constructor IllegalStateException))
   :cast (delay (constructor ClassCastException))
   :null (delay (constructor NullPointerException))
   :index (delay (constructor IndexOutOfBoundsException))})

(defn- make [kind reason message ^Throwable cause data]
  (let [data (assoc data :magnetar/reason reason)
        ^Throwable error (.newInstance ^Constructor @(constructors kind) (object-array [message cause data]))]
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
