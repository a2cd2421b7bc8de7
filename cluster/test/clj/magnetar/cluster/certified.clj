(ns magnetar.cluster.certified
  "Nodes that `cluster/start` starts with TLS. Certificates are given by the paths of their files, so that JVMs can share them."
  (:require
   [magnetar.actor :as actor]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.support :as support]
   [magnetar.dev.certificates :as certificates]
   [magnetar.impl.runtime]
   [magnetar.net.contexts :as contexts]
   [magnetar.net.tls-options :as tls-options]
   [magnetar.test :as mt]))

(set! *warn-on-reflection* true)

(defn files
  "The paths of a certificate, of its key, and of the certificate that has signed it."
  [certificate]
  (assoc (certificates/identity-of certificate) :cacertfile (certificates/path "ca.pem")))

(defn context
  "A context of TLS with these files, which also asks the other side for a certificate."
  [files]
  (contexts/context (contexts/source (tls-options/checked :server (assoc files :verify :verify-peer)))))

(defn start
  "Starts the node of this JVM; returns its address, or why it has not joined."
  [files options]
  (let [[how x] (cluster/start (merge {:cookie support/cookie :tls (context files)} options))]
    (if (= :ok how) (cluster/address) x)))

(defn connected
  "The nodes that this one is connected with, when there are so many."
  [n]
  (mt/wait-until #(let [nodes (cluster/nodes)] (when (= n (count nodes)) nodes)) {:timeout support/limit-ms}))

(defn local-name
  "The name of the node of this JVM."
  []
  (actor/node))
