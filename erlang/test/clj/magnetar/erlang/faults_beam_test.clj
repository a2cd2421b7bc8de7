(ns magnetar.erlang.faults-beam-test
  "This JVM and real BEAMs that are killed, suspended or flooded, or whose EPMD ends, in a run with --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :as beam :refer [ask end-beam got nothing-more? resume start-beam start-epmd suspend them us with-beam]]
   [magnetar.erlang.scripted :refer [eventually]]))

(set! *warn-on-reflection* true)

(def ^:private short-ticks {:tick 1000 :words ["-hidden" "-kernel" "net_ticktime" "1"]})

(def ^:private text-bytes 100000)

(defn- largest-buffer
  "How many bytes of a socket Linux may hold, by the setting tcp_rmem or tcp_wmem."
  [setting]
  (parse-long (last (str/split (str/trim (slurp (str "/proc/sys/net/ipv4/" setting))) #"\s+"))))

(defn- most-texts
  "How many texts the buffers of a connection and its queue of 1 MiB may hold, and some more for 8 senders."
  []
  (+ 40 (quot (+ 1048576 (long (largest-buffer "tcp_rmem")) (long (largest-buffer "tcp_wmem"))) (long text-bytes))))

(defn- flood-until-lost
  "Sends large messages to the shell of the BEAM until it is lost; tells :inbox how many. Then tells of a further end of its
  monitor, until it is sent :end."
  []
  (let [ref (actor/monitor [:shell them])
        text (apply str (repeat text-bytes "x"))]
    (loop [n 0]
      (! [:shell them] text)
      (receive
        [:DOWN ref _ _ why] (! :inbox [:flooded n why])
        (after 0 (recur (inc n)))))
    (receive
      [:DOWN _ _ _ why] (! :inbox [:fired-again why])
      :end nil)))

(defn- end-all
  "Ends processes that `flood-until-lost`, and waits until they have ended."
  [pids]
  (doseq [pid pids]
    (! pid :end)
    (is (eventually #(not (actor/alive? pid))))))

(defn- waits-for-room?
  "Does the sender wait for room, or has it been told of the end already?"
  [pid]
  (contains? #{"room in the stream to b@127.0.0.1" "message"} (:waits-for (actor/process-info pid))))

(deftest senders-to-a-suspended-beam-wait-and-each-monitor-fires-once
  (with-beam short-ticks
    (fn [_ b]
      (ask b "register(shell, self())")
      (is (true? (erlang/connect them)))
      (suspend b)
      (let [senders (mapv (fn [_] (actor/spawn flood-until-lost)) (range 8))
            waited (mapv #(eventually (fn [] (waits-for-room? %))) senders)
            told (vec (repeatedly 8 got))]
        (is (every? true? waited))
        (is (= #{[:flooded :noconnection]} (set (map (juxt first peek) told))))
        (is (>= (long (most-texts)) (long (apply + (map second told)))) "what was sent is in the buffers of the sockets and the queue")
        (is (nothing-more?))
        (resume b)
        (is (eventually #(= "[]" (ask b "nodes(connected)"))))
        (is (true? (erlang/connect them)) "a sender may have dialled in vain, and signals do not try again at once")
        (end-all senders)
        (is (nothing-more?) "no monitor has fired again")))))

(defn- sink
  "Counts messages until it is asked."
  [n]
  (receive
    [:tell to] (! to [:count n])
    _ (recur (inc (long n)))))

(deftest floods-go-both-ways-and-none-is-lost
  (with-beam
    (fn [_ b]
      (ask b "Count = fun F(N) -> receive {tell, P} -> P ! {count, N}; M when M =:= N -> F(N + 1) end end, "
           "register(counter, spawn(fun() -> Count(0) end))")
      (ask b "Flood = fun(To) -> spawn(fun() -> [To ! N || N <- lists:seq(0, 29999)], To ! done end) end")
      (let [ours (actor/spawn (fn [] (loop [n 0] (receive :done (! :inbox [:all n]) x (when (= n x) (recur (inc n)))))))]
        (! [:counter them] 0)
        (ask b "{inbox, '" us "'} ! self()")
        (let [shell (got)]
          (! shell ours)
          (ask b "receive Ours -> Flood(Ours) after 10000 -> none end"))
        (doseq [n (range 1 30000)] (! [:counter them] n))
        (! [:counter them] [:tell (self)])
        (is (= #{[:all 30000] [:count 30000]} (set [(got) (got)])))
        (is (nothing-more?))))))

(deftest a-beam-that-is-killed-in-a-flood-fires-each-link-and-monitor-once
  (with-beam
    (fn [port b]
      (actor/flag :trap-exit true)
      (let [drain (actor/spawn sink 0)]
        (ask b "[{inbox, '" us "'} ! spawn(fun() -> receive x -> x end end) || _ <- lists:seq(1, 50)]")
        (let [far (vec (repeatedly 50 got))
              refs (mapv actor/monitor far)]
          (run! actor/link far)
          (ask b "{inbox, '" us "'} ! self()")
          (! (got) drain)
          (ask b "receive Drain -> [spawn(fun L() -> Drain ! flood, L() end) || _ <- [1, 2]] after 10000 -> none end")
          (let [flooder (actor/spawn flood-until-lost)]
            (is (eventually #(pos? (long (:messages (actor/process-info drain) 1)))))
            (end-beam b)
            (let [all (vec (repeatedly 101 got))]
              (is (= (set (mapcat (fn [ref pid] [[:DOWN ref :process pid :noconnection] [:EXIT pid :noconnection]]) refs far))
                     (set (remove #(= :flooded (first %)) all)))))
            (end-all [flooder]))
          (! drain [:tell (self)])
          (is (= :count (first (got))))
          (is (nothing-more?)))
        (is (eventually #(= [] (erlang/nodes))))
        (let [again (start-beam them port "-hidden")]
          (try
            (! [:shell them] :connects)
            (is (= [them] (erlang/nodes)))
            (finally (end-beam again))))))))

(deftest connections-outlive-epmd-and-the-node-registers-again
  (with-beam
    (fn [port {:keys [epmd] :as b}]
      (ask b "register(shell, self())")
      (let [ref (actor/monitor [:shell them])]
        (beam/end epmd)
        (is (= [them] (erlang/nodes)))
        (! [:shell them] :still)
        (is (= "still" (ask b "receive X -> X after 10000 -> none end")))
        (is (= [:DOWN :noconnection] ((juxt first peek) (do (actor/monitor [:shell "c@127.0.0.1"]) (got)))) "EPMD is not asked in vain")
        (let [next-epmd (start-epmd port)]
          (try
            (let [c (start-beam "c@127.0.0.1" port "-hidden")]
              (try
                (is (eventually #(= "pong" (ask c "net_adm:ping('" us "')"))))
                (is (= #{them "c@127.0.0.1"} (set (erlang/nodes))))
                (finally (end-beam c))))
            (finally (beam/end next-epmd))))
        (is (true? (actor/demonitor ref {:info true})))
        (is (nothing-more?))))))
