(ns magnetar.remote-simulated-test
  "Links, monitors and messages between nodes, under the simulator, with deaths and cuts at any step.

  A program with a defect of the kernel must find it."
  (:refer-clojure :exclude [flush])
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive spawn]]
   [magnetar.impl.runtime]
   [magnetar.mirror :as mirror]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.process LocalProcess Peer Pid ProcessTable Spawn)
   (magnetar.kernel.sched Fault)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 200))

;; ---- what the programs have in common

(defn- keeper
  "The work of a process that does what it is told, and tells what it has got."
  []
  (loop [got []]
    (receive
      [:do f] (do (f) (recur got))
      [:tell to] (do (! to [:got got]) (recur got))
      :end nil
      x (recur (conj got x)))))

(defn- waiting
  "The work of a process that another node has asked for."
  []
  (receive :end nil))

(defn- children
  "The processes that live and that a node has asked for."
  []
  (into [] (keep (fn [^LocalProcess p]
                   (let [pid (.pid p)]
                     (when (= "for node b@mirror" (.label pid)) pid))))
        (ProcessTable/all)))

(defn- ask-for-child
  "Asks the other node for a process; `ways` are of :link and :monitor. Returns the reference of the answer."
  [{:keys [^Peer a]} & ways]
  (Spawn/request (LocalProcess/current) a :waiting (boolean (some #{:link} ways)) (boolean (some #{:monitor} ways))))

(defn- told [pid]
  (let [me (actor/make-alias :reply)]
    (! pid [:tell me])
    (receive [:got x] x)))

(defn- links [pid]
  (actor/process-info pid :links))

(defn- at-rest
  "Waits until nothing is on its way any more: time passes in a simulation only when nothing can run."
  []
  (scope/sleep 1))

(defmacro ^:private with-nodes
  "Does body as a process, with two processes p and q: `pq` is q as p sees it on the other node, `qp` is p as q does."
  [[m p q pq qp] & body]
  `(actor/with-process {}
     (let [~m (mirror/start {:work (fn [~'_] waiting)})
           ~p (actor/spawn-opt keeper {:trap-exit true})
           ~q (actor/spawn-opt keeper {:trap-exit true})
           ~pq (mirror/there ~m ~q)
           ~qp (mirror/there-of-b ~m ~p)]
       (try
         ~@body
         (finally
           (run! #(actor/exit % :kill) (list* ~p ~q (children)))
           (mirror/stop ~m))))))

;; ---- the programs, each true if all is well

(defn- crossing-links
  "Both link, and one unlinks meanwhile: in the end both are linked or neither."
  []
  (with-nodes [m p q pq qp]
    (! q [:do #(actor/link qp)])
    (! p [:do #(actor/link pq)])
    (! p [:do #(actor/unlink pq)])
    (at-rest)
    (and (= (some? (some #{pq} (links p))) (some? (some #{qp} (links q))))
         (= [] (told p) (told q)))))

(defn- death-while-linking
  "A process links and is killed meanwhile: the other one is told once and keeps no link, or has heard of no link."
  []
  (with-nodes [m p q pq qp]
    (! p [:do #(actor/link pq)])
    (actor/exit p :kill)
    (at-rest)
    (and (contains? #{[] [[:EXIT qp :killed]]} (told q))
         (= [] (links q))
         (zero? (long (mirror/entries m))))))

(defn- cut-while-linking []
  (with-nodes [m p q pq qp]
    (! p [:do #(actor/link pq)])
    (mirror/cut m)
    (at-rest)
    (and (= [[:EXIT pq :noconnection]] (told p))
         (contains? #{[] [[:EXIT qp :noconnection]]} (told q))
         (= [[] []] (map links [p q]))
         (zero? (long (mirror/entries m))))))

(defn- cut-while-monitoring []
  (with-nodes [m p q pq qp]
    (! p [:do #(actor/monitor pq {:tag :gone})])
    (mirror/cut m)
    (at-rest)
    (and (= [[:gone :process pq :noconnection]] (map #(into [(% 0)] (subvec % 2)) (told p)))
         (= [] (actor/process-info q :monitored-by))
         (zero? (long (mirror/entries m))))))

(defn- deaths-are-told-once
  "A process is monitored and linked, and dies, and the nodes are cut: one message each, the reason of the death or the cut."
  []
  (with-nodes [m p q pq qp]
    (! p [:do #(do (actor/monitor pq {:tag :gone}) (actor/link pq))])
    (! q [:do #(actor/exit :tired)])
    (spawn #(mirror/cut m)) ; a cut by this process always came before the death was told
    (at-rest)
    (let [got (group-by first (told p))
          reasons (map peek (concat (:gone got) (:EXIT got)))]
      (and (= #{:gone :EXIT} (set (keys got)))
           (= 2 (count reasons))
           (every? #{:tired :noproc :noconnection} reasons)
           (zero? (long (mirror/entries m)))))))

(defn- demonitor-is-final
  "A monitor that was active when it ended is never told of."
  []
  (with-nodes [m p q pq qp]
    (! p [:do #(let [ref (actor/monitor pq)]
                 (scope/sleep 0)
                 (! (actor/self) [:was (actor/demonitor ref {:info true})]))])
    (! q [:do #(actor/exit :tired)])
    (at-rest)
    (let [got (told p)]
      (and (contains? #{[[:was true]] [:DOWN [:was false]]} (mapv #(if (= :DOWN (first %)) :DOWN %) got))
           (zero? (long (mirror/entries m)))))))

(defn- nothing-after-the-cut
  "No message of the other process comes after the message that says that its node is gone."
  []
  (with-nodes [m p q pq qp]
    (! p [:do #(actor/monitor pq)])
    (! q [:do #(dotimes [n 5] (! qp [:said n]))])
    (mirror/cut m)
    (at-rest)
    (let [got (told p)
          said (take-while #(= :said (first %)) got)]
      (and (= [:DOWN] (map first (drop (count said) got)))
           (= (map #(vector :said %) (range (count said))) said)))))

(defn- death-while-monitoring
  "A process monitors and is killed meanwhile: neither node keeps the monitor."
  []
  (with-nodes [m p q pq qp]
    (! p [:do #(actor/monitor pq)])
    (actor/exit p :kill)
    (at-rest)
    (and (some? qp)
         (= [] (actor/process-info q :monitored-by))
         (zero? (long (mirror/entries m))))))

(defn- death-before-the-answer
  "A process asks for another one, linked and monitored, and is killed: nothing of it is left, also no monitor."
  []
  (with-nodes [m p q pq qp]
    (run! some? [q pq qp])
    (! p [:do #(do (ask-for-child m :link :monitor) (ask-for-child m :monitor))])
    (actor/exit p :kill)
    (at-rest)
    (and (>= 1 (count (children)))
         (every? #(= [[] []] ((juxt :links :monitored-by) (actor/process-info %))) (children))
         (zero? (long (mirror/entries m))))))

(defn- death-before-the-birth
  "A process that another node has asked for is killed before it runs: the other one is told of all."
  []
  (with-nodes [m p q pq qp]
    (run! some? [pq qp])
    (! p [:do #(ask-for-child m :link :monitor)])
    (! q [:do #(dotimes [_ 20] (run! (fn [child] (actor/exit child :kill)) (children)))])
    (at-rest)
    (run! #(actor/exit % :kill) (children))
    (at-rest)
    (let [[[word ref ok child] & ends] (told p)]
      (and (= [:spawn-reply :ok] [word ok])
           (= 2 (count ends))
           (every? #{:killed :noproc} (map peek ends))
           (= #{[:EXIT child] [:DOWN ref :process child]} (set (map pop ends)))
           (= [] (links p))
           (zero? (long (mirror/entries m)))))))

(defn- cut-while-asking
  "The nodes are cut while one asks the other for a process: there is no answer but an error, or the end of what was made."
  []
  (with-nodes [m p q pq qp]
    (run! some? [q pq qp])
    (! p [:do #(ask-for-child m :link :monitor)])
    (mirror/cut m)
    (at-rest)
    (let [[[word ref result child] & ends] (told p)]
      (and (= :spawn-reply word)
           (= [] (links p) (children))
           (zero? (long (mirror/entries m)))
           (if (= :error result)
             (and (= :noconnection child) (nil? ends))
             (= #{[:EXIT child :noconnection] [:DOWN ref :process child :noconnection]} (set ends)))))))

(defn- given-up-while-asking
  "A process gives up its request for another one while the answer comes: it gets the answer, or nothing is left."
  []
  (with-nodes [m p q pq qp]
    (run! some? [q pq qp])
    (let [in-time? (promise)]
      (! p [:do #(let [ref (ask-for-child m :link :monitor)]
                   (scope/sleep 0)
                   (deliver in-time? (Spawn/abandon (LocalProcess/current) (:a m) ref)))])
      (at-rest)
      (let [got (told p)]
        (if @in-time?
          (and (= [] got (links p) (children)) (zero? (long (mirror/entries m))))
          (and (= [:spawn-reply] (map first got)) (= 1 (count (links p)) (count (children)))))))))

(defn- cut-while-unlinking []
  (with-nodes [m p q pq qp]
    (! p [:do #(do (actor/link pq) (actor/unlink pq))])
    (mirror/cut m)
    (at-rest)
    (and (contains? #{[] [[:EXIT qp :noconnection]]} (told q))
         (= [[] []] (map links [p q]))
         (zero? (long (mirror/entries m))))))

(defn- link-of-the-last-connection
  "Two processes link while their nodes are cut and connected again: in the end both are linked or neither."
  []
  (with-nodes [m p q pq qp]
    (! p [:do #(actor/link pq)])
    (mirror/stop m)
    (mirror/connect m)
    (! q [:do #(actor/link qp)])
    (at-rest)
    (and (= (some? (some #{pq} (links p))) (some? (some #{qp} (links q))))
         (= (* 2 (count (links p))) (mirror/entries m)))))

(defn- one-answer
  "An alias for one answer, which two are sent to and whose process may be killed: at most one comes."
  []
  (with-nodes [m p q pq qp]
    (some? qp)
    (! p [:do #(let [alias (actor/make-alias :reply)]
                 (dotimes [n 2] (! pq [:do (fn [] (! alias n))]))
                 (actor/unalias (actor/make-alias)))])
    (! q [:do #(actor/exit p :shutdown)])
    (at-rest)
    (zero? (long (mirror/entries m)))))

(def ^:private programs
  {#'crossing-links Fault/CROSSING_LINK_SURVIVES_UNLINK
   #'death-while-linking Fault/REMOTE_LINK_IGNORES_DEATH
   #'cut-while-linking Fault/LINK_OUTLIVES_CONNECTION
   #'cut-while-monitoring Fault/MONITOR_OUTLIVES_CONNECTION
   #'deaths-are-told-once Fault/REMOTE_MONITOR_FIRES_AGAIN
   #'demonitor-is-final Fault/ENDED_MONITOR_FIRES
   #'death-while-monitoring nil
   #'death-before-the-answer nil
   #'death-before-the-birth nil
   #'cut-while-asking nil
   #'given-up-while-asking nil
   #'cut-while-unlinking nil
   #'link-of-the-last-connection nil
   #'one-answer nil
   #'nothing-after-the-cut Fault/STREAM_IS_HEARD_AFTER_ITS_END})

(deftest what-nodes-tell-each-other-is-right-in-each-run
  (doseq [program (keys programs)]
    (testing program
      (is (:passed (mt/check* {:runs runs :properties [:no-leaked-fiber]} program))))))

(deftest each-defect-is-found
  (doseq [[program ^Fault fault] programs
          :when fault]
    (testing [program fault]
      (try
        (Fault/seed fault)
        (is (not (:passed (mt/check* {:runs 1000 :report (constantly nil)} program))))
        (finally (Fault/seed nil))))))
