(ns magnetar.impl.fold.owned
  "A scope of the kernel around a fold or a pmap: its fibers end before it does, and the cancellation of its caller reaches them."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.fold.checks :as checks]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent Callable)
   (magnetar.kernel.fiber Fiber)
   (magnetar.kernel.scope Fork Joiner Scope)
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(defn cores
  "How many fibers can run at once."
  ^long []
  (long (Long/getLong "jdk.virtualThreadScheduler.parallelism" (.availableProcessors (Runtime/getRuntime)))))

(defn- keep-failure
  "True for the first one; others are suppressed by it."
  [failure e]
  (or (compare-and-set! failure nil e)
      (do (.addSuppressed ^Throwable @failure e)
          false)))

(defn- first-failure
  "The joiner that ends the scope when a fork fails that was not cancelled, and keeps what it threw."
  [failure]
  (reify Joiner
    (ended [_ fork]
      (let [^Fork fork fork
            e (.error fork)]
        (and (some? e) (nil? (.cause (.fiber fork))) (boolean (keep-failure failure e)))))
    (needsAll [_] true)))

(defn- in-scope-that-keeps [^String site failure f]
  (let [scope (Scope/open site (first-failure failure) Durations/INFINITE)]
    (try
      (f scope)
      (.join scope)
      (catch Throwable e
        (when-not (or @failure (.isCancelled (Fiber/current))) (throw e)))
      (finally (.close scope)))
    (.check (Fiber/current))
    (when-some [e @failure] (throw e))))

(defn in-scope
  "Calls f with a new scope, waits for its forks, and closes it. Throws the first failure of a fork, as it is; else what f or the waiting
  throws."
  [site f]
  (in-scope-that-keeps site (atom nil) f))

(defn in-scopes
  "Like `in-scope`, with n scopes, one in the other, as a vector: forks of one scope meet under its lock."
  [site n f]
  (let [failure (atom nil)
        nest (fn nest [scopes]
               (if (= n (count scopes))
                 (f scopes)
                 (in-scope-that-keeps site failure #(nest (conj scopes %)))))]
    (nest [])))

(defn fork
  "Starts f in the scope, with the bindings of `frame`; false if the scope takes no more."
  [^Scope scope ^String site daemon? frame f]
  (some? (.fork scope site (boolean daemon?)
                ^Callable (^:once fn* []
                            (fibers/install frame)
                            (f)))))

(defn failed-at
  "The error of an element: where it was and what it was."
  [reason site position element ^Throwable e]
  (errors/failure (str "The " site " failed at position " position ", on " (checks/show element) ": " (or (ex-message e) (class e)))
    {:magnetar/reason reason :site site :position position :element element}
    e))
