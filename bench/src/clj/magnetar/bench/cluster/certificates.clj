(ns magnetar.bench.cluster.certificates
  "The certificate of both nodes of a pair, of one authority, as files of PEM: made once by the JDK's keytool. The key is of RSA, since Pekko reads no other one from PEM."
  (:require
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str])
  (:import
   (java.io File)
   (java.nio.file Files)
   (java.nio.file.attribute FileAttribute)
   (java.security Key KeyStore)
   (java.security.cert Certificate)
   (java.util Base64)))

(set! *warn-on-reflection* true)

(def ^:private password "password")

(defn- keytool [store alias & arguments]
  (let [tool (str (io/file (System/getProperty "java.home") "bin" "keytool"))
        {:keys [exit out err]} (apply shell/sh tool "-genkeypair" "-keystore" (str store) "-storepass" password "-alias" alias
                                      "-dname" (str "CN=" alias) "-keyalg" "RSA" "-keysize" "2048" arguments)]
    (when-not (zero? (long exit))
      (throw (ex-info (str "keytool failed: " out err) {:alias alias})))))

(defn- pem [label ^bytes der]
  (str "-----BEGIN " label "-----\n" (.encodeToString (Base64/getMimeEncoder) der) "\n-----END " label "-----\n"))

(defn- make []
  (let [folder (.toFile (Files/createTempDirectory "magnetar-bench" (make-array FileAttribute 0)))
        file (io/file folder "store.p12")
        letters (.toCharArray ^String password)]
    (keytool file "ca" "-ext" "bc:c")
    (keytool file "node" "-signer" "ca" "-ext" "san=dns:localhost,ip:127.0.0.1")
    (let [store (KeyStore/getInstance ^File file letters)
          certificate (fn [^String alias] (pem "CERTIFICATE" (.getEncoded ^Certificate (.getCertificate store alias))))]
      (spit (io/file folder "ca.pem") (certificate "ca"))
      (spit (io/file folder "node.pem") (str/join (map certificate ["node" "ca"])))
      (spit (io/file folder "node.key") (pem "PRIVATE KEY" (.getEncoded ^Key (.getKey store "node" letters)))))
    (run! #(.deleteOnExit ^File %) (cons folder (.listFiles folder)))
    folder))

(def ^:private folder (delay (make)))

(defn path
  "The path of a file of this name: ca.pem, node.pem or node.key; of the folder for \"\".

  Example: (path \"ca.pem\")"
  [named]
  (str (if (= "" named) @folder (io/file @folder named))))
