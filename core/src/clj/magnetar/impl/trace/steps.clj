(ns magnetar.impl.trace.steps
  "Transducers that tell of what passes through them."
  {:no-doc true}
  (:require
   [magnetar.impl.runtime]
   [magnetar.impl.trace.events :as events]))

(set! *warn-on-reflection* true)

(defn- teller
  "A function that tells the sink of an event of the step."
  [sink label]
  (fn [event more]
    (events/tell sink (merge {:event event, :label label, :by (events/by), :depth (events/indentation)} more))))

(defn- around
  "Calls f. Tells of an early end, and of an exception."
  [told f]
  (let [result (try
                 (f)
                 (catch Throwable e
                   (told :throw {:error e})
                   (throw e)))]
    (when (reduced? result)
      (told :reduced nil))
    result))

(defn step
  "A transducer that tells of each value, of the end, and of an early end that a later step asks for."
  [label sink]
  (let [told (teller sink label)]
    (fn [rf]
      (fn
        ([] (rf))
        ([result]
         (told :complete nil)
         (rf result))
        ([result x]
         (told :value {:value x})
         (around told #(rf result x)))))))

(defn- telling-of-outputs [told rf]
  (fn
    ([] (rf))
    ([result] (rf result))
    ([result x]
     (told :out {:value x})
     (rf result x))))

(defn around-xf
  "The transducer xf, which tells of its inputs and outputs, of its end, of an early end, and of an exception in it or after it."
  [label xf sink]
  (let [told (teller sink label)]
    (fn [rf]
      (let [inner (xf (telling-of-outputs told rf))]
        (fn
          ([] (inner))
          ([result]
           (told :complete nil)
           (inner result))
          ([result x]
           (told :in {:value x})
           (around told #(inner result x))))))))
