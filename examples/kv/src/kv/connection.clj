(ns kv.connection
  "The process of a client: reads commands, and answers those that have come together in one write."
  (:require
   [clojure.string :as str]
   [kv.commands :as commands]
   [kv.glob :as glob]
   [kv.pubsub :as pubsub]
   [kv.resp :as resp]
   [kv.socket :as socket]
   [kv.store :as store]
   [magnetar.actor :as actor :refer [receive]]))

(set! *warn-on-reflection* true)

;; A client is a map: the :conn, its :id, the :options of the server, the :names to which it has subscribed,
;; the :flow of what is published to it, and :end? once it shall be disconnected.

;; ---- commands of the connection: (f client words) returns [client & replies]

(def ^:private settings
  "What CONFIG GET shows."
  (juxt #(vector "appendonly" (if (:open-file %) "yes" "no"))
        #(vector "appendfsync" (name (:appendfsync %)))
        #(vector "maxclients" (str (:maxclients %)))
        (constantly ["save" ""])))

(defn- config-get [{:keys [options] :as client} patterns]
  (let [matchers (mapv (comp glob/matcher str/lower-case) patterns)]
    [client (into [] (comp (filter (fn [[k]] (some #(% k) matchers))) cat) (settings options))]))

(defn- config [client [_ subcommand & patterns]]
  (cond
    (not= "GET" (str/upper-case subcommand))
    [client (resp/->Failure (str "ERR unknown subcommand '" subcommand "'. Try CONFIG HELP."))]
    (empty? patterns) [client (commands/wrong-arity "config|get")]
    :else (config-get client patterns)))

(defn- info [client _]
  (let [size (first (store/execute-reads (:options client) [["DBSIZE"]]))]
    [client (str "# Server\r\nserver_name:magnetar-kv\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
                 "# Keyspace\r\ndb0:keys=" size "\r\n")]))

(defn- hello [{:keys [id] :as client} [_ version option]]
  [client (cond
            (nil? (resp/whole-number (or version "2")))
            (resp/->Failure "ERR Protocol version is not an integer or out of range")
            (not= "2" (or version "2")) (resp/->Failure "NOPROTO unsupported protocol version")
            option (resp/->Failure (str "ERR Syntax error in HELLO option '" option "'"))
            :else ["server" "redis" "version" "7.0.0" "proto" 2 "id" id "mode" "standalone" "role" "master"
                   "modules" []])])

(defn- ping [{:keys [names] :as client} [_ message]]
  [client (if (seq names)
            ["pong" (or message "")]
            (or message :PONG))])

(defn- select [client [_ index]]
  (let [n (resp/whole-number index)]
    [client (cond
              (nil? n) (resp/->Failure "ERR value is not an integer or out of range")
              (= 0 n) :OK
              :else (resp/->Failure "ERR DB index is out of range"))]))

(defn- confirmed
  "The outcome after the names of the client have become these, one word after the other."
  [client verb words names]
  (into [(assoc client :names (last names))]
        (map (fn [word names] [(str/lower-case verb) word (count names)]) words names)))

(defn- subscribe [kind]
  (fn [{:keys [names flow] :as client} [verb & words]]
    (let [added (map #(vector kind %) words)]
      (run! #(pubsub/subscribe % flow) (remove names (distinct added)))
      (confirmed client verb words (rest (reductions conj names added))))))

(defn- unsubscribe [kind]
  (fn [{:keys [names] :as client} [verb & words]]
    (let [words (or words (seq (for [[k word] names :when (= k kind)] word)) [nil])
          removed (map #(vector kind %) words)]
      (run! pubsub/unsubscribe removed)
      (confirmed client verb words (rest (reductions disj names removed))))))

(defn- publish [client [_ channel message]]
  [client (pubsub/publish channel message)])

;; :subscribed? is for a command that a client with subscriptions may send.
(def ^:private own-commands
  {"PING"         {:arity -1 :most 2 :f ping :subscribed? true}
   "ECHO"         {:arity 2 :f (fn [client [_ message]] [client message])}
   "SELECT"       {:arity 2 :f select}
   "QUIT"         {:arity -1 :f (fn [client _] [(assoc client :end? true) :OK]) :subscribed? true}
   "COMMAND"      {:arity -1 :f (fn [client _] [client []])}
   "CONFIG"       {:arity -2 :f config}
   "INFO"         {:arity -1 :f info}
   "HELLO"        {:arity -1 :f hello}
   "PUBLISH"      {:arity 3 :f publish}
   "SUBSCRIBE"    {:arity -2 :f (subscribe :channel) :subscribed? true}
   "PSUBSCRIBE"   {:arity -2 :f (subscribe :pattern) :subscribed? true}
   "UNSUBSCRIBE"  {:arity -1 :f (unsubscribe :channel) :subscribed? true}
   "PUNSUBSCRIBE" {:arity -1 :f (unsubscribe :pattern) :subscribed? true}})

(def ^:private ^:const longest-excerpt "Characters of an unknown command, and of its arguments." 128)

(defn- clip [text ^long n]
  (subs text 0 (min n (count text))))

(defn- quoted
  "The beginning of the arguments, in quotes."
  [arguments]
  (reduce (fn [text argument]
            (let [left (- longest-excerpt (count text))]
              (if (pos? left)
                (str text "'" (clip argument left) "' ")
                (reduced text))))
          "" arguments))

(defn- unknown [[name & arguments]]
  (resp/->Failure (str "ERR unknown command '" (clip name longest-excerpt) "', with args beginning with: "
                       (quoted arguments))))

(defn- restricted [name]
  (resp/->Failure (str "ERR Can't execute '" (str/lower-case name)
                       "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET"
                       " are allowed in this context")))

(defn- own
  "The outcome of a command that is not one on data."
  [{:keys [names] :as client} [name :as command]]
  (let [{:keys [arity most f subscribed?]} (own-commands (str/upper-case name))]
    (cond
      (not (or f (commands/lookup name))) [client (unknown command)]
      (and (seq names) (not subscribed?)) [client (restricted name)]
      (not (commands/arity-fits? arity most (count command))) [client (commands/wrong-arity name)]
      :else (f client command))))

;; ---- answers. `out` is the StringBuilder of those that are not sent yet. All answers to commands that have come
;; together are sent at once, unless they are too large to be kept.

(def ^:private ^:const most-unsent "Characters of answers that are kept, for a client that does not read, too." 65536)

(defn- send-answers [{:keys [conn]} ^StringBuilder out]
  (when (pos? (.length out))
    (socket/send-text conn (str out))
    (.setLength out 0)))

(defn- add-answer [client ^StringBuilder out reply]
  (resp/write out reply)
  (when (< most-unsent (.length out))
    (send-answers client out)))

(defn- on-data?
  "Is it a command on data that may be executed now?"
  [{:keys [names]} [name]]
  (and (empty? names) (some? (commands/lookup name))))

(defn- answer-own [client command out]
  (let [[client & replies] (own client command)]
    (run! #(add-answer client out %) replies)
    client))

(defn- answer-data [{:keys [options] :as client} commands out]
  (run! #(add-answer client out %)
        (if (some commands/write? commands)
          (store/execute-writes options commands)
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
    (send-answers client out)
    (cond-> client error (assoc :end? true))))

;; ---- the process

(defn- await-bytes
  "Waits for the next bytes of a client with subscriptions, and sends what is published meanwhile."
  [{:keys [conn names flow] :as client}]
  (receive
    [:push name text] (do (pubsub/sent flow text)
                          (when (names name)
                            (socket/send-text conn text))
                          (recur client))
    [:tcp _ bytes] bytes
    [:tcp-closed _] nil
    [:tcp-error _ _] nil))

(defn- next-bytes
  "The next bytes of a client, nil if it has left."
  [{:keys [conn names] :as client} parser]
  (if (empty? names)
    (socket/receive-bytes conn (:missing parser))
    (do (socket/ask-for-message conn)
        (await-bytes client))))

(defn- serve [client parser]
  (when-some [bytes (next-bytes client parser)]
    (let [[commands parser] (commands-in (resp/add parser bytes))
          client (answer client commands (:error parser))]
      (when-not (:end? client)
        (recur client parser)))))

(defn- run [conn id {:keys [proto-max-bulk-len pubsub-buffer] :as options}]
  (serve {:conn conn :id id :options options :names #{} :flow (pubsub/flow pubsub-buffer)}
         (resp/parser {:max-bulk proto-max-bulk-len})))

(defn start-link
  "Starts the process of a connection."
  [conn id options]
  [:ok (actor/spawn-link run conn id options)])
