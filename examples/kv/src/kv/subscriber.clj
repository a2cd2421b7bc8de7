(ns kv.subscriber
  "Publish and subscribe. A server for each client that subscribes: it sends what is published, while the client's process waits for commands.

  It registers the channels, so a message that is published after the confirmation is sent after it. The size of what waits in its mailbox is
  counted. A client that reads too slowly for :pubsub-buffer is disconnected."
  (:require
   [kv.glob :as glob]
   [kv.resp :as resp]
   [kv.socket :as socket]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.gen-server :as gs]
   [magnetar.registry :as registry])
  (:import
   (java.util.concurrent.atomic AtomicLong)))

(set! *warn-on-reflection* true)

(defn start-registry
  "Starts the registry of channels and patterns."
  []
  (registry/start-link {:keys :duplicate :name :kv/subscriptions}))

;; ---- publish

(defn- push
  "Sends the text to a subscriber, unless too much waits there."
  [[pid {:keys [^AtomicLong waiting limit]}] ^String text]
  (if (< (long limit) (.addAndGet waiting (.length text)))
    (actor/exit pid [:shutdown :slow-subscriber])
    (! pid [:push text])))

(defn publish
  "Sends a message to the subscribers of the channel; returns how many they are."
  [channel message]
  (let [direct (registry/lookup :kv/subscriptions [:channel channel])
        patterned (registry/match :kv/subscriptions :pattern #((:matches? %) channel))]
    (when (seq direct)
      (let [text (resp/written ["message" channel message])]
        (run! #(push % text) direct)))
    (doseq [[_ {:keys [pattern]} :as subscriber] patterned]
      (push subscriber (resp/written ["pmessage" pattern channel message])))
    (+ (count direct) (count patterned))))

;; ---- the server

(defn start-link
  "Starts the subscriber of a connection."
  [conn limit]
  (gs/start-link 'kv.subscriber {:conn conn :names #{} :flow {:waiting (AtomicLong.) :limit limit}}))

(defn change
  "Lets it subscribe or unsubscribe; returns the number of subscriptions."
  [subscriber command]
  (gs/call subscriber command {:timeout :infinity}))

(defn init
  "The state: :conn, :names with [kind name] of what is subscribed, and :flow, the size of what waits and its limit."
  [state]
  [:ok state])

(defn- register [{:keys [names flow]} [kind word :as name]]
  (when-not (names name)
    (case kind
      :channel (registry/register :kv/subscriptions name flow)
      :pattern (registry/register :kv/subscriptions :pattern (assoc flow :pattern word :matches? (glob/matcher word))))))

(defn- unregister [[kind word :as name]]
  (case kind
    :channel (registry/unregister :kv/subscriptions name)
    :pattern (registry/unregister-match :kv/subscriptions :pattern #(= word (:pattern %)))))

(defn- confirm [{:keys [conn names]} verb word]
  (socket/send-text conn (resp/written [verb word (count names)])))

(defn- subscribe [verb kind]
  (fn [state word]
    (let [name [kind word]]
      (register state name)
      (doto (update state :names conj name)
        (confirm verb word)))))

(defn- unsubscribe [verb kind]
  (fn [state word]
    (let [name [kind word]]
      (unregister name)
      (doto (update state :names disj name)
        (confirm verb word)))))

(defn- all-words [{:keys [names]} kind]
  (or (seq (for [[k word] names :when (= k kind)] word))
      [nil]))

(defn handle-call
  "[verb & words] as the client has sent it: confirms each, and answers with the number of subscriptions."
  [[verb & words] _ state]
  (let [state (case verb
                "subscribe" (reduce (subscribe verb :channel) state words)
                "psubscribe" (reduce (subscribe verb :pattern) state words)
                "unsubscribe" (reduce (unsubscribe verb :channel) state (or words (all-words state :channel)))
                "punsubscribe" (reduce (unsubscribe verb :pattern) state (or words (all-words state :pattern))))]
    [:reply (count (:names state)) state]))

(defn handle-cast
  "Nothing is cast."
  [_ state]
  [:noreply state])

(defn handle-info
  "[:push text]: what was published."
  [[_ ^String text] {:keys [conn flow] :as state}]
  (socket/send-text conn text)
  (.addAndGet ^AtomicLong (:waiting flow) (- (.length text)))
  [:noreply state])
