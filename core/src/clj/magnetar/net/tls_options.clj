(ns magnetar.net.tls-options
  "Checks the options of TLS, which have the names of Erlang's ssl."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (javax.net.ssl SNIHostName SSLContext)))

(set! *warn-on-reflection* true)

(def ^:private of-both [:certfile :keyfile :cacertfile :verify :versions :handshake-timeout :context])

(def ^:private known
  {:server (into of-both [:fail-if-no-peer-cert :alpn-preferred-protocols :sni-hosts])
   :client (into of-both [:server-name-indication :alpn-advertised-protocols])})

(def ^:private defaults
  {:server {:verify :verify-none :versions [:tlsv1.3 :tlsv1.2] :handshake-timeout 10000}
   :client {:verify :verify-peer :versions [:tlsv1.3 :tlsv1.2] :handshake-timeout 10000}})

(defn- refuse [option wanted x]
  (arguments/misuse :magnetar/bad-option (str (arguments/subject option) " " wanted "; this is "
                                              (arguments/show x) ".")
                    (assoc (arguments/data option x) :reason :einval)))

(defn- refuse-together [sentence options]
  (arguments/misuse :magnetar/bad-option (str "`:tls` " sentence) {:options options :reason :einval}))

(defn- text? [x]
  (and (string? x) (seq x)))

(defn- vector-of? [fits? x]
  (and (vector? x) (seq x) (every? fits? x)))

(defn- protocol? [x]
  (and (text? x) (<= (count (.getBytes ^String x "UTF-8")) 255)))

(defn host-name
  "The name as TLS sends it; nil if it is not a name, such as an address."
  [name]
  (try
    (when-not (re-matches #"[0-9.]+|.*:.*" name)
      (SNIHostName. ^String name))
    (catch IllegalArgumentException _ nil)))

(def ^:private files [:certfile :keyfile])

(defn- check-hosts [hosts]
  (when-not (and (map? hosts) (every? #(and (string? %) (host-name %)) (keys hosts)))
    (refuse :sni-hosts "a map of names of hosts to {:certfile .. :keyfile ..}" hosts))
  (doseq [[_ host] hosts]
    (arguments/options ":sni-hosts" files host)
    (when-not (and (text? (:certfile host)) (text? (get host :keyfile "same")))
      (refuse :sni-hosts "a map of names of hosts to {:certfile .. :keyfile ..}, paths of files" hosts))))

(defn- name-to-check? [x]
  (or (= :disable x) (and (text? x) (host-name x))))

(defn- ready-context? [x]
  (and (instance? SSLContext x)
       (try
         (some? (.createSSLEngine ^SSLContext x))
         (catch IllegalStateException _ false))))

(def ^:private checks
  "What each option is: a predicate, and words."
  {:certfile [text? "the path of a file"]
   :keyfile [text? "the path of a file"]
   :cacertfile [text? "the path of a file"]
   :verify [#{:verify-peer :verify-none} ":verify-peer or :verify-none"]
   :versions [#(vector-of? #{:tlsv1.3 :tlsv1.2} %) "a vector of :tlsv1.3 and :tlsv1.2, or of one of them"]
   :context [ready-context? "a javax.net.ssl.SSLContext that was initialised by its `init`"]
   :fail-if-no-peer-cert [boolean? "true or false"]
   :alpn-preferred-protocols [#(vector-of? protocol? %)
                              "a vector of names of protocols, as in [\"h2\" \"http/1.1\"]"]
   :alpn-advertised-protocols [#(vector-of? protocol? %)
                               "a vector of names of protocols, as in [\"h2\" \"http/1.1\"]"]
   :server-name-indication [name-to-check? "the name of a host, or :disable"]})

(defn- check [[option x]]
  (case option
    :handshake-timeout (arguments/period option x)
    :sni-hosts (check-hosts x)
    (let [[fits? wanted] (checks option)]
      (when-not (fits? x)
        (refuse option wanted x)))))

(defn- check-context [options]
  (when (:context options)
    (when-some [other (some #(when (contains? options %) %) [:certfile :keyfile :cacertfile :sni-hosts])]
      (refuse-together (str "has :context and " other ": the context has its certificates itself. Leave one "
                            "of them out.")
                       options))))

(defn- check-server [{:keys [certfile context cacertfile verify fail-if-no-peer-cert] :as options}]
  (when-not (or certfile context)
    (refuse-together
      (str "needs the certificate of the server: give {:certfile \"server.pem\" "
           ":keyfile \"server.key\"}.")
      options))
  (when (and (= :verify-peer verify) (not (or cacertfile context)))
    (refuse-together
      (str "has {:verify :verify-peer}, which needs the certificate of the authority that signs the "
           "certificates of clients: "
           "give :cacertfile.")
      options))
  (when (and fail-if-no-peer-cert (not= :verify-peer verify))
    (refuse-together "has :fail-if-no-peer-cert, which needs {:verify :verify-peer}: add it." options)))

(defn- check-client [{:keys [certfile keyfile context verify] :as options}]
  (when (and keyfile (not certfile))
    (refuse-together "has a :keyfile without its :certfile: add it." options))
  (when (and context (= :verify-none verify))
    (refuse-together
      "has :context and {:verify :verify-none}: the context says whom it trusts. Leave one of them out."
      options)))

(defn checked
  "The options of a :server or :client, with defaults; nil if the socket is plain."
  [role tls]
  (when tls
    (let [given (if (and (true? tls) (= :client role)) {} tls)
          _ (when (true? given) (check-server {}))
          _ (arguments/options ":tls" (known role) given)
          _ (run! check given)
          options (merge (defaults role) given)]
      (check-context options)
      (if (= :server role) (check-server options) (check-client options))
      options)))
