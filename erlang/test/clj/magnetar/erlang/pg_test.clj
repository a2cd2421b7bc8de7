(ns magnetar.erlang.pg-test
  "The groups of this node, beside the pg of a scripted node."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.erlang.impl.pg :as server]
   [magnetar.erlang.scripted :as scripted
    :refer [control eventually failures-of hang-up join next-control next-search pid running]]
   [magnetar.pg :as pg]))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")
(def ^:private their-server (pid other 7))
(def ^:private prices (pid other 8))
(def ^:private orders (pid other 9))

;; ---- the scripted server

(defn- found
  "The server of this node, which looks for the one of the peer."
  [peer]
  (let [[[_ _ _ name] [verb found]] (next-search peer)]
    (assert (= [:discover :pg] [verb name]))
    found))

(defn- tell [peer message]
  (control peer [6 their-server (keyword "") :pg] message))

(defn- got
  "The next message that the scripted server gets."
  [peer]
  (let [[[_ _ to] message] (next-control peer)]
    (assert (= their-server to))
    message))

(defn- meet
  "Lets the scripted server find the one of this node; returns the pairs that it is told, and the reference of its monitor."
  [peer us]
  (tell peer [:discover their-server])
  (let [[cast [sync from pairs]] (got peer)]
    (assert (= [:$gen_cast :sync us] [cast sync from]))
    (assert (= [:discover us] (got peer)))
    (let [[[op watcher watched ref]] (next-control peer)]
      (assert (= [19 us their-server] [op watcher watched]))
      [pairs ref])))

(defn- with-peer [f]
  (running
    (fn []
      (let [peer (join other)]
        (try
          (f peer (found peer))
          (finally (hang-up peer)))))))

