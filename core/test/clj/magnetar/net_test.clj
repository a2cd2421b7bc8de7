(ns magnetar.net-test
  "TCP sockets over the loopback: streams, messages, packets, owners, ends, and what is refused."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing use-fixtures]]
   [clojure.test.check :as check]
   [clojure.test.check.generators :as gen]
   [clojure.test.check.properties :as prop]
   [magnetar.actor :as actor :refer [after receive self spawn]]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.net :as net]
   [magnetar.net-support :refer [acceptor-of as-stream await-end cancelled-in-socket cancelled-while forwarding home in-process in-socket? listener message-count next-message owning pair reader-of refused thrown waits-for-accept?]]
   [magnetar.net.framing :as framing]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [eventually limit-ms]]
   [magnetar.test :as mt])
  (:import
   (java.io Closeable)
   (magnetar TimeoutException)
   (magnetar.kernel.process Send)
   (magnetar.net.listener Listener)))

(set! *warn-on-reflection* true)

(use-fixtures :each in-process)

;; ---- packets, without a socket

(defn- with-bytes
  "The input after these bytes arrived, as they do from a socket."
  [input arrived]
  (reduce (fn [input b]
            (let [{:keys [^bytes bytes to] :as input} (framing/with-room input)]
              (aset bytes (int to) (unchecked-byte (long b)))
              (framing/grown input 1)))
          input arrived))

(defn- packets-of
  "[input packets]: takes the packets out of the input, as vectors of bytes."
  [input kind most]
  (loop [input input taken []]
    (let [packet (framing/packet input kind most nil)]
      (if (vector? packet)
        (recur (framing/after-packet input packet) (conj taken (subvec (vec (:bytes input)) (packet 0) (packet 1))))
        [(framing/searched input kind) (cond-> taken packet (conj packet))]))))

(defn- cut
  "The packets of chunks of bytes that arrive one after the other."
  [chunks kind most]
  (second (reduce (fn [[input taken] chunk]
                    (let [[input more] (packets-of (with-bytes input chunk) kind most)]
                      [input (into taken more)]))
                  [framing/empty-input []] chunks)))

(defn- split [bytes sizes]
  (loop [bytes bytes [size & sizes] sizes chunks []]
    (if (or (empty? bytes) (nil? size))
      (conj chunks bytes)
      (recur (drop size bytes) sizes (conj chunks (take size bytes))))))

(defn- holds? [property]
  (let [{:keys [pass?] :as found} (check/quick-check 200 property)]
    (is pass? (pr-str (select-keys found [:seed :shrunk])))))

(def ^:private payloads (gen/vector (gen/vector (gen/choose -128 127) 0 200) 0 20))
(def ^:private sizes (gen/vector (gen/choose 0 100) 0 60))

