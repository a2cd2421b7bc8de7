(ns magnetar.net-waits-test
  "What `magnetar.inspect` tells of a fiber that waits in an operation of a socket: for what, of which address, and since when."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.impl.inspect.snapshot :as snapshot]
   [magnetar.impl.inspect.standstill :as standstill]
   [magnetar.impl.inspect.waits :as waits]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.net :as net]
   [magnetar.net-support :refer [home in-process listener pair with-folder]]
   [magnetar.net.names :as names]
   [magnetar.scope :as scope :refer [daemon with-scope]]
   [magnetar.support :refer [eventually]])
  (:import
   (java.io Closeable)
   (java.net InetAddress ServerSocket UnknownHostException)
   (java.util.concurrent CountDownLatch)
   (magnetar.kernel.scope Fork)))

(set! *warn-on-reflection* true)

(use-fixtures :each in-process)

(defn- told
  "What the text of `why-stuck` says that f waits for, in a fork, once it says so, and begins with the words."
  ([f] (told f ""))
  ([f words]
   (with-scope [s]
     (let [waiting (daemon s f)
           seen (atom "")
           waits-for #(str (second (re-find #" waits (?:at \S+ )?for (.* [^ ,]*[:/][^ ,]+?)(?:, for \d+ ms more)?\.$" (str (:text (inspect/why-stuck waiting))))))]
       (eventually (and (seq (reset! seen (waits-for))) (str/starts-with? @seen words)))
       @seen))))

(defn- place [conn]
  (str home ":" (:port (net/remote-address conn))))

(deftest a-recv-waits-for-data-from-the-other-side
  (doseq [options [{} {:timeout 1000000}]
          :let [[client] (pair {:active false})]]
    (is (= (str "data from " (place client)) (told #(net/recv client options))))))

(deftest a-send-waits-for-room-to-send-to-the-other-side
  (let [[client] (pair {:active false})]
    (is (= (str "room to send to " (place client)) (told #(net/send client (byte-array 50000000)))))))

(deftest a-send-that-waits-is-one-that-should-end-soon
  (let [[client] (pair {:active false})]
    (with-scope [s]
      (let [^Fork sending (daemon s #(net/send client (byte-array 50000000)))
            thread (.get (.fiber sending))]
        (is (eventually (some #(= [:fork (Thread/.threadId thread)] (:id (first (:chain %)))) (inspect/why-stuck {:at-least 1}))))))))

(deftest an-accept-waits-for-a-connection
  (let [l (listener)]
    (is (= (str "a connection at " home ":" (net/port l)) (told #(net/accept l))))))

(deftest a-connect-waits-for-a-connection
  (with-open [server (ServerSocket. 0 1 (InetAddress/getLoopbackAddress))]
    (let [port (.getLocalPort server)]
      ;; the queue of the server is full once one waits
      (is (= (str "a connection to " home ":" port) (told #(while true (net/connect home port {:active false}))))))))

(deftest a-connect-waits-for-an-address
  (let [end (CountDownLatch. 1)]
    (with-redefs-fn {#'names/resolved (fn [host]
                                        (.await end)
                                        (throw (UnknownHostException. host)))}
      #(try
         (with-scope [s]
           (let [waiting (daemon s (fn [] (net/connect "shop.invalid" 80 {:active false})))]
             (is (eventually (str/ends-with? (str (:text (inspect/why-stuck waiting))) " for the address of shop.invalid.")))))
         (finally (.countDown end))))))

(deftest a-recv-from-waits-for-data-at-its-port
  (let [socket (net/open 0 {:host home :active false})]
    (is (= (str "data from " home ":" (net/port socket)) (told #(net/recv-from socket))))))

(deftest a-unix-socket-has-a-path
  (with-folder
    (fn [folder]
      (let [path (str folder "/s")]
        (with-open [^Closeable l (net/listen {:path path})]
          (doseq [[side recv] {"client" #(net/recv (net/connect {:path path} {:active false}))
                               "server" #(net/recv (net/accept l {:active false}) {:timeout 1000000})}]
            (net/connect {:path path} {:active false})
            (is (= (str "data from " path) (told recv "data from")) side)))))))

(deftest a-fiber-at-a-socket-says-since-when
  (let [[client] (pair {:active false})]
    (with-scope [s]
      (let [^Fork waiting (daemon s #(net/recv client))
            info #(inspect/fiber-info (.get (.fiber waiting)))]
        (is (eventually (some-> (:since-ms (info)) long pos?)))
        (is (= (str "data from " (place client)) (:waits-for (info))))))))

(deftest a-wait-at-a-socket-is-no-standstill
  (let [[client] (pair {:active false})]
    (with-scope [s]
      (let [^Fork waiting (daemon s #(net/recv client))
            node #(let [snapshot (snapshot/now)]
                    (get-in snapshot [:nodes (snapshot/id-of-fork snapshot waiting)]))]
        (is (eventually (waits/at-socket? (:wait (node)))))
        (is (#'standstill/in-io? nil (node)))))))
