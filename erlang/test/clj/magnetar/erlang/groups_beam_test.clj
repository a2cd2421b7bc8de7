(ns magnetar.erlang.groups-beam-test
  "Groups and global names of this JVM and two real BEAMs, in a run with --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive]]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :as beam :refer [ask end-beam limit-ms start-beam]]
   [magnetar.erlang.scripted :as scripted :refer [eventually]]
   [magnetar.global :as global]
   [magnetar.pg :as pg]))

(set! *warn-on-reflection* true)

(def ^:private us "m@127.0.0.1")
(def ^:private b-name "b@127.0.0.1")
(def ^:private c-name "c@127.0.0.1")

(def ^:private started
  "The processes of a test."
  (atom []))

(defn- idle []
  (let [pid (actor/spawn #(receive :end nil))]
    (swap! started conj pid)
    pid))

(defn- end-all []
  (run! #(actor/exit % :kill) (first (reset-vals! started []))))

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
              (end-all)
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

(deftest scopes-of-one-name-are-the-same
  (with-beams {:scopes #{:shop}}
    (fn [b _]
      (let [one (idle)]
        (ask b "{ok, _} = pg:start(shop)")
        (pg/join :shop :orders one)
        (is (true? (erlang/connect b-name)))
        (is (says? b "1" "length(pg:get_members(shop, orders))"))
        (ask b "P = spawn(fun() -> receive x -> x end end), pg:join(shop, orders, P), pg:join(orders, P)")
        (is (eventually #(= [2 1] [(count (pg/members :shop :orders)) (count (pg/members :orders))])))
        (is (= "1" (ask b "length(pg:get_members(orders))")) "a member of the other scope is not told")
        (let [[ref _] (pg/monitor :shop :orders)]
          (ask b "exit(P, kill)")
          (is (= [ref :leave :orders] (pop (got)))))
        (actor/exit one :kill)
        (is (says? b "[]" "pg:which_groups(shop)"))
        (is (eventually #(= [[] []] [(pg/which-groups :shop) (pg/which-groups)])))))))

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

;; ---- global

(defn- node-of
  "The node of the process with the global name, as the BEAM knows it. `name` is text of Erlang."
  [beam name]
  (ask beam "(fun(undefined) -> none; (Pid) -> node(Pid) end)(global:whereis_name(" name "))"))

(defn- quoted [node]
  (str "'" node "'"))

(deftest names-are-known-on-all-nodes
  (with-beams {:visible true}
    (fn [b c]
      (let [[early late] [(idle) (idle)]]
        (global/register-name :early early)
        (connect-all b)
        (ask b "P = spawn(fun F() -> receive {Q, X} -> Q ! {got, X}, F() end end), yes = global:register_name({price, 1}, P)")
        (is (= :ok (global/sync)))
        (is (= ["ok" "ok"] [(ask b "global:sync()") (ask c "global:sync()")]))
        (is (= b-name (actor/node (global/whereis-name [:price 1]))))
        (is (= [(quoted us) (quoted us)] [(node-of b "early") (node-of c "early")]))
        (is (= :yes (global/register-name "late" late)))
        (is (= [(quoted us) (quoted us)] [(node-of b "<<\"late\">>") (node-of c "<<\"late\">>")]))
        (is (= :no (global/register-name [:price 1] late)))
        (is (= :no (global/register-name (list :price 1) late)) "a list and a tuple are one name here")
        (is (= "no" (ask c "global:register_name(early, self())")))
        (! [:global [:price 1]] [(actor/self) 7])
        (is (= [:got 7] (got)))
        (is (= #{:early "late" [:price 1]} (set (global/registered-names))))
        (is (= :yes (global/re-register-name :early late)))
        (is (= "ok" (ask c "{ok, global:unregister_name({price, 1})}, ok")))
        (is (nil? (global/whereis-name [:price 1])) "an unregistration waits for all")
        (is (= "yes" (ask b "global:re_register_name(early, P)")))
        (is (= b-name (actor/node (global/whereis-name :early))))
        (is (= :ok (global/unregister-name :early)))
        (is (= ["none" "none"] [(node-of b "early") (node-of c "early")]))
        (actor/exit late :kill)
        (is (says? b "[]" "global:registered_names()"))
        (is (= "yes" (ask b "global:register_name(late, P)")))
        (ask b "exit(P, kill)")
        (is (eventually #(= [] (global/registered-names))))
        (is (= "yes" (ask b "global:register_name(late, self())")))
        (end-beam b)
        (is (eventually #(nil? (global/whereis-name :late))))
        (is (= :yes (global/register-name :late (idle))))
        (is (= (quoted us) (node-of c "late")))
        (is (str/includes? (try (global/register-name #{1} (idle)) (catch IllegalArgumentException e (ex-message e)))
                           "cannot be registered in this cluster: "))
        (is (true? (erlang/disconnect c-name)))
        (is (eventually #(= "none" (node-of c "late"))))))))

(deftest one-of-several-gets-a-name
  (with-beams {:visible true}
    (fn [b c]
      (connect-all b)
      (global/sync)
      (let [register "[global:register_name(N, spawn(fun() -> receive x -> x end end)) || N <- lists:seq(1, 9)]"
            answers [(future (ask b register)) (future (ask c register))]
            _ (is (eventually #(global/whereis-name 1)))
            ours (mapv #(global/register-name % (idle)) (range 9 0 -1))
            counted (frequencies (mapcat #(re-seq #"yes|no" @%) answers))]
        (is (< 0 (long (counted "yes" 0))))
        (is (= 9 (+ (long (counted "yes" 0)) (long (get (frequencies ours) :yes 0)))))
        (is (= (ask b "lists:sort([{N, node(global:whereis_name(N))} || N <- global:registered_names()])")
               (ask c "lists:sort([{N, node(global:whereis_name(N))} || N <- global:registered_names()])")
               (str "[" (str/join "," (for [n (range 1 10)] (str "{" n "," (quoted (actor/node (global/whereis-name n))) "}"))) "]")))
        (is (= (set (range 1 10)) (set (global/registered-names))))))))

(deftest locks-are-held-on-all-nodes
  (with-beams {:visible true}
    (fn [b _]
      (connect-all b)
      (is (= "true" (ask b "global:set_lock({stock, self()})")))
      (is (false? (global/set-lock [:stock (actor/self)] {:retries 0})))
      (is (= "true" (ask b "global:del_lock({stock, self()})")))
      (is (true? (global/set-lock [:stock :me] {:retries 0})))
      (is (= "false" (ask b "global:set_lock({stock, other}, [node() | nodes()], 0)")))
      (is (true? (global/set-lock [:stock :me])))
      (is (true? (global/del-lock [:stock :me])))
      (is (= "false" (ask b "global:set_lock({stock, other}, [node() | nodes()], 0)")) "it was set twice")
      (is (true? (global/del-lock [:stock :me])))
      (is (= "done" (ask b "global:trans({stock, self()}, fun() -> done end)")))
      (is (= :done (global/trans [:stock (actor/self)] (fn [] :done))))
      (let [holder (actor/spawn #(do (global/set-lock [:stock :holder]) (! :inbox :locked) (receive :end nil)))]
        (is (= :locked (got)))
        (is (= "aborted" (ask b "global:trans({stock, self()}, fun() -> done end, [node() | nodes()], 0)")))
        (actor/exit holder :kill)
        (is (says? b "done" "global:trans({stock, self()}, fun() -> done end, [node() | nodes()], 0)")))
      (ask b "true = global:set_lock({stock, self()})")
      (end-beam b)
      (is (eventually #(global/set-lock [:stock :me] {:retries 0})) "the lock of a lost node is free")
      (is (true? (global/del-lock [:stock :me]))))))

(deftest two-processes-with-one-name-are-resolved-when-nodes-meet
  (doseq [[name kept] [[us b-name] ["a@127.0.0.1" "a@127.0.0.1"]]]
    (with-beams {:visible true :name name}
      (fn [b _]
        (let [[killed told fine] (repeatedly idle)
              notified (actor/spawn #(receive x (! :inbox x)))]
          (global/register-name :exit killed)
          (global/register-name :notify notified global/random-notify-name)
          (global/register-name :both told global/notify-all-name)
          (global/register-name :fine fine)
          (ask b "P = spawn(fun F() -> receive x -> F() end end), yes = global:register_name(exit, P)")
          (ask b "yes = global:register_name(notify, self(), fun global:random_notify_name/3)")
          (ask b "Q = spawn(fun F() -> receive x -> F() end end), yes = global:register_name(both, Q, fun global:notify_all_name/3)")
          (is (true? (erlang/connect b-name)))
          (is (= :ok (global/sync)))
          (is (= "ok" (ask b "global:sync()")))
          (is (= [kept kept name] (map #(some-> (global/whereis-name %) actor/node) [:exit :notify :fine])))
          (is (= [(quoted kept) (quoted kept) (quoted name)] (map #(node-of b %) ["exit" "notify" "fine"])))
          (is (= [nil "none"] [(global/whereis-name :both) (node-of b "both")]))
          (if (= kept b-name)
            (is (= [:global_name_conflict :notify] (got)))
            (is (= "notify" (ask b "receive {global_name_conflict, N} -> N after 10000 -> none end"))))
          (is (eventually #(= [(not= kept b-name) (quoted (= kept b-name))]
                              [(actor/alive? killed) (quoted (ask b "is_process_alive(P)"))]))))))))

(deftest a-visible-node-is-connected-with-all-nodes
  (with-beams {:visible true}
    (fn [b c]
      (is (says? b (str "['" c-name "']") "net_adm:ping('" c-name "'), nodes()"))
      (is (= "ok" (ask b "global:sync()")))
      (is (true? (erlang/connect b-name)))
      (is (eventually #(= [b-name c-name] (erlang/nodes))) "b tells of c")
      (is (= ["ok" "ok" :ok] [(ask b "global:sync()") (ask c "global:sync()") (global/sync)]))
      (is (= "yes" (ask c "global:register_name(c, self())")))
      (is (= [[b-name c-name] c-name] [(erlang/nodes) (actor/node (global/whereis-name :c))]))
      (testing "prevent_overlapping_partitions, which is on"
        (is (= "true" (ask b "erlang:disconnect_node('" c-name "')")))
        (is (eventually #(not= [b-name c-name] (erlang/nodes))) "this node stays with one of the two at most")
        (is (true? (erlang/connect b-name)))
        (is (true? (erlang/connect c-name)))
        (is (eventually #(= [b-name c-name] (erlang/nodes))))))))

(deftest a-hidden-node-takes-no-part-in-global
  (with-beams {}
    (fn [b c]
      (connect-all b)
      (is (= "ok" (ask b "global:sync()")) "nothing waits for it")
      (is (nil? (actor/whereis :global_name_server)))
      (is (= "yes" (ask b "global:register_name(price, self())")))
      (is (nil? (global/whereis-name :price)))
      (is (= :yes (global/register-name :price (actor/self))))
      (is (= (quoted b-name) (node-of c "price")))
      (is (= [b-name c-name] (erlang/nodes)))
      (global/unregister-name :price))))
