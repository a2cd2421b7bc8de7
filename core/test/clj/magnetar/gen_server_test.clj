(ns magnetar.gen-server-test
  "Servers beyond the scenarios of OTP: behaviours as namespaces, what a failed call says, cycles of calls."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [!]]
   [magnetar.actor-support :as processes]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.proc-lib.report :as report]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting eventually refusal value-of with-err with-failures with-hook]]
   [magnetar.sys :as sys])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar.kernel.process Calls$Server LocalProcess ProcessTable)))

(set! *warn-on-reflection* true)

(def ^:private reports (atom []))

(use-fixtures :each (fn [f] (collecting reports #(scenarios/leaving-nobody f))))

(defn- failure [f]
  (try
    (f)
    :no-error
    (catch ExceptionInfo e e)))

(def ^:private why (comp :reason ex-data failure))

(def ^:private script
  {:init (fn [s] [:ok s])
   :handle-call (fn [f from s] (f from s))
   :handle-cast (fn [f s] (f s))})

(defn- server
  ([] (server script))
  ([behaviour]
   (let [[how pid] (gs/start behaviour :st)]
     (is (= :ok how))
     pid)))

(def ^:private in-a-var script)

;; ---- behaviours

(defn- behaviour-namespace
  "A namespace with these public functions."
  [fns]
  (let [ns (create-ns (gensym "magnetar.gen-server-test.behaviour"))]
    (doseq [[word f] fns]
      (intern ns word f))
    (ns-name ns)))

(def ^:private whole
  {'init (fn [s] [:ok s])
   'handle-call (fn [_ _ s] [:reply [:old s] s])
   'handle-cast (fn [_ s] [:noreply s])})

(deftest a-namespace-is-a-behaviour-and-its-vars-may-be-redefined
  (let [ns (behaviour-namespace whole)
        pid (server ns)]
    (is (= [:old :st] (gs/call pid :x)))
    (intern ns 'handle-call (fn [_ _ s] [:reply [:new s] s]))
    (is (= [:new :st] (gs/call pid :x)))
    (testing "a callback may come later"
      (let [got (promise)]
        (intern ns 'handle-info (fn [message s] (deliver got message) [:noreply s]))
        (! pid :hello)
        (is (= :hello (value-of got)))))
    (gs/stop pid)))

(deftest a-var-that-holds-a-map-is-a-behaviour-that-follows-the-var
  (let [pid (server #'in-a-var)]
    (is (= :st (gs/call pid (fn [_ s] [:reply s s]))))
    (with-redefs [in-a-var (assoc script :handle-call (fn [_ _ s] [:reply :redefined s]))]
      (is (= :redefined (gs/call pid :anything))))
    (gs/stop pid)))

(deftest a-missing-callback-is-an-error-at-the-start-that-names-what-was-found
  (let [[reason sentence] (processes/misuse #(gs/start (behaviour-namespace (dissoc whole 'init)) 0))]
    (is (= :magnetar/missing-callback reason))
    (is (str/includes? sentence "has no init"))
    (is (str/includes? sentence "found: handle-call, handle-cast")))
  (testing "a server needs no more than its init, unless what is missing is there misspelt"
    (is (str/includes? (second (processes/misuse #(gs/start (behaviour-namespace (-> whole
                                                                                   (dissoc 'handle-cast)
                                                                                   (assoc 'handle-casts identity)))
                                                            0)))
                       "Is handle-casts meant to be it?")))
  (testing "and what was meant"
    (let [[reason sentence] (processes/misuse #(gs/start (assoc (dissoc script :handle-cast) :handle_cast identity) 0))]
      (is (= :magnetar/unknown-callback reason))
      (is (str/includes? sentence ":handle-cast is"))))
  (testing "letters may have changed places, and what is there already was not meant"
    (is (str/includes? (second (processes/misuse #(gs/start (assoc (dissoc script :handle-cast) :handle_cats identity) 0))) ":handle-cast is"))
    (is (str/includes? (second (processes/misuse #(gs/start (assoc script :handel-info identity) 0))) ":handle-info is"))))

(deftest what-is-no-callback-module-is-refused
  (doseq [[x reason] {:keyword :magnetar/bad-callback-module
                      'no.such.namespace-at-all :magnetar/no-such-callback-module}]
    (is (= reason (first (processes/misuse #(gs/start x 0))))))
  (is (= {:callback-module 5 :magnetar/reason :magnetar/bad-callback-module}
         (try (gs/start 5 1) (catch IllegalArgumentException e (ex-data e))))))

(deftest the-status-names-the-callback-module
  (is (= "(a map of magnetar.gen-server-test)" (:callback-module (sys/get-status (server script))))))

(defn- start-beside-a-death
  "What a start under a name returns while the process that has the name dies."
  [name]
  (let [holder (actor/spawn-opt #(actor/receive [:die] nil) {:name name})
        [how pid] (do (! holder [:die]) (gs/start script nil {:name name}))]
    (when (= :ok how)
      (gs/stop pid))
    (eventually (nil? (actor/whereis name)))
    (if (= [:error [:already-started holder]] [how pid]) :already-started how)))

(deftest a-start-under-the-name-of-a-process-that-dies-just-then-is-no-mistake
  (is (every? #{:ok :already-started}
              (keys (frequencies (repeatedly 1000 #(start-beside-a-death :briefly-taken)))))))

(deftest options-and-names-are-checked-before-anything-starts
  (is (= :magnetar/unknown-option (first (processes/misuse #(gs/start script 0 {:nmae :x})))))
  (is (= :magnetar/bad-name (first (processes/misuse #(gs/start script 0 {:name "text"})))))
  (is (= :magnetar/bad-address (first (processes/misuse #(gs/call "text" :x)))))
  (doseq [from [[:pid] [:pid nil] [:pid :tag 1] 5]]
    (is (= :magnetar/bad-from (first (processes/misuse #(gs/reply from 1))))))
  (is (= :magnetar/no-process (first (processes/misuse #(gs/start-link script 0)))))
  (is (str/starts-with? (second (processes/misuse #(gs/start-link script 0))) "`start-link` was called outside of a process"))
  (is (str/starts-with? (second (processes/misuse #(sup/start-link {}))) "`start-link` was called outside of a process")))

(deftest what-is-wrong-with-a-start-is-said-before-anything-starts
  (let [before (set (ProcessTable/all))]
    (doseq [[options reason] [[{:timeout "x"} :magnetar/bad-duration]
                              [{:timeout -1} :magnetar/bad-duration]
                              [{:debug :trace} :magnetar/bad-debug]
                              [{:debug [:tarce]} :magnetar/bad-debug]
                              [{:debug [[:log :all]]} :magnetar/bad-debug]
                              [{:spawn-opt 5} :magnetar/bad-options]
                              [{:hosting :activated :spawn-opt {:platform-thread true}} :magnetar/bad-hosting]]]
      (is (= reason (first (processes/misuse #(gs/start script 0 options))))))
    (is (= :magnetar/bad-duration (first (processes/misuse #(proc-lib/start (fn []) {:timeout "x"})))))
    (is (eventually (every? before (ProcessTable/all))))))

(deftest a-monitored-start-that-ignores-says-so
  (actor/with-process {}
    (is (= :ignore (gs/start-monitor (assoc script :init (fn [_] :ignore)) 0)))
    (is (= [:error :why] (gs/start-monitor (assoc script :init (fn [_] [:stop :why])) 0)))))

(deftest a-request-is-answered-once-and-to-the-process-that-has-sent-it
  (actor/with-process {}
    (let [pid (server)
          request (gs/send-request pid (fn [_ s] [:reply s s]))
          given-up (gs/send-request pid (fn [_ s] [:noreply s]))]
      (testing "who else waits would wait for ever"
        (is (= :magnetar/no-answer (first (value-of (future (actor/with-process {} (processes/misuse #(gs/wait-response request)))))))))
      (is (= [:reply :st] (gs/wait-response request)))
      (is (= :magnetar/no-answer (first (processes/misuse #(gs/wait-response request)))))
      (is (= :none (gs/receive-response given-up {:timeout 0 :else :none})))
      (is (= :magnetar/no-answer (first (processes/misuse #(gs/wait-response given-up)))))
      (is (= :noproc (first (second (gs/wait-response (gs/send-request ::nobody :x))))))
      (gs/stop pid))))

(deftest nodes-are-a-list
  (is (= [:magnetar/bad-nodes :magnetar/bad-nodes]
         (map (comp first processes/misuse) [#(gs/multi-call :a :x :get) #(gs/abcast :a :x :get)]))))

(deftest a-reply-wants-what-handle-call-was-given
  (is (= :magnetar/bad-from (first (processes/misuse #(gs/reply 5 :x))))))

(deftest a-callback-that-is-lost-while-the-server-runs-is-named
  (let [pid (server #'in-a-var)]
    (with-redefs [in-a-var (dissoc script :handle-call)]
      (let [[{:keys [message]}] (why #(gs/call pid :x))]
        (is (str/includes? message "in-a-var has no handle-call any more"))))))

;; ---- what comes before any message

(def ^:private counting-down
  (assoc script
         :handle-cast (fn [n s] [:noreply s [:continue n]])
         :handle-continue (fn [n s] (cond
                                      (= :for-ever n) [:noreply s [:continue n]]
                                      (zero? (long n)) [:noreply :done]
                                      :else [:noreply s [:continue (dec (long n))]]))))

(deftest a-server-may-continue-as-often-as-it-likes
  (doseq [hosting [:threaded :activated]]
    (let [[_ pid] (gs/start counting-down :st {:hosting hosting})]
      (gs/cast pid 200000)
      (is (= :done (gs/call pid (fn [_ s] [:reply s s]) {:timeout 60000})))
      (gs/stop pid))))

(deftest an-exit-signal-ends-a-server-that-continues-for-ever
  (let [pid (server counting-down)]
    (gs/cast pid :for-ever)
    (actor/exit pid :enough)
    (is (= :enough (processes/reason pid)))))

(deftest a-caller-that-does-not-trap-exits-dies-with-a-server-that-does-not-come-up
  (is (= [:exited :why]
         (processes/outcome (actor/spawn #(gs/start-link (assoc script :init (fn [_] [:stop :why])) 0)))))
  (is (= [:value [:error :why]]
         (processes/outcome (actor/spawn #(gs/start-link (assoc script :init (fn [_] [:error :why])) 0)))))
  (is (= [:value :ignore]
         (processes/outcome (actor/spawn #(gs/start-link (assoc script :init (fn [_] :ignore)) 0))))))

;; ---- what a failed call says

(deftest ^{:spec ["C88"]}
  a-call-that-is-late-says-what-the-server-is-doing
  (let [go (promise)
        in (promise)
        pid (server)
        _ (gs/cast pid (fn [s] (deliver in true) @go [:noreply s]))
        _ (value-of in)
        _ (is (eventually (= :waiting (:status (actor/process-info pid)))))
        _ (dotimes [_ 3] (! pid :m))
        e (failure #(gs/call pid (fn [_ s] [:reply s s]) {:timeout 20}))
        {:keys [blocked-in mailbox number handling]} (:doing (ex-data e))]
    (is (= :timeout (:reason (ex-data e))))
    (is (= [4 4] [mailbox number]))
    (is (= :magnetar/cast (first handling)))
    (is (str/includes? blocked-in "gen_server_test.clj:"))
    (is (str/includes? (ex-message e) "4 messages are in its mailbox, yours is number 4."))
    (deliver go true)
    (gs/stop pid)))

(deftest a-late-call-of-a-server-that-is-suspended-or-owes-the-answer-says-so
  (let [pid (server)
        late #(ex-message (failure (fn [] (gs/call pid % {:timeout 1000}))))]
    (is (str/includes? (late (fn [_ s] [:noreply s])) "The server has taken this call, answers later or has postponed it, and waits for messages;"))
    (sys/suspend pid)
    (is (str/includes? (late (fn [_ s] [:reply s s])) "The server is suspended; one message is in its mailbox, yours is number 1."))
    (sys/resume pid)
    (is (= :up (gs/call pid (fn [_ s] [:reply :up s]))))
    (gs/stop pid)))

(deftest a-call-that-is-late-says-its-time-and-what-the-server-handles-in-words
  (let [[go in] (repeatedly promise)
        pid (server)
        busy (fn [_ s] (deliver in true) (value-of go) [:reply s s])
        first-call (future (gs/call pid busy))
        _ (value-of in)
        late (fn [_ s] [:reply s s])
        sentence (ex-message (failure #(gs/call pid late {:timeout (java.time.Duration/ofMillis 20)})))]
    (is (str/includes? sentence "failed: :timeout after PT0.02S. The server is handling the call "))
    (is (not (str/includes? sentence ":magnetar/call")))
    (deliver go true)
    (is (= :st (value-of first-call)))
    (actor/exit pid :kill)))

(deftest a-call-that-is-being-handled-says-so
  (let [go (promise)
        pid (server)
        e (failure #(gs/call pid (fn [_ s] @go [:reply s s]) {:timeout 1000}))]
    (is (str/includes? (ex-message e) "is handling this very call"))
    (deliver go true)
    (gs/stop pid)))

(deftest a-call-from-a-thread-that-is-no-process-works
  (let [pid (server)]
    (is (= :st (value-of (future (gs/call pid (fn [_ s] [:reply s s]))))))
    (gs/stop pid)))

(deftest the-reason-of-a-process-that-dies-of-a-call-names-the-call
  (with-failures [failures]
    (let [pid (server)
          [why call] (processes/reason (actor/spawn #(gs/call pid (fn [_ _] (actor/exit :boom)))))]
      (is (= :boom why))
      (is (= ['magnetar.gen-server :call pid] [(call 0) (call 1) (first (call 2))]))
      (is (eventually (= 1 (count @failures)))))))

(deftest a-wrong-return-shows-what-came-back-and-from-which-callback
  (let [pid (server)
        e (failure #(gs/call pid (fn [_ s] [:repyl s s])))]
    (is (= [:bad-return-value [:repyl :st :st]] (subvec (:reason (ex-data e)) 0 2)))
    (is (str/starts-with? (peek (:reason (ex-data e))) "handle-call of (a map of magnetar.gen-server-test) returned [:repyl :st :st]; it has to return")))
  (let [[_ [_ _ sentence]] (gs/start (assoc script :init (fn [s] s)) :st)]
    (is (= (str "init of (a map of magnetar.gen-server-test) returned :st; it has to return [:ok state], [:stop reason], [:error reason] or :ignore; "
                "the first may end with a timeout, :hibernate or [:continue x].")
           sentence))))

(deftest a-nil-where-an-action-may-stand-is-a-wrong-return
  (let [none nil
        shown #(subvec % 0 2)]
    (doseq [[ask value] [[gs/call [:reply 1 :st none]] [gs/cast [:noreply :st none]]]
            :let [pid (server)]]
      (ask pid (fn [& _] value))
      (is (= [:bad-return-value value] (shown (processes/reason pid)))))
    (is (= [:error [:bad-return-value [:ok 1 none]]] (update (gs/start (assoc script :init (fn [_] [:ok 1 none])) 1) 1 shown)))
    (is (= [:bad-return-value [:ok 1 none]] (shown (processes/reason (actor/spawn #(gs/enter-loop script 1 {:action none}))))))))

;; ---- cycles of calls

(defn- ask
  "What a callback does to call another server: replies the value of it, or the reason of its failure."
  [pid request]
  (fn [_ s]
    [:reply (try (gs/call pid request) (catch ExceptionInfo e (:reason (ex-data e)))) s]))

(deftest a-server-that-stops-itself-is-told-at-once
  (let [pid (server)]
    (is (= :calling-self (gs/call pid (fn [_ s] [:reply (why #(gs/stop pid)) s]))))
    (gs/stop pid)))

(deftest ^{:spec ["C88"]}
  a-server-that-calls-itself-is-told-at-once
  (let [pid (server)]
    (is (= :calling-self (gs/call pid (ask pid (fn [_ s] [:reply :x s])))))
    (gs/stop pid)))

(deftest ^{:spec ["C88"]}
  a-cycle-of-calls-is-reported
  (let [a (server)
        b (server)
        c (server)
        [word way] (gs/call a (ask b (ask c (ask a (fn [_ s] [:reply :x s])))))]
    (is (= :call-cycle word))
    (is (contains? #{[c a b c] [a b c a] [b c a b]} way) "whoever looked when the cycle was closed")
    (run! gs/stop [a b c])))

(deftest the-pids-of-a-cycle-reach-the-caller-that-is-outside-of-it
  (let [a (server) b (server)
        ask (fn [server f] (fn [_ s] [:reply (gs/call server f) s]))
        message (ex-message (failure #(gs/call a (ask b (ask a (fn [_ s] [:reply 1 s]))))))]
    (is (str/includes? message ":call-cycle") message)
    (is (<= 3 (count (re-seq #"#magnetar/pid \"[^\"]+\"" (subs message (str/index-of message "each waits for"))))) message)
    (is (every? #(str/includes? message (pr-str %)) [a b]))))

(deftest what-a-callback-has-to-return-is-never-cut
  (let [message (ex-message (failure #(gs/call (server) (fn [_ _] [:repyl (range 40)]))))]
    (is (re-find #"it has to return \[:reply value state\], .* may end with a timeout, :hibernate or \[:continue x\]\." message) message)))

(deftest a-cycle-of-queued-calls-is-reported
  (let [a (server)
        b (server)
        both (java.util.concurrent.CyclicBarrier. 2)
        meet (fn [other] (fn [from s] (.await both) ((ask other (fn [_ s] [:reply :fine s])) from s)))
        answers [(future (gs/call a (meet b))) (future (gs/call b (meet a)))]
        outcomes (map value-of answers)]
    (is (some #(= :call-cycle (when (vector? %) (first %))) outcomes))
    (is (every? #(or (= :fine %) (= :call-cycle (first %))) outcomes))
    (run! gs/stop [a b])))

(deftest ^{:spec ["C88"]}
  a-cycle-that-was-never-whole-at-one-time-is-none
  (let [[a b c] (repeatedly server)
        ^LocalProcess of-b (ProcessTable/live b)
        ^LocalProcess of-c (ProcessTable/live c)
        ^Calls$Server server-c (.server of-c)
        [seen go in-c answer calling] (repeatedly promise)
        looks (atom 0)
        ;; The walk of `a` asks c twice: whether it owes b an answer, and then what it waits in. It waits before the second question.
        slow (reify Calls$Server
               (handling [_] (.handling server-c))
               (waitFor [_ edge] (.waitFor server-c edge))
               (waitsIn [_]
                 (when (and (= a (some-> (LocalProcess/current) .pid)) (= 2 (swap! looks inc)))
                   (deliver seen true)
                   (value-of go))
                 (.waitsIn server-c)))
        fine (fn [_ s] [:reply :fine s])]
    (.setServer of-c slow false)
    (let [b-asks (future (gs/call b (ask c (fn [_ s] (deliver in-c true) (value-of answer) [:reply :fine s]))))
          _ (value-of in-c)
          _ (is (eventually (.waitsIn (.server of-b)))) ; b sends its call before it says that it waits
          a-asks (future (gs/call a (ask b fine)))]
      (value-of seen)
      (gs/cast c (fn [s] (deliver calling true) (gs/call a fine) [:noreply s]))
      (deliver answer true)
      (value-of calling)
      (is (eventually (= 2 (:message-queue-len (actor/process-info a))))) ; the answer of b, and the call of c
      (deliver go true)
      (is (= [:fine :fine] [(value-of b-asks) (value-of a-asks)])))
    (run! gs/stop [a b c])))

(deftest ^{:spec ["C88"]}
  a-delegated-call-is-no-cycle
  (let [a (server)
        b (server)
        go (promise)
        taken (promise)
        delegate (fn [from s] (actor/spawn #(do (deref go) (gs/reply from :by-worker))) (deliver taken true) [:noreply s])
        ;; a waits in its call of b, which has given it away; then b calls a, which answers when the worker has answered it
        asking (future (gs/call a (ask b delegate)))
        _ (value-of taken)
        back (future (gs/call b (ask a (fn [_ s] [:reply :fine s]))))]
    (is (eventually (= 1 (:message-queue-len (actor/process-info a)))))
    (deliver go true)
    (is (= [:by-worker :fine] [(value-of asking) (value-of back)]))
    (run! gs/stop [a b])))

;; ---- transactions

(deftest a-transaction-casts-at-its-commit-and-calls-nobody
  (let [pid (server)]
    (dosync (gs/cast pid (fn [_] [:noreply :committed])))
    (is (= :committed (gs/call pid (fn [_ s] [:reply s s]))))
    (is (= :magnetar/in-transaction (first (processes/misuse #(dosync (gs/call pid :x))))))
    (gs/stop pid)))

;; ---- reports

(deftest ^{:spec ["C87"]}
  a-crash-is-one-event
  (let [pid (server (assoc script :format-status #(assoc % :state :hidden)))]
    (why #(gs/call pid (fn [_ _] (throw (ex-info "boom" {:id 7})))))
    (let [[{:keys [event state callback-module reason last-message frames] :as all} & others] @reports]
      (is (= [:crash :hidden "(a map of magnetar.gen-server-test)" pid] [event state callback-module (:pid all)]))
      (is (= "boom" (:message (first reason))))
      (is (= :magnetar/call (first last-message)))
      (is (some #(str/includes? % "gen_server_test.clj") frames))
      (is (nil? others)))))

(deftest a-format-status-that-fails-or-gives-no-map-hides-the-state-and-keeps-the-reason
  (doseq [[hide says] {(fn [_] :hidden) "format-status returned :hidden, which is no map."
                       (fn [_] (assert false "hm")) "format-status failed: Assert failed: hm\nfalse"}]
    (reset! reports [])
    (let [pid (server (assoc script :format-status hide))]
      (is (= says (:state (sys/get-status pid))))
      (is (= :boom (why #(gs/call pid (fn [_ _] (actor/exit :boom))))))
      (is (= [[:boom says]] (map (juxt :reason :state) @reports))))))

(deftest a-hook-that-fails-an-assertion-changes-no-reason
  (let [pid (server)]
    (with-err
      (fn [printed]
        (with-hook [:report (fn [_] (assert false))]
          (is (= :boom (why #(gs/call pid (fn [_ _] (actor/exit :boom)))))))
        (is (str/starts-with? (printed) "The hook magnetar.gen-server-test/fn of the kind :report failed: Assert failed: false"))))
    (is (= [:boom] (map :reason @reports)) "the other hook is called")))

(deftest a-call-with-a-bad-timeout-names-its-operation
  (is (= {:magnetar/reason :magnetar/bad-duration :path [:timeout] :value "5"}
         (select-keys (refusal #(gs/call :nobody :x {:timeout "5"})) [:magnetar/reason :path :value])))
  (is (thrown-with-msg? IllegalArgumentException #"^`magnetar.gen-server/call`: :timeout is a number of milliseconds .* this is \"5\""
                        (gs/call :nobody :x {:timeout "5"}))))

(deftest what-sys-does-not-know-does-a-server-no-harm
  (let [pid (server)
        well? #(= :st (gs/call pid (fn [_ s] [:reply s s])))]
    (doseq [f [#(sys/statistics pid :nonsense) #(sys/log pid :nonsense) #(sys/log pid -1) #(sys/log pid 0)]]
      (is (= :magnetar/bad-debug (first (processes/misuse f))))
      (is (well?)))
    (sys/install pid :probe (fn [_ _ _] (assert false)) 0)
    (is (well?))
    (is (well?))
    (gs/stop pid)))

(deftest ^{:spec ["C89"]}
  a-supervisor-remembers-deaths
  (actor/with-process {:trap-exit true}
    (let [[_ s] (sup/start-link {:history 2 :intensity 10 :children [{:id :a :start [gs/start-link script :st]}]})
          crash #(why (fn [] (gs/call (:pid (first (sup/which-children s))) (fn [_ _] (actor/exit %)))))]
      (doseq [n [:one :two :three]]
        (let [pid (:pid (first (sup/which-children s)))]
          (crash n)
          (is (eventually (not= pid (:pid (first (sup/which-children s))))))))
      (is (= [[:a :two :st] [:a :three :st]] (map (juxt :id :reason :state) (sup/history s))))
      (is (every? inst? (map :at (sup/history s))))
      (gs/stop s))))

(deftest what-a-supervisor-has-written-down-is-kept-nowhere-else
  (let [pid (server)]
    (why #(gs/call pid (fn [_ _] (actor/exit :boom))))
    (is (= :st (:state (report/take-words pid))))
    (is (nil? (report/take-words pid)))))

(deftest a-misspelt-key-of-a-child-is-found-before-what-it-leaves-missing
  (actor/with-process {:trap-exit true}
    (let [refused (refusal #(sup/start-link {:children [{:id :a :strat [gs/start-link script 0]}]}))]
      (is (= {:path [:children 0 :strat] :meant :start} (select-keys refused [:path :meant]))))))

(deftest enter-loop-outside-of-a-process-says-its-own-name
  (is (str/includes? (second (processes/misuse #(gs/enter-loop script 0))) "`enter-loop`")))

(deftest ^{:spec ["C89"]}
  a-wrong-spec-says-where-and-what-was-meant
  (actor/with-process {:trap-exit true}
    (let [refused (fn [spec] ((juxt :why :path :meant) (refusal #(sup/start-link spec))))
          fine {:id :a :start [gs/start-link script 0]}]
      (is (= [:invalid-strategy [:strategy] :one-for-all] (refused {:strategy :one-for-al})))
      (is (= [:unknown-key [:stratgey] :strategy] (refused {:stratgey :one-for-all})))
      (is (= [:invalid-restart-type [:children 1 :restart] :permanent] (refused {:children [fine (assoc fine :id :b :restart :permenant)]})))
      (is (= [:unknown-key [:children 0 :shutdwon] :shutdown] (refused {:children [(assoc fine :shutdwon 5)]})))
      (is (= [:bad-combination [:children 0 :significant] nil] (refused {:children [(assoc fine :significant true)]}))))))

(deftest system-messages-are-not-kept-out-by-a-full-mailbox
  (let [[_ pid] (gs/start script :st {:spawn-opt {:mailbox {:capacity 1 :when-full :fail}}})]
    (sys/suspend pid)
    (! pid :fills)
    (is (= :suspended (:status (sys/get-status pid))))
    (sys/resume pid)
    (gs/stop pid)))
