(ns magnetar.actor-mailbox-test
  "Bounded mailboxes under a thousand senders, and a mailbox beside channels."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after from receive self spawn spawn-opt with-process]]
   [magnetar.actor-support :refer [idle outcome reason waits?]]
   [magnetar.async :as a]
   [magnetar.impl.actor.receive :as receive]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.support :refer [eventually]])
  (:import
   (magnetar.kernel.process Matcher Refs)))

(set! *warn-on-reflection* true)

(def ^:private senders 1000)
(def ^:private each 10)
(def ^:private all (* 1000 10))

(defn- send-all
  "Lets a thousand processes send ten messages each; returns the pids."
  [pid refused]
  (mapv (fn [sender]
          (spawn (fn []
                   (dotimes [n each]
                     (try
                       (! pid [sender n])
                       (catch IllegalArgumentException e
                         (when (= :magnetar/mailbox-full (:magnetar/reason (ex-data e)))
                           (swap! refused inc))))))))
        (range senders)))

(defn- receiver
  "A process with a mailbox for ten that begins to count when told, and ends when told and its mailbox is empty. It says itself how many were dropped:
  somebody else may ask while it takes one that is to be dropped next."
  [when-full begin end]
  (spawn-opt (fn []
               @begin
               (loop [taken [] most 0]
                 (let [most (max most (long (:messages (inspect/mailbox (self)))))
                       over? (realized? end)]
                   (receive
                     [sender n] (recur (conj taken [sender n]) most)
                     (after 0 (if over?
                                {:taken taken :most most :dropped (:dropped (inspect/mailbox (self)))}
                                (do (Thread/yield) (recur taken most))))))))
             {:mailbox {:capacity 10 :when-full when-full}}))

(defn- flood
  "What a receiver with this policy has after the flood: how many it took, and had at most; how many were refused and dropped."
  [when-full]
  (let [begin (promise)
        end (promise)
        refused (atom 0)
        pid (receiver when-full begin end)
        pids (send-all pid refused)]
    (deliver begin true)
    (run! reason pids)
    (deliver end true)
    (assoc (second (outcome pid)) :refused @refused)))

