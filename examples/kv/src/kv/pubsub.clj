(ns kv.pubsub
  "Publish and subscribe. The process of a client registers its channels, and gets what is published as a
  message [:push name text], in which name is [:channel word] or [:pattern word].

  The size of what waits in its mailbox is counted. A client that reads too slowly for :pubsub-buffer is
  disconnected."
  (:require
   [kv.glob :as glob]
   [kv.resp :as resp]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.registry :as registry])
  (:import
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

(defn start-registry
  "Starts the registry of channels and patterns."
  []
  (registry/start-link {:keys :duplicate :name :kv/subscriptions}))

(defn flow
  "Counts the size of what waits for a client, up to a limit."
  [limit]
  {:waiting (AtomicLong.) :limit limit})

(defn sent
  "What was pushed does not wait any more."
  [{:keys [^AtomicLong waiting]} ^String text]
  (.addAndGet waiting (- (.length text))))

(defn- push
  "Sends the text to a subscriber, unless too much waits there."
  [pid {:keys [^AtomicLong waiting limit]} name ^String text]
  (if (< (long limit) (.addAndGet waiting (.length text)))
    (actor/exit pid [:shutdown :slow-subscriber])
    (! pid [:push name text])))

(defn publish
  "Sends a message to the subscribers of the channel; returns how many they are."
  [channel message]
  (let [direct (registry/lookup :kv/subscriptions [:channel channel])
        patterned (registry/match :kv/subscriptions :pattern #((:matches? %) channel))]
    (when (seq direct)
      (let [text (resp/written ["message" channel message])]
        (doseq [[pid flow] direct]
          (push pid flow [:channel channel] text))))
    (doseq [[pid {:keys [pattern flow]}] patterned]
      (push pid flow [:pattern pattern] (resp/written ["pmessage" pattern channel message])))
    (+ (count direct) (count patterned))))

(defn subscribe
  "Subscribes this process to a name."
  [[kind word :as name] flow]
  (case kind
    :channel (registry/register :kv/subscriptions name flow)
    :pattern (registry/register :kv/subscriptions :pattern
                                {:pattern word :matches? (glob/matcher word) :flow flow})))

(defn unsubscribe
  "Undoes `subscribe`."
  [[kind word :as name]]
  (case kind
    :channel (registry/unregister :kv/subscriptions name)
    :pattern (registry/unregister-match :kv/subscriptions :pattern #(= word (:pattern %)))))
