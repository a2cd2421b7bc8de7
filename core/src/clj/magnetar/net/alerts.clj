(ns magnetar.net.alerts
  "Why TLS failed: Erlang's word for it, and a sentence. The JDK tells it by its exceptions."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.explain :as explain]
   [magnetar.impl.runtime])
  (:import
   (java.io EOFException)
   (java.net SocketException SocketTimeoutException)
   (java.security.cert CertPathBuilderException CertificateExpiredException CertificateNotYetValidException)
   (javax.net.ssl SSLException)))

(set! *warn-on-reflection* true)

(defn of-tls?
  "Does the error come from TLS?"
  [e]
  (instance? SSLException e))

(def ^:private by-class
  [[CertificateExpiredException :certificate-expired] [CertificateNotYetValidException :certificate-expired]
   [CertPathBuilderException :unknown-ca]
   [SocketTimeoutException :timeout] [EOFException :closed] [SocketException :econnreset]])

(def ^:private by-text
  "What the JDK says, where it has no class or alert of its own."
  [["No subject alternative" :hostname-check-failed] ["No name matching" :hostname-check-failed]
   ["nrecognized SSL message" :unexpected-message]
   ["Empty client certificate chain" :certificate-required]
   ["Empty server certificate chain" :certificate-required]
   ["certification path" :unknown-ca] ["trust anchor" :unknown-ca] ["renegotiation" :no-renegotiation]
   ["No appropriate protocol" :protocol-version]])

(defn- received
  "The alert that the other side sent, nil for none."
  [e]
  (some #(second (re-find #"Received fatal alert: (\w+)" (str (ex-message %)))) (explain/causes e)))

(defn- own-alert [e]
  (some #(second (re-find #"^\((\w+)\)" (str (ex-message %)))) (explain/causes e)))

(defn- word [alert]
  (keyword (str/replace alert "_" "-")))

(defn- found [e]
  (or (some (fn [[class word]] (when (some #(instance? class %) (explain/causes e)) word)) by-class)
      (some (fn [[text word]]
              (when (some #(str/includes? (str (ex-message %)) text) (explain/causes e)) word))
            by-text)))

(defn problem
  "What is wrong, in a word, and whether the other side says so."
  [e]
  (if-some [alert (received e)]
    {:word (word alert) :remote? true}
    {:word (or (found e) (some-> (own-alert e) word) :internal-error)}))

(defn reason
  "The :reason of the error: [:tls-alert word], or :timeout, :closed or :econnreset, which are no alerts."
  [e]
  (let [{:keys [word]} (problem e)]
    (if (#{:timeout :closed :econnreset} word)
      word
      [:tls-alert word])))

;; ---- in words

(defn- detail
  "What the JDK says about the innermost cause."
  [e]
  (str/replace (str (ex-message (last (explain/causes e)))) #"^\(\w+\) |\.$" ""))

(def ^:private ours
  "What this side found: why, and what to do."
  {:certificate-expired ["the certificate of the other side is out of date (%s)"
                         "Renew that certificate, or set the clock of this machine."]
   :unknown-ca ["no authority that this side trusts has signed the certificate of the other side"
                "Give the certificate of its authority as :cacertfile."]
   :hostname-check-failed
   ["the certificate of the other side is for another host (%s)"
    "Connect by a name in the certificate, or give that name as :server-name-indication."]
   :unexpected-message ["the other side does not speak TLS" "Check the port, and that both sides use :tls."]
   :certificate-required ["the client sent no certificate, and :fail-if-no-peer-cert demands one"
                          "Give the client its :certfile and :keyfile."]
   :protocol-version ["both sides have no version of TLS in common" "Compare the :versions of both."]
   :no-application-protocol
   ["both sides have no protocol of ALPN in common"
    "Compare :alpn-preferred-protocols of the server with :alpn-advertised-protocols of the client."]
   :no-renegotiation ["the other side asked for a renegotiation, which is refused"
                      "Use TLS 1.3, or turn renegotiation off there."]
   :timeout ["the other side did not do its part within the :handshake-timeout"
             "Check that it speaks TLS on this port."]
   :closed ["the other side closed the connection during the handshake" "Look for the reason in its log."]
   :econnreset ["the connection was lost during the handshake (%s)"
                "Look for the reason in the log of the other side."]})

(def ^:private theirs
  "What the other side found."
  {:certificate-expired ["it takes the certificate of this side for out of date"
                         "Renew the certificate, or set the clock of the other machine."]
   :unknown-ca ["it knows no authority that signed the certificate of this side"
                "Give the other side the certificate of that authority."]
   :certificate-unknown ["it does not accept the certificate of this side"
                         "Check the authority, the host names and the dates of the certificate."]
   :bad-certificate ["it does not accept the certificate of this side, or demands one"
                     "Give a :certfile that it accepts."]
   :certificate-required ["it demands a certificate of this side"
                          "Give :certfile and :keyfile of a certificate that it accepts."]
   :protocol-version ["it has no version of TLS in common with this side" "Compare the :versions of both."]
   :no-application-protocol
   ["it has no protocol of ALPN in common with this side"
    "Compare :alpn-preferred-protocols of the server with :alpn-advertised-protocols of the client."]
   :handshake-failure ["it found no setting that both sides have, or it demands a certificate"
                       "Compare :versions and :certfile of both."]})

(def ^:private usual-remedy "Compare the TLS options of both sides.")

(defn sentences
  "Why, and the remedy."
  [e]
  (let [{:keys [word remote?]} (problem e)
        [why remedy] (get (if remote? theirs ours) word)]
    (str (if remote?
           (str "the other side sent the alert " word (when why (str ", as " why)))
           (format (or why "%s") (detail e)))
         ". " (or remedy usual-remedy))))
