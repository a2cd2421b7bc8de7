(ns magnetar.net.contexts
  "Makes SSLContexts of files, and makes them again when the files have changed.

  A source is looked at for each handshake, or as often as a server wants, on a platform thread for files: it
  compares the files' times, sizes and keys with what they were at the last attempt. The first context throws
  what is wrong with the files. Later ones are made after a change; one that fails is reported, and the one
  before stays."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.net.pem :as pem]
   [magnetar.net.transport :as transport])
  (:import
   (java.io File IOException)
   (java.nio.file Files LinkOption)
   (java.nio.file.attribute BasicFileAttributes)
   (java.security KeyStore Principal PrivateKey)
   (java.security.cert Certificate X509Certificate)
   (java.util.concurrent.locks ReentrantLock)
   (javax.net.ssl ExtendedSSLSession KeyManager SNIHostName SSLContext SSLEngine TrustManager TrustManagerFactory X509ExtendedKeyManager X509ExtendedTrustManager)
   (magnetar.kernel.scope Offload)))

(set! *warn-on-reflection* true)

;; ---- keys

(defn- requested-host
  "The name of the host that the client wants, in lower case; nil if it says none."
  [^SSLEngine engine]
  (let [session (some-> engine .getHandshakeSession)]
    (when (instance? ExtendedSSLSession session)
      (some #(when (instance? SNIHostName %) (str/lower-case (.getAsciiName ^SNIHostName %)))
            (.getRequestedServerNames ^ExtendedSSLSession session)))))

