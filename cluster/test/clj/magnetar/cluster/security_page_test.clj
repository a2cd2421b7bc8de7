(ns magnetar.cluster.security-page-test
  "The commands of the guide's page about security make what nodes need."
  {:wakes false}
  (:require
   [clojure.java.io :as io]
   [clojure.java.shell :as shell]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.support :refer [await-view node with-nodes]]
   [magnetar.dev.child :as child]
   [magnetar.net.contexts :as contexts])
  (:import
   (java.io File)
   (java.net ServerSocket)))

(set! *warn-on-reflection* true)

(defn- commands
  "The shell commands of the page."
  []
  (map second (re-seq #"(?s)```sh\n(.*?)```" (slurp (io/file (System/getProperty "magnetar.home") "docs/guide/cluster-security.md")))))

(defn- folder-of-page
  "A folder in which all commands of the page were run."
  ^File []
  (let [folder (child/temp-folder "magnetar-security")]
    (doseq [command (commands)
            :let [{:keys [exit err]} (shell/sh "sh" "-ec" command :dir folder)]]
      (is (= 0 exit) err))
    folder))

(defn- files [folder name]
  (let [path #(str (io/file folder %))]
    {:certfile (path (str name ".pem")) :keyfile (path (str name ".key")) :cacertfile (path "ca.pem")}))

(defn- free-port []
  (with-open [socket (ServerSocket. 0)]
    (.getLocalPort socket)))

(deftest the-commands-of-the-page-make-a-cookie-and-certificates-that-nodes-take
  (let [folder (folder-of-page)
        context #(contexts/current (contexts/source (files folder %)))]
    (is (= "Cookie of 64 bytes" (str (#'cluster/cookie {:cookie-file (str (io/file folder "cookie"))}))))
    (with-nodes [a (node "a" :tls (context "till"))
                 b (node "b" :tls (context "stock") :peers [(:address a)])]
      (run! #(await-view % ["a" "b"]) [a b]))
    (let [address (str "127.0.0.1:" (free-port))]
      (is (= :ok (first (cluster/start {:name "till@shop" :cookie-file (str (io/file folder "cookie")) :bind address :tls (files folder "till")}))))
      (is (= address (cluster/address)))
      (is (= :ok (cluster/stop))))
    (is (thrown-with-msg? clojure.lang.ExceptionInfo #":keyfile"
          (cluster/start {:name "till@shop" :cookie-file (str (io/file folder "cookie")) :tls (assoc (files folder "till") :keyfile (str (io/file folder "ca.key")))})))))

(deftest the-page-has-commands
  (is (= 3 (count (commands))))
  (is (every? #(str/includes? % "openssl") (commands))))
