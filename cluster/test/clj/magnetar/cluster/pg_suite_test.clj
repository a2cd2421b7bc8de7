(ns magnetar.cluster.pg-suite-test
  "The scenarios of OTP's pg_SUITE on simulated nodes. What is left out: docs/parity/pg.md."
  (:refer-clojure :exclude [cast])
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.group-support :refer [id idle join-again three]]
   [magnetar.cluster.impl.groups :as server]
   [magnetar.cluster.simulated :as simulated :refer [connected full-name start]]
   [magnetar.impl.groups :as groups]
   [magnetar.pg :as pg]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defmacro ^:private with-three
  "Evaluates body in simulations of three connected nodes, with their network as net."
  [[net] & body]
  `(doseq [seed# (range 2)]
     (mt/simulate {:seed seed#}
       (let [~net (three)]
         ~@body))))

(defn- quiet
  "Waits until what was told has arrived."
  []
  (scope/sleep 1000))

(defn- started [node n]
  (mt/on-node node #(vec (repeatedly n idle))))

(defn- join-on [node group pids]
  (mt/on-node node #(pg/join group pids)))

(defn- leave-on [node group pids]
  (mt/on-node node #(pg/leave group pids)))

(defn- joined
  "The pids of n new members on the node."
  [node group n]
  (let [pids (started node n)]
    (join-on node group pids)
    pids))

(defn- kill [node pids]
  (mt/on-node node (fn [] (run! #(actor/exit % :kill) pids))))

(defn- ids [node pids]
  (mt/on-node node #(sort (map id pids))))

(defn- members [node group]
  (mt/on-node node #(sort (map id (pg/members group)))))

(defn- local [node group]
  (mt/on-node node #(sort (map id (pg/local-members group)))))

(defn- part
  "Cuts the node off from the others, and waits until it is lost."
  [net node]
  (let [others (remove #{node} [:a :b :c])]
    (mt/cut net [node] others)
    (apply connected others)
    (connected node)))

(defn- rejoin [net]
  (mt/heal net)
  (connected :a :b :c)
  (quiet))

(defn- server-of [node]
  (mt/on-node node #(actor/whereis server/server-name)))

(defn- cast
  "Sends the message to the server of the node, on that node."
  [node message]
  (mt/on-node node #(do (! server/server-name message) nil))
  (quiet))

(defn- elsewhere
  "The pid by which the node knows the member of the group on another node."
  ^Pid [node group]
  (mt/on-node node #(first (remove (set (pg/local-members group)) (pg/members group)))))

(defn- server-seen
  "The pid by which the node knows the server of the other one."
  [node other]
  (mt/on-node node #(some (fn [^Pid peer] (when (= (full-name other) (.nodeName peer)) peer)) (keys (:peers @(groups/groups))))))

;; ---- one node

(deftest single
  (with-three [_]
    (let [[a b] (started :a 2)]
      (is (= :ok (join-on :a :g a) (join-on :a :g [a a])))
      (is (= (ids :a [a a a]) (local :a :g) (members :a :g)))
      (is (= :not-joined (leave-on :a :missing a)))
      (is (= :ok (leave-on :a :g [a a]) (leave-on :a :g a)))
      (is (= [[] [] [] []] (mt/on-node :a #(vector (pg/which-groups) (pg/which-local-groups) (pg/members :g) (pg/local-members :g)))))
      (join-on :a :g [a b])
      (is (= (ids :a [a b]) (local :a :g)))
      (kill :a [b])
      (is (= (ids :a [a]) (local :a :g) (members :a :g)))
      (is (= :ok (leave-on :a :g a))))))

(deftest scopes
  (with-three [_]
    (let [[a b] (started :a 2)
          known #(mt/on-node :b (fn [] [(ids :b (pg/members :shop :g)) (count (pg/members :g)) (pg/which-groups :shop) (pg/which-groups)]))]
      (mt/on-node :a #(pg/join :shop :g [a b]))
      (quiet)
      (is (= [(ids :a [a b]) 0 [:g] []] (known)))
      (kill :a [a b])
      (quiet)
      (is (= [[] 0 [] []] (known))))))

(deftest errors
  (with-three [_]
    (let [before (server-of :a)
          peer (server-seen :a :b)]
      (run! #(cast :a %) [:garbage [:sync] [:sync 1 2] [:sync peer 5] [:join peer :g :no-pids] [:leave peer [1] 2] [:discover nil] [:part peer [1]]])
      (is (= before (server-of :a)))
      (is (= [] (members :a :g))))))

(deftest leave-exit-race
  (with-three [_]
    (mt/on-node :a #(dotimes [_ 100]
              (let [pid (actor/spawn (fn [] nil))]
                (pg/join :g pid)
                (pg/leave :g pid))))
    (quiet)
    (is (= [] (members :a :g) (members :b :g)))
    (is (= {} (mt/on-node :a #(:local @(groups/groups)))))))

(deftest dyn-distribution
  (with-three [_]
    (cast :a [:nodeup (full-name :a)])
    (let [pids (joined :a :g 1)]
      (is (= (ids :a pids) (members :a :g))))))

;; ---- two nodes

(defn- refused? [f]
  (try
    (f)
    false
    (catch IllegalArgumentException e (= :magnetar/not-here (:magnetar/reason (ex-data e))))))

(deftest process-owner-check
  (with-three [_]
    (joined :b :g 1)
    (quiet)
    (let [there (elsewhere :a :g)
          [here] (started :a 1)]
      (is (= [true true true true]
             (mt/on-node :a #(mapv refused? [(fn [] (pg/join :h there)) (fn [] (pg/join :h [there there])) (fn [] (pg/join :h [here there]))
                                     (fn [] (pg/leave :g there))]))))
      (is (= [] (members :a :h))))))

(defn- kill-server [node]
  (mt/on-node node #(actor/exit (actor/whereis server/server-name) :kill)))

(defn- after-late-messages
  "What members :a has to have of :g and :h after messages of a server of :b that has ended, and which it has."
  []
  (let [mine (joined :a :g 1)
        theirs (joined :b :h 1)
        peer (do (quiet) (server-seen :a :b))
        there (elsewhere :a :h)]
    (kill-server :b)
    (mt/wait-until #(nil? (server-seen :a :b)))
    (mt/on-node :a #(do (! server/server-name [:join peer :g [there]])
                (! server/server-name [:leave peer mine [:g]])
                nil))
    (scope/sleep 100)
    (let [before (members :a :h)]
      (quiet) ; the server is started again
      [[(ids :a mine) [] (ids :b theirs)]
       [(members :a :g) before (members :a :h)]])))

(deftest overlay-missing
  (with-three [_]
    (is (apply = (after-late-messages)))))

(deftest a-late-message-that-counts-is-found
  (with-redefs [groups/known? (constantly true)]
    (with-three [_]
      (is (apply not= (after-late-messages))))))

(deftest two
  (with-three [_]
    (let [mine (joined :a :g 1)]
      (quiet)
      (is (= (ids :a mine) (local :a :g) (members :b :g)))
      (is (= [] (local :b :g)))
      (kill :a mine)
      (is (= [] (local :a :g)))
      (quiet)
      (is (= [] (members :b :g)))
      (let [theirs (into (joined :b :g 1) (joined :b :g 1))]
        (quiet)
        (is (= (ids :b theirs) (members :a :g)))
        (mt/crash-node :b)
        (scope/sleep 5000)
        (is (= [] (members :a :g) (members :c :g)))))))

(defn- kept
  "How many groups the node keeps of other nodes, and how many of each of these."
  [node]
  (mt/on-node node #(let [{:keys [remote peers]} @(groups/groups)]
              [(count remote) (sort (map count (vals peers)))])))

(deftest empty-group-by-remote-leave
  (with-three [_]
    (let [[one two :as both] (started :b 2)]
      (join-on :b :g one)
      (quiet)
      (is (= (ids :b [one]) (members :a :g)))
      (is (= [1 [0 1]] (kept :a)))
      (leave-on :b :g one)
      (quiet)
      (is (= [0 [0 0]] (kept :a)))
      (join-on :b :g both)
      (quiet)
      (is (= (ids :b both) (members :a :g)))
      (leave-on :b :g [two one])
      (quiet)
      (is (= [[] [] [0 [0 0]]] [(members :a :g) (mt/on-node :a pg/which-groups) (kept :a)])))))

(deftest thundering-herd
  (mt/simulate {:seed 1}
    (three)
    (mt/on-node :a #(let [pid (idle)] (dotimes [n 2000] (pg/join [:group n] pid))))
    (joined :b :other 1)
    (quiet)
    (let [peer (server-seen :a :b)
          there (elsewhere :a :other)
          before (mt/now)]
      (mt/on-node :a #(dotimes [_ 500] (! server/server-name [:sync peer [[[:group 1] [there there]]]])))
      (let [pids (joined :a :g 1)]
        (is (= (ids :a pids) (local :a :g)))
        (is (= before (mt/now)) "join does not wait")
        (quiet)
        (is (= 2002 (count (mt/on-node :b pg/which-groups))))))))

(deftest initial
  (doseq [seed (range 3)]
    (mt/simulate {:seed seed}
      (let [net (mt/network)
            _ (start net :a)
            pids (joined :a :g 1)]
        (start net :b)
        (connected :a :b)
        (quiet)
        (is (= (ids :a pids) (members :b :g)))
        (is (= [] (local :b :g)))
        (kill :a pids)
        (quiet)
        (is (= [] (members :b :g)))))))

(deftest nolocal
  (with-three [_]
    (let [[pid] (joined :b :g 1)]
      (join-on :b :g pid)
      (quiet)
      (is (= (ids :b [pid pid]) (members :a :g)))
      (is (= [] (local :a :g))))))

(deftest double-join
  (with-three [_]
    (let [[pid] (joined :a :g 1)]
      (join-on :a :g [pid])
      (quiet)
      (is (= (ids :a [pid pid]) (members :a :g) (members :b :g))))))

(deftest group-leave
  (with-three [_]
    (let [[pid] (started :b 1)]
      (join-on :b :g (repeat 16 pid))
      (leave-on :b :g (repeat 4 pid))
      (quiet)
      (is (= (ids :b (repeat 12 pid)) (members :a :g)))
      (mt/crash-node :b)
      (scope/sleep 5000)
      (is (= [] (members :a :g))))))

(deftest scope-restart
  (with-three [_]
    (let [[pid] (started :a 1)
          theirs (joined :b :g 1)]
      (join-on :a :g [pid pid])
      (quiet)
      (kill-server :a)
      (is (= (ids :a [pid pid]) (members :a :g)) "Erlang forgets local members, which stay here")
      (quiet)
      (is (= (sort (concat (ids :a [pid pid]) (ids :b theirs))) (members :a :g) (members :b :g))))))

(deftest forced-sync
  (with-three [net]
    (let [mine (joined :a :one 1)
          theirs (joined :b :one 1)
          all (sort (concat (ids :a mine) (ids :b theirs)))]
      (part net :b)
      (rejoin net)
      (is (= all (members :a :one)))
      (let [peer (server-seen :a :b)
            there (elsewhere :a :one)]
        (cast :a [:sync peer [[:one [there there]] [:g [there there]]]])
        (is (= (ids :a [there there]) (members :a :g)))
        (is (= (sort (concat (ids :a mine) (ids :a [there there]))) (members :a :one)))
        (mt/on-node :a #(do (! [server/server-name (full-name :b)] [:discover (actor/whereis server/server-name)]) nil))
        (quiet)
        (is (= all (members :a :one)))
        (is (= [] (members :a :g)))))))

;; ---- cuts

(deftest netsplit
  (with-three [net]
    (let [[old] (joined :b :invisible 1)]
      (part net :b)
      (let [theirs (joined :b :g 1)
            _ (leave-on :b :invisible old)
            _ (join-on :b :visible old)
            mine (joined :a :g 1)]
        (is (= (ids :b [old]) (local :b :visible)))
        (is (= [] (members :a :visible) (members :a :invisible)))
        (rejoin net)
        (is (= (sort (concat (ids :a mine) (ids :b theirs))) (members :a :g) (members :b :g) (members :c :g)))
        (is (= (ids :b [old]) (members :a :visible)))))))

(deftest trisplit
  (with-three [net]
    (let [[pid] (joined :b :three 1)]
      (part net :b)
      (rejoin net)
      (join-on :b :one pid)
      (start net :d)
      (connected :a :b :c :d)
      (quiet)
      (is (= (ids :b [pid]) (members :d :one) (members :d :three))))))

(deftest foursplit
  (with-three [net]
    (let [[pid] (joined :a :one 1)]
      (join-on :a :two pid)
      (is (= [:ok :not-joined] [(leave-on :a :one pid) (leave-on :a :three pid)]))
      (part net :b)
      (is (= :not-joined (leave-on :a :three pid)))
      (rejoin net)
      (is (= [] (members :a :one) (members :b :one)))
      (is (= (ids :a [pid]) (members :b :two))))))

(deftest exchange
  (with-three [net]
    (let [first-b (joined :b :g 10)
          on-c (started :c 10)
          second-b (started :b 10)
          [dead alive] (split-at 3 first-b)]
      (quiet)
      (is (= (ids :b first-b) (members :a :g)))
      (kill :b dead)
      (part net :a)
      (is (= [] (members :a :g)))
      (run! #(join-on :c :g %) on-c)
      (run! #(join-on :b :second %) second-b)
      (join-on :b :third second-b)
      (rejoin net)
      (is (= (sort (concat (ids :b alive) (ids :c on-c))) (members :a :g)))
      (is (= (ids :b second-b) (members :a :second) (members :a :third)))
      (let [[left stay] (split-at 3 second-b)]
        (leave-on :b :third left)
        (quiet)
        (is (= (ids :b stay) (members :a :third)))
        (is (= :not-joined (leave-on :b :left stay)))
        (leave-on :b :third stay)
        (quiet)
        (is (= [] (members :a :third)))))))

(deftest disconnected-start
  (with-three [net]
    (part net :b)
    (kill-server :b)
    (let [theirs (joined :b :g 1)]
      (rejoin net)
      (is (= (ids :b theirs) (members :a :g))))))

;; ---- monitors, which pg_SUITE has in a suite of its own

(deftest monitors-hear-of-members-of-other-nodes
  (with-three [net]
    (let [pids (joined :b :g 2)]
      (quiet)
      (mt/on-node :a
        (simulated/in-process
         (fn []
          (let [[ref before] (pg/monitor :g)
                [scope-ref all] (pg/monitor-scope)
                next-change #(receive [ref verb :g changed] [verb (sort (map id changed))])]
            (is (= (ids :b pids) (sort (map id before)) (sort (map id (:g all)))))
            (kill :b [(first pids)])
            (is (= [:leave (ids :b [(first pids)])] (next-change)))
            (mt/cut net [:b] [:a :c])
            (is (= [:leave (ids :b (rest pids))] (next-change)))
            (mt/heal net)
            (is (= [:join (ids :b (rest pids))] (next-change)))
            (is (= :ok (pg/demonitor ref)))
            (is (= [[:leave :g] [:leave :g] [:join :g]] (repeatedly 3 #(receive [scope-ref verb group _] [verb group]))))
            (is (= :ok (pg/demonitor scope-ref)))
            (is (= [] (actor/flush))))))))))

(deftest a-node-that-leaves-takes-its-members-away
  (with-three [net]
    (let [mine (joined :a :g 1)
          theirs (joined :b :g 1)]
      (quiet)
      (mt/on-node :b cluster/stop)
      (is (= (ids :b theirs) (members :b :g)) "at once, on the node that has left")
      (quiet)
      (is (= (ids :a mine) (members :a :g) (members :c :g)))
      (join-again net :b)
      (connected :a :b :c)
      (quiet)
      (let [here (members :b :g)
            there (members :a :g)]
        (is (= (sort (concat (ids :a mine) (ids :b theirs))) here))
        (is (= (map pop here) (map pop there)) "the others know it by a new creation")))))

;; ---- names of groups that do not travel

(deftest a-group-whose-name-cannot-be-written-stays-on-its-node
  (let [run (mt/simulate* {:seed 1}
              (fn []
                (let [net (mt/network)
                      unreadable (Object.)]
                  (start net :a)
                  (mt/on-node :a #(pg/join unreadable (idle)))
                  (let [before (joined :a :g 1)]
                    (start net :b)
                    (connected :a :b)
                    (quiet)
                    (is (= (ids :a before) (members :b :g)))
                    (mt/on-node :a #(pg/join unreadable (idle)))
                    (let [after (joined :a :g 1)]
                      (quiet)
                      (is (= (sort (concat (ids :a before) (ids :a after))) (members :b :g)))
                      (mt/on-node :b pg/which-groups))))))]
    (is (= [:g] (:value run)))
    (is (seq (:failures run)))
    (is (every? #(re-find #"the group .*, of which other nodes are not told$" (:site %)) (:failures run)))))
