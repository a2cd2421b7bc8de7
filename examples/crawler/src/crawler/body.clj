(ns crawler.body
  "Bodies of answers, with a cap and a deadline.

  `HttpClient/send` bounds the wait for an answer's head only. A body may still be endless, or trickle
  for ever, so these subscribers stop reading at a size and at a time, and drop the connection."
  (:import
   (java.io ByteArrayOutputStream)
   (java.net.http HttpResponse$BodyHandler HttpResponse$BodySubscriber HttpResponse$ResponseInfo)
   (java.nio ByteBuffer)
   (java.util List)
   (java.util.concurrent CompletableFuture CompletionStage Flow$Subscription TimeUnit)
   (java.util.function BiConsumer)))

(set! *warn-on-reflection* true)

(defn- append
  "Moves what `buffer` holds to the end of `out`."
  [^ByteArrayOutputStream out ^ByteBuffer buffer]
  (let [bytes (byte-array (.remaining buffer))]
    (.get buffer bytes)
    (.writeBytes out bytes)))

(defn- too-large [max-bytes]
  (ex-info (str "The body is larger than " max-bytes " bytes.") {:reason :too-large}))

(defn- cancel-when-done
  "Drops the connection of `subscription` as soon as `body` is settled, well or badly."
  [^CompletableFuture body ^Flow$Subscription subscription]
  (.whenComplete body (reify BiConsumer (accept [_ _ _] (.cancel subscription)))))

(defn- collect
  "Returns a subscriber whose body is a byte array of at most `max-bytes`, complete within `timeout` ms."
  ^HttpResponse$BodySubscriber [{:keys [max-bytes timeout]}]
  (let [body (CompletableFuture.)
        out  (ByteArrayOutputStream.)]
    (reify HttpResponse$BodySubscriber
      (^CompletionStage getBody [_] body)
      (^void onSubscribe [_ ^Flow$Subscription subscription]
        (.orTimeout body timeout TimeUnit/MILLISECONDS)
        (cancel-when-done body subscription)
        (.request subscription Long/MAX_VALUE))
      (onNext [_ buffers]
        (when-not (.isDone body)
          (run! #(append out %) ^List buffers)
          (when (> (.size out) (long max-bytes))
            (.completeExceptionally body (too-large max-bytes)))))
      (^void onError [_ ^Throwable failure] (.completeExceptionally body failure))
      (^void onComplete [_] (.complete body (.toByteArray out))))))

(defn- skip
  "Returns a subscriber that drops the connection unread; its body is empty."
  ^HttpResponse$BodySubscriber []
  (reify HttpResponse$BodySubscriber
    (^CompletionStage getBody [_] (CompletableFuture/completedFuture (byte-array 0)))
    (^void onSubscribe [_ ^Flow$Subscription subscription] (.cancel subscription))
    (onNext [_ _])
    (^void onError [_ ^Throwable _])
    (^void onComplete [_])))

(defn handler
  "Returns a handler that reads the bodies which `wanted?` (a function of status and headers) asks for, as
  byte arrays, and none of the others. Reading fails beyond `:max-bytes` and after `:timeout` ms."
  ^HttpResponse$BodyHandler [wanted? limits]
  (reify HttpResponse$BodyHandler
    (^HttpResponse$BodySubscriber apply [_ ^HttpResponse$ResponseInfo info]
      (if (wanted? (.statusCode info) (.headers info))
        (collect limits)
        (skip)))))