(defn- in-order? [taken]
  (every? (fn [[_ ns]] (apply < ns)) (update-vals (group-by first taken) #(map second %))))

(deftest ^{:spec ["C64" "C77"]} block-lets-senders-wait-and-loses-nothing
  (let [{:keys [taken most refused dropped]} (flood :block)]
    (is (= [all all 0 0] [(count taken) (count (set taken)) refused dropped]))
    (is (<= (long most) 10))
    (is (in-order? taken))))

(deftest ^{:spec ["C77"]} drop-new-and-drop-old-count-what-they-drop
  (doseq [when-full [:drop-new :drop-old]]
    (testing (str when-full)
      (let [{:keys [taken most refused dropped]} (flood when-full)]
        (is (= all (+ (count taken) (long dropped))))
        (is (= (count taken) (count (set taken))))
        (is (= 0 refused))
        (is (<= (long most) 10))
        (is (in-order? taken))))))

(deftest ^{:spec ["C77"]} fail-throws-in-the-sender
  (let [{:keys [taken most refused dropped]} (flood :fail)]
    (is (= all (+ (count taken) (long refused))))
    (is (= 0 dropped))
    (is (<= (long most) 10))))

(deftest ^{:spec ["C77"]} drop-new-keeps-the-first-and-drop-old-the-last
  (doseq [[when-full kept] {:drop-new [0 1 2] :drop-old [7 8 9]}]
    (let [begin (promise)
          pid (spawn-opt #(do @begin (actor/flush)) {:mailbox {:capacity 3 :when-full when-full}})]
      (dotimes [n 10] (! pid n))
      (is (= 3 (:messages (inspect/mailbox pid))))
      (deliver begin true)
      (is (= [:value kept] (outcome pid)) when-full))))

(deftest ^{:spec ["C77"]} signals-are-never-held-up-by-a-full-mailbox
  (doseq [when-full [:block :drop-new :drop-old :fail]]
    (testing (str when-full)
      (let [begin (promise)
            ready (promise)
            pid (spawn-opt (fn []
                             (let [watched (idle)
                                   ref (actor/monitor watched)
                                   me (actor/make-alias)]
                               (deliver ready [watched me])
                               @begin
                               [(receive [:DOWN ref :process _ why] why (after 20000 :late))
                                (receive [:EXIT _ why] why (after 20000 :late))
                                (receive [:answer n] n (after 20000 :late))
                                (receive :tick :tick (after 20000 :late))]))
                           {:mailbox {:capacity 1 :when-full when-full} :trap-exit true})
            [watched me] (deref ready 20000 nil)]
        (! pid :fills-it)
        (actor/exit watched :gone)
        (actor/exit pid :trapped)
        (! me [:answer 42])
        (actor/send-after 0 pid :tick)
        (deliver begin true)
        (is (= [:value [:gone :trapped 42 :tick]] (outcome pid)))))))

(deftest who-waits-for-room-in-the-mailbox-of-one-that-dies-goes-on
  (let [pid (spawn-opt #(receive ::never nil) {:mailbox {:capacity 1}})
        _ (! pid 1)
        sender (spawn #(! pid 2))]
    (is (eventually (= 1 (:waiting-senders (inspect/mailbox pid)))))
    (actor/exit pid :stop)
    (is (= [:value 2] (outcome sender)))))

(deftest who-exits-while-it-waits-for-room-has-sent-nothing
  (let [begin (promise)
        pid (spawn-opt #(do @begin (actor/flush)) {:mailbox {:capacity 1}})
        _ (! pid 1)
        sender (spawn #(! pid 2))]
    (is (eventually (= 1 (:waiting-senders (inspect/mailbox pid)))))
    (actor/exit sender :stop)
    (is (= :stop (reason sender)))
    (deliver begin true)
    (is (= [:value [1]] (outcome pid)))))

(deftest growth-can-be-seen
  (let [pid (idle)]
    (is (= {:messages 0 :capacity nil :when-full nil :dropped 0 :waiting-senders 0 :oldest []} (inspect/mailbox pid)))
    (dotimes [n 500] (! pid n))
    (is (= 500 (:messages (inspect/mailbox pid))))
    (actor/exit pid :kill)
    (is (nil? (inspect/mailbox pid)))))

;; ---- a mailbox and channels at once

(defn- take-both
  "Takes n things, messages or values; what came."
  [ch n]
  (loop [taken [] left (long n)]
    (if (zero? left)
      taken
      (receive
        [:message k] (recur (conj taken [:message k]) (dec left))
        (from ch v (recur (conj taken [:value v]) (dec left)))
        (after 20000 (conj taken :late))))))

(deftest ^{:spec ["C74"]} of-a-mailbox-and-a-channel-exactly-one-is-consumed
  (let [n 5000
        ch (a/chan)
        receiver (spawn #(take-both ch (* 2 n)))
        sender (spawn #(dotimes [k n] (! receiver [:message k]) (when (zero? (rem k 7)) (Thread/yield))))
        putter (spawn #(dotimes [k n] (a/>!! ch k) (when (zero? (rem k 5)) (Thread/yield))))
        [_ taken] (outcome receiver)]
    (is (= [:normal :normal] (map reason [sender putter])))
    (is (= (range n) (map second (filter (comp #{:message} first) taken))))
    (is (= (range n) (map second (filter (comp #{:value} first) taken))))))

(deftest ^{:spec ["C74"]} a-closed-channel-is-a-nil-and-time-runs-out-once
  (with-process {}
    (let [ch (a/chan)]
      (is (= :late (receive [:x] :message (from ch v [:value v]) (after 1 :late))))
      (! (self) [:x])
      (is (= :message (receive [:x] :message (from ch v [:value v]) (after 0 :late))))
      (a/close! ch)
      (is (= [:value nil] (receive [:x] :message (from ch v [:value v])))))))

(deftest beside-channels-a-message-that-does-not-match-is-not-looked-at-again-and-again
  (let [looks (atom 0)
        seen (atom #{})
        look (fn [x] (swap! looks inc) (swap! seen conj x) false)
        ch (a/chan)
        pid (spawn #(receive (x :guard look) x (from ch v v)))]
    (dotimes [n 200]
      (! pid n)
      (is (eventually (contains? @seen n)))
      (is (waits? pid)))
    (is (<= 200 @looks 800))
    (a/>!! ch :done)
    (is (= :done (actor/join pid)))))

(deftest beside-channels-a-message-that-comes-while-the-mailbox-is-looked-through-is-not-missed
  (let [ch (a/chan)]
    (dotimes [_ 100]
      (let [pid (spawn #(receive :it :got (from ch v v)))]
        (run! deref (mapv (fn [part] (future (run! (fn [m] (! pid m)) part))) [(range 50) (range 50) [1 2 :it 3]]))
        (is (= :got (actor/join pid {:timeout 20000 :else :late})))))))

(deftest beside-channels-a-fresh-reference-is-not-sought-among-older-messages
  (with-process {}
    (dotimes [n 1000] (! (self) n))
    (let [looks (atom 0)
          me (receive/me)
          mark (Refs/mark me (object-array [(actor/make-ref)]))
          matcher (reify Matcher (match [_ x] (swap! looks inc) (when (= :new x) x)))]
      (! (self) :new)
      (is (= :new (receive/take-or-choose me matcher [(a/chan)] 1 0 mark)))
      (is (= 1 @looks)))
    (testing "and the macro gives that mark"
      (is (re-find #"Refs/mark"
                   (pr-str (receive/expand {'ref nil} '(receive [ref x] x (from ch v v)) '([ref x] x (from ch v v)))))))))

(deftest an-exit-while-both-are-awaited-takes-nothing-from-the-channel
  (let [ch (a/chan)
        pid (spawn #(receive ::never nil (from ch v v)))]
    (is (eventually (= :waiting (:status (actor/process-info pid)))))
    (actor/exit pid :stop)
    (is (= :stop (reason pid)))
    (is (= [:default :default] (a/alts!! [[ch 1]] :default :default)))))

(deftest ^{:spec ["C77"]} a-guard-that-makes-a-reference-does-not-disturb-a-mailbox-that-drops
  (let [pid (spawn-opt (fn [] (loop []
                                (receive
                                  (m :guard (fn [_] (actor/make-ref))) (when-not (= :stop m) (recur)))))
                       {:mailbox {:capacity 2 :when-full :drop-old}})]
    (dotimes [i 50000] (! pid i))
    (is (<= 0 (:messages (inspect/mailbox pid)) 2))
    (! pid :stop)
    (is (nil? (actor/join pid {:timeout 20000 :else :lost})))))