(defn- idle []
  (actor/spawn #(receive :end nil)))

(defn- ended
  "Ends the processes, and returns when they are no members."
  [& pids]
  (run! #(actor/exit % :kill) pids)
  (assert (eventually #(empty? (pg/which-groups)))))

;; ---- what is told

(deftest changes-are-told-after-a-sync-with-those-before
  (let [[a b] (repeatedly idle)]
    (pg/join [:orders 1] [a a])
    (pg/join :stock a)
    (with-peer
      (fn [peer us]
        (let [[pairs] (meet peer us)
              member (first (get (into {} pairs) :stock))]
          (is (= {[:orders 1] (list member member), :stock (list member)} (into {} pairs)))
          (pg/join (list :orders 1) b)
          (is (= [:join us [:orders 1]] (pop (got peer))) "a list is written as the equal vector")
          (pg/leave (list :orders 1) a)
          (is (= [:leave us (list member) (list [:orders 1])] (got peer)))
          (actor/exit a :kill)
          (is (= #{[:leave us (list member) (list [:orders 1])] [:leave us (list member) '(:stock)]}
                 (set (repeatedly 2 #(got peer))))))))
    (ended a b)))

(deftest a-peer-is-told-no-change-before-its-sync
  (let [a (idle)]
    (pg/join :orders a)
    (with-peer
      (fn [peer us]
        (tell peer [:$gen_cast [:sync their-server ()]])
        (is (= [19 us their-server] (pop (first (next-control peer)))) "it is monitored")
        (pg/leave :orders a)
        (pg/join :stock a)
        (tell peer [:discover their-server])
        (let [[_ [verb _ pairs]] (got peer)]
          (is (= [:sync [:stock]] [verb (map first pairs)])))))
    (ended a)))

(deftest a-group-without-a-term-is-reported-and-stays-here
  (let [a (idle)]
    (pg/join #{:set} a)
    (pg/join :stock a)
    (failures-of
      (fn [failures]
        (with-peer
          (fn [peer us]
            (tell peer [:discover their-server])
            (is (= [:$gen_cast [:sync us ()]] (got peer)))
            (is (= [:join us :stock] (pop (got peer))))
            (is (= [:discover us] (got peer)))
            (next-control peer)
            (pg/leave #{:set} a)
            (pg/leave :stock a)
            (is (= [:leave us '(:stock)] [:leave us (last (got peer))]))
            (is (= 2 (count @failures)))))))
    (ended a)))

;; ---- what comes

(deftest members-of-the-peer-come-and-go
  (actor/with-process {}
    (with-peer
      (fn [peer us]
        (let [[_ monitor] (meet peer us)
              [ref] (pg/monitor-scope)
              next-notice #(receive [ref verb group pids] [verb group pids] (after scripted/limit-ms :none))]
          (tell peer [:$gen_cast [:sync their-server (list [:prices (list prices prices)] [[:a 1] (list prices)] [(list :a 1) (list orders)])]])
          (let [notices (doall (repeatedly 2 next-notice))
                [there] (pg/members :prices)]
            (is (= {:prices [:join :prices [there there]]} (into {} (filter #(= :prices (first %))) (map (juxt second identity) notices))))
            (is (= 2 (count (pg/members [:a 1]))) "a tuple and a list are one group here")
            (is (= [] (pg/local-members :prices)))
            (tell peer [:join their-server :orders orders])
            (is (= [:join :orders] (pop (next-notice))))
            (tell peer [:leave their-server prices '(:prices :prices [:a 1])])
            (is (= [[:leave :prices [there]] [:leave :prices [there]] [:leave [:a 1] [there]]] (repeatedly 3 next-notice)))
            (tell peer [:join (pid other 77) :orders orders])
            (tell peer [:join their-server :orders :no-pid])
            (tell peer [:leave their-server :no-pid :no-groups])
            (tell peer [:$gen_cast [:sync their-server :no-pairs]])
            (tell peer [:DOWN 1 :process :no-pid :why])
            (tell peer :nothing)
            (tell peer [:leave their-server (list orders) '(:orders)])
            (is (= [:leave :orders] (pop (next-notice))) "the rest was ignored")
            (control peer [21 their-server us monitor :noproc])
            (is (= [:leave [:a 1]] (pop (next-notice))))
            (is (= [] (pg/which-groups)))))))))

(deftest a-lost-node-takes-its-members-away
  (with-peer
    (fn [peer us]
      (meet peer us)
      (tell peer [:$gen_cast [:sync their-server (list [:prices (list prices)])]])
      (is (eventually #(= [:prices] (pg/which-groups))))
      (hang-up peer)
      (is (eventually #(= [] (pg/which-groups)))))))

(deftest the-end-of-the-node-takes-them-away
  (with-peer
    (fn [peer us]
      (meet peer us)
      (tell peer [:$gen_cast [:sync their-server (list [:prices (list prices)])]])
      (is (eventually #(= [:prices] (pg/which-groups))))))
  (is (= [] (pg/which-groups))))

(deftest a-hidden-node-looks-again-for-a-server-that-starts-late
  (with-redefs [server/again-ms 1]
    (with-peer
      (fn [peer us]
        (is (= us (found peer) (found peer)))
        (let [[_ monitor] (meet peer us)]
          (control peer [21 their-server us monitor :shutdown])
          (is (= us (found peer)) "the peer may be started again"))))))

(deftest a-name-that-is-a-group-of-another-scope-here-is-left-out
  (with-peer
    (fn [peer us]
      (meet peer us)
      (let [name [:magnetar.impl.groups/scope :shop :orders]]
        (tell peer [:$gen_cast [:sync their-server (list [name (list prices)] [:prices (list prices)])]])
        (tell peer [:join their-server name prices])
        (tell peer [:join their-server :stock prices])
        (is (eventually #(= #{:prices :stock} (set (pg/which-groups)))))
        (is (= [] (pg/which-groups :shop)))))))

;; ---- scopes

(deftest a-scope-has-a-server-of-its-name
  (let [a (idle)]
    (pg/join :shop :orders a)
    (pg/join :stock a)
    (running {:scopes #{:pg :shop}} (atom [])
      (fn []
        (let [peer (join other)
              [[_ _ _ name] [verb us]] (next-control peer)
              tell #(control peer [6 their-server (keyword "") :shop] %)]
          (try
            (is (= [:shop :discover] [name verb]))
            (tell [:discover their-server])
            (let [[cast [sync from [[group [member]] & more]]] (got peer)]
              (is (= [:$gen_cast :sync us :orders nil] [cast sync from group more]))
              (is (= [:discover us] (got peer)))
              (is (= [19 us their-server] (pop (first (next-control peer)))))
              (pg/join :prices a)
              (pg/leave :shop :orders a)
              (is (= [:leave us (list member) '(:orders)] (got peer)) "a change of another scope is not told"))
            (tell [:join their-server :prices prices])
            (is (eventually #(= [:prices] (pg/which-groups :shop))))
            (is (= [a] (pg/members :prices)))
            (tell [:$gen_cast [:sync their-server (list [:orders (list orders)])]])
            (is (eventually #(= [:orders] (pg/which-groups :shop))))
            (tell [:leave their-server orders '(:orders)])
            (is (eventually #(= [] (pg/which-groups :shop))))
            (finally (hang-up peer))))))
    (ended a)))