(defn- alias-for
  "The name of the identity, if its key is of one of these kinds."
  [identities name kinds]
  (when-some [{:keys [^PrivateKey key]} (identities name)]
    (when (some #{(.getAlgorithm key)} kinds)
      name)))

(defn- key-manager
  "Chooses among identities by the host that the client wants; \"\" is the usual one."
  ^KeyManager [identities]
  (let [server-alias (fn [kind engine]
                       (let [host (requested-host engine)]
                         (alias-for identities (if (contains? identities host) host "") [kind])))]
    (proxy [X509ExtendedKeyManager] []
      (chooseEngineServerAlias [kind ^objects _issuers engine] (server-alias kind engine))
      (chooseEngineClientAlias [kinds ^objects _issuers _engine] (alias-for identities "" kinds))
      (chooseServerAlias [kind ^objects _issuers _socket] (alias-for identities "" [kind]))
      (chooseClientAlias [kinds ^objects _issuers _socket] (alias-for identities "" kinds))
      (getServerAliases [_kind ^objects _issuers] nil)
      (getClientAliases [_kind ^objects _issuers] nil)
      (getCertificateChain [name] (some->> (identities name) :chain (into-array X509Certificate)))
      (getPrivateKey [name] (:key (identities name))))))

;; ---- trust

(defn- trust-all ^TrustManager []
  (proxy [X509ExtendedTrustManager] []
    (checkClientTrusted ([_chain _kind]) ([_chain _kind _peer]))
    (checkServerTrusted ([_chain _kind]) ([_chain _kind _peer]))
    (getAcceptedIssuers [] (make-array X509Certificate 0))))

(defn- trust-in [certificates]
  (let [store (doto (KeyStore/getInstance (KeyStore/getDefaultType)) (.load nil nil))]
    (dorun (map-indexed (fn [i ^Certificate c] (.setCertificateEntry store (str i) c)) certificates))
    (.getTrustManagers (doto (TrustManagerFactory/getInstance (TrustManagerFactory/getDefaultAlgorithm))
                             (.init store)))))

(defn- trust-managers
  "Whom it trusts: nil is the authorities of the JDK."
  [{:keys [cacertfile verify]}]
  (cond
    (= :verify-none verify) (into-array TrustManager [(trust-all)])
    cacertfile (trust-in (pem/certificates :cacertfile cacertfile))))

;; ---- contexts

(defn- identities [{:keys [certfile sni-hosts] :as options}]
  (into (if certfile {"" (pem/identity-of options)} {})
        (map (fn [[host files]]
               [(str/lower-case (.getAsciiName (SNIHostName. ^String host))) (pem/identity-of files)]))
        sni-hosts))

(defn- context-of-files ^SSLContext [options]
  (let [identities (identities options)]
    (doto (SSLContext/getInstance "TLS")
      (.init (when (seq identities) (into-array KeyManager [(key-manager identities)]))
             (trust-managers options)
             nil))))

(defn- files [{:keys [certfile keyfile cacertfile sni-hosts]}]
  (into [] (comp (filter some?) (distinct))
        (into [certfile keyfile cacertfile] (mapcat (juxt :certfile :keyfile)) (vals sni-hosts))))

(def ^:private ^"[Ljava.nio.file.LinkOption;" follow-links (make-array LinkOption 0))

(defn- stamp
  "What changes when the file does; nil if there is no such file."
  [^String path]
  (try
    (let [attributes (Files/readAttributes (.toPath (File. path)) BasicFileAttributes follow-links)]
      [(.lastModifiedTime attributes) (.size attributes) (.fileKey attributes)])
    (catch IOException _ nil)))

;; `state` is an atom of {:stamps :context}. Under `renewing` it changes. A handshake that finds it locked
;; takes the context that is there.
(defrecord Source [options files state ^ReentrantLock renewing])

(defn- made [options files]
  (let [stamps (mapv stamp files)] ; before the files are read: a change meanwhile is seen at the next look
    {:stamps stamps :context (context-of-files options)}))

(defn- renew [{:keys [options files state]} stamps]
  (when (not= stamps (:stamps @state))
    (try
      (reset! state (made options files))
      (catch Exception e
        (reports/stop-here e)
        (swap! state assoc :stamps stamps)
        (reports/report (str "TLS certificates of " (first files) ", which stay as they were") e)))))

(defn- renewed [{:keys [files state ^ReentrantLock renewing] :as source}]
  (let [stamps (mapv stamp files)]
    (when (and (not= stamps (:stamps @state)) (.tryLock renewing))
      (try
        (renew source stamps)
        (finally (.unlock renewing))))
    (:context @state)))

(def ^:private of-contexts [:certfile :keyfile :cacertfile :sni-hosts :verify])

(defn source
  "What gives the contexts of these options. Throws if the files will not do."
  [{:keys [context] :as options}]
  (let [options (select-keys options of-contexts)
        files (files options)]
    (->Source options files
              (atom (cond
                      context {:context context :stamps []}
                      (or (seq files) (= :verify-none (:verify options))) (made options files)
                      :else {:context (SSLContext/getDefault) :stamps []}))
              (ReentrantLock.))))

(defn current
  "The context of the last look at the files."
  ^SSLContext [{:keys [state]}]
  (:context @state))

(defn context
  "The context for a new handshake."
  ^SSLContext [{:keys [files state] :as source}]
  (if (seq files)
    (.run Offload/SHARED #(renewed source))
    (:context @state)))

;; ---- nodes

(defn of-node?
  "Is it the :tls of a node: the paths of its certificate, its key and the authorities, or a context?"
  [x]
  (or (instance? SSLContext x)
      (and (map? x) (= #{:certfile :keyfile :cacertfile} (set (keys x))) (every? string? (vals x)))))

(defn of-node
  "The context of the :tls of a node; nil for nil."
  ^SSLContext [tls]
  (if (map? tls)
    (current (source tls))
    tls))

;; ---- clients

;; Reading files for each connection costs much more than a look at them, and only the same context resumes
;; sessions.
(defonce ^:private of-clients (atom {}))
(defonce ^:private ^ReentrantLock making (ReentrantLock.))

(def ^:private ^:const most-clients
  "A program that has more kinds of clients makes their contexts again now and then."
  64)

(defn- keep-source [sources key source]
  (assoc (if (< (count sources) most-clients) sources {}) key source))

(defn of-client
  "The source of a client with these options."
  [{:keys [context] :as options}]
  (if context
    (source options)
    (let [key (select-keys options of-contexts)]
      (or (@of-clients key)
          (transport/locked making clock/infinite
            #(or (@of-clients key)
                 (doto (source options) (->> (swap! of-clients keep-source key)))))))))
