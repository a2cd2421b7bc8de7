(ns magnetar.cluster.unread-test
  "A session that reads slowly holds its sender up, and not the memory of its node."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive spawn]]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.etf :as etf]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.cluster.wire Unread Unread$Share)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(defn- start-thread [f]
  (let [thread (Thread/ofVirtual)]
    (.start thread ^Runnable f)))

(deftest the-network-waits-for-room
  (let [unread (Unread. 100)
        ^Unread$Share share (.share unread)
        added (atom 0)
        add (fn [n] (start-thread (fn [] (.add unread n) (swap! added inc))))]
    (.add unread 100)
    (.take share 100)
    (add 1)
    (is (= [0 100] [@added (.size unread)]))
    (.read share 1)
    (mt/wait-until #(= 1 @added))
    (is (= 100 (.size unread)))
    (add 2)
    (.beginSend share)
    (mt/wait-until #(= 2 @added))
    (.endSend share)
    (is (= 102 (.size unread)) "a session that sends is not waited for")
    (add 3)
    (.close share)
    (mt/wait-until #(= 3 @added))
    (is (= 6 (.size unread)) "what a session leaves behind is dropped")
    (.addNow unread 100)
    (add 4)
    (.close unread)
    (mt/wait-until #(= 4 @added))))

;; ---- the sender

(defrecord Slow [])

(defn- join [net node options services]
  (let [events (atom [])]
    (mt/start-node node)
    (mt/on-node node (fn []
                       (services)
                       (spawn (fn []
                                (actor/flag :trap-exit true)
                                (Peers/setName (name node))
                                (hub/start-link (merge {:network (mt/endpoint net node)
                                                   :name (name node)
                                                   :cookie (.getBytes "0123456789abcdef")
                                                   :notify #(swap! events conj %)}
                                                  options))
                                (receive :never nil)))
                       nil))
    events))

(defn- slow
  "The extension of a value that is read when the door is open."
  [door]
  {:extensions [(etf/extension {:tag :my/slow
                                :class Slow
                                :write (constantly 0)
                                :read (fn [_]
                                        (when-not @door (mt/wait-until #(deref door) {:timeout 600000}))
                                        0)})]})

(def ^:private messages 300)
(def ^:private size 100000)

(deftest a-slow-session-holds-up-its-sender
  (let [got (atom 0)
        sent (atom 0)
        door (atom false)
        most (+ 1048576 2097152 4194304 (* 4 size))] ; outbox, window, unread
    (is (= [true messages]
           (mt/simulate {:seed 1}
             (let [net (mt/network)
                   events [(join net :a (slow door) (constantly nil))
                           (join net :b (slow door)
                                 (fn [] (actor/register :sink (spawn (fn [] (loop [] (receive _ (do (swap! got inc) (recur)))))))))]]
               (mt/wait-until #(every? (comp seq deref) events) {:timeout 60000})
               (mt/on-node :a (fn []
                                (spawn (fn []
                                         (! [:sink "b"] (->Slow))
                                         (dotimes [_ messages]
                                           (! [:sink "b"] (byte-array size))
                                           (swap! sent inc))))
                                nil))
               (scope/sleep 10000)
               (let [held @sent]
                 (reset! door true)
                 (mt/wait-until #(= (inc messages) @got) {:timeout 600000 :else nil})
                 [(<= 10 (* held size) most) (dec @got)])))))))
