(ns tickets.main
  "bin/magnetar run examples/cluster/src/tickets/main.clj [SECONDS]

  Three nodes sell tickets, each number once, while one after the other is killed, suspended or cut off. Exit codes: 0,
  1 a number was sold twice, 2 a wrong command line."
  (:require
   [magnetar.actor :as actor]
   [magnetar.scope :as scope]
   [tickets.ledger :as ledger]
   [tickets.machines :as machines]
   [tickets.report :as report]
   [tickets.wires :as wires]))

(set! *warn-on-reflection* true)

(def ^:private nodes ["a" "b" "c"])

(def ^:private damage-ms 6000)

(def ^:private calm-ms 5000)

(def faults
  "From what happens to a node to [damage repair], functions of the world and the node."
  {"is killed" [#(machines/kill (:machines %1) %2) #(machines/start (:machines %1) %2)]
   "is suspended" [#(machines/signal (:machines %1) %2 "STOP") #(machines/signal (:machines %1) %2 "CONT")]
   "is cut off" [#(wires/cut-off (:wires %1) %2) (fn [world _] (wires/mend (:wires world)))]})

(defn office
  "The node that has opened the office last."
  [{:keys [report]}]
  (report/office report))

(defn strike
  "Does the damage to the node, and undoes it after some seconds."
  [{:keys [report] :as world} node fault]
  (let [[damage repair] (faults fault)]
    (report/say report (str node " " fault (when (= node (office world)) ", and it has the office")))
    (damage world node)
    (scope/sleep damage-ms)
    (repair world node)
    (report/say report (str node (if (= "is killed" fault) " is started again" " is back")))
    (scope/sleep calm-ms)))

(defn with-nodes
  "Calls f with three nodes that sell tickets; returns the summary of the report."
  [f]
  (actor/with-process {}
    (let [report (report/start)
          addresses (machines/addresses nodes)
          wires (wires/start addresses)
          machines (machines/prepare addresses wires (ledger/start) #(report/note report %1 %2))]
      (try
        (run! #(machines/start machines %) nodes)
        (report/await-sale report)
        (f {:report report :wires wires :machines machines})
        (report/summary report)
        (finally (machines/end machines))))))

(defn- strike-at-random
  "One strike after the other, for so many seconds."
  [seconds]
  (fn [world]
    (dotimes [_ (max 1 (quot (* 1000 (long seconds)) (+ (long damage-ms) (long calm-ms))))]
      (strike world (rand-nth nodes) (rand-nth (keys faults))))))

(defn- run [seconds]
  (let [summary (with-nodes (strike-at-random seconds))]
    (report/print-summary summary)
    (System/exit (if (report/good? summary) 0 1))))

(defn -main
  "Runs for a minute, or for so many seconds."
  [& [seconds & more]]
  (let [seconds (if seconds (parse-long seconds) 60)]
    (if (and seconds (pos? (long seconds)) (empty? more))
      (run seconds)
      (do
        (binding [*out* *err*]
          (println "tickets: the one argument is how many seconds it runs, a whole number above 0."))
        (System/exit 2)))))
