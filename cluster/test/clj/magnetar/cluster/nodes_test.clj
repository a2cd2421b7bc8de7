(ns magnetar.cluster.nodes-test
  "Nodes in JVMs of their own, with sessions over JGroups: killed, stopped for a while, refused, and started often."
  {:slow true
   :wakes false}
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster.leaks :as leaks :refer [eventually-empty sockets threads]]
   [magnetar.cluster.nodes :as nodes :refer [on]]
   [magnetar.cluster.support :as support]
   [magnetar.report :as report]))

(set! *warn-on-reflection* true)

(def ^:private detect-ms
  "Longer than a busy machine holds up an answer; two tests wait for it."
  4000)

(defn- collecting [f]
  (let [hook #(swap! nodes/events conj [:report (:site %) (ex-message (:error %))])]
    (report/add-hook :failure hook)
    (try
      (f)
      (finally (report/remove-hook :failure hook)))))

(defn- jvm []
  (nodes/jvm "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC"))

(defn- join [child name address & options]
  (on child (list* 'start name :peers (when address [address]) options)))

(defn- with-children
  "Calls f with n other JVMs."
  [n f]
  (let [children (vec (repeatedly n jvm))]
    (try
      (support/with-refusals
        (collecting #(apply f children)))
      (finally
        (run! nodes/end children)))))

(defn- with-three
  "Calls f with the JVMs of b and c, when they and a, of this JVM, are connected."
  [f]
  (with-children 2
    (fn [b c]
      (let [address (nodes/start "a" :detect detect-ms)]
        (try
          (join b "b" address :detect detect-ms)
          (join c "c" address :detect detect-ms)
          (doseq [child [b c]]
            (on child '(services)))
          (nodes/await-event [:up "b"])
          (nodes/await-event [:up "c"])
          (on b '(await-event [:up "c"]))
          (on c '(await-event [:up "b"]))
          (f b c)
          (finally (nodes/stop)))))))

(deftest nodes-talk
  (with-three
    (fn [b c]
      (let [x {:a [1 "text" #{:b} nil 2.5] "c" (vec (range 20000))}]
        (is (= x (nodes/ask "b" x)))
        (is (= (dissoc x "c") (on b (list 'ask "c" (dissoc x "c"))))))
      (is (= [:who "c"] (nodes/call "c" :who) (on b '(call "c" :who))))
      (is (= [:who "b"] (on c '(call "b" :who))))
      (testing "links and monitors"
        (nodes/in-process
          (actor/flag :trap-exit true)
          (let [[linked monitored] (nodes/idle-on "c" 2)
                ref (actor/monitor monitored)]
            (actor/link linked)
            (! monitored :end)
            (is (= [monitored :normal] (receive [:DOWN ref :process pid why] [pid why])))
            (actor/exit linked :kill)
            (is (= [linked :killed] (receive [:EXIT pid why] [pid why])))
            (is (= :noproc (let [ref (actor/monitor [:nothing "c"])] (receive [:DOWN ref _ _ why] why))))))))))

(def ^:private links 100)

(def ^:private all-fired-once
  {[:exit :noconnection 1] links
   [:down :noconnection 1] links})

(deftest a-node-is-killed-under-load
  (with-three
    (fn [b c]
      (nodes/watch-node "c" links)
      (on b (list 'watch-node "c" links))
      (nodes/flood "c" 4 100)
      (on b '(flood "c" 4 100))
      (is (< 1000 (on c '(mt/wait-until #(let [n (.get dropped)] (when (< 1000 n) n)) {:timeout support/limit-ms}))))
      (nodes/end c)
      (nodes/await-event [:down "c" :lost])
      (on b '(await-event [:down "c" :lost]))
      (is (= all-fired-once (nodes/fired-of "c")))
      (is (= all-fired-once (on b '(fired-of "c"))))
      (is (= #{:normal} (nodes/dry)))
      (is (= #{:normal} (on b '(dry))))
      (is (= [:who "b"] (nodes/call "b" :who)))
      (is (= 1 (nodes/count-of [:down "c" :lost]) (on b '(count-of [:down "c" :lost])))))))

(deftest a-node-is-stopped-for-longer-than-the-detector
  (with-three
    (fn [b c]
      (nodes/services)
      (nodes/watch-node "c" links)
      (on b (list 'watch-node "c" links))
      (on c (list 'watch-node "a" links))
      (nodes/ask "c" :all-has-arrived)
      (on c '(ask "a" :all-has-arrived))
      (nodes/signal c "STOP")
      (nodes/await-event [:down "c" :lost])
      (on b '(await-event [:down "c" :lost]))
      (is (= all-fired-once (nodes/fired-of "c") (on b '(fired-of "c"))))
      (nodes/signal c "CONT")
      (on c '(await-event [:down "a" :lost]))
      (nodes/await-event [:up "c"] 2)
      (on b '(await-event [:up "c"] 2))
      (on c '(await-event [:up "a"] 2))
      (is (= :again (nodes/ask "c" :again) (on c '(ask "a" :again)) (on c '(ask "b" :again))))
      (is (= all-fired-once (nodes/fired-of "c") (on b '(fired-of "c")) (on c '(fired-of "a")))))))

(deftest a-node-with-another-cookie-gets-no-session
  (with-children 1
    (fn [b]
      (let [address (nodes/start "a" :detect 1000)]
        (try
          (join b "b" address :detect 1000 :session {:cookie '(secret "another cookie, long enough")})
          (on b '(services))
          (nodes/awaited (fn [all] (some (comp #{:report} first) all)))
          (is (= [[:report "the node b is not let in"
                   "The node b has another cookie than a. Give all nodes of a cluster the same one."]]
                 (filterv (comp #{:report :up :down} first) @nodes/events)))
          (is (= :noconnection (nodes/in-process (let [ref (actor/monitor [:echo "b"])] (receive [:DOWN ref _ _ why] why)))))
          (finally (nodes/stop)))))))

;; --- leaving

;; The forms that other JVMs evaluate.

(def ^:private objects '(do (require 'magnetar.cluster.leaks) (magnetar.cluster.leaks/objects)))

(defn- more-than [before]
  (list 'magnetar.cluster.leaks/eventually-empty (list 'fn [] (list 'magnetar.cluster.leaks/more before))))

(deftest a-node-that-stops-is-missed-soon-and-leaves-nothing-behind
  (with-children 1
    (fn [a]
      (let [address (on a '(start "a" :detect 20000))
            before (sockets)
            held (atom nil)]
        (on a '(services))
        (dotimes [n 100]
          (nodes/start "b" :peers [address] :detect 20000)
          (nodes/services)
          (nodes/await-event [:up "a"])
          (on a (list 'await-event [:up "b"] (inc n)))
          (when (zero? n)
            (on a (list 'watch-node "b" links))
            (on a '(ask "b" :all-has-arrived)))
          (when (= 3 n)
            (reset! held [(leaks/objects) (on a objects)]))
          (is (= n (nodes/ask "a" n)))
          (nodes/stop)
          (on a (list 'await-event [:down "b" :left] (inc n)))
          (is (= [[:up "a"] [:down "a" :left]] @nodes/events)))
        (is (= all-fired-once (on a '(fired-of "b"))))
        (is (= [] (on a (more-than (second @held)))) "on the other node")
        (is (= [] (eventually-empty #(leaks/more (first @held)))))
        (is (= [] (eventually-empty threads)))
        (is (= [] (eventually-empty #(when (< before (long (sockets))) [(sockets)]))))))))