(deftest any-split-of-a-stream-gives-the-same-packets
  (holds?
    (prop/for-all [payloads payloads sizes sizes kind (gen/elements [1 2 4])]
      (let [bytes (mapcat #(framing/framed kind (byte-array %)) payloads)]
        (= payloads (cut (split bytes sizes) kind 200))))))

(deftest any-split-of-a-stream-gives-the-same-lines
  (holds?
    (prop/for-all [payloads payloads sizes sizes]
      (let [lines (map #(conj (vec (remove #{10} %)) 10) payloads)]
        (= lines (cut (split (apply concat lines) sizes) :line 201))))))

(deftest garbage-gives-packets-within-the-limit-or-an-error
  (holds?
    (prop/for-all [bytes (gen/vector (gen/choose -128 127) 0 2000) sizes sizes kind (gen/elements [:line 1 2 4])]
      (every? #(or (= :too-long %) (<= (count %) 50)) (cut (split bytes sizes) kind 50)))))

(deftest a-packet-may-be-as-long-as-the-limit-and-no-longer
  (are [bytes kind cut-to] (= cut-to (cut [bytes] kind 3))
    [1 2 10 1 10] :line [[1 2 10] [1 10]]
    [1 2 3] :line []
    [1 2 3 4] :line [:too-long]
    [1 2 3 10] :line [:too-long]
    [3 7 8 9 0] 1 [[7 8 9] []]
    [4] 1 [:too-long]
    [0 3 7 8 9] 2 [[7 8 9]]
    [-1 -1] 2 [:too-long]
    [0 0 0 1 7] 4 [[7]]
    [-1 -1 -1 -1] 4 [:too-long]))

;; ---- streams

(deftest a-stream-is-read-packet-by-packet-and-ends-with-nil
  (let [[client served] (pair as-stream)]
    (is (nil? (net/send client "one\ntwo\nhalf")))
    (is (= ["one\n" "two\n"] [(net/recv served) (net/recv served)]))
    (net/send client " a line\ncut")
    (net/close client)
    (is (= "half a line\n" (net/recv served)))
    (is (= [nil nil] [(net/recv served) (net/recv served)]))))

(deftest after-the-end-of-the-stream-the-other-direction-works
  (let [[client served] (pair as-stream)]
    (net/send client "question\n")
    (net/shutdown client :write)
    (is (= ["question\n" nil] [(net/recv served) (net/recv served)]))
    (net/send served "answer\n")
    (is (= "answer\n" (net/recv client)))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send client "late\n")))))
    (net/shutdown client :both)
    (is (nil? (net/recv client)))))

(deftest bytes-are-read-by-number
  (let [[client served] (pair {:active false})]
    (net/send client (byte-array (range 10)))
    (is (= [0 1 2] (vec (net/recv served 3))))
    (is (= [3 4 5 6] (vec (net/recv served 4 {:timeout limit-ms}))))
    (net/shutdown client :write)
    (is (nil? (net/recv served 4)))
    (is (= [7 8 9] (vec (net/recv served))))
    (is (nil? (net/recv served)))))

(deftest packets-are-put-together-from-many-writes
  (doseq [kind [1 2 4]]
    (let [[client served] (pair {:active false})
          data (byte-array (range 100))]
      (net/set-options served {:packet kind})
      (doseq [b (concat (framing/framed kind data) (framing/framed kind (byte-array 0)))]
        (net/send client (byte-array [b])))
      (is (= (vec data) (vec (net/recv served))))
      (is (= [] (vec (net/recv served))))
      (net/set-options client {:packet kind})
      (net/set-options client {:as :string})
      (net/send served "grüße")
      (is (= "grüße" (net/recv client))))))

(deftest a-large-packet-arrives-whole
  (let [[client served] (pair {:active false :packet 4 :max-packet 3000000})
        data (byte-array (map unchecked-byte (range 3000000)))]
    (scope/with-scope [s]
      (scope/fork s net/send client data)
      (is (java.util.Arrays/equals data ^bytes (net/recv served))))))

(deftest a-recv-that-ends-by-time-loses-nothing
  (let [[client served] (pair as-stream)]
    (net/send client "half")
    (is (= :none (net/recv served {:timeout 1 :else :none})))
    (is (thrown? TimeoutException (net/recv served {:timeout 0})))
    (net/send client " a line\n")
    (is (= "half a line\n" (net/recv served {:timeout limit-ms})))))

(deftest what-several-processes-send-does-not-mix
  (let [[client served] (pair {:active false :packet 4 :as :string})
        words (map #(apply str (repeat 20000 %)) "abcdefgh")]
    (doseq [word words]
      (spawn #(net/send client word)))
    (is (= (set words) (set (repeatedly 8 #(net/recv served)))))))

(deftest addresses-are-maps
  (let [l (listener)
        client (net/connect home (net/port l))
        served (net/accept l)]
    (is (= {:host home :port (net/port l)} (net/local-address l) (net/remote-address client) (net/local-address served)))
    (is (= (net/local-address client) (net/remote-address served)))
    (is (= (:port (net/local-address client)) (net/port client)))
    (is (= (str "#magnetar/listener \"" home ":" (net/port l) "\"") (pr-str l)))
    (is (= (str "#magnetar/connection \"" home ":" (net/port client) " to " home ":" (net/port l) "\"") (pr-str client)))))

;; ---- accept

(deftest an-accept-ends-by-time
  (let [l (listener)]
    (is (= :none (net/accept l {:timeout 1 :else :none})))
    (is (thrown? TimeoutException (net/accept l {:timeout 1})))
    (is (some? (do (net/connect home (net/port l)) (net/accept l {:timeout limit-ms}))))))

(deftest an-accepted-connection-has-the-options-of-the-listener-or-others
  (let [l (listener {:packet 2 :as :string :active false})
        client (net/connect home (net/port l) {:packet 2 :active false})
        served (net/accept l)]
    (net/send client "two")
    (is (= "two" (net/recv served)))
    (let [other (net/connect home (net/port l) {:packet :line :active false})
          served (net/accept l {:packet :line :active :once})]
      (net/send other "line\n")
      (is (= [:tcp served "line\n"] (next-message))))))

(deftest a-cancelled-accept-leaves-its-listener-open
  (let [l (listener {:active false})
        accepted (atom [])
        accept-all (fn [] (swap! accepted conj (net/remote-address (net/accept l))) (recur))
        others (doall (repeatedly 2 #(spawn accept-all)))
        clients (doall (for [_ (range 1000)]
                         (do
                           (scope/with-scope [s]
                             (scope/cancel (scope/fork s accept-all)))
                           (net/connect home (net/port l) {:active false}))))]
    (is (eventually (= 1000 (count @accepted))))
    (is (= (set (map net/local-address clients)) (set @accepted)))
    (run! #(actor/exit % :kill) others)
    (is (= :none (net/accept l {:timeout 1 :else :none})))))

(deftest what-comes-after-a-wait-has-ended-is-for-the-next-accept
  (let [l (listener {:active false})]
    (is (= :none (net/accept l {:timeout 1 :else :none})))
    (is (true? (cancelled-while waits-for-accept? #(net/accept l))))
    (let [client (net/connect home (net/port l) {:active false})]
      (is (= (net/local-address client) (net/remote-address (net/accept l)))))
    (is (= :none (net/accept l {:timeout 1 :else :none})))
    (let [client (net/connect home (net/port l) {:active false})]
      (is (eventually (nil? (acceptor-of l))))
      (net/close l)
      (is (nil? (net/recv client))))))

(deftest a-cancelled-recv-closes-its-connection
  (let [[client served] (pair {:active false})]
    (is (true? (cancelled-in-socket #(net/recv served))))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/recv served)))))
    (is (nil? (net/recv client)))))

(deftest an-interrupted-accept-throws-that
  (let [l (listener)
        thread (promise)
        outcome (promise)
        _ (Thread/startVirtualThread #(do (deliver thread (Thread/currentThread))
                                          (deliver outcome (try (net/accept l {:active false}) (catch Throwable e (class e))))))]
    (is (eventually (waits-for-accept? @thread)))
    (.interrupt ^Thread @thread)
    (is (= InterruptedException @outcome))))

(deftest a-close-ends-what-waits
  (let [l (listener)
        [client] (pair {:active false})
        me (self)]
    (doseq [[socket waits? f] [[l waits-for-accept? #(net/accept l)] [client in-socket? #(net/recv client)]]
            :let [thread (promise)]]
      (spawn #(do (deliver thread (Thread/currentThread))
                  (actor/! me (take 2 (thrown f)))))
      (is (eventually (waits? @thread)))
      (net/close socket)
      (is (= [:magnetar/socket-closed :closed] (next-message)))
      (is (nil? (net/close socket))))))

(deftest each-of-several-acceptors-gets-connections
  (let [l (listener {:active false})
        me (self)]
    (dotimes [_ 4]
      (spawn #(let [conn (net/accept l)]
                (net/send conn "x")
                (actor/! me :served)
                (receive :never nil))))
    (let [clients (doall (repeatedly 4 #(net/connect home (net/port l) {:active false :as :string})))]
      (is (= ["x" "x" "x" "x"] (map net/recv clients))))))

;; ---- messages

(deftest once-is-one-message
  (let [[client served] (pair {:packet :line :as :string})]
    (net/send client "one\ntwo\nthree\n")
    (is (= [:tcp served "one\n"] (next-message)))
    (is (= 0 (message-count)))
    (is (eventually (nil? (reader-of served))))
    (net/set-options served {:active :once})
    (is (= [:tcp served "two\n"] (next-message)))
    (net/set-options served {:active false})
    (is (= "three\n" (net/recv served)))))

(deftest true-is-all-messages-and-the-end
  (let [[client served] (pair {:active true :packet 1})]
    (dotimes [n 100]
      (net/send client (byte-array [n])))
    (net/shutdown client :write)
    (is (= (range 100) (repeatedly 100 #(first (receive [:tcp served data] data)))))
    (is (= :closed (receive [:tcp-closed served] :closed)))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send served "late")))))
    (is (= :closed (receive [:tcp-closed client] :closed)))
    (is (eventually (nil? (reader-of served))))))

(deftest a-number-is-that-many-messages
  (let [[client served] (pair {:packet :line :as :string :active 2})]
    (net/set-options served {:active 1})
    (net/send client "1\n2\n3\n4\n5\n")
    (is (= [[:tcp served "1\n"] [:tcp served "2\n"] [:tcp served "3\n"] [:tcp-passive served]] (repeatedly 4 next-message)))
    (net/set-options served {:active 1})
    (is (= [[:tcp served "4\n"] [:tcp-passive served]] (repeatedly 2 next-message)))
    (is (= "5\n" (net/recv served)))
    (is (= 0 (message-count)))))

(deftest what-arrives-after-a-change-to-false-is-for-recv
  (let [[client served] (pair {:packet :line :as :string :active true})]
    (is (eventually (reader-of served)))
    (net/set-options served {:active false})
    (net/send client "mine\n")
    (is (= "mine\n" (net/recv served)))
    (is (= 0 (message-count)))))

(deftest a-packet-that-is-too-long-ends-the-connection
  (let [[client served] (pair {:packet :line :as :string :max-packet 5})]
    (net/set-options client {:active false}) ; it is closed too, and would tell this process
    (net/send client "123456\n")
    (is (= [[:tcp-error served :emsgsize] [:tcp-closed served]] (repeatedly 2 next-message)))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/set-options served {:active :once}))))))
  (let [[client served] (pair {:packet 4 :max-packet 5 :active false})]
    (net/set-options client {:packet :raw})
    (net/send client (byte-array [127 0 0 0]))
    (is (= [:magnetar/packet-too-long :emsgsize
            (str "A packet for " served " is longer than its :max-packet of 5 bytes. The connection is closed; give a larger :max-packet if the "
                 "sender is right.")]
           (refused (net/recv served))))))

(deftest a-reset-is-an-error
  (let [l (listener {:active false})
        socket (java.net.Socket. ^String home (int (net/port l)))
        served (net/accept l {:active :once})
        other (java.net.Socket. ^String home (int (net/port l)))
        read (net/accept l)]
    (run! #(.setSoLinger ^java.net.Socket % true 0) [socket other])
    (run! #(.close ^Closeable %) [socket other])
    (is (= [[:tcp-error served :econnreset] [:tcp-closed served]] (repeatedly 2 next-message)))
    (is (= [:magnetar/connection-lost :econnreset] (take 2 (refused (net/recv read)))))))

(deftest a-full-mailbox-stops-the-sender
  (let [l (listener {:packet 4})
        total 64
        data (byte-array 1000000)
        sent (atom 0)
        owner (actor/spawn-opt (fn []
                                 (let [conn (net/accept l {:active true})
                                       [_ to] (receive [:go to] [:go to])]
                                   (actor/! to (frequencies (repeatedly total #(receive [:tcp conn bytes] (count bytes)))))))
                               {:mailbox {:capacity 3 :when-full :block}})
        client (net/connect home (net/port l) {:packet 4 :active false})]
    (scope/with-scope [s]
      (scope/fork s #(dotimes [_ total] (net/send client data) (swap! sent inc)))
      (testing "The reader waits for room, and the sender for the reader"
        (is (eventually (some #(and (str/starts-with? (:name %) "reader of") (= "room in a mailbox" (:waits-for %))) (inspect/fibers))))
        (is (= 3 (actor/process-info owner :message-queue-len)))
        (is (< (long @sent) total)))
      (Send/signal owner [:go (self)])
      (is (= {1000000 total} (next-message))))))

;; ---- owners

(deftest what-a-process-owns-is-closed-when-it-ends
  (doseq [end [#(actor/! % :end) #(actor/exit % :shutdown) #(actor/exit % :kill)]]
    (let [[listening l] (owning listener)
          [connected client] (owning #(net/connect home (net/port l)))
          served (net/accept l)]
      (end connected)
      (is (= [:tcp-closed served] (next-message)))
      (await-end connected)
      (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send client "late")))))
      (end listening)
      (await-end listening)
      (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/accept l)))))
      (is (some? (net/listen (net/port l) {:host home}))))))

(deftest a-listener-is-restarted-on-its-port-a-thousand-times
  (let [l (listener)
        port (net/port l)
        _ (net/close l)
        me (self)
        start (fn []
                [:ok (actor/spawn-link (fn []
                                         (let [l (net/listen port {:host home})]
                                           (actor/! me [::listens (self)])
                                           (net/accept l))))])
        [_ supervisor] (sup/start-link {:intensity 2000 :period 60000 :children [{:id :acceptor :start [start]}]})]
    (dotimes [n 1000]
      (let [pid (receive [::listens pid] pid (after limit-ms (is nil (str "restart " n))))]
        (actor/exit pid :kill)))
    (is (actor/alive? supervisor))
    (let [pid (receive [::listens pid] pid)
          ref (actor/monitor pid)]
      (is (some? (net/connect home port {:active false})))
      (receive [:DOWN ref :process _ why] (is (= :normal why))))
    (actor/unlink supervisor)
    (actor/exit supervisor :shutdown)))

(deftest messages-move-to-the-new-owner
  (let [[client served] (pair {:active true :packet :line :as :string})
        other (forwarding)]
    (net/set-options client {:active false})
    (net/send client "one\ntwo\n")
    (is (eventually (= 2 (message-count))))
    (actor/! (self) :mine)
    (is (nil? (net/controlling-process served other)))
    (net/send client "three\n")
    (is (= [[:tcp served "one\n"] [:tcp served "two\n"] [:tcp served "three\n"]]
           (repeatedly 3 #(receive [:got other message] message))))
    (is (= :mine (next-message)))
    (net/close client)
    (is (= [:tcp-closed served] (receive [:got other message] message)))))

(deftest messages-under-way-move-in-order-and-none-is-lost
  (dotimes [_ 20]
    (let [[client served] (pair {:active true :packet 4})
          total 200
          other (forwarding)]
      (net/set-options client {:active false})
      (scope/with-scope [s]
        (scope/fork s #(dotimes [n total] (net/send client (byte-array [n]))))
        (receive [:tcp served bytes] (is (= [0] (vec bytes))))
        (net/controlling-process served other)
        (is (= (map unchecked-byte (range 1 total))
               (repeatedly (dec total) #(receive [:got other [:tcp served bytes]] (first bytes)))))
        (is (= 0 (message-count)))))))

(deftest a-message-that-waits-for-room-moves-too
  (let [l (listener {:packet 1})
        other (forwarding)
        me (self)
        owner (actor/spawn-opt (fn []
                                 (let [conn (net/accept l {:active true})]
                                   (actor/! me conn)
                                   (receive [:go] (net/controlling-process conn other))
                                   (receive :never nil)))
                               {:mailbox {:capacity 2 :when-full :block}})
        client (net/connect home (net/port l) {:packet 1 :active false})
        served (next-message)]
    (dotimes [n 10]
      (net/send client (byte-array [n])))
    (is (eventually (= "room in a mailbox" (:waits-for (reader-of served)))))
    (Send/signal owner [:go])
    (is (= (range 10) (repeatedly 10 #(receive [:got other [:tcp served bytes]] (first bytes)))))))

(deftest a-connection-goes-with-its-new-owner
  (let [[client served] (pair {:active false})
        other (spawn #(receive :end nil))]
    (net/controlling-process served other)
    (is (nil? (net/controlling-process client (self))))
    (actor/exit other :kill)
    (is (nil? (net/recv client)))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send served "late")))))))

(deftest a-thread-may-give-its-connection-to-a-process
  (let [l (listener)
        conn @(future (net/connect home (net/port l)))
        served (net/accept l)]
    (net/controlling-process conn (self))
    (net/set-options conn {:active :once})
    (net/send served (byte-array [7]))
    (is (= [7] (receive [:tcp conn data] (vec data))))))

;; ---- drained

(deftest a-drain-waits-for-connections-and-cuts-the-rest
  (let [l (listener {:active false})
        clients (doall (repeatedly 3 #(net/connect home (net/port l) {:active false})))
        [one two three] (doall (repeatedly 3 #(net/accept l)))
        waiting (net/connect home (net/port l) {:active false})
        me (self)]
    (spawn #(actor/! me [::cut (net/drain l {:timeout :infinity})]))
    (is (eventually (not= :done (first (refused (net/connect home (net/port l) {:active false})))))
        "a drain closes the port first")
    (net/send one "still open")
    (is (= "still open" (String. ^bytes (net/recv (first (filter #(= (net/remote-address one) (net/local-address %)) clients)))))
        "A connection works on while the listener drains")
    (run! net/close [one two])
    (is (= :none (receive [::cut n] n (after 1 :none))))
    (net/close three)
    (is (= 0 (receive [::cut n] n (after limit-ms :late))))
    (is (#{:done :magnetar/connection-lost} (first (refused (net/recv waiting))))))
  (let [l (listener {:active false})
        client (net/connect home (net/port l) {:active false})
        served (net/accept l)]
    (is (= 1 (net/drain l {:timeout 1})))
    (is (nil? (net/recv client)))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send served "late")))))
    (is (= 0 (net/drain l)))))

(deftest a-listener-keeps-no-closed-connection
  (let [l (listener {:active false})]
    (dotimes [_ 50]
      (net/close (net/connect home (net/port l) {:active false}))
      (net/close (net/accept l)))
    (is (empty? (:members @(.-group ^Listener l))))))

;; ---- refused

(deftest what-fails-says-so
  (let [l (listener)
        port (net/port l)]
    (is (= [:magnetar/port-in-use :eaddrinuse
            (str "`listen` on port " home ":" port ": another socket has that port. Stop its program, or listen on port 0, which takes a free one.")]
           (refused (net/listen port {:host home}))))
    (net/close l)
    (is (= [:magnetar/connection-refused :econnrefused
            (str "`connect` to " home ":" port " was refused: no program listens there. Start the server, or check host and port.")]
           (refused (net/connect home port)))))
  (is (= [:magnetar/unknown-host :nxdomain
          "`connect`: the host \"no-such-host.invalid\" has no address. Check the name, and the name server of this machine."]
         (refused (net/connect "no-such-host.invalid" 80))))
  (is (= [:magnetar/socket-failed :eaddrnotavail] (take 2 (refused (net/listen 0 {:host "203.0.113.1"}))))))

(deftest a-closed-connection-says-so
  (let [[client] (pair {:active false})]
    (net/close client)
    (doseq [[operation f] {"recv" #(net/recv client) "send" #(net/send client "late") "set-options" #(net/set-options client {:active :once})
                           "shutdown" #(net/shutdown client :write)}]
      (is (= [:magnetar/socket-closed :closed
              (str "`" operation "` on " client ", which is closed: by `close`, by the end of its owner, by a cancellation or by an error before. "
                   "Open a new connection.")]
             (thrown f))))))

(deftest a-send-that-nobody-reads-ends-by-time-and-closes
  (let [[client] (pair {:active false :send-timeout 50})
        data (byte-array 1000000)]
    (is (= [:magnetar/send-timeout :etimedout
            (str "`send` on " client " did not end within its :send-timeout of 50 ms, because the other side does not read. The connection is "
                 "closed, since a part may have been sent.")]
           (refused (dotimes [_ 100] (net/send client data)))))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send client "late")))))))

(deftest misuse-of-a-connection-says-what-to-do
  (let [[client served] (pair {:packet 1})
        other (spawn #(receive :end nil))
        ended (spawn (fn []))]
    (actor/join ended)
    (are [expected form] (= expected (refused form))
      [:magnetar/connection-active :einval
       (str "`recv` on " client ", whose data arrive as messages, as :active is :once: receive them, or call "
            "(set-options conn {:active false}) before.")]
      (net/recv client)

      [:magnetar/packet-too-long :emsgsize
       (str "`send` of 256 bytes on " client ", whose length header has room for 255: send less at once, or let both sides use {:packet 4}.")]
      (net/send client (byte-array 256))

      [:magnetar/not-sendable :einval "`send` wants a string or an array of bytes; this is :hello."]
      (net/send client :hello)

      [:magnetar/noproc :badarg (str "`controlling-process` of " client " to " ended ", which is not alive: give it to a process that is.")]
      (net/controlling-process client ended)

      [:magnetar/not-a-pid :badarg "`controlling-process` wants the pid of the new owner; this is :other."]
      (net/controlling-process client :other))
    (net/set-options client {:active false})
    (is (= [:magnetar/bad-option :einval
            (str "`recv` of a number of bytes on " client ", whose :packet is 1: a number goes with {:packet :raw}. Leave it out.")]
           (refused (net/recv client 5))))
    (net/controlling-process served other)
    (is (= [:magnetar/not-owner :not-owner
            (str "`controlling-process` on " served ", which belongs to " other ": only its owner may give it away, so ask it by a message.")]
           (refused (net/controlling-process served (self)))))))

(deftest misuse-of-options-says-what-to-do
  (let [l (listener)]
    (are [expected form] (= expected (second (rest (refused form))))
      "`magnetar.net/listen`: :packet is :raw, :line, the bytes of a length header, 1, 2 or 4, a function or a layout of bits; this is 3."
      (net/listen 0 {:packet 3})
      "`magnetar.net/listen`: :active is :once, true, false or a number of messages from 1 to 32767; this is 0."
      (net/listen 0 {:active 0})
      "`magnetar.net/connect`: :as is :bytes or :string; this is :text."
      (net/connect home 80 {:as :text})
      "`magnetar.net/connect`: :send-timeout is a duration above 0 or :infinity; this is 0."
      (net/connect home 80 {:send-timeout 0})
      "`magnetar.net/listen`: :nodelay is true or false; this is nil."
      (net/listen 0 {:nodelay nil})
      "`listen` wants a port, a whole number from 0 to 65535; this is 65536."
      (net/listen 65536)
      "`connect` wants a port, a whole number from 1 to 65535; this is 0."
      (net/connect home 0)
      "`connect` wants a host, the name or the address as a string; this is :localhost."
      (net/connect :localhost 80)
      "`accept` wants a listener, as `listen` returns it; this is 80."
      (net/accept 80)
      "`send` wants a connection, as `connect` and `accept` return it; this is nil."
      (net/send nil "x")
      "`close` wants a connection, a listener or a UDP socket; this is :conn."
      (net/close :conn))
    (is (str/includes? (last (refused (net/accept l {:timout 1}))) "Is :timeout meant?"))))

(deftest a-thread-without-a-process-has-streams-alone
  (let [l (listener)
        [id _ message] @(future (thrown #(net/connect home (net/port l) {:active :once})))]
    (is (= :magnetar/no-process id))
    (is (str/ends-with? message "is no process: give {:active false} and use `recv`, or call it in a process."))
    (let [conn @(future (net/connect home (net/port l)))
          served (net/accept l)]
      (net/send served (byte-array [1]))
      (is (= [1] @(future (vec (net/recv conn)))))
      (is (= :magnetar/no-process (first (refused (net/set-options conn {:active true})))))
      (net/close conn))))

(deftest a-simulation-has-no-sockets
  (is (= :magnetar/not-simulated (first (mt/simulate {} (refused (net/listen 0)))))))
