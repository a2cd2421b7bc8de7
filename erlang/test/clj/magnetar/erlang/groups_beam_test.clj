(ns magnetar.erlang.groups-beam-test
  "Groups and global names of this JVM and two real BEAMs, in a run with --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :as beam :refer [ask end-beam limit-ms start-beam]]
   [magnetar.erlang.scripted :as scripted :refer [eventually]]
   [magnetar.pg :as pg]))

(set! *warn-on-reflection* true)

(def ^:private us "m@127.0.0.1")
(def ^:private b-name "b@127.0.0.1")
(def ^:private c-name "c@127.0.0.1")

(defn- with-beams
  "Calls f with two BEAMs, in a process with the name :inbox, while this JVM is a node. Without --with-erl does nothing."
  [options f]
  (when-not (beam/missing)
    (let [port (beam/free-port)
          epmd (beam/start-epmd port)]
      (try
        (let [b (start-beam b-name port "-kernel" "start_pg" "true")
              c (start-beam c-name port "-kernel" "start_pg" "true")]
          (try
            (scripted/running (merge {:cookie beam/cookie :epmd port} options) (atom [])
              (fn [] (actor/with-process {:name :inbox} (f b c))))
            (finally
              (end-beam b)
              (end-beam c))))
        (finally (beam/end epmd))))))

(defn- got
  "The next message of this process; :none if none comes."
  []
  (receive x x (after limit-ms :none)))

(defn- says?
  "Does the BEAM come to answer so?"
  [beam answer & texts]
  (eventually #(= answer (apply ask beam texts))))

(defn- idle []
  (actor/spawn #(receive :end nil)))

(defn- connect-all [b]
  (is (true? (erlang/connect b-name)))
  (is (true? (erlang/connect c-name)))
  (is (says? b (str "['" c-name "']") "net_adm:ping('" c-name "'), nodes() -- ['" us "']")))

;; ---- pg

(def ^:private groups
  "Asks a BEAM how many members each group has, and how many of them are its own."
  "lists:sort([{G, length(pg:get_members(G)), length(pg:get_local_members(G))} || G <- pg:which_groups()])")

(deftest members-join-and-leave-both-ways
  (doseq [options [{} {:visible true}]]
    (with-beams options
      (fn [b c]
        (let [[one two] [(idle) (idle)]
              early (idle)]
          (pg/join :early [early early])
          (connect-all b)
          (is (says? b "[{early,2,0}]" groups))
          (ask b "P = spawn(fun() -> receive x -> x end end), pg:join({orders, 1}, [P, P]), pg:join(stock, P)")
          (pg/join [:orders 1] [one two])
          (pg/join "text" one)
          (is (eventually #(= [4 1] [(count (pg/members [:orders 1])) (count (pg/members :stock))])))
          (is (= 2 (count (pg/local-members [:orders 1]))))
          (is (says? c "4" "length(pg:get_members({orders, 1}))") "two of this node, two of the other BEAM")
          (is (says? b "[{early,2,0},{stock,1,1},{{orders,1},4,2},{<<\"text\">>,1,0}]" groups))
          (is (= "ok" (ask b "pg:leave({orders, 1}, P)")))
          (is (eventually #(= 3 (count (pg/members [:orders 1])))))
          (pg/leave :early early)
          (is (says? b "1" "length(pg:get_members(early))"))
          (actor/exit early :kill)
          (actor/exit one :kill)
          (is (says? b "[{stock,1,1},{{orders,1},2,1}]" groups))
          (ask b "exit(P, kill)")
          (is (eventually #(= [[two] [[:orders 1]]] [(pg/members [:orders 1]) (pg/which-groups)])))
          (actor/exit two :kill)
          (is (says? c "[]" "pg:which_groups()"))
          (is (= "true" (ask b "is_pid(whereis(pg))") (ask c "is_pid(whereis(pg))"))))))))

(deftest messages-about-a-group-come-from-both-sides
  (with-beams {}
    (fn [b _]
      (erlang/connect b-name)
      (let [[ref before] (pg/monitor :orders)
            one (idle)]
        (is (= [] before))
        (ask b "{R, []} = pg:monitor(orders)")
        (ask b "P = spawn(fun() -> receive x -> x end end), pg:join(orders, P), P ! x")
        (let [[_ _ _ [far] :as joined] (got)]
          (is (= [[ref :join :orders [far]] [ref :leave :orders [far]]] [joined (got)])))
        (ask b "[receive {R, V1, orders, [P]} -> V1 after 10000 -> none end || _ <- [1, 2]]")
        (pg/join :orders one)
        (is (= [ref :join :orders [one]] (got)))
        (actor/exit one :kill)
        (is (= [ref :leave :orders [one]] (got)))
        (is (= "[join,leave]" (ask b "[receive {R, V2, orders, [_]} -> V2 after 10000 -> none end || _ <- [1, 2]]")))))))

(deftest a-lost-node-takes-its-members-away-on-both-sides
  (with-beams {}
    (fn [b c]
      (connect-all b)
      (let [one (idle)]
        (pg/join :orders one)
        (ask b "P = spawn(fun() -> receive x -> x end end), pg:join(orders, P)")
        (is (eventually #(= 2 (count (pg/members :orders)))))
        (is (says? c "2" "length(pg:get_members(orders))"))
        (is (true? (erlang/disconnect b-name)))
        (is (eventually #(= [one] (pg/members :orders))))
        (is (says? b "[true]" "[X =:= P || X <- pg:get_members(orders)]"))
        (is (= "2" (ask c "length(pg:get_members(orders))")) "the third node sees both")
        (is (true? (erlang/connect b-name)))
        (is (eventually #(= 2 (count (pg/members :orders)))))
        (is (says? b "2" "length(pg:get_members(orders))"))
        (end-beam b)
        (is (eventually #(= [one] (pg/members :orders))))
        (actor/exit one :kill)))))

(deftest a-pg-that-ends-is-found-again
  (with-beams {:visible true}
    (fn [b _]
      (erlang/connect b-name)
      (ask b "P = spawn(fun() -> receive x -> x end end), pg:join(orders, P)")
      (is (eventually #(= 1 (count (pg/members :orders)))))
      (ask b "exit(whereis(pg), kill)")
      (is (eventually #(= 0 (count (pg/members :orders)))) "its members are lost with it, as in Erlang")
      (is (says? b "ok" "catch pg:join(orders, P)"))
      (is (eventually #(= 1 (count (pg/members :orders))))))))
