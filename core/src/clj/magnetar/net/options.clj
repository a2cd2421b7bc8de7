(ns magnetar.net.options
  "Checks the options of connections and listeners."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(def of-connection
  "The options of a connection, which `set-options` changes."
  [:active :packet :max-packet :as :send-timeout :nodelay :keepalive])

(def of-connect "The options of `connect`." (into of-connection [:timeout :else]))
(def of-accept "The options of `accept`." of-connect)
(def of-listen "The options of `listen`." (into of-connection [:host :backlog :reuse-address]))

(def defaults
  "What a connection has where no option says otherwise. :active depends on the owner."
  {:packet :raw :max-packet 1048576 :as :bytes :send-timeout :infinity :nodelay true :keepalive false})

(def ^:const most-messages "The largest number of messages in :active." 32767)
(def ^:const longest-packet "The most bytes of a packet that is received." 0x40000000)

(defn- refuse [what wanted x]
  (arguments/misuse :magnetar/bad-option (str (arguments/subject what) " " wanted "; this is " (arguments/show x) ".")
                    (assoc (arguments/data what x) :reason :einval)))

(defn- check-active [active]
  (when-not (or (boolean? active) (= :once active) (and (int? active) (<= 1 (long active) most-messages)))
    (refuse :active (str ":once, true, false or a number of messages from 1 to " most-messages) active)))

(defn- check-one-of [what known words x]
  (when-not (contains? known x)
    (refuse what words x)))

(defn- check-send-timeout [x]
  (when (zero? (arguments/nanos :send-timeout x))
    (refuse :send-timeout "a duration above 0 or :infinity" x)))

(defn- check [[what x]]
  (case what
    :active (check-active x)
    :packet (check-one-of :packet #{:raw :line 1 2 4} ":raw, :line or the bytes of a length header, 1, 2 or 4" x)
    :as (check-one-of :as #{:bytes :string} ":bytes or :string" x)
    :max-packet (arguments/whole :max-packet x longest-packet)
    :backlog (arguments/whole :backlog x Integer/MAX_VALUE)
    :send-timeout (check-send-timeout x)
    :timeout (arguments/nanos :timeout x)
    (:nodelay :keepalive :reuse-address) (check-one-of what #{true false} "true or false" x)
    (:host :else) nil))

(defn checked
  "The options, which must be known to the operation and have values that will do."
  [operation known options]
  (arguments/options operation known options)
  (run! check options)
  (or options {}))

(defn check-port
  "Refuses what is no number of a port."
  [operation port least]
  (when-not (and (int? port) (<= (long least) (long port) 65535))
    (arguments/misuse :magnetar/bad-option
                      (str "`" operation "` wants a port, a whole number from " least " to 65535; this is " (arguments/show port) ".")
                      {:value port :reason :einval})))

(defn check-host
  "Refuses what names no host."
  [operation host]
  (when-not (and (string? host) (seq host))
    (arguments/misuse :magnetar/bad-option
                      (str "`" operation "` wants a host, the name or the address as a string; this is " (arguments/show host) ".")
                      {:value host :reason :einval})))
