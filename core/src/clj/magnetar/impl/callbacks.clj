(ns magnetar.impl.callbacks
  "Waits for what is no fiber: callbacks and CompletionStages; from these to channels and back."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.fibers :as fibers]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent CompletableFuture CompletionException CompletionStage)
   (java.util.concurrent.atomic AtomicLong)
   (java.util.function BiConsumer)
   (magnetar.kernel.channel Callback Channel)
   (magnetar.kernel.fiber Cancelled)
   (magnetar.kernel.park Latch WaitReason)
   (magnetar.kernel.time Waits)))

(set! *warn-on-reflection* true)

(defn- failure-of
  "What the stage, or one that it depends on, failed with."
  [error]
  (if (instance? CompletionException error) (or (ex-cause error) error) error))

(defn await-stage
  "The value of the stage, or of (late) after the limit; if the fiber is cancelled meanwhile, so is the stage."
  [^CompletionStage stage ^long limit late]
  (let [latch (Latch.)
        future (.toCompletableFuture stage)]
    (.whenComplete stage (reify BiConsumer (accept [_ _ _] (.release latch))))
    (try
      (if (Waits/await latch WaitReason/CALLBACK stage limit)
        (.join future)
        (late))
      (catch CompletionException e (throw (failure-of e)))
      (catch Cancelled e
        (.cancel future true)
        (throw e)))))

(defonce ^:private late-calls (AtomicLong.))

(defn late
  "How many callbacks came too late."
  []
  (.get ^AtomicLong late-calls))

(defn- count-late [accepted?]
  (when-not accepted? (.incrementAndGet ^AtomicLong late-calls))
  nil)

(defn- reason-of [x]
  (if (instance? Throwable x) x (ex-info "rejected" {:reason x})))

(defn await-call
  "What the first of the functions that `f` is given is called with, or the value of (late) after the limit."
  [f limit late]
  (let [answer (CompletableFuture.)]
    (f #(count-late (.complete answer %))
       #(count-late (.completeExceptionally answer (reason-of %))))
    (try
      (await-stage answer limit late)
      (finally (.cancel answer false)))))

(defn to-channel [^CompletionStage stage]
  (let [^Channel out (fibers/result-channel)]
    (.whenComplete stage (reify BiConsumer
                           (accept [_ value error]
                             (if (nil? error)
                               (.finish out value)
                               (.close out (failure-of error))))))
    out))

(defn- closed-for [cause]
  (if (instance? Throwable cause)
    cause
    (ex-info (str "The channel was closed for a cause: " (arguments/show cause)) {:cause cause})))

(defn- fulfil
  "Completes the stage with what was taken from ch: null if that is closed, its cause if it was closed for one."
  [^CompletableFuture stage ch value]
  (let [cause (when (and (nil? value) (instance? Channel ch)) (.cause ^Channel ch))]
    (if (nil? cause)
      (.complete stage value)
      (.completeExceptionally stage (closed-for cause)))))

(defn to-stage ^CompletableFuture [ch]
  (let [stage (CompletableFuture.)
        callback (Callback. (ports/completion #(fulfil stage ch %)) false)
        value (ports/take-later ch callback)]
    (if (ports/pending? value)
      (.whenComplete stage (reify BiConsumer
                             (accept [_ _ _] (.claim callback))))
      (fulfil stage ch value))
    stage))
