(ns magnetar.impl.bridge
  "Joins our channels and core.async's channels: each library's ports work in the other's operations.
  Loaded when core.async's protocols are on the class path, its own or the protocols of magnetar-core-async."
  {:no-doc true}
  (:require
   [clojure.core.async.impl.protocols :as-alias impl]
   [magnetar.impl.chans :as chans]
   [magnetar.impl.classes :as classes]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang DynamicClassLoader IDeref RT Var)
   (java.lang.classfile ClassFile CodeBuilder)
   (java.util.concurrent.locks Lock)
   (magnetar.kernel.channel Buffer Channel ChannelMaker Handler Port Ports ReadPort TimeoutChannel Transform TransformChannel WritePort)
   (magnetar.kernel.fiber Environment)))

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
  "A port of core.async as one of the kernel's, or nil if `x` is not such a port."
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
  "A buffer of core.async as one of the kernel's, or nil if `x` is not such a buffer."
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

(def ^:private calls
  "The methods of their interfaces: name, the function of this namespace that does it, the parameters."
  [["take_BANG_" "take-by-handler" [Object]]
   ["put_BANG_" "put-by-handler" [Object Object]]
   ["close_BANG_" "close-port" []]
   ["closed_QMARK_" "port-closed?" []]])

(def ^:private kinds
  "The method of the maker, the class of the kernel, the parameters of both."
  [["channel" Channel [Buffer]]
   ["transforming" TransformChannel [Buffer Transform]]
   ["timeout" TimeoutChannel [Environment Long/TYPE]]])

(defn- class-name-of [^Class above]
  (str "magnetar.impl.bridge." (.getSimpleName above)))

(defn- find-vars
  "Writes that each function's var is looked up, once, and kept under its name."
  []
  (classes/initializer
    (classes/code [this b]
      (doseq [[^String method-name ^String function] calls]
        (.ldc b "magnetar.impl.bridge")
        (.ldc b function)
        (.invokestatic b (classes/desc RT) "var" (classes/method-type Var [String String]))
        (.putstatic b this method-name (classes/desc Var))))))

(defn- calling
  "A method that calls a function of this namespace with the channel and the arguments."
  [method-name parameters]
  (classes/method method-name Object parameters
                  (classes/code [this b]
                    (.getstatic b this method-name (classes/desc Var))
                    (.aload b 0)
                    (classes/load-parameters b parameters)
                    (.invokevirtual b (classes/desc Var) "invoke" (classes/method-type Object (cons Object parameters)))
                    (.areturn b))))

(def ^:private ^:const static-final (bit-or ClassFile/ACC_PRIVATE ClassFile/ACC_STATIC ClassFile/ACC_FINAL))

(defn- channel-members [above parameters]
  (concat [(classes/constructor above parameters) (find-vars)]
          (mapcat (fn [[method-name _ parameters]]
                    [(classes/field method-name Var static-final) (calling method-name parameters)])
                  calls)))

(defn- making
  "A method of the maker, which makes a channel of that class."
  [[method-name ^Class above parameters]]
  (let [made (classes/desc (class-name-of above))]
    (classes/method method-name Channel parameters
                    (classes/code [_ b]
                      (.new_ b made)
                      (.dup b)
                      (classes/load-parameters b parameters)
                      (.invokespecial b made "<init>" (classes/method-type Void/TYPE parameters))
                      (.areturn b)))))

(defn- maker ^ChannelMaker [interfaces]
  (let [loader (DynamicClassLoader. (RT/baseLoader))]
    (doseq [[_ above parameters] kinds]
      (classes/define loader (class-name-of above) above interfaces (channel-members above parameters)))
    (.newInstance (.getConstructor (classes/define loader "magnetar.impl.bridge.Maker" Object [ChannelMaker]
                                     (cons (classes/constructor Object []) (map making kinds)))
                                   (make-array Class 0))
                  (object-array 0))))

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
