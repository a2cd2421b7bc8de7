(ns magnetar.erlang.envelopes-test
  "Requests of sys and to event managers, and exit reasons, as a scripted other side sees them."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive]]
   [magnetar.erlang.scripted :as scripted :refer [control hang-up join next-control pid reference running]]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.supervisor :as sup]
   [magnetar.sys :as sys])
  (:import
   (magnetar.etf ImproperList)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(def ^:private their-pid (pid other 5))

(def ^:private alias-ref (reference other 1 2 3))

(def ^:private tag (ImproperList. (list :alias) alias-ref))

(defn- meeting
  ([f] (meeting {} f))
  ([options f]
   (running options (atom [])
     (fn []
       (let [peer (join other)]
         (try
           (actor/with-process {:name :inbox} (f peer))
           (finally (hang-up peer))))))))

(defn- to [name]
  [6 their-pid (keyword "") name])

(defn- answer
  "What a process here answers to the message of a BEAM, by the alias of its caller."
  [peer name message]
  (control peer (to name) message)
  (let [[[op _ to] [of value]] (next-control peer)]
    (is (= [33 alias-ref tag] [op to of]))
    value))

;; ---- to this node

(deftest what-sys-asks-a-server-here
  (meeting
    (fn [peer]
      (let [[_ server] (gs/start {:init (fn [n] [:ok n])} 7 {:name :counter})
            ask #(answer peer :counter [:system [their-pid tag] %])]
        (is (= 7 (ask :get_state)))
        (is (= [:ok :no_statistics] (ask [:debug [:statistics :get]])))
        (is (= :unknown_debug (ask [:debug [:log :x]])) "an atom that is no switch")
        (is (= :unknown_debug (ask [:debug [:install [:f 1]]])))
        (is (= :unknown_debug (ask [:debug :remove])))
        (is (= :ok (ask [:debug [:remove :f]])))
        (is (= [:error :notsup] (update (ask [:replace_state :f]) 1 first)))
        (is (= [:error [:unknown_system_msg [:change 1]]] (ask [:change 1])))
        (is (= [:error [:unknown_system_msg 42]] (ask 42)))
        (is (= [:status :module true] (let [[word _ [m module]] (ask :get_status)] [word m (keyword? module)])) "a map without a name")
        (is (= :ok (ask :suspend)))
        (is (= :ok (ask [:change_code :m :vsn :extra])))
        (is (= :ok (ask :resume))))
      (gs/stop :counter))))

(deftest a-message-that-only-looks-like-a-request
  (meeting
    (fn [peer]
      (doseq [message [[:system :x :y] [:system [1 2] :y] [their-pid [their-pid :tag] :x] [their-pid [(pid other 6) tag] :x] [:notify 1 2]]]
        (control peer (to :inbox) message)
        (is (= 3 (count (receive x x (after scripted/limit-ms :none)))) message)))))

(deftest a-request-without-a-caller-is-only-a-message
  (meeting
    (fn [peer]
      (let [[_ server] (gs/start {:init (fn [n] [:ok n]) :handle-call (fn [request _ n] [:reply request n])} 7 {:name :counter})]
        (scripted/quietly
          (fn []
            (doseq [from [[:foo 1] [1 tag] ["x" "y"] [nil nil]]]
              (control peer (to :counter) [:$gen_call from :x]))
            (control peer (to :counter) [:$gen_call [their-pid :tag] :x])
            (let [[[_ _ caller] answer] (next-control peer)]
              (is (= [their-pid [:tag :x]] [caller answer]) "a tag may be any term"))
            (is (= :y (answer peer :counter [:$gen_call [their-pid tag] :y])))))
        (gs/stop server)))))

(deftest a-keyword-of-this-library-from-another-node-is-not-taken-for-its-own
  (meeting
    (fn [peer]
      (gs/start {:init (fn [n] [:ok n])} 7 {:name :counter})
      (scripted/failures-of
        (fn [failures]
          (doseq [message [[:magnetar/call] [:magnetar/system [their-pid tag] [:replace-state :k]] [:magnetar.erlang.impl.pg/again 1] :magnetar/call]]
            (control peer (to :counter) message))
          (is (= 7 (answer peer :counter [:system [their-pid tag] :get_state])))
          (is (= ["The node b@127.0.0.1 has sent a message that begins with a keyword of this library."] (map #(ex-message (:error %)) @failures))
              "the first one is told of")))
      (doseq [message [[:my.app/call 1] [:magnetar 1] [:x :magnetar/call]]]
        (control peer (to :inbox) message)
        (is (= message (receive x x (after scripted/limit-ms :none)))))
      (gs/stop :counter))))

(deftest what-a-manager-of-events-is-asked
  (meeting
    (fn [peer]
      (ge/start {:name :events})
      (ge/add-handler :events {:name 'my.tally, :init (fn [_] [:ok 0]), :handle-event (fn [_ n] [:ok (inc (long n))]), :handle-call (fn [_ n] [:ok n n])} nil)
      (let [ask #(answer peer :events [their-pid [their-pid tag] %])]
        (is (= '(:my.tally) (ask :which_handlers)))
        (control peer (to :events) [:notify :first])
        (is (= :ok (ask [:sync_notify :second])))
        (is (= 2 (ask [:call :my.tally :count])))
        (is (= '([:my.tally false 2]) (answer peer :events [:system [their-pid tag] :get_state])))
        (is (= [:error [:unknown_call [:more 1]]] (ask [:more 1])))
        (is (= [:error [:unknown_call 3]] (ask 3))))
      (ge/stop :events))))

(deftest a-handler-that-has-ended-on-the-other-node
  (meeting
    (fn [peer]
      (control peer (to :inbox) [:gen_event_EXIT [:tally 1] :normal])
      (is (= [:gen-event-EXIT [:tally 1] :normal] (receive x x (after scripted/limit-ms :none)))))))

(deftest a-child-that-does-not-run-is-undefined
  (doseq [options [{} {:nil :undefined}]]
    (meeting options
      (fn [peer]
        (let [[_ top] (sup/start-link {:children [{:id :a :start [gs/start-link {:init (fn [_] :ignore)} nil]}]} {:name :top})
              ask #(answer peer :top [:$gen_call [their-pid tag] %])]
          (is (= '([:a :undefined :worker :dynamic]) (ask :which_children)) options)
          (is (= [:ok :undefined] (ask [:restart_child :a])))
          (is (= [:error [:unknown-call [:what :x]]] (ask [:what :x])))
          (gs/stop top))))))

;; ---- from this node

(defn- sent
  "The message that f sends to the name :shelf of the other node, and what f returns when that is answered."
  [peer f value]
  (let [returned (promise)]
    (actor/spawn #(deliver returned (f)))
    (let [[[_ _ _ ref]] (next-control peer)
          [_ [_ [_ of] :as message]] (next-control peer)]
      (control peer [33 their-pid ref] [of value])
      (let [value (deref returned scripted/limit-ms :late)]
        (next-control peer) ; the end of the monitor
        [(peek message) value]))))

(deftest what-sys-asks-a-server-there
  (meeting
    (fn [peer]
      (let [shelf [:shelf other]
            ask #(sent peer %1 %2)]
        (is (= [:get_state 7] (ask #(sys/get-state shelf) 7)))
        (is (= [:suspend :ok] (ask #(sys/suspend shelf) :ok)))
        (is (= [[:debug [:log [true 3]]] :ok] (ask #(sys/log shelf 3) :ok)))
        (is (= [[:debug [:log :get]] [:ok [1 2]]] (ask #(sys/log shelf :get) [:ok '(1 2)])))
        (is (= [[:debug [:statistics :get]] [:ok {:start-time 1 :current-time 2 :messages-in 3 :messages-out 4}]]
               (ask #(sys/statistics shelf :get) [:ok (list [:start_time 1] [:current_time 2] [:reductions 9] [:messages_in 3] [:messages_out 4])])))
        (is (= [:get_status {:pid 1 :module :m :status :running :parent 2 :dictionary {:a 1} :debug () :misc :x}]
               (ask #(sys/get-status shelf) [:status 1 [:module :m] (list (list [:a 1]) :running 2 () :x)])))
        (is (= [[:terminate :normal] :ok] (ask #(sys/terminate shelf :normal) :ok)))))))

(deftest a-stop-wants-no-answer
  (meeting
    (fn [peer]
      (let [stopped (promise)]
        (actor/spawn #(deliver stopped (gs/stop [:shelf other] :shutdown)))
        (let [[[_ watcher name ref]] (next-control peer)
              [_ [word [caller _] request]] (next-control peer)]
          (is (= [:shelf :system [:terminate :shutdown]] [name word request]))
          (is (not= watcher caller) "the answer goes to no process")
          (control peer [22 their-pid caller] [nil :ok])
          (control peer [28 :shelf watcher ref] :shutdown)
          (is (= :ok (deref stopped scripted/limit-ms :late))))))))

(deftest what-a-supervisor-and-a-manager-are-asked
  (meeting
    (fn [peer]
      (let [shelf [:shelf other]]
        (is (= [:which_children [{:id :a :pid nil :type :worker :modules [:m]} {:id nil :pid :restarting :type :worker :modules :dynamic}]]
               (sent peer #(sup/which-children shelf) (list [:undefined :restarting :worker :dynamic] [:a :undefined :worker '(:m)]))))
        (is (= [[:start_child {:id :a :start [:m :f '(1)]}] [:ok nil]]
               (sent peer #(sup/start-child shelf {:id :a :start [:m :f [1]]}) [:ok :undefined])))
        (is (= [[:start_child '(1 2)] [:error :already-present]] (sent peer #(sup/start-child shelf [1 2]) [:error :already_present])))
        (is (= [[:call [:tally 1] :count] [:error :bad-module]] (sent peer #(ge/call shelf ['tally 1] :count) [:error :bad_module])))
        (is (= [:which_handlers [:tally]] (sent peer #(ge/which-handlers shelf) '(:tally))))
        (ge/notify shelf :sold)
        (is (= [:notify :sold] (second (next-control peer))))))))

;; ---- exit reasons

(deftest a-reason-without-a-term-is-the-nearest-that-has-one
  (meeting
    (fn [peer]
      (doseq [[reason there] {['noproc '(f "x")] [:noproc "(f \"x\")"]
                              [[:nodedown other] ['my.server :call [:stock 5000]]] [[:nodedown (keyword other)] [:my.server :call '(:stock 5000)]]
                              [{:type 'java.lang.Exception :message nil} ["a"]] [{:type :java.lang.Exception :message nil} ["a"]]
                              ['a ##Inf 1.5 \c] [:a "##Inf" 1.5 "\\c"]
                              [(symbol "nil") 1] [:unsendable "[nil 1]"]
                              #{1} [:unsendable "#{1}"]
                              (vec (repeat 2000 'x)) :large
                              (nth (iterate vector 'x) 100) :deep}]
        (let [child (actor/spawn (fn [] (receive :end (actor/exit reason))))]
          (actor/register :child child)
          (control peer [19 their-pid :child alias-ref])
          (control peer (to :inbox) :begun)
          (is (= :begun (receive x x (after scripted/limit-ms :none))))
          (! child :end)
          (let [[[op] why] (next-control peer)]
            (is (= 28 op))
            (case there
              :large (is (= [:unsendable 2] [(first why) (count why)]))
              :deep (is (string? (nth (iterate first why) 17)))
              (is (= there why)))))))))
