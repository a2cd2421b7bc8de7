(ns magnetar.cluster.kubernetes-page-test
  "What the guide's page about Kubernetes says of cookies and probes. See discovery-test for its DNS."
  {:wakes false}
  (:require
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.test :refer [deftest is]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.support :as support :refer [dial node refusals waited with-nodes with-refusals]]
   [magnetar.dev.child :as child])
  (:import
   (java.io IOException)
   (java.net Socket)
   (java.nio.file Files Path)
   (java.nio.file.attribute PosixFilePermissions)))

(set! *warn-on-reflection* true)

(defn- page []
  (slurp (io/file (System/getProperty "magnetar.home") "docs/guide/kubernetes.md")))

(deftest the-copy-of-a-cookie-that-a-group-can-read-is-taken
  (let [folder (child/temp-folder "magnetar-kubernetes")
        path (fn ^Path [name] (.toPath (io/file folder name)))]
    (run! #(.mkdir (io/file folder ^String %)) ["secret" "run"])
    (spit (io/file folder "secret/cookie") "0123456789abcdef0123456789abcdef")
    (Files/setPosixFilePermissions (path "secret/cookie") (PosixFilePermissions/fromString "r--r-----"))
    (is (thrown-with-msg? IOException #"open to others" (#'cluster/cookie {:cookie-file (str (path "secret/cookie"))})))
    (let [[_ command] (re-find #"(?s)```sh\n(.*?)```" (page))]
      (is (= 0 (:exit (shell/sh "sh" "-ec" command :dir folder)))))
    (is (= "Cookie of 32 bytes" (str (#'cluster/cookie {:cookie-file (str (path "run/cookie"))}))))))

(deftest a-probe-of-the-port-leaves-no-line-in-the-log
  (with-refusals
    (with-nodes [{:keys [address]} (node "a")]
      (dotimes [_ 20]
        (Socket/.close (dial address)))
      (with-open [socket (dial address)]
        (.write (.getOutputStream socket) (.getBytes "GET / HTTP/1.1\r\n\r\n"))
        (support/read-bytes socket 1))
      (is (re-find #"it is not a node" (waited refusals first)) "the first line, though probes came before"))))
