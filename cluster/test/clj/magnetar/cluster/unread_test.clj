(ns magnetar.cluster.unread-test
  "A session that reads slowly holds its sender up, and not the memory of its node."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self spawn]]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.etf :as etf]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.cluster.wire Unread Unread$Share)
   (magnetar.kernel.network Member)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(deftest each-member-has-a-limit-of-its-own
  (let [unread (Unread. 2000)
        [a b] [(Member. "a@host" 1) (Member. "b@host" 2)]
        ^Unread$Share share (.share unread a)
        overhead 256]
    (is (= [true true false true] [(.add unread a 1000) (.add unread a 1) (.add unread a 1000) (.add unread b 1000)]))
    (is (= (+ 1001 (* 2 overhead)) (.size unread a)) "a frame costs more than its bytes")
    (run! #(.take share %) [1000 1])
    (.read share 1000)
    (is (= (+ 1 overhead) (.size unread a)))
    (is (true? (.add unread a 1000)))
    (.close share)
    (is (= (+ 1000 overhead) (.size unread a)) "what a session leaves behind is dropped, and not what comes for the next one")
    (.remove unread a 1000)
    (is (= [0 (+ 1000 overhead)] [(.size unread a) (.size unread b)]))))

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

(defn- answers? [to]
  (! to [:echo (self)])
  (receive :echoed true (after 5000 false)))

(defn- echo []
  (receive [:echo from] (do (! from :echoed) (recur))))

(deftest a-slow-session-holds-up-no-other-node
  (let [door (atom false)]
    (is (true? (mt/simulate {:seed 1}
                 (let [net (mt/network)
                       events (mapv #(join net % (slow door) (fn [] (actor/register :echo (spawn echo)))) [:a :b :c])]
                   (mt/wait-until #(every? (comp #{2} count deref) events) {:timeout 60000})
                   (mt/on-node :b (fn []
                                    (spawn (fn []
                                             (! [:echo "a"] (->Slow))
                                             (dotimes [_ 200] (! [:echo "a"] (byte-array 100000)))))
                                    nil))
                   (scope/sleep 10000)
                   (let [answered? (mt/on-node :c #(actor/with-process {} (answers? [:echo "a"])))]
                     (reset! door true)
                     answered?)))))))

(defn- ups [events]
  (set (keep (fn [[what node]] (when (= :up what) node)) @events)))

(deftest a-slow-session-that-has-to-end-holds-up-no-view
  (let [door (atom false)]
    (is (= [#{"b" "c"} [:down "b" :lost] [:up "b"]]
           (mt/simulate {:seed 1}
             (let [net (mt/network {:detector 200})
                   [a :as events] (mapv #(join net % (slow door) (constantly nil)) [:a :b])]
               (mt/wait-until #(every? (comp seq deref) events) {:timeout 60000})
               (mt/on-node :b (fn [] (spawn (fn [] (! [:nobody "a"] (->Slow)))) nil))
               (scope/sleep 1000)
               (mt/cut net [:a] [:b])
               (scope/sleep 5000)
               (join net :c (slow door) (constantly nil))
               (mt/wait-until #(= #{"b" "c"} (ups a)) {:timeout 20000})
               (mt/heal net)
               (scope/sleep 5000)
               (let [held (ups a)
                     seen (count @a)]
                 (reset! door true)
                 (mt/wait-until #(= (+ 2 seen) (count @a)) {:timeout 20000})
                 (into [held] (subvec @a seen)))))))))

(def ^:private names (mapv #(keyword (str "mortal-" %)) (range 30)))

(defn- start-mortals
  "Starts processes that end with a large reason when they are told to."
  []
  (doseq [name names]
    (actor/register name (spawn #(receive :die (actor/exit (byte-array 100000)))))))

(defn- watched? []
  (every? #(seq (actor/process-info (actor/whereis %) :monitored-by)) names))

(deftest a-node-that-asks-and-does-not-read-is-cut-off
  (let [door (atom false)
        run (mt/simulate* {:seed 1}
              (fn []
                (let [net (mt/network)
                      events (mapv #(join net % (assoc (slow door) :limit 1000) start-mortals) [:a :b])]
                  (mt/wait-until #(every? (comp seq deref) events) {:timeout 60000})
                  (mt/on-node :b (fn [] (spawn (fn [] (run! #(actor/monitor [% "a"]) names) (receive :never nil))) nil))
                  (mt/wait-until #(mt/on-node :a watched?))
                  (mt/on-node :a (fn []
                                   (spawn (fn []
                                            (! [:nobody "b"] (->Slow))
                                            (run! #(! % :die) names)))
                                   nil))
                  (mt/wait-until #(some #{:down} (map first @(events 0))) {:timeout 60000})
                  (reset! door true)
                  (mt/wait-until #(= [:up :down :up] (map first @(events 0))) {:timeout 60000})
                  :cut-off)))]
    (is (= :cut-off (:value run)))
    (is (= ["The node b is cut off, because it does not read what is sent to it: answers and notices of more than 64000 bytes wait, 64 times the :buffer. Look there for what holds it up."]
           (map (comp ex-message :error) (:failures run))))))

(def ^:private messages 300)
(def ^:private size 100000)

(deftest a-slow-session-holds-up-its-sender
  (let [got (atom 0)
        sent (atom 0)
        door (atom false)
        most (+ 1048576 1048576 65536 (* 4 size))] ; outbox, window, a frame
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
