(ns magnetar.remote-test
  "Processes of other nodes, by a transport that leads back to this node."
  (:refer-clojure :exclude [flush])
  (:require
   [clojure.datafy :as datafy]
   [clojure.edn :as edn]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after flush receive self spawn]]
   [magnetar.gen-server :as gs]
   [magnetar.global :as global]
   [magnetar.inspect]
   [magnetar.mirror :as mirror]
   [magnetar.pg :as pg]
   [magnetar.scope.context :as context]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting eventually with-failures]]
   [magnetar.sys :as sys])
  (:import
   (java.util.concurrent CountDownLatch TimeUnit)
   (magnetar.kernel.process Connection DeadLetters LocalProcess Peer Peers Pid ProcessTable Signal$Exit Signal$Link Signal$Message Signal$Monitor Spawn Transport)))

(set! *warn-on-reflection* true)

(defmacro ^:private with-mirror
  "Does body as a process, with the other node as m."
  [[m options] & body]
  `(actor/with-process {}
     (let [~m (mirror/start ~(or options {}))]
       (try
         ~@body
         (finally (mirror/stop ~m))))))

(defn- echo []
  (receive
    [:echo from x] (do (! from [:echoed x]) (recur))
    [:die reason] (actor/exit reason)))

(deftest messages-arrive-in-order-and-pids-come-back
  (with-mirror [m]
    (let [pid (mirror/there m (spawn echo))]
      (dotimes [n 100] (! pid [:echo (self) n]))
      (is (= (range 100) (repeatedly 100 #(receive [:echoed n] n))))
      (! pid [:echo (self) {:pids [pid (self)]}])
      (is (= {:pids [pid (self)]} (receive [:echoed x] x)))
      (! pid [:die :normal]))))

(deftest a-pid-of-another-node-is-equal-to-itself-only
  (with-mirror [m]
    (let [^Pid here (spawn echo)
          there (mirror/there m here)]
      (is (= there (mirror/there m here)))
      (is (not= there here))
      (is (= "a@mirror" (.nodeName there)))
      (is (= [:a] (keys (dissoc {:a there there :b} there))))
      (! here [:die :normal]))))

(deftest a-monitor-tells-of-a-death-with-its-reason
  (with-mirror [m]
    (let [pid (mirror/there m (spawn echo))
          ref (actor/monitor pid)]
      (! pid [:die :tired])
      (is (= [:DOWN ref :process pid :tired] (receive x x)))
      (let [again (actor/monitor pid)]
        (is (= [:DOWN again :process pid :noproc] (receive x x)))))))

(deftest a-monitor-that-ended-tells-nothing
  (with-mirror [m]
    (let [pid (mirror/there m (spawn echo))
          ref (actor/monitor pid)]
      (is (= true (actor/demonitor ref {:info true})))
      (is (= false (actor/demonitor ref {:info true})))
      (let [other (actor/monitor pid)]
        (! pid [:die :tired])
        (is (= [:DOWN other :process pid :tired] (receive x x)))
        (is (= :none (receive x x (after 0 :none))))))))

(deftest a-name-of-another-node-is-an-address
  (with-mirror [m]
    (let [pid (spawn echo)]
      (actor/register :remote-echo pid)
      (! [:remote-echo "a@mirror"] [:echo (self) 1])
      (is (= [:echoed 1] (receive x x)))
      (let [ref (actor/monitor [:remote-echo "a@mirror"])]
        (! [:remote-echo "a@mirror"] [:die :tired])
        (is (= [:DOWN ref :process [:remote-echo "a@mirror"] :tired] (receive x x))))
      (let [ref (actor/monitor [:remote-echo "a@mirror"])]
        (is (= [:DOWN ref :process [:remote-echo "a@mirror"] :noproc] (receive x x)))))))

(deftest links-go-both-ways
  (with-mirror [m]
    (actor/flag :trap-exit true)
    (let [pid (mirror/there m (spawn echo))]
      (is (true? (actor/link pid)))
      (! pid [:die :tired])
      (is (= [:EXIT pid :tired] (receive x x)))
      (actor/link pid)
      (is (= [:EXIT pid :noproc] (receive x x))))
    (testing "the other process gets the exit of this one"
      (let [other (spawn (fn [] (actor/flag :trap-exit true) (receive [:tell to] (! to [:got (receive x x)]))))
            there (mirror/there m other)
            linked (spawn (fn [] (actor/link there) (receive :end (actor/exit :over))))]
        (! other [:tell (self)])
        (! linked :end)
        (is (= [:got [:EXIT :over]] (receive [:got [exit _ reason]] [:got [exit reason]])))))))

(deftest a-link-that-ended-does-nothing
  (with-mirror [m]
    (actor/flag :trap-exit true)
    (let [pid (mirror/there m (spawn echo))]
      (actor/link pid)
      (actor/unlink pid)
      (let [ref (actor/monitor pid)]
        (! pid [:die :tired])
        (is (= [:DOWN ref :process pid :tired] (receive x x)))
        (is (= :none (receive x x (after 0 :none))))))))

(deftest exit-signals-go-to-other-nodes
  (with-mirror [m]
    (let [pid (spawn echo)
          ref (actor/monitor pid)]
      (actor/exit (mirror/there m pid) :normal)
      (! (mirror/there m pid) [:echo (self) 1])
      (is (= [:echoed 1] (receive x x)))
      (actor/exit (mirror/there m pid) :kill)
      (is (= [:DOWN ref :process pid :killed] (receive x x))))))

(deftest an-alias-is-an-address-everywhere-until-it-is-closed
  (with-mirror [m]
    (let [sender (mirror/there m (spawn (fn [] (receive [:answer to x] (do (! to x) (recur)) :end nil))))
          once (actor/make-alias :reply)]
      (! sender [:answer once [once 1]])
      (! sender [:answer once [once 2]])
      (is (= [once 1] (receive x x)))
      (let [many (actor/make-alias)]
        (run! #(! sender [:answer many %]) [1 2])
        (is (= [1 2] [(receive x x) (receive x x)]))
        (actor/unalias many)
        (! sender [:answer many 3])
        (! sender [:answer (self) :last])
        (is (= :last (receive x x)))))))

(defn- server-callbacks []
  {:init (fn [n] [:ok n])
   :handle-call (fn [request from n]
                  (case request
                    :get [:reply n n]
                    :never [:noreply n]
                    :stop [:stop :shutdown n]
                    :who [:reply from n]))
   :handle-cast (fn [k n] [:noreply (+ (long n) (long k))])})

(defn- reason-of [f]
  (try (f) (catch clojure.lang.ExceptionInfo e (:reason (ex-data e)))))

(deftest calls-and-casts-go-to-other-nodes
  (with-mirror [m]
    (let [[_ pid] (gs/start (server-callbacks) 1 {:name :remote-counter})
          there (mirror/there m pid)]
      (gs/cast there 5)
      (is (= 6 (gs/call there :get)))
      (gs/cast [:remote-counter "a@mirror"] 1)
      (is (= 7 (gs/call [:remote-counter "a@mirror"] :get)))
      (is (= [[["a@mirror" 7]] ["c@mirror"]] (gs/multi-call ["a@mirror" "c@mirror"] :remote-counter :get)))
      (gs/abcast ["a@mirror" "c@mirror"] :remote-counter 1)
      (is (= [:reply 8] (gs/receive-response (gs/send-request there :get) {:timeout 5000})))
      (is (= :late (gs/call there :never {:timeout 1 :else :late})))
      (is (= :shutdown (reason-of #(gs/call there :stop))) "the reason of a call whose server ends"))))

(deftest a-multi-call-and-an-abcast-connect-all-nodes-at-the-same-time
  (let [nodes (mapv #(str "n" % "@far") (range 8))]
    (doseq [[f answer] [[#(gs/multi-call nodes :counter :get) [[] nodes]] [#(gs/abcast nodes :counter 1) :abcast]]
            :let [all (CountDownLatch. (count nodes))
                  together? (atom #{})
                  dialer (reify Transport
                           (connect [_ _]
                             (.countDown all)
                             (swap! together? conj (.await all 10 TimeUnit/SECONDS))))]]
      (Peers/addDialer dialer)
      (try
        (is (= answer (f)))
        (is (= #{true} @together?))
        (finally (Peers/removeDialer dialer))))))

(deftest a-cut-fires-links-and-monitors-once-and-later-signals-do-nothing
  (with-mirror [m]
    (actor/flag :trap-exit true)
    (let [pid (spawn echo)
          there (mirror/there m pid)
          ref (actor/monitor there)
          linked (spawn echo)
          ref-of-linked (actor/monitor linked)
          linked-there (mirror/there m linked)]
      (actor/link linked-there)
      (! linked-there [:echo (self) :linked])
      (receive [:echoed :linked] nil)
      (mirror/cut m)
      (is (= #{[:EXIT linked-there :noconnection] [:DOWN ref :process there :noconnection] [:DOWN ref-of-linked :process linked :noconnection]}
             (set (repeatedly 3 #(receive x x)))))
      (is (= :none (receive x x (after 0 :none))))
      (is (actor/alive? pid))
      (let [lost (DeadLetters/count)]
        (! there [:echo (self) 1])
        (is (= (inc lost) (DeadLetters/count))))
      (let [again (actor/monitor there)]
        (is (= [:DOWN again :process there :noconnection] (receive x x))))
      (actor/link there)
      (is (= [:EXIT there :noconnection] (receive x x)))
      (testing "and it can be connected again"
        (mirror/stop m)
        (mirror/connect m)
        (! there [:echo (self) 2])
        (is (= [:echoed 2] (receive x x)))
        (! there [:die :normal])))))

(deftest a-process-is-started-on-another-node
  (with-mirror [m {:work (fn [what]
                           (assert (not= :false-assertion what))
                           (if (= :echo what) echo (throw (ex-info "Not allowed." {}))))}]
    (actor/flag :trap-exit true)
    (let [me (LocalProcess/current)
          ^Peer there (:a m)
          ref (Spawn/request me there :echo true true)
          [_ told _ pid :as answer] (receive x x)]
      (is (= [:spawn-reply ref :ok pid] answer))
      (is (= "a@mirror" (.nodeName ^Pid pid)))
      (! pid [:echo (self) 1])
      (is (= [:echoed 1] (receive x x)))
      (! pid [:die :tired])
      (is (= #{[:DOWN told :process pid :tired] [:EXIT pid :tired]} (set [(receive x x) (receive x x)])))
      (let [ref (Spawn/request me there :other false false)]
        (is (= [:spawn-reply ref :error "Not allowed."] (update (receive x x) 3 (comp :message first)))))
      (is (= :error (do (Spawn/request me there :false-assertion false false) ((receive x x) 2))))
      (mirror/cut m)
      (let [ref (Spawn/request me there :echo false false)]
        (is (= [:spawn-reply ref :error :noconnection] (receive x x)))))))

(context/defcontext user "nobody")

(deftest a-process-of-another-node-has-the-context-of-the-one-that-asked
  (with-mirror [m {:work (fn [^Pid to] (fn [] (! to [:user @user])))}]
    (let [me (LocalProcess/current)
          ask #(do (Spawn/request me (:a m) (self) false false)
                   (receive [:user x] x))]
      (is (= ["ada" "nobody"] [(context/with-context [user "ada"] (ask)) (ask)])))))

(defn- asked-for []
  (filter #(= "for node b@mirror" (.label (.pid ^LocalProcess %))) (ProcessTable/all)))

(deftest a-request-that-was-given-up-leaves-nothing
  (let [go (promise)]
    (with-mirror [m {:work (fn [_] @go echo)}]
      (actor/flag :trap-exit true)
      (let [far-echo (mirror/there m (spawn echo))
            ask #(Spawn/request (LocalProcess/current) (:a m) :echo % %)
            give-up #(Spawn/abandon (LocalProcess/current) (:a m) %)
            [kept linked] [(ask false) (ask true)]]
        (is (= [true false] [(give-up linked) (give-up (actor/make-ref))]))
        (deliver go true)
        (let [pid (receive [:spawn-reply kept :ok pid] pid)]
          (is (false? (give-up kept)) "it was answered")
          (! pid [:die :normal]))
        (! far-echo [:echo (self) 1])
        (is (= [:echoed 1] (receive x x)))
        (is (eventually (empty? (asked-for))) "its link ends the process")
        (! far-echo [:die :normal])
        (is (eventually (zero? (long (mirror/entries m)))))
        (is (= :none (receive x x (after 0 :none))))))))

(defn- start-there
  "What starts the child of a supervisor: a process of the other node, or of this one when the other is lost."
  [{:keys [^Peer a] :as m} started]
  (let [here (spawn echo)
        pid (if (.connection a) (mirror/there m here) here)]
    (actor/link pid)
    (swap! started conj pid)
    [:ok pid]))

(defn- supervise-there [m]
  (actor/flag :trap-exit true)
  (let [started (atom [])
        [_ supervisor] (sup/start-link {:strategy :one-for-one, :intensity 5
                                        :children [{:id :far :start #(start-there m started) :shutdown 5000}]})
        child #(:pid (first (sup/which-children supervisor)))]
    (! (first @started) [:die :tired])
    (is (eventually (= 2 (count @started))))
    (is (= (second @started) (child)))
    (let [ref (actor/monitor (second @started))]
      (sup/terminate-child supervisor :far)
      (is (= :shutdown (receive [:DOWN ref _ _ reason] reason))))
    (is (= :ok (first (sup/restart-child supervisor :far))))
    (mirror/cut m)
    (is (eventually (= "nonode@nohost" (some-> (child) actor/node))) "a lost node counts as the exit of its processes")
    (actor/exit supervisor :shutdown)
    (is (= :shutdown (receive [:EXIT supervisor reason] reason)))))

(deftest a-supervisor-restarts-a-child-of-another-node
  (let [reports (atom [])]
    (with-mirror [m]
      (collecting reports #(supervise-there m)))
    (is (= [:tired :noconnection] (keep :reason @reports)))))

(deftest what-works-on-this-node-only-says-so
  (with-mirror [m]
    (let [pid (spawn echo)
          there (mirror/there m pid)
          on #"on the node \"a@mirror\"\. Call it there"]
      (doseq [f [actor/alive? actor/process-info actor/join actor/suspend-process actor/resume-process #(actor/register :far %)
                 #(actor/trace % true) #(pg/join :far %) #(global/register-name :far %)]]
        (is (thrown-with-msg? IllegalArgumentException on (f there))))
      (is (= ["a@mirror" "nonode@nohost" "nonode@nohost"] (map actor/node [there pid (actor/make-ref)])))
      (is (= {:status :elsewhere :node "a@mirror"} (select-keys (datafy/datafy there) [:status :node])))
      (! there [:die :normal]))))

(deftest a-server-of-another-node-is-stopped-in-order
  (with-mirror [m]
    (let [[_ pid] (gs/start (server-callbacks) 1 {:name :far-server})]
      (is (= 1 (sys/get-state [:far-server "a@mirror"])))
      (is (= :ok (gs/stop [:far-server "a@mirror"] :shutdown)))
      (is (= [:noproc "The stop of [:far-server \"a@mirror\"] failed: :noproc."]
             (try (gs/stop [:far-server "a@mirror"]) (catch clojure.lang.ExceptionInfo e [(:reason (ex-data e)) (ex-message e)]))))
      (is (not (actor/alive? pid))))))

(deftest a-full-stream-lets-its-senders-wait
  (with-mirror [m {:limit 10}]
    (let [slow (spawn (fn [] (receive :go (loop [n 0] (receive :end n _ (recur (inc n)))))))
          there (mirror/there m slow)]
      (is (some? there))
      (! slow :go)
      (dotimes [_ 1000] (! there :more))
      (! there :end)
      (is (= 1000 (actor/join slow))))))

(deftest a-reference-that-comes-back-ends-its-monitor
  (with-mirror [m {:work (fn [_] echo)}]
    (let [pid (mirror/there m (spawn echo))
          ref (actor/monitor pid)]
      (! pid [:echo (self) ref])
      (is (true? (actor/demonitor (receive [:echoed x] x) {:info true})))
      (! pid [:die :normal])
      (let [ref (Spawn/request (LocalProcess/current) (:a m) :echo false true)
            child (receive [:spawn-reply _ :ok child] child)]
        (is (true? (actor/demonitor ref {:info true})) "the reference of a request is the one of the monitor")
        (! child [:die :normal]))
      (! pid [:echo (self) 1])
      (is (= :none (receive x x (after 0 :none)))))
    (is (eventually (zero? (long (mirror/entries m)))))))

(deftest a-pid-of-an-unknown-node-is-out-of-reach
  (actor/with-process {:trap-exit true}
    (let [pid (Pid. 77 1 55 nil)
          ref (actor/monitor pid)]
      (is (= [:DOWN ref :process pid :noconnection] (receive x x)))
      (actor/link pid)
      (is (= [:EXIT pid :noconnection] (receive x x)))
      (is (= [:nodedown nil] (reason-of #(gs/call pid :get))))
      (is (= :hello (! pid :hello)) "dropped"))))

(deftest a-link-ends-by-a-pid-that-was-read-from-text
  (with-mirror [m]
    (actor/flag :trap-exit true)
    (let [pid (mirror/there m (spawn echo))]
      (actor/link pid)
      (actor/unlink (edn/read-string {:readers actor/readers} (pr-str pid)))
      (! pid [:echo (self) 1])
      (is (= [:echoed 1] (receive x x)))
      (! pid [:die :tired])
      (is (eventually (zero? (long (mirror/entries m)))))
      (is (= :none (receive x x (after 0 :none)))))))

(deftest a-request-that-cannot-be-written-leaves-nothing
  (with-mirror [m]
    (let [[_ pid] (gs/start (server-callbacks) 1 {:name :remote-counter})
          by-name [:remote-counter "a@mirror"]]
      (doseq [address [(mirror/there m pid) by-name]
              f [#(gs/call address :unwritable) #(gs/send-request address :unwritable) #(gs/cast address :unwritable)
                 #(! address :unwritable) #(sys/replace-state address :unwritable)]]
        (is (thrown? IllegalArgumentException (f))))
      (is (= 1 (gs/call by-name :get)) "the stream goes on")
      (gs/stop pid)
      (is (eventually (zero? (long (mirror/entries m)))))
      (is (= :none (receive x x (after 0 :none)))))))

(deftest a-call-that-is-cut-says-that-the-node-is-down
  (with-mirror [m]
    (let [[_ pid] (gs/start (server-callbacks) 1 {:name :remote-counter})
          there (mirror/there m pid)
          request (gs/send-request there :never)]
      (spawn #(do (mirror/cut m)))
      (let [error (try (gs/call there :never) (catch clojure.lang.ExceptionInfo e e))]
        (is (= [:nodedown "a@mirror"] (:reason (ex-data error))))
        (is (re-find #"the connection with it has ended" (ex-message error))))
      (is (= [:error [:noconnection there]] (gs/receive-response request)))
      (is (= [:nodedown "a@mirror"] (reason-of #(gs/call there :get))) "and if it was down before")
      (is (= [:nodedown "a@mirror"] (reason-of #(sys/get-state there))))
      (gs/stop pid))))

(deftest a-call-may-be-answered-from-another-node
  (with-mirror [m]
    (let [there (mirror/there m (spawn (fn [] (receive [:answer from] (gs/reply from :from-there)))))
          [_ server] (gs/start {:init (fn [_] [:ok nil])
                                :handle-call (fn [_ from s] (! there [:answer from]) [:noreply s])}
                               nil)]
      (is (= :from-there (gs/call server :get)) "the reference of a call within this node goes out and comes back")
      (gs/stop server))))

(deftest many-links-fire-once-when-the-nodes-are-cut
  (with-mirror [m]
    (actor/flag :trap-exit true)
    (let [all (vec (repeatedly 200 #(spawn echo)))
          there (mapv #(mirror/there m %) all)
          refs (mapv #(actor/monitor % {:tag :gone}) there)]
      (run! actor/link there)
      (mirror/cut m)
      (is (= (frequencies (concat (map #(vector :EXIT % :noconnection) there)
                                  (map #(vector :gone %1 :process %2 :noconnection) refs there)))
             (frequencies (repeatedly 400 #(receive x x)))))
      (is (= :none (receive x x (after 0 :none))))
      (is (zero? (long (mirror/entries m))))
      (run! #(actor/exit % :kill) all))))

(deftest an-exit-signal-leaves-a-link-as-it-is
  (with-mirror [m]
    (actor/flag :trap-exit true)
    (let [me (self)
          got (actor/spawn-opt (fn [] (dotimes [_ 2] (! me [:got (receive x (peek x))]))) {:trap-exit true})
          there (mirror/there m got)]
      (actor/link there)
      (actor/exit there :hint)
      (is (= [:got :hint] (receive x x)))
      (mirror/cut m)
      (is (= #{[:got :noconnection] [:EXIT there :noconnection]} (set [(receive x x) (receive x x)]))))))

(deftest a-name-is-monitored-from-when-it-is-there
  (with-mirror [m]
    (let [address [:late-name "a@mirror"]
          before (actor/monitor address)]
      (is (= [:DOWN before :process address :noproc] (receive x x)))
      (let [pid (actor/spawn-opt echo {:name :late-name})
            ref (actor/monitor address)]
        (actor/exit (mirror/there m pid) :shutdown) ; behind the monitor, in the same stream
        (is (= [:DOWN ref :process address :shutdown] (receive x x)))
        (is (eventually (zero? (long (mirror/entries m)))))))))

(deftest a-dead-process-leaves-no-entry
  (with-mirror [m]
    (let [pid (spawn echo)
          ref (actor/monitor (mirror/there m pid))]
      (! pid [:die :normal])
      (receive [:DOWN ref _ _ _] nil)
      (is (eventually (let [^Pid back (magnetar.kernel.process.Exports/pid (.serial ^Pid pid) (.creation ^Pid pid))]
                        (some? (.ended back))))))))

(def ^:private keeper-of-unwritable
  {:init (fn [_] [:ok :unwritable])
   :handle-call (fn [request _ s] [:reply (if (= :state request) s :fine) s])
   :handle-cast (fn [_ s] [:noreply s])})

(deftest an-answer-that-cannot-be-written-ends-the-call-and-not-the-server
  (with-mirror [m]
    (with-failures [failures]
      (let [[_ pid] (gs/start keeper-of-unwritable nil)
            there (mirror/there m pid)]
        (doseq [f [#(gs/call there :state) #(sys/get-state there)]]
          (is (re-find #"cannot read :unwritable" (pr-str (try (f) (catch clojure.lang.ExceptionInfo e (:reason (ex-data e))))))))
        (is (eventually (= ["an answer to node b@mirror" "an answer to node b@mirror"] (map :site @failures)))
            "a report follows the :DOWN that ended its call")
        (is (= :fine (gs/call there :other)))
        (gs/stop pid)
        (is (eventually (zero? (long (mirror/entries m)))))))))

(deftest a-timer-sends-to-another-node
  (with-mirror [m]
    (with-failures [failures]
      (let [there (mirror/there m (self))]
        (actor/send-after 0 there :late)
        (is (= :late (receive x x)))
        (actor/send-after 0 there :unwritable)
        (is (eventually (= 1 (count @failures))))
        (actor/send-after 0 there :later)
        (is (= :later (receive x x)) "the timers go on")))))

;; ---- several transports

(deftest each-node-is-reached-by-its-own-transport
  (with-mirror [m]
    (with-mirror [n {:host "glass"}]
      (actor/flag :trap-exit true)
      (let [here (spawn echo)
            [by-m by-n] [(mirror/there m here) (mirror/there n here)]
            refs (mapv actor/monitor [by-m by-n])]
        (is (= ["a@mirror" "a@glass"] (map actor/node [by-m by-n])))
        (is (= 3 (count (set [here by-m by-n]))))
        (actor/link by-n)
        (doseq [to [by-m by-n]]
          (! to [:echo (self) to])
          (is (= [:echoed to] (receive x x))))
        (mirror/cut m)
        (is (= [:DOWN (refs 0) :process by-m :noconnection] (receive x x)))
        (! by-n [:echo (self) :still-there])
        (is (= [:echoed :still-there] (receive x x)))
        (! by-n [:die :tired])
        (is (= #{[:DOWN (refs 1) :process by-n :tired] [:EXIT by-n :tired]} (set [(receive x x) (receive x x)])))
        (is (= :none (receive x x (after 0 :none))))))))

(deftest a-signal-for-a-third-node-is-not-forwarded
  (with-mirror [m]
    (with-mirror [n {:host "glass"}]
      (actor/flag :trap-exit true)
      (let [here (spawn echo)
            there (mirror/there n here)
            alias (.ref ^Peer (:a n) 7 (.pid ^Peer (:a n) 8) true)
            ^Connection connection (.connection ^Peer (:b m)) ; what arrives at this node from b of the mirror
            from (.pid ^Peer (:b m) 1)
            got #(mapv (partial actor/process-info here) [:monitored-by :links])
            lost (DeadLetters/count)]
        (.receive connection (Signal$Message. from there [:die :forwarded] nil))
        (.receive connection (Signal$Message. from alias :answer nil))
        (is (= (inc lost) (DeadLetters/count)))
        (.receive connection (Signal$Exit. from there :kill nil))
        (.receive connection (Signal$Link. from there))
        (.receive connection (Signal$Monitor. from there (.ref ^Peer (:b m) 9 from false)))
        (! there [:echo (self) 1])
        (is (= [:echoed 1] (receive x x)) "by its own transport")
        (is (= [[] []] (got)))
        (is (zero? (long (mirror/entries n))))
        (! here [:die :normal])))))
