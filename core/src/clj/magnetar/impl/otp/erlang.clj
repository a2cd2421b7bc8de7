(ns magnetar.impl.otp.erlang
  "Requests of `magnetar.sys` between servers here and servers of Erlang, in the words of both. A request of Erlang is within
  [:magnetar/erlang request] on this side. The transport knows the envelopes, and nothing of the words."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.nodes :as nodes]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (java.time LocalDateTime ZoneId)
   (java.util Date)
   (magnetar.kernel.process Pid Ref)))

(set! *warn-on-reflection* true)

(defn there?
  "Is the server on a node of Erlang? It is what `magnetar.impl.otp.request/found` has found: an address that is looked up
  twice may be on no node at first, and then on one of Erlang."
  [found]
  (and (some? found) (nodes/erlang? found)))

;; ---- terms

(defn- charlist
  "The text as a string of Erlang."
  [text]
  (map long text))

(declare term-of)

(defn- entries [m]
  (into {} (map (fn [[k v]] [(term-of k) (term-of v)])) m))

(defn- term-of [x]
  (cond
    (or (nil? x) (keyword? x) (string? x) (boolean? x) (integer? x) (instance? Pid x) (instance? Ref x)) x
    (symbol? x) (keyword x)
    (map? x) (entries x)
    (vector? x) (mapv term-of x)
    (or (seq? x) (set? x)) (apply list (map term-of x))
    (double? x) (if (Double/isFinite x) x (str x))
    :else (codec/text x)))

(defn term
  "The value as data of bounded size that has a term in Erlang. A symbol becomes an atom, a set a list, and the rest text."
  [x]
  (term-of (codec/plain x)))

;; ---- requests of Erlang to a server here

;; A request of Erlang: its `from`, and the word that decides how its answer is written.
(deftype Asked [from word])

(defn- own-debug [what]
  (let [[word x] (if (vector? what) what [what])]
    (cond
      (= :no_debug word) [:no-debug]
      (and (= :remove word) (vector? what)) what
      (and (#{:trace :log :statistics} word) (boolean? x)) what
      (and (#{:log :statistics} word) (= :get x)) what
      (and (= :log word) (vector? x) (true? (first x)) (pos-int? (peek x))) [:log (peek x)]
      :else [:refused :unknown_debug])))

(defn- own-request [request]
  (let [[word a b c] (if (vector? request) request [request])]
    (case word
      (:suspend :resume) [word]
      :get_state [:get-state]
      :get_status [:get-status]
      :terminate [:terminate a]
      :change_code [:change-code b c]
      :debug (own-debug a)
      :replace_state [:refused [:error [:notsup "Functions of Erlang do not run on this node."]]]
      [:refused [:error [:unknown_system_msg request]]])))

(defn own
  "[from request] in the words of this library, and the request is a vector. A request of Erlang gets an Asked as its `from`."
  [from request]
  (let [[word x :as request] (if (vector? request) request [request])]
    (if (identical? :magnetar/erlang word)
      (let [request (own-request x)]
        [(Asked. from (first request)) request])
      [from request])))

;; ---- answers to Erlang

(defn- date-term [^Date date]
  (let [at (LocalDateTime/ofInstant (.toInstant date) (ZoneId/systemDefault))]
    [[(.getYear at) (.getMonthValue at) (.getDayOfMonth at)] [(.getHour at) (.getMinute at) (.getSecond at)]]))

(defn- statistics-term [known]
  (if (map? known)
    (list [:start_time (date-term (:start-time known))]
          [:current_time (date-term (:current-time known))]
          [:messages_in (:messages-in known)]
          [:messages_out (:messages-out known)])
    :no_statistics))

(defn- state-shown [{:keys [state data] :as status}]
  (term (if (contains? status :data) [state data] state)))

(defn- status-term
  "The status as the `sys` of Erlang has it."
  [{:keys [pid name callback-module status parent dictionary log] :as all}]
  [:status pid [:module (keyword (term callback-module))]
   (list (apply list (map term dictionary))
         status
         (or parent pid)
         ()
         (list [:header (charlist (str "Status for server " (codec/text name)))]
               [:data (list [(charlist "Status") status]
                            [(charlist "Parent") (or parent pid)]
                            [(charlist "Logged events") (apply list (map term log))])]
               [:data (list [(charlist "State") (state-shown all)])]))])

(defn answer
  "The answer of a server here to a request of Erlang."
  [word value]
  (let [[how x] (when (vector? value) value)]
    (case word
      :get-state (if (= :ok how) x value)
      :get-status (status-term value)
      :statistics (if (= :ok how) [:ok (statistics-term x)] value)
      :log (if (= :ok how) [:ok (apply list x)] value)
      value)))

;; ---- requests of this library to a server of Erlang

(defn- refuse [operation server why]
  (arguments/misuse :magnetar/not-here
                    (str "`" operation "` " why ", and " (arguments/show server) " is on a node of Erlang. Call it there.")
                    {:server server}))

(defn asked
  "The request in Erlang's words; `called` is what the program called, [operation server ..]."
  [[operation server] [word a :as request]]
  [:magnetar/erlang
   (case word
     (:suspend :resume) word
     :get-state :get_state
     :get-status :get_status
     :terminate request
     (:trace :statistics :remove) [:debug request]
     :log [:debug [:log (if (int? a) [true a] a)]]
     (:replace-state :install) (refuse operation server "takes a function, which no other node can run")
     (refuse operation server "works on servers of this library"))])

(defn- own-statistics [known]
  (if (keyword? known)
    :no-statistics
    (let [{:keys [start_time current_time messages_in messages_out]} (into {} known)]
      {:start-time start_time :current-time current_time :messages-in messages_in :messages-out messages_out})))

(defn- own-status [[_ pid [_ module] [dictionary status parent debug misc]]]
  {:pid pid :module module :status status :parent parent :dictionary (into {} dictionary) :debug debug :misc misc})

(defn answered
  "The answer of a server of Erlang to the request with the word."
  [word value]
  (let [[how x] (when (vector? value) value)]
    (case word
      :get-state (if (= :error how) value [:ok value])
      :get-status (if (= :status how) (own-status value) value)
      :statistics (if (= :ok how) [:ok (own-statistics x)] value)
      :log (if (= :ok how) [:ok (vec x)] value)
      value)))
