(ns magnetar.net-udp-test
  "UDP sockets."
  (:require
   [clojure.test :refer [are deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [after receive self spawn]]
   [magnetar.impl.runtime]
   [magnetar.net :as net]
   [magnetar.net-support :refer [await-end home in-process message-count next-message owning refused]]
   [magnetar.support :refer [limit-ms]])
  (:import
   (java.net NetworkInterface)))

(set! *warn-on-reflection* true)

(use-fixtures :each in-process)

(defn- open [& [options]]
  (net/open 0 (merge {:host home :as :string} options)))

(deftest a-datagram-comes-with-its-address
  (let [a (open {:active false})
        b (open {:active false})]
    (is (= {:host home :port (net/port a)} (net/local-address a)))
    (is (= (str "#magnetar/udp-socket \"" home ":" (net/port a) "\"") (pr-str a)))
    (is (nil? (net/send-to a home (net/port b) "one")))
    (net/send-to a "localhost" (net/port b) (byte-array 0))
    (is (= {:host home :port (net/port a) :data "one"} (net/recv-from b)))
    (is (= {:host home :port (net/port a) :data ""} (net/recv-from b {:timeout limit-ms})))
    (is (= :none (net/recv-from b {:timeout 1 :else :none})))
    (net/set-options b {:as :bytes})
    (net/send-to a home (net/port b) (byte-array 60000))
    (is (= 60000 (alength ^bytes (:data (net/recv-from b)))))))

(deftest datagrams-are-messages
  (let [a (open {:active false})
        b (open)
        from (net/port a)
        send (fn [text] (net/send-to a home (net/port b) text))]
    (run! send ["one" "two" "three" "four"])
    (is (= [:udp b home from "one"] (next-message)))
    (is (= 0 (message-count)))
    (net/set-options b {:active 2})
    (is (= [[:udp b home from "two"] [:udp b home from "three"] [:udp-passive b]] (vec (repeatedly 3 next-message))))
    (is (= "four" (:data (net/recv-from b))))
    (net/set-options b {:active true})
    (is (= [:magnetar/connection-active :einval] (take 2 (refused (net/recv-from b)))))
    (let [me (self)
          other (spawn #(loop [] (receive message (actor/! me [::got message])) (recur)))]
      (net/controlling-process b other)
      (send "five")
      (is (= [::got [:udp b home from "five"]] (next-message)))
      (actor/exit other :kill)
      (await-end other)
      (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/set-options b {:active :once}))))))))

(deftest a-udp-socket-is-closed
  (let [a (open {:active false})
        port (net/port a)
        me (self)]
    (is (= [:magnetar/port-in-use :eaddrinuse
            (str "`open` on port " home ":" port ": another socket has that port. Stop its program, or open on port 0, which takes a free one.")]
           (refused (net/open port {:host home}))))
    (spawn #(do (actor/! me :waits) (actor/! me (take 2 (refused (net/recv-from a))))))
    (receive :waits nil)
    (net/close a)
    (is (nil? (net/close a)))
    (is (= [:magnetar/socket-closed :closed] (next-message)))
    (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/send-to a home port "late")))))
    (let [[owner b] (owning #(net/open port {:host home}))]
      (actor/exit owner :kill)
      (await-end owner)
      (is (= [:magnetar/socket-closed :closed] (take 2 (refused (net/recv-from b)))))
      (is (some? (net/open port {:host home}))))))

(deftest a-port-is-free-however-soon-its-socket-is-closed
  (let [port (net/port (doto (open {:active false}) net/close))]
    (dotimes [_ 1000] ; the reader may be about to wait in `receive`
      (net/close (net/open port {:host home})))
    (is (some? (net/open port {:host home})))))

(deftest a-bounded-mailbox-slows-the-reader
  (let [me (self)
        a (open {:active false})
        pid (actor/spawn-opt (fn []
                               (let [b (open {:active true})]
                                 (net/send-to a home (net/port b) "first")
                                 (receive [:udp b _ _ data] (actor/! me [b data]))
                                 (dotimes [n 3] (receive [:udp b _ _ data] (actor/! me [n data])))))
                             {:mailbox {:capacity 1 :when-full :block}})
        [b data] (next-message)]
    (is (= "first" data))
    (dotimes [n 3] (net/send-to a home (net/port b) (str n)))
    (is (= [[0 "0"] [1 "1"] [2 "2"]] (vec (repeatedly 3 next-message))))
    (await-end pid)))

(deftest a-socket-that-cannot-be-opened-leaves-its-port-free
  (let [a (open)
        port (net/port a)]
    (net/close a)
    (is (= [:magnetar/unknown-host :nxdomain] (take 2 (refused (net/open port {:add-membership "no-such-host.invalid"})))))
    (is (= [:magnetar/bad-option :einval
            "`open` wants the address of a multicast group, such as 239.1.2.3; this is \"127.0.0.1\"."]
           (refused (net/open port {:add-membership home}))))
    (is (some? (net/open port {:host home})))))

(defn- multicast?
  "Has this machine an interface, other than loopback, that takes multicast datagrams?"
  []
  (boolean (some #(and (.isUp ^NetworkInterface %) (.supportsMulticast ^NetworkInterface %) (not (.isLoopback ^NetworkInterface %)))
                 (enumeration-seq (NetworkInterface/getNetworkInterfaces)))))

(deftest a-group-gets-a-datagram-until-it-is-left
  (if-not (multicast?)
    (println "No test of multicast, as this machine has no interface that takes it.")
    (let [group "239.255.77.7"
          a (net/open 0 {:active false})
          b (net/open 0 {:active false :as :string :add-membership group})
          port (net/port b)]
      (net/send-to a group port "one")
      (is (= "one" (:data (net/recv-from b {:timeout limit-ms :else :late}))))
      (net/set-options b {:drop-membership group})
      (net/send-to a group port "two")
      (net/send-to a home port "three")
      (is (= "three" (:data (net/recv-from b {:timeout limit-ms :else :late}))))
      (is (= [:magnetar/socket-failed] (take 1 (refused (net/set-options b {:drop-membership group}))))))))

(deftest options-of-udp-are-set-or-refused
  (let [a (open {:active false :broadcast true :recbuf 100000 :sndbuf 100000 :multicast-ttl 2 :multicast-loop true :reuse-address true})]
    (is (nil? (net/set-options a {:multicast-ttl 0 :broadcast false})))
    (are [expected form] (= expected (last (refused form)))
      "`magnetar.net/open`: :multicast-ttl is a number from 0 to 255; this is 256."
      (net/open 0 {:multicast-ttl 256})
      "`magnetar.net/open`: :add-membership is the address of a multicast group, a string; this is :group."
      (net/open 0 {:add-membership :group})
      "`send-to` wants a UDP socket, as `open` returns it; this is nil."
      (net/send-to nil home 80 "x")
      "`send-to` wants a string or an array of bytes; this is :hello."
      (net/send-to a home 80 :hello))
    (is (= [:magnetar/socket-failed :emsgsize] (take 2 (refused (net/send-to a home 80 (byte-array 65536))))))
    (is (= :none (receive message message (after 0 :none))))))
