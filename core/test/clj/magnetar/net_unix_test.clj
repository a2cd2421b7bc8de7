(ns magnetar.net-unix-test
  "Sockets with a path."
  (:require
   [clojure.test :refer [are deftest is testing use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.impl.runtime]
   [magnetar.net :as net]
   [magnetar.net-support :refer [as-stream await-end cancelled-while in-process next-message owning refused waits-for-read? with-folder]]
   [magnetar.net.refusals :as refusals]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually limit-ms]])
  (:import
   (java.io File)
   (java.net BindException StandardProtocolFamily UnixDomainSocketAddress)
   (java.nio.channels ServerSocketChannel)))

(set! *warn-on-reflection* true)

(use-fixtures :each in-process)

(defn- exists? [path]
  (.exists (File. ^String path)))

(deftest a-unix-socket-is-a-stream-and-messages
  (with-folder
    (fn [folder]
      (let [path (str folder "/a.sock")
            l (net/listen {:path path} as-stream)
            client (net/connect {:path path} as-stream)
            served (net/accept l)]
        (is (= [{:path path} {:path path} {:path path} {:path ""}]
               [(net/local-address l) (net/local-address served) (net/remote-address client) (net/remote-address served)]))
        (is (= (str "#magnetar/listener \"" path "\"") (pr-str l)))
        (is (= [:magnetar/bad-option nil (str "`port` of " client ", which has a path and no port: call `local-address`.")]
               (refused (net/port client))))
        (net/send client "one\ntwo\nhalf")
        (is (= ["one\n" "two\n"] [(net/recv served) (net/recv served {:timeout limit-ms})]))
        (is (= :none (net/recv served {:timeout 1 :else :none})))
        (net/send client " line\nlast\n")
        (net/shutdown client :write)
        (is (= ["half line\n" "last\n" nil] [(net/recv served) (net/recv served {:timeout limit-ms}) (net/recv served)]))
        (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send client "late\n")))))
        (net/set-options client {:active :once})
        (net/send served "answer\n")
        (is (= [:tcp client "answer\n"] (next-message)))
        (net/set-options client {:active true})
        (net/close served)
        (is (= [:tcp-closed client] (next-message)))
        (net/close l)
        (is (not (exists? path)))))))

(deftest a-read-of-a-unix-socket-that-ends-by-time-loses-nothing
  (with-folder
    (fn [folder]
      (let [l (net/listen {:path (str folder "/a.sock")} {:active false})
            client (net/connect (net/local-address l) {:active false})
            served (net/accept l)
            data (byte-array (map unchecked-byte (range 300000)))]
        (is (= :none (net/recv served {:timeout 1 :else :none})))
        (scope/with-scope [s]
          (scope/fork s net/send client data)
          (is (java.util.Arrays/equals data ^bytes (net/recv served 300000 {:timeout limit-ms}))))
        (is (true? (cancelled-while waits-for-read? #(net/recv served {:timeout limit-ms}))))
        (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/recv served)))))
        (is (nil? (net/recv client)))))))

(deftest a-path-without-permission-says-so
  (is (= "`listen` on the path /run/a: this program has no permission there. Check the owner and the mode of the file and of its directories."
         (ex-message (refusals/path-failed "listen" "/run/a" (BindException. "Permission denied"))))))

(deftest a-unix-socket-goes-with-its-owner-and-replaces-a-stale-file
  (with-folder
    (fn [folder]
      (let [path (str folder "/a.sock")
            [owner _] (owning #(net/listen {:path path}))]
        (is (= [:magnetar/port-in-use :eaddrinuse (str "`listen` on the path " path ": a program listens there. Stop it, or take another path.")]
               (refused (net/listen {:path path}))))
        (actor/exit owner :kill)
        (await-end owner)
        (is (not (exists? path)))
        (with-open [channel (ServerSocketChannel/open StandardProtocolFamily/UNIX)]
          (.bind channel (UnixDomainSocketAddress/of path)))
        (is (= [:magnetar/connection-refused :econnrefused
                (str "`connect` to the path " path " was refused: no program listens there. Start the server, or check the path.")]
               (refused (net/connect {:path path}))))
        (let [l (net/listen {:path path})]
          (is (some? (net/connect {:path path})))
          (.delete (File. path))
          (let [other (net/listen {:path path})]
            (net/close l)
            (testing "The file of another socket is left"
              (is (exists? path)))
            (net/close other)))))))

(deftest a-unix-socket-whose-queue-is-full-is-waited-for
  (with-folder
    (fn [folder]
      (let [l (net/listen {:path (str folder "/a.sock")} {:active false :backlog 1})
            connect #(net/connect (net/local-address l) {:active false :timeout % :else :late})]
        (is (= :late (last (take 5 (repeatedly #(connect 20))))))
        (scope/with-scope [s]
          (let [connected (atom nil)]
            (scope/fork s #(reset! connected (connect limit-ms)))
            (is (eventually (do (some-> (net/accept l {:timeout 1 :else nil}) net/close) @connected)))
            (is (not= :late @connected))))))))

(deftest a-bad-path-says-what-to-do
  (with-folder
    (fn [folder]
      (let [file (str folder "/file")
            long-path (str folder "/" (apply str (repeat 200 "x")))]
        (spit file "mine")
        (are [expected form] (= expected (refused form))
          [:magnetar/socket-failed :eaddrinuse
           (str "`listen` on the path " file ": a file that is no socket is there, and is not deleted. Take another path.")]
          (net/listen {:path file})
          [:magnetar/socket-failed :enoent (str "`listen` on the path " folder "/no/a: its directory does not exist. Create it first.")]
          (net/listen {:path (str folder "/no/a")})
          [:magnetar/socket-failed :enoent (str "`connect` to the path " folder "/a: there is no such file. Start the server, or check the path.")]
          (net/connect {:path (str folder "/a")})
          [:magnetar/socket-failed :enametoolong
           (str "`listen` on the path " long-path ": the path is too long for a socket. Take one of at most 100 bytes.")]
          (net/listen {:path long-path})
          [:magnetar/bad-option :einval "`listen` wants the place of a unix socket as {:path \"/run/my.sock\"}; this is {:path 5}."]
          (net/listen {:path 5}))
        (is (= "mine" (slurp file)))))))
