(ns magnetar.net-limits-test
  "Sockets at their limits: options that change under a read, full mailboxes, code that fails, descriptors that run out."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [after receive self spawn]]
   [magnetar.impl.actor.owned :as owned]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.net :as net]
   [magnetar.net-support :refer [as-stream await-end forwarding home in-process in-socket? listener next-message pair reader-of refused]]
   [magnetar.net.acceptor :as acceptor]
   [magnetar.net.active :as active]
   [magnetar.net.connection :as connection]
   [magnetar.net.group :as group]
   [magnetar.net.listener]
   [magnetar.net.names :as names]
   [magnetar.net.tcp :as tcp]
   [magnetar.net.transport :as transport]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually limit-ms message-of with-failures]])
  (:import
   (java.io Closeable)
   (java.net InetAddress SocketException UnknownHostException)
   (java.util HashMap)
   (java.util.concurrent CompletableFuture CountDownLatch Semaphore TimeUnit)
   (java.util.concurrent.locks ReentrantLock)
   (magnetar.kernel.process Send)
   (magnetar.net.acceptor Acceptor)
   (magnetar.net.connection Connection)
   (magnetar.net.listener Listener)))

(set! *warn-on-reflection* true)

(use-fixtures :each in-process)

;; ---- names

(deftest callers-share-a-look-up
  (scope/with-scope [s]
    (let [forks (mapv (fn [_] (scope/fork s #(refused (net/connect "no-such-host.invalid" 80 {:active false})))) (range 20))]
      (is (= #{[:magnetar/unknown-host :nxdomain]} (into #{} (map #(vec (take 2 (scope/join %)))) forks))))))

(defn- while-names-are-slow
  "Calls f while so many names are looked up that end in .slow, which take until f has returned. quick.test has an address."
  [n f]
  (let [over (CountDownLatch. 1)
        resolved @#'names/resolved
        stub (fn [host]
               (cond
                 (str/ends-with? host ".slow") (do (.await over)
                                                   (throw (UnknownHostException. host)))
                 (= "quick.test" host) [(InetAddress/ofLiteral home)]
                 :else (resolved host)))]
    (with-redefs-fn {#'names/resolved stub}
      #(scope/with-scope [s]
         (try
           (dotimes [i n]
             (scope/fork s (fn [] (refused (names/addresses "connect" (str "host-" i ".slow") clock/infinite)))))
           (is (eventually (<= (long n) (.size ^HashMap @#'names/asked))))
           (f)
           (finally (.countDown over)))))))

(deftest slow-names-leave-threads-for-others
  (let [l (listener {:active false})
        connects? #(some? (net/connect % (net/port l) {:active false :timeout limit-ms}))]
    (while-names-are-slow 100
      #(doseq [host [home "localhost" "quick.test"]]
         (is (connects? host) host)))))

(deftest a-look-up-ends-by-time-also-where-no-time-out-is-given
  (with-redefs-fn {#'names/longest-wait-ms 1}
    #(while-names-are-slow 0
       (fn []
         (let [udp (net/open 0 {:host home :active false})]
           (doseq [f [(fn [] (net/open 0 {:host "shop.slow"}))
                      (fn [] (net/set-options udp {:add-membership "239.shop.slow"}))
                      (fn [] (net/send-to udp "shop.slow" 80 "order"))]]
             (is (= [:magnetar/unknown-host :timeout] (take 2 (refused (f))))))
           (is (= [:magnetar/unknown-host :timeout
                   (str "`listen`: no address of the host \"shop.slow\" was found within 1 ms. Check the name server of this machine, or "
                        "give an address.")]
                  (refused (net/listen 0 {:host "shop.slow"})))))))))

(deftest the-addresses-of-a-host-are-tried-in-turn
  (let [l (listener {:active false})
        addresses (fn [& addresses] (fn [& _] (mapv #(InetAddress/ofLiteral %) addresses)))]
    (with-redefs [names/addresses (addresses "127.0.0.2" home)]
      (is (= home (:host (net/remote-address (net/connect "shop.invalid" (net/port l) {:active false}))))))
    (with-redefs [names/addresses (addresses "127.0.0.2" "127.0.0.3")]
      (is (= [:magnetar/connection-refused :econnrefused]
             (take 2 (refused (net/connect "shop.invalid" (net/port l) {:active false}))))))))

(deftest an-address-that-does-not-answer-leaves-time-for-the-next
  (let [tried (atom [])
        connect (fn [outcomes timeout]
                  (let [outcomes (atom outcomes)]
                    (reset! tried [])
                    (with-redefs-fn {#'names/addresses (fn [& _] [:one :two])
                                     #'tcp/connect-to (fn [address _ deadline]
                                                        (swap! tried conj [address (quot (long (clock/left deadline)) 1000000000)])
                                                        (first (first (swap-vals! outcomes rest))))}
                      #(tcp/connect "shop.invalid" 80 (clock/deadline (clock/nanos timeout))))))]
    (is (= :socket (connect [::transport/timeout :socket] 1000000)))
    (let [[[one first-seconds] [two second-seconds]] @tried]
      (is (= [:one :two] [one two]))
      (is (< 400 (long first-seconds) 501))
      (is (< 900 (long second-seconds))))
    (is (= ::transport/timeout (connect [::transport/timeout ::transport/timeout] 1000000)))
    (is (= :socket (connect [(SocketException. "no") :socket] 1000000)))
    (is (= ::transport/timeout (connect [::transport/timeout :socket] 0)))))

;; ---- options that change while a read waits

(defn- waiting
  "A fork of f, which waits in a socket."
  [s f]
  (let [thread (promise)
        fork (scope/fork s #(do (deliver thread (Thread/currentThread)) (f)))]
    (is (eventually (in-socket? @thread)))
    fork))

(deftest an-idle-time-out-reaches-a-read-that-waits
  (scope/with-scope [s]
    (let [[client] (pair {:active false})
          fork (waiting s #(take 2 (refused (net/recv client))))]
      (net/set-options client {:idle-timeout 1})
      (is (= [:magnetar/connection-lost :etimedout] (scope/join fork)))))
  (let [[client served] (pair {:active true})]
    (net/set-options client {:active false})
    (is (eventually (.isLocked ^ReentrantLock (.-reading ^Connection served))))
    (net/set-options served {:idle-timeout 1})
    (is (= [[:tcp-error served :etimedout] [:tcp-closed served]] (vec (repeatedly 2 next-message))))))

(deftest a-longer-idle-time-out-reaches-a-read-that-waits
  (scope/with-scope [s]
    (let [[client served] (pair {:active false :idle-timeout 60000})
          fork (waiting s #(net/recv client))]
      (net/set-options client {:idle-timeout 1000000})
      (net/set-options client {:idle-timeout :infinity})
      (net/send served "x")
      (is (= "x" (String. ^bytes (scope/join fork)))))))

(deftest a-kind-of-packet-reaches-a-read-that-waits
  (scope/with-scope [s]
    (let [[client served] (pair {:active false :packet 2 :as :string})
          fork (scope/fork s net/recv served)]
      (net/set-options client {:packet :raw})
      (net/send client (byte-array [0 9 97 10]))
      (is (eventually (= 4 (:to @(.-input ^Connection served)))))
      (net/set-options served {:packet :line})
      (is (= "\u0000\ta\n" (scope/join fork))))))

(deftest a-line-is-looked-for-in-bytes-that-came-before-it-was-asked-for
  (let [[client served] (pair as-stream)
        to-lines (fn [_] (net/set-options served {:packet :line}) nil)]
    (net/set-options served {:packet to-lines})
    (net/send client "a\n")
    (is (= "a\n" (net/recv served {:timeout limit-ms :else :late})))))

(deftest a-recv-that-waits-comes-before-the-messages
  (scope/with-scope [s]
    (let [[client served] (pair as-stream)
          me (self)
          fork (waiting s #(net/recv served))]
      (net/set-options served {:active true})
      (net/send client "one\ntwo\n")
      (is (= "one\n" (scope/join fork)))
      (is (= me (:owner @(.-state ^Connection served))))
      (is (= [:tcp served "two\n"] (next-message))))))

(deftest the-messages-that-count-are-bounded-as-in-erlang
  (let [[_ served] (pair {:active 32767})]
    (is (= [:magnetar/bad-option :einval] (take 2 (refused (net/set-options served {:active 1})))))
    (is (nil? (net/set-options served {:active :once})))))

(deftest what-is-sent-in-parts-is-no-idle-time
  (scope/with-scope [s]
    (let [[client served] (pair {:active false})
          touched #(deref (.-touched ^Connection client))
          begin (touched)
          fork (scope/fork s #(try (net/send client (byte-array 50000000)) (catch Exception _ :closed)))]
      (is (eventually (not= begin (touched))))
      (is (= :sends (scope/join fork {:timeout 0 :else :sends})))
      (net/close served)
      (is (= :closed (scope/join fork))))))

;; ---- owners

(deftest a-connection-is-given-away-although-its-mailbox-is-full
  (let [l (listener {:packet 1})
        other (forwarding)
        me (self)
        owner (actor/spawn-opt (fn []
                                 (let [conn (net/accept l {:active true})]
                                   (actor/! me conn)
                                   (receive [:go] (net/controlling-process conn other))
                                   (actor/! me [:left (receive x x) (receive x x)])))
                               {:mailbox {:capacity 2 :when-full :block}})
        client (net/connect home (net/port l) {:packet 1 :active false})
        served (next-message)]
    (actor/! owner :one)
    (actor/! owner :two)
    (dotimes [n 10]
      (net/send client (byte-array [n])))
    (is (eventually (= "room in a mailbox" (:waits-for (reader-of served)))))
    (Send/signal owner [:go])
    (is (= (range 10) (repeatedly 10 #(receive [:got other [:tcp served bytes]] (first bytes) (after limit-ms :late)))))
    (is (= [:left :one :two] (receive [:left one two] [:left one two] (after limit-ms :late))))))

(deftest code-of-a-packet-that-fails-ends-the-connection-and-the-owner-knows
  (let [broken (fn [_] (throw (AssertionError. "broken")))
        [client served] (pair {:active true})]
    (net/set-options client {:active false})
    (net/set-options served {:active :once :packet broken})
    (net/send client "x")
    (is (= [[:tcp-error served :einval] [:tcp-closed served]] (vec (repeatedly 2 next-message)))))
  (let [[client served] (pair {:active false})]
    (net/set-options served {:packet (fn [_] (throw (AssertionError. "broken")))})
    (net/send client "x")
    (is (= [:magnetar/bad-packet :einval] (take 2 (refused (net/recv served)))))
    (is (nil? (net/recv client)))))

(deftest a-mailbox-that-refuses-ends-the-connection-and-the-owner-knows
  (let [l (listener {:packet 1})
        me (self)]
    (with-failures [reported]
      (actor/spawn-opt (fn []
                         (let [conn (net/accept l {:active true})]
                           (receive [:tcp-error conn why] (actor/! me why) (after limit-ms (actor/! me :late)))
                           (actor/! me (receive [:tcp-closed conn] :closed (after limit-ms :late)))))
                       {:mailbox {:capacity 1 :when-full :fail}})
      (let [client (net/connect home (net/port l) {:packet 1 :active false})]
        (net/send client (byte-array [1 2]))
        (net/send client (byte-array [3 4]))
        (is (nil? (net/recv client)))
        (is (= [:enobufs :closed] [(next-message) (next-message)]))
        (is (= 1 (count @reported)))))))

;; ---- ends

(deftest a-reader-that-fails-while-it-takes-a-packet-delivers-no-more
  (with-failures [failures]
    (let [state (atom {:owner (self) :active true})
          lock (ReentrantLock.)
          source (reify active/Source
                   (state-of [_] state)
                   (lock-of [_] lock)
                   (close [_] (swap! state assoc :closed true))
                   (await-packet [_] :packet)
                   (messages-of [_ _ _] (throw (AssertionError. "a bug")))
                   (messages-of-failure [_ _] {:last? true :messages [:failed]}))]
      (active/ensure-reader source)
      (is (= :failed (next-message)))
      (is (eventually (= [nil false] (map @state [:delivering :reader?]))))
      (is (eventually (= ["a bug"] (map message-of @failures)))))))

;; ---- memory that runs out

(defn- without-memory [& _]
  (throw (OutOfMemoryError. "no fiber")))

(deftest an-acceptor-that-could-not-start-starts-later
  (let [l (listener {:active false})
        client (net/connect home (net/port l) {:active false})]
    (with-redefs-fn {#'acceptor/start-fiber without-memory}
      #(is (thrown? OutOfMemoryError (net/accept l))))
    (is (= (net/local-address client) (net/remote-address (net/accept l {:timeout limit-ms}))))))

(deftest all-that-wait-for-an-acceptor-that-could-not-start-are-told
  (let [l (listener {:active false})
        waiting #(count (:waiting @(.-state ^Acceptor (.-acceptor ^Listener l))))
        starting (promise)
        told #(try
                (net/accept l {:timeout limit-ms :else :waits})
                (catch OutOfMemoryError e (ex-message e)))]
    (with-redefs-fn {#'acceptor/start-fiber (fn [_]
                                              (deliver starting true)
                                              (eventually (= 2 (waiting)))
                                              (throw (OutOfMemoryError. "no fiber")))}
      #(scope/with-scope [s]
         (let [one (scope/fork s told)]
           @starting
           (is (= ["no fiber" "no fiber"] (mapv scope/join [one (scope/fork s told)]))))))
    (is (some? (net/connect home (net/port l) {:active false})))
    (is (some? (net/accept l {:timeout limit-ms})))))

(deftest a-connection-whose-reader-could-not-start-leaves-its-place-once
  (let [l (listener {:active true :max-connections 1})
        group (.-group ^Listener l)
        clients (doall (repeatedly 2 #(net/connect home (net/port l) {:active false})))]
    (with-redefs-fn {#'active/start-fiber without-memory}
      #(is (thrown? OutOfMemoryError (net/accept l))))
    (is (= [#{} 1] [(:members @group) (.availablePermits ^Semaphore (:places @group))]))
    (let [conn (net/accept l {:timeout limit-ms})]
      (is (= (net/local-address (second clients)) (net/remote-address conn)))
      (net/send (second clients) "order")
      (is (= [:tcp conn "order"] (update (next-message) 2 #(String. ^bytes %)))))))

(deftest a-connection-that-no-process-could-own-leaves-its-place-once
  (let [l (listener {:active false :max-connections 1})
        group (.-group ^Listener l)
        clients (doall (repeatedly 2 #(net/connect home (net/port l) {:active false})))]
    (with-redefs-fn {#'owned/own without-memory}
      #(is (thrown? OutOfMemoryError (net/accept l))))
    (is (= [#{} 1] [(:members @group) (.availablePermits ^Semaphore (:places @group))]))
    (is (= (net/local-address (second clients)) (net/remote-address (net/accept l {:timeout limit-ms}))))
    (is (= 1 (net/drain l {:timeout 0})))))

(defn- accepting-stub
  "A socket that listens, whose `accept` calls f."
  [f]
  (reify
    transport/Endpoint
    (local [_] {:host home :port 1})
    (close [_])
    transport/Listening
    (accept [_] (f))))

(deftest an-error-that-a-cancelled-accept-leaves-behind-is-not-for-another-thread
  (let [stream (promise)
        acceptor (acceptor/acceptor (accepting-stub #(deref stream)))
        outcome (promise)]
    (spawn #(deliver outcome (try
                               (acceptor/accept acceptor clock/infinite)
                               (catch OutOfMemoryError e e))))
    (is (eventually (peek (:waiting @(.-state ^Acceptor acceptor)))))
    (#'acceptor/give-back acceptor (OutOfMemoryError. "no fiber"))
    (deliver stream ::stream)
    (is (= ::stream (deref outcome limit-ms :late)))))

(deftest an-acceptor-whose-fiber-ends-by-an-error-starts-again
  (let [acceptor (acceptor/acceptor (accepting-stub (constantly ::stream)))
        arrived @#'acceptor/arrived
        failing (atom true)]
    (with-redefs-fn {#'acceptor/arrived (fn [state arrival]
                                          (when (compare-and-set! failing true false)
                                            (without-memory))
                                          (arrived state arrival))}
      (fn []
        (is (thrown? OutOfMemoryError (acceptor/accept acceptor (clock/deadline (clock/nanos limit-ms)))))
        (is (= ::stream (acceptor/accept acceptor (clock/deadline (clock/nanos limit-ms)))))))
    (acceptor/close acceptor)
    (is (= true (.get ^CompletableFuture (.-gone ^Acceptor acceptor) limit-ms TimeUnit/MILLISECONDS)))))

(deftest a-listener-whose-acceptor-could-not-start-leaves-its-port
  (let [l (listener {:active false})
        port (net/port l)]
    (with-redefs-fn {#'acceptor/start-fiber without-memory}
      #(is (thrown? OutOfMemoryError (net/accept l))))
    (net/close l)
    (is (= port (net/port (net/listen port {:host home}))))))

(deftest a-reader-that-could-not-start-starts-later
  (let [[client served] (pair {:active false :as :string})]
    (with-redefs-fn {#'active/start-fiber without-memory}
      #(is (thrown? OutOfMemoryError (net/set-options served {:active true}))))
    (net/set-options served {:active true})
    (net/send client "x")
    (is (= [:tcp served "x"] (next-message)))))

(deftest a-connection-works-on-after-the-end-of-its-stream
  (let [[client served] (pair {:packet :line :as :string :exit-on-close false})]
    (net/send client "question\n")
    (net/shutdown client :write)
    (is (= [:tcp served "question\n"] (next-message)))
    (net/set-options served {:active :once})
    (is (= [:tcp-closed served] (next-message)))
    (net/send served "answer\n")
    (is (= [:tcp client "answer\n"] (next-message)))
    (net/close served)))

(deftest sockets-are-closed-by-with-open
  (let [sockets (atom [])]
    (with-open [^Closeable l (listener {:active false})
                ^Closeable client (net/connect home (net/port l) {:active false})
                ^Closeable udp (net/open 0 {:active false})]
      (reset! sockets [#(net/accept l) #(net/recv client) #(net/recv-from udp)]))
    (is (= (repeat 3 [:magnetar/socket-closed :closed]) (map #(take 2 (refused (%))) @sockets)))))

(deftest a-close-that-fails-ends-the-ownership
  (let [closing (reify
                  transport/Endpoint
                  (local [_] {:host home :port 1})
                  (close [_] (throw (AssertionError. "broken")))
                  transport/Stream
                  (remote [_] {:host home :port 2})
                  (set-options [_ _])
                  (when-gone [_ f] (f)))
        group (group/group 1)
        conn (connection/connection closing (self) {} group)]
    (is (= #{conn} (:members @group)))
    (is (thrown? AssertionError (net/close conn)))
    (is (= #{} (:members @group)))))

(deftest a-send-that-ends-while-its-limit-closes-the-connection-throws
  (let [closing (promise)
        slow (reify
               transport/Endpoint
               (local [_] {:host home :port 1})
               (close [_] (deliver closing true))
               transport/Stream
               (remote [_] {:host home :port 2})
               (set-options [_ _])
               (write [_ _ _] @closing)
               (output-shut? [_] false)
               (when-gone [_ f] (f)))
        conn (connection/connection slow (self) {:active false :send-timeout 1} nil)]
    (is (= [:magnetar/send-timeout :etimedout] (take 2 (refused (net/send conn "order")))))))

;; ---- limits of a listener

(deftest a-listener-has-at-most-so-many-connections
  (let [l (listener {:active false :max-connections 1})
        clients (doall (repeatedly 2 #(net/connect home (net/port l) {:active false})))
        one (net/accept l)
        me (self)]
    (is (= :none (net/accept l {:timeout 1 :else :none})))
    (net/close one)
    (let [two (net/accept l {:timeout limit-ms})]
      (is (= (net/local-address (second clients)) (net/remote-address two)))
      (spawn #(actor/! me (take 2 (refused (net/accept l)))))
      (net/close l)
      (is (= [:magnetar/socket-closed :closed] (next-message)))
      (net/close two))))

(deftest a-listener-may-have-any-number-of-connections
  (let [l (listener {:active false :max-connections Integer/MAX_VALUE})
        port (net/port l)]
    (is (nil? (net/close l)))
    (is (= port (net/port (net/listen port {:host home :max-connections 2000000000}))))))

(deftest an-acceptor-waits-while-there-are-too-many-files
  (let [arrivals (atom [:none :none :none ::stream :none ::stream])
        acceptor (acceptor/acceptor (accepting-stub #(let [[[arrival]] (swap-vals! arrivals subvec 1)]
                                                       (if (= :none arrival)
                                                         (throw (SocketException. "Too many open files"))
                                                         arrival))))]
    (with-failures [reported]
      (is (= [::stream ::stream] (vec (repeatedly 2 #(acceptor/accept acceptor clock/infinite)))))
      (is (= [(str "The acceptor of " home ":1 waits, as this program has as many open files and sockets as it may have. It "
                   "tries again every second. Close connections, raise the limit (`ulimit -n`), or give `listen` a "
                   ":max-connections.")]
             (map message-of @reported))))))

(deftest a-close-ends-the-pause-of-an-acceptor
  (let [acceptor (acceptor/acceptor (accepting-stub #(throw (SocketException. "Too many open files"))))
        outcome (promise)]
    (with-failures [_]
      (let [pid (spawn #(deliver outcome (acceptor/accept acceptor clock/infinite)))]
        (is (eventually (:accepting? @(.-state ^Acceptor acceptor))))
        (acceptor/close acceptor)
        (await-end pid)))
    (is (nil? @outcome))
    (is (true? (deref (.-gone ^Acceptor acceptor) limit-ms :late)))))
