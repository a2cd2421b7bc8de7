(ns magnetar.net.options
  "Checks the options of connections and listeners."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.bits.engine :as engine]
   [magnetar.impl.runtime])
  (:import
   (magnetar.impl.bits.engine Layout)))

(set! *warn-on-reflection* true)

(def of-connection
  "The options of a connection, which `set-options` changes."
  [:active :packet :max-packet :as :send-timeout :idle-timeout :exit-on-close :nodelay :keepalive :linger
   :recbuf
   :sndbuf])

(def of-connect "The options of `connect`." (into of-connection [:tls :timeout :else]))
(def of-connect-to-path "The options of `connect` to a path." (into of-connection [:timeout :else]))
(def of-accept "The options of `accept`." of-connect-to-path)
(def of-listen "The options of `listen`."
  (into of-connection [:host :backlog :reuse-address :max-connections :tls]))
(def of-path "The options of `listen` on a path." (into of-connection [:backlog :max-connections]))

(def of-udp "The options of a UDP socket, which `set-options` changes."
  [:active :as :broadcast :recbuf :sndbuf :multicast-ttl :multicast-loop :add-membership :drop-membership])
(def of-open "The options of `open`." (into of-udp [:host :reuse-address]))

(def defaults
  "What a connection has where no option says otherwise. :active depends on the owner."
  {:packet :raw :max-packet 1048576 :as :bytes :send-timeout :infinity :idle-timeout :infinity :exit-on-close
   true
   :nodelay true :keepalive false :linger false})

(def ^:const most-messages "The largest number of messages in :active." 32767)
(def ^:const longest-packet "The most bytes of a packet that is received." 0x40000000)

(defn- refuse [what wanted x]
  (arguments/misuse :magnetar/bad-option (str (arguments/subject what) " " wanted "; this is "
                                              (arguments/show x) ".")
                    (assoc (arguments/data what x) :reason :einval)))

(defn check-messages
  "The number of messages that :active counts after a number was added, which is refused if it is too large."
  [n]
  (if (< most-messages (long n))
    (refuse :active (str "at most " most-messages " together with what is left of the number before") n)
    n))

(defn check-active
  "Refuses what is no value of :active."
  [active]
  (when-not (or (boolean? active) (= :once active) (and (int? active) (<= 1 (long active) most-messages)))
    (refuse :active (str ":once, true, false or a number of messages from 1 to " most-messages) active)))

(defn active-after-one
  "The value of :active after one more message."
  [active]
  (cond
    (true? active) true
    (and (int? active) (< 1 (long active))) (dec (long active))
    :else false))

(defn- check-one-of [what known words x]
  (when-not (contains? known x)
    (refuse what words x)))

(defn- check-limit [what x]
  (when (zero? (arguments/nanos what x))
    (refuse what "a duration above 0 or :infinity" x)))

(defn- check-linger [x]
  (when-not (false? x)
    (when (or (= :infinity x) (< (* 65535 1000000000) (arguments/nanos :linger x)))
      (refuse :linger "false or a duration of at most 65535 seconds" x))))

(defn- check-ttl [x]
  (when-not (and (int? x) (<= 0 (long x) 255))
    (refuse :multicast-ttl "a number from 0 to 255" x)))

(defn- check-group [what x]
  (when-not (and (string? x) (seq x))
    (refuse what "the address of a multicast group, a string" x)))

(defn- check-layout [x]
  (when (engine/endless? x)
    (refuse :packet "a layout whose last segment has a size, since a stream has no end" x)))

(defn- check-packet [x]
  (cond
    (or (vector? x) (instance? Layout x)) (check-layout x)
    (or (fn? x) (var? x)) nil
    :else (check-one-of :packet #{:raw :line 1 2 4}
                        ":raw, :line, the bytes of a length header, 1, 2 or 4, a function or a layout of bits"
                        x)))

(defn- check [[what x]]
  (case what
    :active (check-active x)
    :packet (check-packet x)
    :as (check-one-of :as #{:bytes :string} ":bytes or :string" x)
    :max-packet (arguments/whole :max-packet x longest-packet)
    (:backlog :max-connections) (arguments/whole what x Integer/MAX_VALUE)
    (:send-timeout :idle-timeout) (check-limit what x)
    :linger (check-linger x)
    (:recbuf :sndbuf) (arguments/whole what x Integer/MAX_VALUE)
    :timeout (arguments/nanos :timeout x)
    :multicast-ttl (check-ttl x)
    (:add-membership :drop-membership) (check-group what x)
    (:exit-on-close :nodelay :keepalive :reuse-address :broadcast :multicast-loop)
    (check-one-of what #{true false} "true or false" x)
    (:host :else :tls) nil))

(defn- with-compiled-layout [{:keys [packet] :as options}]
  (if (vector? packet)
    (assoc options :packet (engine/layout-of packet))
    options))

(defn checked
  "The options, which must be known to the operation and have values that will do. A layout is compiled."
  [operation known options]
  (arguments/options operation known options)
  (run! check options)
  (or (with-compiled-layout options) {}))

(defn refuse-data
  "Refuses what is no data to send."
  [operation data]
  (arguments/misuse :magnetar/not-sendable
                    (str "`" operation "` wants a string or an array of bytes; this is " (arguments/show data)
                         ".") {:value data :reason :einval}))

(defn refuse-group
  "Refuses an address that is no multicast group."
  [operation host]
  (arguments/misuse :magnetar/bad-option
                    (str "`" operation "` wants the address of a multicast group, such as 239.1.2.3; this "
                         "is " (arguments/show host) ".")
                    {:value host :reason :einval}))

(defn check-path
  "Refuses what is no map with the path of a unix socket."
  [operation {:keys [path] :as place}]
  (when-not (and (= [:path] (keys place)) (string? path) (seq path))
    (arguments/misuse :magnetar/bad-option
                      (str "`" operation "` wants the place of a unix socket as {:path \"/run/my.sock\"}; "
                           "this is " (arguments/show place) ".")
                      {:value place :reason :einval})))

(defn check-port
  "Refuses what is no number of a port."
  [operation port least]
  (when-not (and (int? port) (<= (long least) (long port) 65535))
    (arguments/misuse :magnetar/bad-option
                      (str "`" operation "` wants a port, a whole number from " least " to 65535; this is "
                           (arguments/show port) ".")
                      {:value port :reason :einval})))

(defn check-host
  "Refuses what names no host."
  [operation host]
  (when-not (and (string? host) (seq host))
    (arguments/misuse :magnetar/bad-option
                      (str "`" operation "` wants a host, the name or the address as a string; this is "
                           (arguments/show host) ".")
                      {:value host :reason :einval})))
