(ns magnetar.impl.bits.pattern
  "A layout as a pattern: what a macro with a clause `(bits [..])` asks, and what the code runs that the macro writes.

  `bound` are the locals that are there: a set, or &env of the macro. All functions fail as `magnetar.bits/compile`."
  {:no-doc true}
  (:require
   [magnetar.impl.bits.engine :as engine])
  (:import
   (java.util.concurrent ConcurrentHashMap)
   (java.util.function Function)
   (magnetar.impl.bits.engine Layout)))

(set! *warn-on-reflection* true)

(defn- symbols [bound]
  (if (map? bound) (keys bound) bound))

(defn locals
  "The symbols that a layout binds as a pattern, in the order of `matcher`: a vector.

    (locals '[[len 16] [body :binary len]])         ; [len body]
    (locals '[[len 16] [body :binary n]] '#{n})     ; [len body], n is read"
  ([layout] (locals layout nil))
  ([layout bound]
   (mapv #(symbol (name %)) (.-fields ^Layout (engine/compile-layout layout (symbols bound))))))

(defn pins
  "The symbols of `bound` that a layout reads as a pattern, in the order in which `matcher` takes their values: a vector.

    (pins '[[kind 8] [body :binary n]] '#{n kind x})    ; [kind n]"
  [layout bound]
  (.-pins ^Layout (engine/compile-layout layout (symbols bound))))

(defn matcher
  "A function of a message that gives nil, or an object array with the values of `locals` in its first places.

  It matches a byte array, a ByteBuffer, which it leaves as it is, or a bitstring, from the first bit to the last; nothing else does.
  It throws only what a function for a size throws. With `bound`, the function takes a second argument, an object array with the values of `pins`.

    ((matcher '[[kind 8] [body :binary]] '#{kind}) message (object-array [7]))"
  ([layout] (matcher layout nil))
  ([layout bound]
   (let [layout (engine/compile-layout layout (symbols bound))]
     (fn
       ([message] (engine/match layout message nil))
       ([message pinned] (engine/match layout message pinned))))))

;; A clause runs its form for each message: its layout is compiled at the first one. Layouts are constants of the program, so the table ends.
(def ^:private ^ConcurrentHashMap sites (ConcurrentHashMap.))

(def ^:private ^Function compile-site
  (reify Function
    (apply [_ [layout pins]] (engine/compile-layout layout pins))))

(defn match-at
  "Matches with the layout and the pins in `key`, which are compiled at the first call."
  [key message pinned]
  (engine/match (.computeIfAbsent sites key compile-site) message pinned))

(defn form
  "A form that matches the value of the form `message`: nil, or an object array with the values of `locals` in its first places.

  The pins are read where the form stands; the layout is compiled when the form runs first.

    (form '[[len 16] [body :binary len]] &env 'message)"
  [layout bound message]
  (let [pins (pins layout bound)]
    `(match-at '~[layout pins] ~message ~(when (seq pins) `(object-array [~@pins])))))
