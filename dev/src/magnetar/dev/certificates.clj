(ns magnetar.dev.certificates
  "Certificates for tests of TLS, made by the JDK's keytool in a temporary folder."
  (:require
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str]
   [magnetar.dev.child :as child])
  (:import
   (java.io File)
   (java.security Key KeyStore)
   (java.security.cert Certificate)
   (java.util Base64)))

(set! *warn-on-reflection* true)

(def ^:private password "password")

(defn- keytool [store alias & args]
  (let [tool (str (io/file (System/getProperty "java.home") "bin" "keytool"))
        {:keys [exit out err]} (apply shell/sh tool "-J-XX:TieredStopAtLevel=1" "-J-XX:+UseSerialGC" "-genkeypair" "-keystore" store
                                      "-storepass" password "-alias" alias "-dname" (str "CN=" alias) args)]
    (when-not (= 0 exit)
      (throw (ex-info (str "keytool failed: " out err) {:alias alias})))))

(defn pem
  "A block of PEM."
  [label ^bytes der]
  (str "-----BEGIN " label "-----\n" (.encodeToString (Base64/getMimeEncoder) der) "\n-----END " label "-----\n"))

(defn- write-pem [folder ^KeyStore store alias]
  (let [chars (.toCharArray ^String password)]
    (spit (io/file folder (str alias ".pem"))
          (str/join (map #(pem "CERTIFICATE" (.getEncoded ^Certificate %)) (.getCertificateChain store alias))))
    (spit (io/file folder (str alias ".key")) (pem "PRIVATE KEY" (.getEncoded ^Key (.getKey store alias chars))))))

(def ^:private local "san=dns:localhost,ip:127.0.0.1")

(def ^:private kinds
  "The certificates, with the arguments of keytool. \"ca\" signs the others, except \"unknown\", which signs itself."
  [["ca" "-keyalg" "EC" "-groupname" "secp256r1" "-ext" "bc:c"]
   ["server" "-keyalg" "EC" "-groupname" "secp256r1" "-signer" "ca" "-ext" local]
   ["renewed" "-keyalg" "RSA" "-keysize" "2048" "-signer" "ca" "-ext" local]
   ["other-host" "-keyalg" "Ed25519" "-signer" "ca" "-ext" "san=dns:other.test"]
   ["expired" "-keyalg" "EC" "-groupname" "secp256r1" "-signer" "ca" "-ext" local "-startdate" "-9d" "-validity" "5"]
   ["client" "-keyalg" "EC" "-groupname" "secp256r1" "-signer" "ca"]
   ["unknown" "-keyalg" "EC" "-groupname" "secp256r1" "-ext" local]])

(defn- make [^File folder]
  (let [store-file (io/file folder "store.p12")]
    (doseq [args kinds]
      (apply keytool (str store-file) args))
    (let [store (KeyStore/getInstance store-file (.toCharArray ^String password))]
      (doseq [[alias] kinds]
        (write-pem folder store alias)))
    folder))

(defonce ^:private folder (delay (make (child/temp-folder "magnetar-tls"))))

(defn path
  "The path of a file among the certificates."
  [name]
  (str (io/file @folder name)))

(defn identity-of
  "The options :certfile and :keyfile of a certificate."
  [name]
  {:certfile (path (str name ".pem")) :keyfile (path (str name ".key"))})
