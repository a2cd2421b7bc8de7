(ns magnetar.impl.bridge
  "Joins our channels and those of core.async: each library's ports work in the other's operations.
  Loaded when core.async's protocols are on the class path, its own or those of magnetar-core-async."
  {:no-doc true}
  (:require
   [clojure.core.async.impl.protocols :as-alias impl]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime])
  (:import
   (clojure.asm ClassWriter MethodVisitor Opcodes Type)
   (clojure.lang DynamicClassLoader IDeref RT Var)
   (java.util.concurrent.locks Lock)
   (magnetar.kernel.channel Buffer Channel ChannelMaker Handler Port Ports ReadPort TimeoutChannel Transform TransformChannel WritePort)
   (magnetar.kernel.park World)))

(set! *warn-on-reflection* true)

;; ---- theirs to ours: a handler or a port of core.async, as the kernel sees it

(defn- our-handler
  "A handler of core.async as one of the kernel's."
  ^Handler [h]
  (if (instance? Handler h)
    h
    (reify Handler
      (active [_] (boolean (impl/active? h)))
      (blockable [_] (boolean (impl/blockable? h)))
      (lockId [_] (long (impl/lock-id h)))
      (commit [_]
        (let [f (impl/commit h)]
          (ports/completion (if (:on-caller? (meta f)) f #(fibers/dispatch "callback" (fn [] (f %)))))))
      (lock [_] (.lock ^Lock h))
      (unlock [_] (.unlock ^Lock h)))))

(defn- boxed
  "The answer of a port of ours as core.async wants it: a reference, or nil if the operation was queued."
  [answer]
  (when-not (ports/pending? answer)
    (ports/box answer)))

;; ---- ours to theirs

(defn- unboxed [box]
  (if (nil? box) Port/PENDING (.deref ^IDeref box)))

(defn- port-of
  "A port of core.async as one of the kernel's, or nil if `x` is none."
  [x]
  (when (or (satisfies? impl/ReadPort x) (satisfies? impl/WritePort x) (satisfies? impl/Channel x))
    (reify
      Port
      (close [_] (impl/close! x))
      (isClosed [_] (boolean (impl/closed? x)))
      ReadPort
      (take [_ handler] (unboxed (impl/take! x handler)))
      WritePort
      (put [_ value handler] (unboxed (impl/put! x value handler))))))

(defn- buffer-of
  "A buffer of core.async as one of the kernel's, or nil if `x` is none."
  [x]
  (when (satisfies? impl/Buffer x)
    (proxy [Buffer] []
      (isFull [] (boolean (impl/full? x)))
      (insert [value] (impl/add!* x value))
      (remove [] (impl/remove! x))
      (close [] (impl/close-buf! x))
      (size [] (count x))
      (capacity [] (int (or (when (satisfies? impl/Capacity x) (impl/capacity x)) -1)))
      (isUnblocking [] (satisfies? impl/UnblockingBuffer x))
      (isTransparent [] false)
      (runsUserCode [] true)
      (original [] x)
      (snapshot [] (object-array 0)))))

(defn take-by-handler
  "Takes a value from a port of ours for a handler of core.async's."
  [^ReadPort port handler]
  (boxed (.take port (our-handler handler))))

(defn put-by-handler
  "Puts a value on a port of ours for a handler of core.async's."
  [^WritePort port value handler]
  (when (nil? value)
    (throw (IllegalArgumentException. "Can't put nil on channel")))
  (boxed (.put port value (our-handler handler))))

(extend-protocol impl/ReadPort
  ReadPort
  (take! [port handler] (take-by-handler port handler)))

(extend-protocol impl/WritePort
  WritePort
  (put! [port value handler] (put-by-handler port value handler)))

(extend-protocol impl/Channel
  Port
  (close! [port] (.close port))
  (closed? [port] (.isClosed port)))

(extend-protocol impl/Handler
  Handler
  (active? [h] (.active h))
  (blockable? [h] (.blockable h))
  (lock-id [h] (.lockId h))
  (commit [h]
    (let [target (.commit h)]
      (with-meta (fn [result] (ports/complete target result)) {:on-caller? true}))))

(extend-protocol impl/Buffer
  Buffer
  (full? [b] (.isFull b))
  (remove! [b] (.remove b))
  (add!* [b value] (doto b (.insert value)))
  (close-buf! [b] (.close b)))

(extend-protocol impl/Capacity
  Buffer
  (capacity [b] (let [n (.capacity b)] (when-not (neg? n) n))))

(doseq [unblocking [(Buffer/dropping 1) (Buffer/sliding 1) (Buffer/promise) (Buffer/unbounded)]]
  (extend (class unblocking) impl/UnblockingBuffer {}))

(Ports/adapt port-of)
(reset! chans/buffer-adapter buffer-of)

;; ---- channels of core.async's interfaces

;; Programs and libraries ask `(instance? clojure.core.async.impl.protocols.ReadPort x)`, and extend protocols to that interface. So where core.async's
;; protocols are on the class path, channels are made of subclasses that implement them. The classes are written here, since the kernel is compiled
;; without core.async. They add no field and override nothing; a proxy would do both.

(defn- type-of ^Type [c]
  (Type/getType ^Class c))

(defn- signature [returns parameters]
  (Type/getMethodDescriptor (type-of returns) (into-array Type (map type-of parameters))))

(defn- internal-name [^String class-name]
  (.replace class-name \. \/))

(defn- load-arguments [^MethodVisitor code parameters]
  (reduce (fn [slot parameter]
            (let [t (type-of parameter)]
              (.visitVarInsn code (.getOpcode t Opcodes/ILOAD) (int slot))
              (+ (long slot) (.getSize t))))
          1 parameters))

(defn- write-method [^ClassWriter to method-name returns parameters write]
  (let [code (.visitMethod to Opcodes/ACC_PUBLIC method-name (signature returns parameters) nil nil)]
    (.visitCode code)
    (write code)
    (.visitInsn code (.getOpcode (type-of returns) Opcodes/IRETURN))
    (.visitMaxs code 0 0)
    (.visitEnd code)))

(defn- write-constructor [to above parameters]
  (write-method to "<init>" Void/TYPE parameters
                (fn [^MethodVisitor code]
                  (.visitVarInsn code Opcodes/ALOAD 0)
                  (load-arguments code parameters)
                  (.visitMethodInsn code Opcodes/INVOKESPECIAL (Type/getInternalName above) "<init>" (signature Void/TYPE parameters) false))))

(defn- write-call
  "A method that calls the function of this namespace with the channel and the arguments."
  [to method-name function parameters]
  (write-method to method-name Object parameters
                (fn [^MethodVisitor code]
                  (.visitLdcInsn code "magnetar.impl.bridge")
                  (.visitLdcInsn code function)
                  (.visitMethodInsn code Opcodes/INVOKESTATIC (Type/getInternalName RT) "var" (signature Var [String String]) false)
                  (.visitVarInsn code Opcodes/ALOAD 0)
                  (load-arguments code parameters)
                  (.visitMethodInsn code Opcodes/INVOKEVIRTUAL (Type/getInternalName Var) "invoke" (signature Object (cons Object parameters)) false))))

(defn- write-class ^ClassWriter [class-name above interfaces]
  (doto (ClassWriter. ClassWriter/COMPUTE_MAXS)
    (.visit Opcodes/V1_8 (bit-or Opcodes/ACC_PUBLIC Opcodes/ACC_FINAL) (internal-name class-name) nil (Type/getInternalName above)
            (into-array String (map #(Type/getInternalName %) interfaces)))))

(defn- channel-class [class-name above parameters interfaces]
  (doto (write-class class-name above interfaces)
    (write-constructor above parameters)
    (write-call "take_BANG_" "take-by-handler" [Object])
    (write-call "put_BANG_" "put-by-handler" [Object Object])
    (write-call "close_BANG_" "close-port" [])
    (write-call "closed_QMARK_" "port-closed?" [])))

(defn- write-making [to method-name class-name parameters]
  (write-method to method-name Channel parameters
                (fn [^MethodVisitor code]
                  (.visitTypeInsn code Opcodes/NEW (internal-name class-name))
                  (.visitInsn code Opcodes/DUP)
                  (load-arguments code parameters)
                  (.visitMethodInsn code Opcodes/INVOKESPECIAL (internal-name class-name) "<init>" (signature Void/TYPE parameters) false))))

(def ^:private kinds
  "The method of the maker, the class of the kernel, the parameters of both."
  [["channel" Channel [Buffer]]
   ["transforming" TransformChannel [Buffer Transform]]
   ["timeout" TimeoutChannel [World Long/TYPE]]])

(defn- class-name-of [^Class above]
  (str "magnetar.impl.bridge." (.getSimpleName above)))

(defn- maker-class []
  (let [to (doto (write-class "magnetar.impl.bridge.Maker" Object [ChannelMaker])
             (write-constructor Object []))]
    (doseq [[method above parameters] kinds]
      (write-making to method (class-name-of above) parameters))
    to))

(defn- maker ^ChannelMaker [interfaces]
  (let [loader (DynamicClassLoader. (RT/baseLoader))
        define (fn ^Class [class-name ^ClassWriter written]
                 (.visitEnd written)
                 (.defineClass loader class-name (.toByteArray written) nil))]
    (doseq [[_ above parameters] kinds]
      (define (class-name-of above) (channel-class (class-name-of above) above parameters interfaces)))
    (.newInstance (.getConstructor ^Class (define "magnetar.impl.bridge.Maker" (maker-class)) (make-array Class 0)) (object-array 0))))

(defn close-port
  "Closes the port; returns nil."
  [port]
  (ports/close port))

(defn port-closed?
  "True if the port was closed."
  [port]
  (ports/closed? port))

(defn make-channels-of
  "Lets channels that are made from now on be instances of the interfaces of core.async's protocols, and of these."
  [interfaces]
  (ChannelMaker/use (maker (into [(:on-interface impl/ReadPort) (:on-interface impl/WritePort) (:on-interface impl/Channel)] interfaces))))

(make-channels-of [])
