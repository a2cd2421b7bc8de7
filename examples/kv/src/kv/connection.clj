(ns kv.connection
  "The process of a client: reads commands, and answers those that have come together in one write."
  (:require
   [clojure.string :as str]
   [kv.commands :as commands]
   [kv.glob :as glob]
   [kv.resp :as resp]
   [kv.socket :as socket]
   [kv.store :as store]
   [kv.subscriber :as subscriber]
   [magnetar.actor :as actor]))

(set! *warn-on-reflection* true)

;; A client is a map: the :conn, the :options of the server, its :subscriber or nil with the number of its :subscriptions, and :end? once it
;; shall be disconnected.

;; ---- commands of the connection: (f client words) returns [client reply], or [client] where the reply is sent already

(def ^:private settings
  "What CONFIG GET shows."
  (juxt #(vector "appendonly" (if (:open-disk %) "yes" "no"))
        #(vector "appendfsync" (name (:appendfsync %)))
        #(vector "maxclients" (str (:maxclients %)))
        (constantly ["save" ""])))

(defn- config [{:keys [options] :as client} [_ subcommand & patterns]]
  [client (if (= "GET" (str/upper-case subcommand))
            (into [] cat (for [[k v] (settings options) :when (some #((glob/matcher %) k) (map str/lower-case patterns))] [k v]))
            (resp/->Failure (str "ERR unknown subcommand '" subcommand "'. Try CONFIG HELP.")))])

(defn- info [client _]
  (let [size (first (store/execute-reads (:options client) [["DBSIZE"]]))]
    [client (str "# Server\r\nserver_name:magnetar-kv\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
                 "# Keyspace\r\ndb0:keys=" size "\r\n")]))

(defn- hello [client [_ version]]
  [client (if (contains? #{nil "2"} version)
            ["server" "redis" "version" "7.0.0" "proto" 2 "mode" "standalone" "role" "master" "modules" []]
            (resp/->Failure "NOPROTO unsupported protocol version"))])

(defn- ping [{:keys [subscriptions] :as client} [_ message]]
  [client (if (pos? (long subscriptions))
            ["pong" (or message "")]
            (or message :PONG))])

(defn- select [client [_ index]]
  (let [n (resp/whole-number index)]
    [client (cond
              (nil? n) (resp/->Failure "ERR value is not an integer or out of range")
              (= 0 n) :OK
              :else (resp/->Failure "ERR DB index is out of range"))]))

(defn- with-subscriber [{:keys [conn options subscriber] :as client}]
  (if subscriber
    client
    (assoc client :subscriber (second (subscriber/start-link conn (:pubsub-buffer options))))))

(defn- subscribe [client [verb & words]]
  (let [{:keys [subscriber] :as client} (with-subscriber client)]
    [(assoc client :subscriptions (subscriber/change subscriber (into [(str/lower-case verb)] words)))]))

;; :subscribed? is for a command that a client with subscriptions may send, :sends? for one whose reply the subscriber sends.
(def ^:private own-commands
  {"PING"         {:arity -1 :most 2 :f ping :subscribed? true}
   "ECHO"         {:arity 2 :f (fn [client [_ message]] [client message])}
   "SELECT"       {:arity 2 :f select}
   "QUIT"         {:arity -1 :f (fn [client _] [(assoc client :end? true) :OK]) :subscribed? true}
   "COMMAND"      {:arity -1 :f (fn [client _] [client []])}
   "CONFIG"       {:arity -2 :f config}
   "INFO"         {:arity -1 :f info}
   "HELLO"        {:arity -1 :f hello}
   "PUBLISH"      {:arity 3 :f (fn [client [_ channel message]] [client (subscriber/publish channel message)])}
   "SUBSCRIBE"    {:arity -2 :f subscribe :subscribed? true :sends? true}
   "PSUBSCRIBE"   {:arity -2 :f subscribe :subscribed? true :sends? true}
   "UNSUBSCRIBE"  {:arity -1 :f subscribe :subscribed? true :sends? true}
   "PUNSUBSCRIBE" {:arity -1 :f subscribe :subscribed? true :sends? true}})

(defn- clip [text]
  (subs text 0 (min 128 (count text))))

(defn- unknown [[name & arguments]]
  (resp/->Failure (str "ERR unknown command '" (clip name) "', with args beginning with: "
                       (str/join (map #(str "'" (clip %) "' ") (take 20 arguments))))))

(defn- restricted [name]
  (resp/->Failure (str "ERR Can't execute '" (str/lower-case name)
                       "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")))

(defn- own
  "The outcome of a command that is not one on data."
  [{:keys [subscriptions] :as client} [name :as command]]
  (let [{:keys [arity most f subscribed?]} (own-commands (str/upper-case name))]
    (cond
      (not (or f (commands/lookup name))) [client (unknown command)]
      (and (pos? (long subscriptions)) (not subscribed?)) [client (restricted name)]
      (not (commands/arity-fits? arity most (count command))) [client (commands/wrong-arity name)]
      :else (f client command))))

;; ---- answers

(defn- flush-replies [{:keys [conn]} ^StringBuilder out]
  (when (pos? (.length out))
    (socket/send-text conn (str out))
    (.setLength out 0)))

(defn- on-data?
  "Is it a command on data that may be executed now?"
  [{:keys [subscriptions]} [name]]
  (and (zero? (long subscriptions)) (some? (commands/lookup name))))

(defn- answer-own [client command out]
  (when (:sends? (own-commands (str/upper-case (first command))))
    (flush-replies client out))
  (let [[client & [reply :as replies]] (own client command)]
    (when replies
      (resp/write out reply))
    client))

(defn- answer-data [{:keys [options]} commands out]
  (run! #(resp/write out %)
        (if (some commands/write? commands)
          (store/execute-writes commands)
          (store/execute-reads options commands))))

(defn- answer-all
  "Answers commands in their order; returns the client. Neighbours on data are executed together."
  [client commands out]
  (let [[on-data [command & more]] (split-with #(on-data? client %) commands)]
    (when (seq on-data)
      (answer-data client (vec on-data) out))
    (if command
      (let [{:keys [end?] :as client} (answer-own client command out)]
        (if end?
          client
          (recur client more out)))
      client)))

(defn- commands-in
  "The whole commands in the bytes of the parser: [commands parser]."
  [parser]
  (loop [commands [] parser (resp/next-command parser)]
    (if-some [command (:command parser)]
      (recur (conj commands command) (resp/next-command parser))
      [commands parser])))

(defn- answer [client commands error]
  (let [out (StringBuilder.)
        client (answer-all client commands out)]
    (when (and error (not (:end? client)))
      (resp/write out (resp/->Failure error)))
    (flush-replies client out)
    (cond-> client error (assoc :end? true))))

(defn- serve [{:keys [conn] :as client} parser]
  (when-some [bytes (socket/receive-bytes conn (:missing parser))]
    (let [[commands parser] (commands-in (resp/add parser bytes))
          client (answer client commands (:error parser))]
      (when-not (:end? client)
        (recur client parser)))))

(defn- run [conn options]
  (serve {:conn conn :options options :subscriptions 0} (resp/parser {:max-bulk (:proto-max-bulk-len options)}))
  (actor/exit :shutdown)) ; ends its subscriber too

(defn start-link
  "Starts the process of a connection."
  [conn options]
  [:ok (actor/spawn-link run conn options)])
