(ns magnetar.examples-test
  "The examples in the docstrings read, compile, and give what they say."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.test :refer [are deftest is]]
   [magnetar.dev.examples :as examples]
   [magnetar.dev.repl :as repl]
   [magnetar.support :refer [with-hook]]))

(set! *warn-on-reflection* true)

(def ^:private shared
  "Forms of several settings, which name them by these keywords."
  '{:app (sup/start-link {:children [{:id :b :start [gs/start-link 'my.counter 0]}]} {:name :app})
    :carts (registry/start-link {:keys :unique :name :carts})
    :counter (gs/start-link 'my.counter 5 {:name :counter})
    :events (ge/start-link {:name :events})
    :fetch (defn fetch [url] url)
    :leader (global/register-name :leader (self))
    :logger (actor/register :logger (self))
    :request (actor/pput :request 17)
    :shop (application/load {:name :shop})
    :tasks (tasks/start-link {:name :tasks})
    :timer (def timer (actor/start-timer 500 (self) :tick))
    :two-carts (run! #(registry/register :carts % nil) [17 18])
    :url (def url "a")})

(def ^:private settings
  "What is done before the examples of a namespace, or before one of them in its place."
  '{magnetar.actor/cancel-timer [:timer (scope/sleep 20)]
    magnetar.actor/flush [(! (self) :a) (! (self) :b)]
    magnetar.actor/perase [:request]
    magnetar.actor/pget [:request]
    magnetar.actor/process-info [(def pid (self)) (dotimes [n 3] (! pid n))]
    magnetar.actor/read-timer [:timer (scope/sleep 20)]
    magnetar.actor/registered [:logger]
    magnetar.actor/unregister [:logger]
    magnetar.actor/whereis [:logger]
    magnetar.agent [(agent/start-link (fn [] 17) {:name :hits})]
    magnetar.agent/start-link []
    magnetar.application [(application/load {:name :store})
                          (application/load {:name :shop :applications [:store] :env {:port 8080}})]
    magnetar.application/ensure-started [:shop]
    magnetar.application/get-application
    [(application/load {:name :shop
                        :start {:children [{:id :cart :start [gs/start-link 'my.counter 0 {:name :cart}]}]}})
     (application/start :shop)
     (def pid (actor/whereis :cart))]
    magnetar.application/load []
    magnetar.application/loaded-applications [:shop]
    magnetar.application/start [:shop]
    magnetar.application/stop [:shop (application/start :shop)]
    magnetar.application/which-applications [:shop (application/start :shop :permanent)]
    magnetar.bits/parse [(def packet (byte-array [0 3 97 98 99 100]))]
    magnetar.channel/put [(def ch (channel/chan {:size 1}))]
    magnetar.gen-event [:events (ge/add-handler :events 'my.tally 1)]
    magnetar.gen-event/add-handler [:events]
    magnetar.gen-event/add-sup-handler [:events]
    magnetar.gen-event/start-link []
    magnetar.gen-server [:counter]
    magnetar.gen-server/receive-response [(gs/start-link {:init (fn [_] [:ok nil])
                                                          :handle-call (fn [_ _ s] [:noreply s])}
                                                         nil {:name :silent})
                                          (def request (gs/send-request :silent :get))]
    magnetar.gen-server/start-link []
    magnetar.gen-server/wait-response [:counter (def request (gs/send-request :counter :get))]
    magnetar.telemetry/metrics [:counter]
    magnetar.gen-statem [(statem/start-link 'my.switch 0 {:name :switch}) (statem/cast :switch :push)]
    magnetar.gen-statem/start-link []
    magnetar.global/registered-names [:leader]
    magnetar.global/send [:leader]
    magnetar.global/unregister-name [:leader]
    magnetar.global/whereis-name [:leader]
    magnetar.hot/load [(require 'my.counter) (alter-meta! (the-ns 'my.counter) assoc :version 1)]
    magnetar.hot/version [(require 'my.counter)]
    magnetar.inspect/dead-letters [(let [gone (spawn (fn []))] (actor/join gone) (! gone :hello))]
    magnetar.inspect/mailbox [(def pid (actor/spawn-opt #(receive [:put x] x)
                                                        {:mailbox {:capacity 100 :when-full :block}}))
                              (! pid [:stop])]
    magnetar.inspect/processes [:logger]
    magnetar.inspect/restarts [:app
                               (actor/exit (:pid (second (sup/which-child :app :b))) :boom)
                               (scope/sleep 20)]
    magnetar.pg [(pg/join :loggers (self))]
    magnetar.pool [:url]
    magnetar.pool/status [(pool/start-link {:name :db :worker [gs/start-link 'my.counter 0] :size 10})
                          (pool/checkout :db)]
    magnetar.proc-lib [(defn serve [_] (receive :stop nil))]
    magnetar.proc-lib/stop [(def pid (second (gs/start 'my.counter 0)))]
    magnetar.registry [:carts
                       (registry/start-link {:keys :duplicate :name :bus})
                       (registry/register :carts 17 nil)
                       (registry/register :bus :orders {:since 5})
                       (registry/put-meta :carts :limit 100)]
    magnetar.registry/count [:carts :two-carts]
    magnetar.registry/register-name [:carts]
    magnetar.registry/select [:carts :two-carts]
    magnetar.registry/start-link []
    magnetar.registry/update-value [:carts (registry/register :carts 17 1)]
    magnetar.registry/via [:carts (gs/start-link 'my.counter 5 {:name (registry/via :carts 17)})]
    magnetar.resilience [:fetch :url]
    magnetar.resilience/circuit-breaker [:fetch :url
                                         (r/start-breaker {:name :payments})
                                         (def charge identity)
                                         (def card 17)]
    magnetar.resilience/start-breaker []
    magnetar.scope/result [(def f (with-scope [s] (doto (fork s + 40 2) scope/join)))]
    magnetar.supervisor [:app]
    magnetar.supervisor/delete-child [:app (sup/terminate-child :app :b)]
    magnetar.supervisor/history [:app
                                 (actor/exit (:pid (second (sup/which-child :app :b))) :boom)
                                 (scope/sleep 20)]
    magnetar.supervisor/restart-child [:app (sup/terminate-child :app :b)]
    magnetar.supervisor/start-child [(sup/start-link {:children []} {:name :app})]
    magnetar.supervisor/start-link []
    magnetar.sys [:counter]
    magnetar.sys/change-code [:counter (sys/suspend :counter)]
    magnetar.sys/log [:counter (sys/log :counter true) (gs/call :counter :get)]
    magnetar.sys/terminate [(gs/start 'my.counter 5 {:name :counter})]
    magnetar.table [(def t (table/create :ordered-set {:name :scores}))
                    (table/insert-all t [[:apples 3] [:pears 4]])
                    (def scores (table/create :ordered-set))
                    (table/insert-all scores [[100 "ada"] [150 "bob"] [200 "eve"]])]
    magnetar.table/compare-and-swap [(def t (table/create :set)) (table/insert t [:n 2])]
    magnetar.table/create []
    magnetar.table/info [(table/create :set {:name :scores}) (table/insert-all :scores [[1] [2] [3]])]
    magnetar.table/lookup-element [(def t (table/create :set)) (table/insert t [:apples 3])]
    magnetar.table/update-counter [(def t (table/create :set)) (table/insert t [:hits 0])]
    magnetar.task/start [(def send-mail identity) (def order 17)]
    magnetar.task/start-link [(def warm-up (fn []))]
    magnetar.task/yield [(def task (task/async + 1 2))]
    magnetar.task.supervisor [:tasks :fetch :url (defn send-mail [])]
    magnetar.task.supervisor/async-stream [:tasks :fetch (def urls ["a" "b"])]
    magnetar.task.supervisor/async-stream-nolink
    [:tasks
     (defn fetch [url] (if (= "a" url) :page (throw (ex-info "no such page" {}))))
     (def urls ["a" "b"])]
    magnetar.task.supervisor/children [:tasks (tasks/start-child :tasks #(receive :stop nil))]
    magnetar.task.supervisor/start-link []
    magnetar.task.supervisor/terminate-child
    [:tasks (def pid (second (tasks/start-child :tasks #(receive :stop nil))))]})

(def ^:private excused
  "Examples that do not give here what they say, with the reason."
  '{magnetar.cluster/address "needs a cluster"
    magnetar.cluster/connect "needs a cluster"
    magnetar.cluster/disconnect "needs a cluster"
    magnetar.cluster/nodes "needs a cluster"
    magnetar.cluster/ping "needs a cluster"
    magnetar.cluster.singleton/start-link "needs a cluster"
    magnetar.cluster/spawn "needs a cluster, and a var of a program"
    magnetar.cluster/status "needs a cluster"
    magnetar.cluster/stop "needs a cluster"
    magnetar.erlang/address "needs a node of Erlang"
    magnetar.erlang/call "needs a node of Erlang"
    magnetar.erlang/connect "needs a node of Erlang"
    magnetar.erlang/disconnect "needs a node of Erlang"
    magnetar.erlang/nodes "needs a node of Erlang"
    magnetar.erlang/ping "needs a node of Erlang"
    magnetar.erlang/spawn "needs a node of Erlang"
    magnetar.erlang/stop "needs a node of Erlang"
    magnetar.hot/unwatch "needs a folder src"
    magnetar.http/port "a simulation has no sockets"
    magnetar.http/status "a simulation has no sockets"
    magnetar.http/stop "a simulation has no sockets"
    magnetar.inspect/analyze "needs a dump in a file"
    magnetar.inspect/deadlocks "shows what runs in the program"
    magnetar.inspect/leaks "shows what runs in the program"
    magnetar.inspect/offload "shows what runs in the program"
    magnetar.inspect/resource "needs a connection pool"
    magnetar.inspect/runtime "shows the machine"
    magnetar.inspect/tree "shows what runs in the program"
    magnetar.inspect/top "shows what runs in the program"
    magnetar.inspect/why-stuck "shows what runs in the program"
    magnetar.inspect/zombies "a simulation has none"
    magnetar.net/connection-information "a simulation has no sockets"
    magnetar.net/local-address "a simulation has no sockets"
    magnetar.net/port "a simulation has no sockets"
    magnetar.net/remote-address "a simulation has no sockets"
    magnetar.table.snapshot/describe "reads a file"
    magnetar.table.snapshot/save "writes a file into the current folder"})

(defn- setting [example]
  (replace shared (get settings example (get settings (symbol (namespace example))))))

(defn- checked [[example code]]
  (assoc (examples/check (symbol (namespace example)) (setting example) code) :example example))

;; Children of examples are killed, and tasks fail.
(def ^:private results
  (delay (with-hook [:report identity] (mapv checked (examples/all)))))

(deftest each-example-compiles-and-gives-what-it-says
  (doseq [{:keys [example problems]} @results
          :when (not (excused example))]
    (is (= [] problems) (str example))))

(deftest an-excuse-goes-when-the-example-gives-what-it-says
  (is (= (set (keys excused))
         (set (keep #(when (and (excused (:example %)) (seq (:problems %))) (:example %)) @results)))))

(deftest a-setting-goes-with-its-last-example
  (let [evaluated (map :example (filter :evaluated @results))]
    (is (= [] (remove (set (concat evaluated (map (comp symbol namespace) evaluated))) (keys settings))))))

(deftest the-prompt-has-the-aliases-of-the-docstrings
  (let [alias-of (fn [libspec] [(first libspec) (second (drop-while (complement #{:as}) libspec))])]
    (is (= [] (remove (set (map alias-of @examples/required)) (map alias-of @#'repl/aliases))))))

;; ---- the checker

(defn- problems [code]
  (:problems (examples/check 'magnetar.channel [] code)))

(deftest a-right-example-has-no-problems
  (is (= {:free '[order] :problems []} (examples/check 'magnetar.channel [] "(channel/put order 1)")))
  (is (= {:free [] :problems [] :evaluated true} (examples/check 'magnetar.channel [] "(+ 1 2) ;=> 3")))
  (are [code] (= [] (problems code))
    "(def n 1)\n(inc n) ;=> 2\nn ;=> 1"
    "[:ok (self)] ;=> [:ok pid]"
    "[1 2 3] ;=> [1 ..]"
    "{:a 1 :b [2]} ;=> {:b [n], ..}"
    "(-> {:size 1} channel/chan channel/channel?) ;=> true"
    "(a/<! (a/timeout 86400000)) ;=> nil"
    "'(channel/chan 1 2 3)"))

(deftest a-wrong-example-is-found
  (are [problem code] (re-find problem (str (first (problems code))))
    #"Unmatched delimiter" "(channel/chan"
    #"No such var: channel/tkae" "(channel/tkae ch)"
    #"No such namespace: chan" "(chan/take ch)"
    #"is not public" "(channel/until ch)"
    #"`recieve` is not in scope; if `receive`" "(recieve [:a] 1)"
    #"`put` is not in scope; if `put`" "(put ch 1)"
    #"`magnetar.channel/put` takes .* and is given 1" "(channel/put ch)"
    #"`magnetar.channel/put` takes .* and is given 4" "(let [order 1] (when ch (channel/put ch order {} 4)))"
    #"`magnetar.channel/put` takes .* and is given 1" "(-> ch channel/put)"
    #"`magnetar.gen-server/start-link` takes .* and is given 1" "{:id :a :start [gs/start-link 'my.counter]}"
    #"`magnetar.channel/take` has no option :timout" "(channel/take ch {:timout 50})"
    #"`magnetar.gen-server/start-link` has no option :nmae"
    "{:id :a :start [gs/start-link 'my.counter 0 {:nmae :a}]}"
    #"wrong number of args|Wrong number of args" "(actor/with-process)"
    #"did not conform to spec" "(let [[:ok pid] (gs/start 'my.counter 0)] pid)"
    #"gives 3, not 4" "(+ 1 2) ;=> 4"
    #"gives \[1 2\]" "[1 2] ;=> [1]"
    #"gives \[1 2\]" "[1 2] ;=> [1 n 3 ..]"
    #"gives \{:a 1, :b 2\}" "{:a 1 :b 2} ;=> {:a n}"
    #"gives \{:a 1\}" "{:a 1} ;=> {:a 2, ..}"
    #"is not one value" "(+ 1 2) ;=> 3, or less"
    #"leaves ch open" "(channel/take ch) ;=> 3"
    #"wait" "(channel/take (channel/chan)) ;=> 3"
    #"/ by zero|Divide by zero" "(/ 1 0) ;=> 0"))
