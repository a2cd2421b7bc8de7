(ns magnetar.http.tls
  "Connections with TLS. magnetar.net makes the engines, so certificates are renewed without a restart. ALPN chooses HTTP/2 or HTTP/1.1.

  Jetty asks for an engine on one of its few platform threads. So the files are looked at by a fiber of the server, see `renew`."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.net.contexts :as contexts]
   [magnetar.net.tls :as tls]
   [magnetar.net.tls-options :as tls-options])
  (:import
   (java.security.cert X509Certificate)
   (javax.net.ssl SSLPeerUnverifiedException SSLSession)
   (org.eclipse.jetty.alpn.server ALPNServerConnectionFactory)
   (org.eclipse.jetty.io EndPoint)
   (org.eclipse.jetty.io.ssl SslConnection$SslEndPoint)
   (org.eclipse.jetty.server HttpConnectionFactory ServerConnector SslConnectionFactory)
   (org.eclipse.jetty.util.ssl SslContextFactory$Server)))

(set! *warn-on-reflection* true)

(defn checked
  "The settings of TLS, with defaults; nil if the server has none."
  [tls]
  (when (and (map? tls) (contains? tls :alpn-preferred-protocols))
    (arguments/misuse :magnetar/bad-option
                      "`:tls` of an HTTP server has no :alpn-preferred-protocols: the server offers HTTP/2, unless :http2 is false, and HTTP/1.1."
                      {:options tls}))
  (tls-options/checked :server tls))

(defn certificates
  "What gives the certificates of a server; nil if it has no TLS. Throws what is wrong with the files."
  [settings]
  (when settings
    (contexts/source settings)))

(defn renew
  "Looks whether the files have changed, for the connections that come."
  [certificates]
  (contexts/context certificates))

(defn- context-factory
  "Makes the engine of each connection."
  ^SslContextFactory$Server [settings certificates]
  (let [engine #(tls/engine-of-server (contexts/current certificates) settings)]
    (doto (proxy [SslContextFactory$Server] []
            (newSSLEngine
              ([] (engine))
              ([_] (engine))
              ([_ _] (engine))))
      (.setSslContext (contexts/current certificates))
      (.setRenegotiationAllowed false))))

(defn add-factories
  "Adds what serves connections with TLS to the connector. `http2` is the factory of HTTP/2, or nil."
  [^ServerConnector connector settings certificates ^HttpConnectionFactory http1 http2]
  (let [protocols (into-array String (if http2 ["h2" "http/1.1"] ["http/1.1"]))
        alpn (doto (ALPNServerConnectionFactory. ^"[Ljava.lang.String;" protocols)
               (.setDefaultProtocol "http/1.1"))
        ssl (doto (SslConnectionFactory. (context-factory settings certificates) (.getProtocol alpn))
              (.setEnsureSecureRequestCustomizer false))]
    (doseq [factory (remove nil? [ssl alpn http2 http1])]
      (.addConnectionFactory connector factory))
    (.setDefaultProtocol connector (.getProtocol ssl))))

(defn secure?
  "Is it the end of a connection with TLS?"
  [^EndPoint end-point]
  (instance? SslConnection$SslEndPoint end-point))

(def ^:private ^String certificate-key "magnetar.http.certificate")

;; Without a certificate the JDK throws an exception, which costs more than the rest of a small request. A session does not change its peer.
(defn certificate-of
  "The certificate of the other side of a session, or nil. The session keeps the answer."
  ^X509Certificate [^SSLSession session]
  (let [known (.getValue session certificate-key)]
    (if (some? known)
      (when-not (= :none known) known)
      (let [certificate (try
                          (first (.getPeerCertificates session))
                          (catch SSLPeerUnverifiedException _ nil))]
        (.putValue session certificate-key (or certificate :none))
        certificate))))

(defn client-certificate
  "The certificate of the client, or nil."
  ^X509Certificate [^SslConnection$SslEndPoint end-point]
  (certificate-of (.getSession (.getSSLEngine (.getSslConnection end-point)))))
