(ns magnetar.net.pem
  "Reads certificates and private keys of PEM files."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (java.io ByteArrayInputStream File IOException)
   (java.nio.charset StandardCharsets)
   (java.nio.file Files)
   (java.security GeneralSecurityException KeyFactory PrivateKey PublicKey Signature)
   (java.security.cert CertificateFactory X509Certificate)
   (java.security.spec PKCS8EncodedKeySpec)
   (java.util Base64)
   (magnetar.kernel.scope Offload)))

(set! *warn-on-reflection* true)

(defn- refuse
  ([option path reason sentence] (refuse option path reason sentence nil))
  ([option path reason sentence cause]
   (throw (errors/failure (str option " " (arguments/show path) sentence)
                          {:magnetar/reason :magnetar/bad-tls-file :reason reason :option option :file path}
                          cause))))

;; A file may lie on a slow disk, and the JDK would hold the carrier thread of a fiber.
(defn- content [option ^String path]
  (let [path-of (.toPath (File. path))]
    (try
      (String. ^bytes (.run Offload/SHARED #(Files/readAllBytes path-of)) StandardCharsets/ISO_8859_1)
      (catch IOException e
        (if (.exists (File. path))
          (refuse option path :eacces (str " cannot be read: " (ex-message e) ". Let the user of this "
                                           "program read it.") e)
          (refuse option path :enoent
                  (str ": there is no such file. Check the path, which starts at the folder of this program "
                       "if it is relative.")
                  e))))))

(defn- decoded
  "The bytes of a block; nil if that is no base 64."
  [text]
  (try
    (.decode (Base64/getDecoder) (str/replace text #"\s" ""))
    (catch IllegalArgumentException _ nil)))

(defn- blocks
  "The blocks of a PEM file, as [label bytes]."
  [option path]
  (for [[_ label text] (re-seq #"(?s)-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----"
                               (content option path))]
    [label (decoded text)]))

;; ---- certificates

(defn- certificate [option path ^bytes der]
  (try
    (.generateCertificate (CertificateFactory/getInstance "X.509")
                          (ByteArrayInputStream. (or der (byte-array 0))))
    (catch GeneralSecurityException e
      (refuse option path :einval (str " has a certificate that cannot be read: " (ex-message e)
                                       ". Write the file again.") e))))

(defn certificates
  "The certificates of a file, at least one, in its order."
  [option path]
  (let [found (mapv #(certificate option path (second %))
                    (filter #(str/ends-with? (first %) "CERTIFICATE") (blocks option path)))]
    (when (empty? found)
      (refuse option path :einval (str " has no certificate: a PEM file has lines \"-----BEGIN "
                                       "CERTIFICATE-----\". "
                                       "Check the path and the format.")))
    found))

;; ---- private keys

(def ^:private conversions
  "How keys of other formats become PKCS#8: what they are, and the command."
  {"ENCRYPTED PRIVATE KEY" ["is encrypted" "openssl pkcs8 -in %s -out key.pem"]
   "RSA PRIVATE KEY" ["is in the format PKCS#1" "openssl pkcs8 -topk8 -nocrypt -in %s -out key.pem"]
   "EC PRIVATE KEY" ["is in the format SEC 1" "openssl pkcs8 -topk8 -nocrypt -in %s -out key.pem"]})

(defn- refuse-format [option path label]
  (if-some [[what command] (conversions label)]
    (refuse option path :einval (str ": its key " what ", and PKCS#8 without a password is wanted. Convert "
                                     "it: " (format command path)))
    (refuse option path :einval (str " has no private key: a PEM file has a line "
                                     "\"-----BEGIN PRIVATE KEY-----\". Check the path and the format."))))

(defn- key-of [^bytes der algorithm]
  (try
    (.generatePrivate (KeyFactory/getInstance algorithm) (PKCS8EncodedKeySpec. der))
    (catch GeneralSecurityException _ nil)))

(defn private-key
  "The first private key of a file."
  ^PrivateKey [option path]
  (let [keys (filter #(str/ends-with? (first %) "PRIVATE KEY") (blocks option path))
        [label der] (first keys)]
    (when-not (= "PRIVATE KEY" label)
      (refuse-format option path label))
    (or (when der (some #(key-of der %) ["RSA" "EC" "EdDSA" "RSASSA-PSS"]))
        (refuse option path :einval (str " has a private key that cannot be read: RSA, EC and Ed25519 are "
                                         "known. "
                                         "Write the file again.")))))

(def ^:private signatures {"RSA" "SHA256withRSA" "EC" "SHA256withECDSA" "EdDSA" "EdDSA"})

(defn- same-pair? [^PrivateKey private ^PublicKey public]
  (and (= (.getAlgorithm private) (.getAlgorithm public))
       (if-some [^String algorithm (signatures (.getAlgorithm private))]
         (try
           (let [data (byte-array 32)
                 signed (.sign (doto (Signature/getInstance algorithm) (.initSign private) (.update data)))]
             (.verify (doto (Signature/getInstance algorithm) (.initVerify public) (.update data)) signed))
           (catch GeneralSecurityException _ false))
         true)))

(defn identity-of
  "The chain of a certificate and its private key."
  [{:keys [certfile keyfile] :or {keyfile certfile}}]
  (let [chain (certificates :certfile certfile)
        key (private-key :keyfile keyfile)]
    (when-not (same-pair? key (.getPublicKey ^X509Certificate (first chain)))
      (refuse :keyfile keyfile :einval (str " does not belong to the first certificate in :certfile "
                                            (arguments/show certfile)
                                            ". Give both files of one pair; the certificate of the server "
                                            "stands before the authority's.")))
    {:chain chain :key key}))
