(ns magnetar.impl.classes
  "Writes the few classes that neither Clojure nor the kernel's Java can: those that extend a class and implement an interface of Clojure, or of a library
  that may not be there."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime])
  (:import
   (clojure.lang DynamicClassLoader)
   (java.lang.classfile ClassBuilder ClassFile CodeBuilder TypeKind)
   (java.lang.constant ClassDesc ConstantDescs MethodTypeDesc)
   (java.util List)
   (java.util.function Consumer)))

(set! *warn-on-reflection* true)

(defn desc
  "The descriptor of a class, or of the name of one."
  ^ClassDesc [x]
  (if (class? x)
    (.get (.describeConstable ^Class x))
    (ClassDesc/of x)))

(defn method-type
  "The descriptor of a method."
  ^MethodTypeDesc [returns parameters]
  (MethodTypeDesc/of (desc returns) ^List (mapv desc parameters)))

(defmacro code
  "A function of the class that is written and a CodeBuilder, called `this` and `b`: writes the instructions."
  [[this b] & instructions]
  `(fn [~this ~(with-meta b {:tag `CodeBuilder})] ~@instructions))

(defn load-parameters
  "Writes that the method's parameters are pushed."
  [^CodeBuilder b parameters]
  (dorun (map-indexed (fn [i parameter]
                        (.loadLocal b (TypeKind/from (desc parameter)) (.parameterSlot b (int i))))
                      parameters)))

;; ---- members: functions of the class that is written and its ClassBuilder

(defn field
  "A field; the flags are ClassFile's, ORed."
  [^String field-name type flags]
  (fn [_this ^ClassBuilder to]
    (.withField to field-name (desc type) (int flags))))

(defn method
  "A public method, or with other flags; `write` is made by `code`."
  ([method-name returns parameters write] (method method-name returns parameters ClassFile/ACC_PUBLIC write))
  ([^String method-name returns parameters flags write]
   (fn [this ^ClassBuilder to]
     (.withMethodBody to method-name (method-type returns parameters) (int flags)
                      (reify Consumer (accept [_ b] (write this b)))))))

(defn constructor
  "A public constructor that calls the one of the class above with the same parameters."
  [above parameters]
  (method "<init>" Void/TYPE parameters
          (code [_this b]
            (.aload b (.receiverSlot b))
            (load-parameters b parameters)
            (.invokespecial b (desc above) "<init>" (method-type Void/TYPE parameters))
            (.return_ b))))

(defn initializer
  "What is done once when the class is loaded."
  [write]
  (method "<clinit>" Void/TYPE [] ClassFile/ACC_STATIC
          (code [this b]
            (write this b)
            (.return_ b))))

;; ---- classes

(defn- bytes-of ^bytes [class-name above interfaces members]
  (let [this (desc class-name)]
    (.build (ClassFile/of) this
            (reify Consumer
              (accept [_ to]
                (doto ^ClassBuilder to
                  (.withFlags (bit-or ClassFile/ACC_PUBLIC ClassFile/ACC_FINAL))
                  (.withSuperclass (desc above))
                  (.withInterfaceSymbols ^List (mapv desc interfaces)))
                (run! #(% this to) members))))))

(defn define
  "Defines a final class in the loader, and initialises it: a class that is first used where the stack is full could never be used again."
  ^Class [^DynamicClassLoader loader ^String class-name above interfaces members]
  (.defineClass loader class-name (bytes-of class-name above interfaces members) nil)
  (Class/forName class-name true loader))
