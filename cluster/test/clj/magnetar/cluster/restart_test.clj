(ns magnetar.cluster.restart-test
  "A node that leaves and starts again in the same JVM is another node for the others."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.cluster :as cluster]
   [magnetar.cluster.simulated :refer [connected in-process join run-on start]]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(defn- echo []
  (actor/register :echo (self))
  (loop []
    (receive
      [:who from] (! from [:me (self)])
      [:same? from pid] (! from [:same (= pid (self))])
      [:tell pid from] (do (! pid [:back from]) (! from :told))
      [:back from] (! from :came-back))
    (recur)))

(defn- pid-of-echo
  "The pid of :echo of b, as it comes to a."
  []
  (! [:echo "b@sim"] [:who (self)])
  (receive [:me pid] pid))

(defn- asked [to message]
  (! to message)
  (receive [:same x] x :told (receive x x (after 2000 :nothing)) x x (after 2000 :nothing)))

(defn- seen-from-a
  "What a process of a, which has a pid of :echo from before, finds out about it."
  [before]
  (let [now (pid-of-echo)
        ref (actor/monitor before)]
    {:same-pid (= before now)
     :node (actor/node before)
     :monitor (receive [:DOWN ref _ _ why] why)
     :old-answers (asked before [:who (self)])
     :new-is-itself (asked now [:same? (self) now])
     :old-is-itself (asked now [:same? (self) before])
     :reached-by-itself (asked now [:tell now (self)])
     :old-reached-by-itself (asked now [:tell before (self)])}))

(defn- restarted
  "What a finds out after b has left and joined again. `at-b` is called on b while it is in the cluster."
  [at-b]
  (mt/simulate {:seed 1}
    (let [net (mt/network)
          before (atom nil)]
      (run! #(start net %) [:a :b])
      (connected :a :b)
      (run-on :b echo)
      (mt/on-node :b at-b)
      (mt/on-node :a (in-process #(do (reset! before (pid-of-echo)) nil)))
      (mt/on-node :b cluster/stop)
      (join net :b)
      (connected :a :b)
      (mt/on-node :a (in-process #(seen-from-a @before))))))

(deftest pids-of-before-are-of-a-dead-node
  (doseq [at-b [(constantly nil) #(Peers/setName "b@sim" :erlang)]] ; which keeps the name over the restart
    (is (= {:same-pid false
            :node "b@sim"
            :monitor :noconnection
            :old-answers :nothing
            :new-is-itself true
            :old-is-itself false
            :reached-by-itself :came-back
            :old-reached-by-itself :nothing}
           (restarted at-b)))))

(defn- watch-echo
  "Adds to the atom what a monitor of :echo of b says."
  [fired]
  (let [ref (actor/monitor [:echo "b@sim"])]
    (loop []
      (swap! fired conj (receive [:DOWN ref _ what why] [what why]))
      (recur))))

(deftest pids-of-before-still-work-on-their-node
  (is (= [:came-back :came-back [[[:echo "b@sim"] :noconnection]]]
         (mt/simulate {:seed 1}
           (let [net (mt/network)
                 fired (atom [])
                 ask (in-process #(asked (actor/whereis :echo) [:back (self)]))]
             (run! #(start net %) [:a :b])
             (connected :a :b)
             (run-on :b echo)
             (run-on :a watch-echo fired)
             (let [before (do (mt/on-node :a (in-process pid-of-echo))
                              (mt/on-node :b cluster/stop)
                              (mt/on-node :b ask))]
               (join net :b)
               (connected :a :b)
               [before (mt/on-node :b ask) @fired]))))))

(deftest each-start-has-another-incarnation
  (is (apply distinct?
             (mt/simulate {:seed 1}
               (mt/start-node :a)
               (mt/on-node :a
                 #(doall (repeatedly 20 (fn []
                                          (Peers/setName "a@sim")
                                          (let [n (Peers/incarnation)] (Peers/setName nil) n)))))))))
