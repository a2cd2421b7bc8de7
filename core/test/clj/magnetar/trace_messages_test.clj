(ns magnetar.trace-messages-test
  "Traces of messages. Other tests send messages meanwhile, so each trace matches its own."
  (:require
   [clojure.pprint :as pprint]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self spawn with-process]]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.inspect :as inspect]
   [magnetar.registry :as registry]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.scope.context :as context]
   [magnetar.support :refer [collecting refusal value-of with-failures]]
   [magnetar.task :as task]
   [magnetar.test :as mt]
   [magnetar.trace :as trace])
  (:import
   (java.io StringWriter)
   (java.util.concurrent CountDownLatch)
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(defn- nothing [_])

(defn- happened
  "The events of the trace without its end: [event number value], and the cause if there is one."
  [events]
  (mapv (fn [{:keys [event number value cause]}] (cond-> [event number value] cause (conj cause)))
        (remove #(= :end (:event %)) events)))

(defn- causes
  "From the value of each message that was sent to the value of the message because of which it was sent."
  [events]
  (let [sent (filter #(= :send (:event %)) events)
        values (into {} (map (juxt :number :value)) sent)]
    (into {} (map (juxt :value (comp values :cause))) sent)))

(defn- traced*
  [options f]
  (let [messages (trace/messages* (merge {:limit 1000, :to nothing} options))]
    (try
      (f)
      (finally (trace/stop messages)))
    (trace/events messages)))

(defmacro ^:private traced
  "The events of the messages whose vectors begin with ::it, while body runs in a process."
  [& body]
  `(traced* {:match #(and (vector? %) (= ::it (first %)))} (fn [] (with-process {} ~@body))))

(defn- it [x] [::it x])

(def ^:private shelf
  {:init        (fn [told] [:ok told])
   :handle-call (fn [[_ x :as request] from told]
                  (case x
                    :slow (do @told [:reply (it :late) told])
                    [:reply (it [:answer request]) told]))
   :handle-cast (fn [[_ x] told] (when (instance? clojure.lang.IFn x) (x)) [:noreply told])})

(defn- start-shelf
  ([] (start-shelf nil))
  ([state] (second (gs/start shelf state))))

;; ---- events

(deftest a-message-is-told-when-it-is-sent-and-when-it-is-taken
  (is (= [[:send 1 (it 1)] [:take 1 (it 1)]]
         (happened (traced
                     (! (self) (it 1))
                     (! (self) [:not-it 2])
                     (receive [::it n] n))))))

(deftest a-message-that-stays-in-the-mailbox-is-not-taken
  (is (= [[:send 1 (it 1)] [:send 2 (it 2)] [:take 2 (it 2)]]
         (happened (traced
                     (! (self) (it 1))
                     (! (self) (it 2))
                     (receive [::it 2] 2))))))

(deftest one-object-in-two-messages-is-two-messages
  (let [message (it :same)]
    (is (= [[:send 1 message] [:send 2 message] [:take 1 message] [:take 2 message]]
           (happened (traced
                       (! (self) message)
                       (! (self) message)
                       (receive [::it _] nil)
                       (receive [::it _] nil)))))))

(deftest a-call-and-its-answer-are-told
  (let [server (start-shelf)
        [call taken answer got] (traced (gs/call server (it :apple)))]
    (is (= [:send 1 :call (it :apple)] ((juxt :event :number :kind :value) call)))
    (is (= [:take 1] ((juxt :event :number) taken)))
    (is (= [:send 2 :answer 1 1] ((juxt :event :number :kind :call :cause) answer)))
    (is (= [:take 2] ((juxt :event :number) got)))
    (is (= (:by call) (:to answer) (:by got)))
    (gs/stop server)))

(deftest an-answer-that-comes-too-late-is-lost
  (let [gate (promise)
        done (promise)
        server (start-shelf gate)
        events (traced
                 (is (= :gave-up (gs/call server (it :slow) {:timeout 1 :else :gave-up})))
                 (gs/cast server [:after #(deliver done true)])
                 (deliver gate true)
                 (value-of done))]
    (is (= [[:send 1 (it :slow)] [:take 1 (it :slow)] [:send 2 (it :late) 1] [:lost 2 (it :late)]] (happened events)))
    (gs/stop server)))

(deftest a-message-to-a-dead-process-is-lost
  (let [pid (spawn (fn []))]
    (actor/join pid)
    (is (= [[:send 1 (it 1)] [:lost 1 (it 1)]] (happened (traced (! pid (it 1))))))))

(deftest a-message-that-looks-like-an-answer-is-a-message
  (let [ref (actor/make-ref)
        events (traced* {:match #(and (vector? %) (= ref (first %)))}
                 #(with-process {}
                    (! (self) [ref :result])
                    (receive [_ :result] nil)))]
    (is (= [[:send 1 [ref :result]] [:take 1 [ref :result]]] (happened events)))
    (is (= :message (:kind (first events))))))

(deftest a-call-of-a-server-that-sheds-is-told-by-its-request
  (let [server (second (gs/start shelf nil {:shed {:target 20000}}))]
    (is (= [[:send 1 (it :apple)] [:take 1 (it :apple)]] (take 2 (happened (traced (gs/call server (it :apple)))))))
    (gs/stop server)))

(deftest a-message-without-room-is-lost
  (let [events (traced
                 (let [gate (promise)
                       pid (actor/spawn-opt (fn [] @gate) {:mailbox {:capacity 1, :when-full :fail}})]
                   (! pid (it 1))
                   (is (= :magnetar/mailbox-full (:magnetar/reason (refusal #(! pid (it 2))))))
                   (deliver gate true)))]
    (is (= [[:send 1 (it 1)] [:send 2 (it 2)] [:lost 2 (it 2)]] (happened events)))))

(deftest a-message-that-a-server-has-no-callback-for-is-not-handled
  (let [server (start-shelf)
        events (collecting (atom []) #(traced (! server (it :what)) (gs/call server [:sync])))]
    (is (= [[:send 1 (it :what)] [:take 1 (it :what)] [:unhandled 1 (it :what)]] (happened events)))
    (gs/stop server)))

(deftest an-event-without-transition-is-not-handled
  (let [[_ door] (statem/start (statem/machine {:initial :shut, :states {:shut {:on {:open :shut}}}}) nil)
        events (collecting (atom []) #(traced (statem/cast door (it :kick)) (statem/call door :open)))]
    (is (= [[:send 1 (it :kick)] [:take 1 (it :kick)] [:unhandled 1 (it :kick)]] (happened events)))
    (statem/stop door)))

(deftest a-message-to-a-registry-is-not-handled
  (let [events (collecting (atom []) #(traced
                                        (let [[_ pid] (registry/start-link {:name ::registry, :keys :unique})]
                                          (! pid (it :what))
                                          (gs/stop pid))))]
    (is (= [[:send 1 (it :what)] [:take 1 (it :what)] [:unhandled 1 (it :what)]] (happened events)))))

(deftest a-timer-sends
  (let [[sent taken] (traced
                       (actor/send-after 1 (self) (it :due))
                       (receive [::it :due] nil (after 20000 nil)))]
    (is (= [:send "a timer"] ((juxt :event :by) sent)))
    (is (= [:take 1] ((juxt :event :number) taken)))))

(deftest an-answer-to-a-dead-caller-is-sent-and-lost
  (let [taken (promise)
        gate (promise)
        server (start-shelf (delay (deliver taken true) @gate))
        events (traced
                 (let [caller (spawn #(gs/call server (it :slow)))
                       ref (actor/monitor caller)]
                   (value-of taken)
                   (actor/exit caller :kill)
                   (receive [:DOWN ref & _] nil)
                   (deliver gate true)
                   (gs/call server [:sync])))]
    (is (= [[:send 1 (it :slow)] [:take 1 (it :slow)] [:send 2 (it :late) 1] [:lost 2 (it :late)]] (happened events)))
    (gs/stop server)))

(deftest a-message-that-is-lost-under-a-name-is-one-message
  (let [gate (promise)
        events (traced
                 (let [pid (actor/spawn-opt (fn [] @gate) {:mailbox {:capacity 1, :when-full :drop-new}})]
                   (actor/register ::narrow pid)
                   (! ::narrow (it 1))
                   (! ::narrow (it 2))
                   (deliver gate true)
                   (actor/join pid)))]
    (is (= [[:send 1 (it 1)] [:send 2 (it 2)] [:lost 2 (it 2)]] (happened events)))))

(deftest an-exit-signal-is-not-the-message-that-its-sender-handles
  (let [events (collecting (atom [])
                 #(traced* {:match (fn [m] (or (and (vector? m) (= :EXIT (first m))) (and (vector? m) (= ::it (first m)))))}
                    (fn []
                      (with-process {}
                        (actor/flag :trap-exit true)
                        (let [me (self)
                              server (start-shelf)]
                          (gs/cast server (it (fn [] (actor/exit me ::out))))
                          (receive [:EXIT _ ::out] nil (after 20000 nil))
                          (gs/stop server))))))
        [sent taken signal] (remove #(= :end (:event %)) events)]
    (is (= [[:send 1] [:take 1]] (map (juxt :event :number) [sent taken])))
    (is (= [:take nil ::out] [(:event signal) (:number signal) (peek (:value signal))]))))

(deftest equal-keywords-to-two-processes-keep-their-numbers
  (let [server (start-shelf)
        events (traced* {:match #{::tick}}
                 #(with-process {}
                    (let [me (self)
                          other (spawn (fn [] (receive ::tick (! me :other))))]
                      (! me ::tick)
                      (! other ::tick)
                      (receive :other nil (after 20000 nil))
                      (receive ::tick nil))))]
    (is (= [[:send 1] [:send 2] [:take 2] [:take 1]] (map (juxt :event :number) (butlast events))))
    (gs/stop server)))

(deftest a-message-from-before-a-trace-is-shown-without-a-number-also-while-there-is-another-trace
  (with-process {}
    (let [first-trace (trace/messages {:limit 100, :match [::it _], :to nothing})
          _ (! (self) (it 1))
          second-trace (trace/messages {:limit 100, :match [::it _], :to nothing})]
      (receive [::it _] nil)
      (run! trace/stop [first-trace second-trace])
      (is (= [[:send 1 (it 1)] [:take 1 (it 1)]] (happened (trace/events first-trace))))
      (is (= [[:take nil (it 1)]] (happened (trace/events second-trace)))))))

(deftest a-process-that-is-named-later-keeps-its-text
  (let [events (traced
                 (! (self) (it 1))
                 (actor/register ::named-later (self))
                 (receive [::it _] nil))]
    (is (= 1 (count (distinct (map :by (butlast events))))))))

(deftest a-process-goes-by-its-registered-name-also-when-it-is-dead
  (let [pid (spawn (fn [] (receive [::it :end] nil)))]
    (actor/register ::till pid)
    (let [[sent _ _ lost] (traced
                            (! ::till (it :end))
                            (actor/join pid)
                            (! pid (it :more)))]
      (is (= (pr-str ::till) (:to sent) (:to lost))))))

;; ---- causes

(deftest causes-cross-sends-spawns-go-blocks-forks-and-tasks
  (let [me (atom nil)
        sends (fn [x] (fn [] (! @me (it x))))
        work (fn [x]
               (case x
                 :spawn (spawn (sends [:by x]))
                 :go (a/go ((sends [:by x])))
                 :fork (with-scope [s] (fork s (sends [:by x])))
                 :task (task/await (task/async (sends [:by x])))
                 :send ((sends [:by x]))))
        ways [:send :spawn :go :fork :task]
        events (traced
                 (reset! me (self))
                 (let [worker (spawn (fn [] (dotimes [_ (count ways)] (receive [::it x] (work x)))))]
                   (doseq [x ways]
                     (! worker (it x))
                     (receive [::it [:by x]] nil (after 20000 nil)))))]
    (is (= (into {} (map (fn [x] [(it [:by x]) (it x)])) ways)
           (select-keys (causes events) (map #(it [:by %]) ways))))))

(deftest causes-cross-servers-on-threads-and-on-demand
  (doseq [hosting [:threaded :activated]]
    (let [me (atom nil)
          [_ server] (gs/start shelf nil {:hosting hosting})
          events (traced
                   (reset! me (self))
                   (doseq [x [1 2]]
                     (gs/cast server [::it (fn [] (! @me (it x)))])
                     (receive [::it x] nil (after 20000 nil))))]
      (is (= [[1 nil] [2 1] [3 2] [4 3]] (map (juxt :number :cause) (filter #(= :send (:event %)) events))))
      (gs/stop server))))

(deftest causes-cross-an-alias-and-a-timer
  (let [events (traced
                 (let [me (self)
                       worker (spawn (fn []
                                       (let [alias (actor/make-alias)]
                                         (! me [:alias alias])
                                         (receive [::it :by-alias] (actor/send-after 1 me (it :by-timer))))))]
                   (receive [:alias alias]
                     (! alias (it :by-alias)))
                   (receive [::it :by-timer] nil (after 20000 nil))
                   (actor/join worker)))]
    (is (= {(it :by-alias) nil, (it :by-timer) (it :by-alias)} (causes events)))))

(deftest a-process-on-a-thread-leaves-no-cause-there
  (let [events (traced*
                 {:match #(and (vector? %) (= ::it (first %)))}
                 (fn []
                   (with-process {}
                     (! (self) (it 1))
                     (receive [::it 1] nil))
                   (with-process {}
                     (! (self) (it 2))
                     (receive [::it 2] nil))))]
    (is (= {(it 1) nil, (it 2) nil} (causes events)))))

(deftest the-answer-to-a-call-of-ones-own-is-no-cause
  (let [server (start-shelf)
        me (atom nil)
        events (traced
                 (reset! me (self))
                 (let [worker (spawn (fn []
                                       (receive [::it :ask] nil)
                                       (gs/call server (it :apple))
                                       (! @me (it :done))))]
                   (! worker (it :ask))
                   (receive [::it :done] nil (after 20000 nil))))]
    (is (= (it :ask) (get (causes events) (it :apple)) (get (causes events) (it :done))))
    (gs/stop server)))

(deftest a-message-that-is-not-traced-hands-on-its-cause
  (let [me (atom nil)
        events (traced
                 (reset! me (self))
                 (let [worker (spawn (fn [] (receive [:between] (! @me (it :second)))))
                       first-one (spawn (fn [] (receive [::it :first] (! worker [:between]))))]
                   (! first-one (it :first))
                   (receive [::it :second] nil (after 20000 nil))))]
    (is (= {(it :first) nil, (it :second) (it :first)} (causes events)))))

(def ^:private most-contexts
  (map #(context/context (symbol "magnetar.trace-messages-test" (str "value-" %)) nil) (range 64)))

(deftest a-trace-takes-no-room-of-the-programs-context-values
  (let [seen (atom nil)]
    (traced
      (! (self) (it 1))
      (receive [::it _] (context/context* (zipmap most-contexts (range)) #(reset! seen (mapv deref most-contexts)))))
    (is (= (range 64) @seen))))

(deftest nothing-of-a-trace-travels-when-it-has-ended
  (actor/join (spawn (fn []
                       (let [messages (trace/messages {:limit 9, :match [::it _], :to nothing})]
                         (! (self) (it 1))
                         (receive [::it _] nil)
                         (is (some? (.outgoing (Fiber/current))))
                         (trace/stop messages)
                         (is (nil? (.outgoing (Fiber/current)))))))))

;; ---- limits

(deftest a-trace-needs-a-limit-and-ends-there
  (is (= :magnetar/no-limit (:magnetar/reason (refusal #(trace/messages {})))))
  (is (= :magnetar/bad-option (:magnetar/reason (refusal #(trace/messages {:limit 0})))))
  (is (= :magnetar/bad-option (:magnetar/reason (refusal #(trace/messages* {:limit 1, :match [:order '_]})))))
  (is (= :magnetar/unknown-option (:magnetar/reason (refusal #(trace/messages {:limit 1, :limits 1})))))
  (is (= :magnetar/not-a-tracer (:magnetar/reason (refusal #(trace/stop 1))) (:magnetar/reason (refusal #(trace/diagram nil)))))
  (with-process {}
    (let [messages (trace/messages {:limit 3, :match [::it _], :to nothing})]
      (dotimes [n 3] (! (self) (it n)))
      (! (self) (it 4))
      (is (= [:send :send :send :end] (map :event (trace/events messages))))
      (is (= {:events 3, :dropped 0, :reason :limit} (trace/stop messages) (trace/stop messages)))
      (is (re-matches #"#<trace of messages, 3 events, ended>" (pr-str messages))))))

(deftest a-trace-ends-with-its-caller
  (doseq [start [#(let [traced (promise)]
                    (actor/join (spawn (fn [] (deliver traced (%)))))
                    @traced)
                 #(let [traced (promise)]
                    (.join (doto (Thread. (fn [] (deliver traced (%)))) .start))
                    @traced)]]
    (let [messages (start #(trace/messages* {:limit 9, :match (fn [m] (and (vector? m) (= ::it (first m)))), :to nothing}))]
      (with-process {}
        (! (self) (it 1)))
      (is (= [:caller] (map :reason (trace/events messages)))))))

(deftest a-trace-ends-with-its-caller-at-any-message
  (let [messages (promise)]
    (actor/join (spawn (fn [] (deliver messages (trace/messages* {:limit 9, :match (fn [_] false), :to nothing})))))
    (with-process {} (! (self) :another))
    (is (= [:caller] (map :reason (trace/events @messages))))))

(deftest a-match-that-throws-is-reported-once-and-blinds-no-other-trace
  (with-failures [failures]
    (with-process {}
      (let [broken (trace/messages* {:limit 9, :match (fn [_] (throw (ex-info "no match" {}))), :to nothing})
            messages (trace/messages {:limit 9, :match [::it _], :to nothing})]
        (dotimes [n 2] (! (self) (it n)))
        (receive [::it 1] (! (self) (it :because)))
        (run! trace/stop [broken messages])
        (is (= [[:send 1 (it 0)] [:send 2 (it 1)] [:take 2 (it 1)] [:send 3 (it :because) 2]] (happened (trace/events messages))))
        (is (= [] (happened (trace/events broken))))))
    (is (= ["no match"] (map (comp ex-message :error) @failures)))))

(deftest a-match-does-not-realize-what-is-sent
  (let [realized (atom 0)
        message [(map #(swap! realized + %) [1])]]
    (traced* {:match (fn [_] false)} #(with-process {} (! (self) message)))
    (is (zero? @realized))))

(deftest a-pattern-may-have-any-name
  (with-process {}
    (let [messages (trace/messages {:limit 9, :match [::it message], :to nothing})]
      (! (self) (it 1))
      (trace/stop messages)
      (is (= [[:send 1 (it 1)]] (happened (trace/events messages)))))))

(deftest a-rate-drops-and-counts
  (mt/with-virtual-clock
    (let [events (traced* {:rate 2, :match #(and (vector? %) (= ::it (first %)))}
                   #(with-process {}
                      (dotimes [n 5] (! (self) (it n)))
                      (receive [::it 4] nil)
                      (receive [::it 0] nil)))]
      (is (= [[:send 1 (it 0)] [:send 2 (it 1)] [:take 1 (it 0)]] (happened events)))
      (is (= 3 (:dropped (peek events)))))))

(deftest a-sink-that-waits-stops-nothing-and-its-events-are-counted
  (let [gate (CountDownLatch. 1)
        told (atom [])
        ended (promise)
        messages (trace/messages {:limit 5000, :match [::it _]
                                  :to (fn [{:keys [event] :as data}]
                                        (.await gate)
                                        (swap! told conj data)
                                        (when (= :end event) (deliver ended data)))})]
    (with-process {}
      (dotimes [n 2000] (! (self) (it n)))
      (dotimes [_ 2000] (receive [::it _] nil)))
    (let [{:keys [events dropped] :as summary} (trace/stop messages)]
      (is (= 4000 events))
      (is (= summary (trace/stop messages)))
      (.countDown gate)
      (is (= dropped (:dropped (value-of ended)) (:dropped (peek (trace/events messages)))))
      (is (= 4000 (+ (long dropped) (dec (count @told))))))))

(deftest a-sink-that-fails-is-reported-and-stops-nothing
  (with-failures [failures]
    (with-process {}
      (let [messages (trace/messages {:limit 3, :match [::it _], :to (fn [_] (throw (ex-info "no sink" {})))})]
        (! (self) (it 1))
        (is (= 1 (receive [::it n] n)))
        (trace/stop messages)))
    (is (= 3 (count @failures)))))

(deftest a-sink-that-sends-is-not-traced
  (with-process {}
    (let [me (self)
          messages (trace/messages {:limit 100, :match [::it _], :to (fn [_] (! me (it :told)))})]
      (! me (it 1))
      (trace/stop messages)
      (is (= [[:send 1 (it 1)]] (happened (trace/events messages))))
      (is (= (it :told) (receive [::it :told] (it :told)))))))

(deftest a-sink-that-sends-to-a-server-without-callback-is-not-traced
  (let [server (start-shelf)
        events (collecting (atom [])
                 #(let [events (traced* {:match (fn [m] (and (vector? m) (= ::it (first m)))), :to (fn [_] (! server (it :told)))}
                                 (fn [] (with-process {} (! (self) (it 1)))))]
                    (gs/stop server) ; it has handled what the sink sent
                    events))]
    (is (= [[:send 1 (it 1)]] (happened events)))))

(deftest two-traces-count-for-themselves
  (with-process {}
    (let [all (trace/messages {:limit 100, :match [::it _], :to nothing})
          odd (trace/messages {:limit 100, :match [::it (n :guard odd?)], :to nothing})]
      (dotimes [n 3] (! (self) (it n)))
      (trace/stop all)
      (trace/stop odd)
      (is (= [1 2 3] (map :number (butlast (trace/events all)))))
      (is (= [[:send 1 (it 1)]] (happened (trace/events odd)))))))

(deftest a-pattern-sees-the-locals-around-it
  (with-process {}
    (let [wanted ::wanted
          messages (trace/messages {:limit 10, :match [::it wanted], :to nothing})]
      (! (self) (it ::other))
      (! (self) (it wanted))
      (trace/stop messages)
      (is (= [[:send 1 (it ::wanted)]] (happened (trace/events messages)))))))

(deftest messages-of-a-simulation-are-traced
  (let [run #(let [events (atom [])]
               (mt/simulate {:seed 7}
                 (let [messages (trace/messages {:limit 100, :match [::it _], :to nothing})]
                   (with-process {}
                     (let [me (self)]
                       (dotimes [n 3] (spawn (fn [] (! me (it n)))))
                       (dotimes [_ 3] (receive [::it _] nil))))
                   (trace/stop messages)
                   (reset! events (happened (trace/events messages)))))
               @events)]
    (is (= 6 (count (run))))
    (is (= (run) (run)))))

;; ---- text

(deftest lines-are-printed
  (let [out (StringWriter.)
        server (start-shelf)]
    (actor/register ::shelf server)
    (actor/join (spawn (fn []
                         (actor/register ::till (self))
                         (binding [*out* out]
                           (let [messages (trace/messages {:limit 100, :match [::it _]})]
                             (gs/call ::shelf (it :apple))
                             (trace/stop messages))))))
    (is (= ["[::till] sends 1 to ::shelf, call: [::it :apple], at trace_messages_test.clj:LINE"
            "[::shelf] takes 1: [::it :apple]"
            "[::shelf] sends 2 to ::till, answer: [::it [:answer [::it :apple]]]; because of 1"
            "[::till] takes 2: [::it [:answer [::it :apple]]]"
            "the trace of messages ends"]
           (str/split-lines (-> (str out) (str/replace ":magnetar.trace-messages-test/" "::") (str/replace #"(?<=clj:)\d+" "LINE")))))
    (gs/stop server)))

(deftest a-diagram-marks-what-was-lost-not-handled-and-not-taken
  (is (= ["sequenceDiagram"
          "  participant p1 as :till"
          "  participant p2 as 0.7.1 spawn shop.clj:3"
          "  p1->>p2: 1 call: [:take #quot;a#59; b#quot;]"
          "  p2--xp1: 2 answer, lost, because of 1: :ok"
          "  p1->>p2: 3 cast, not handled: #35;{#lt;}"
          "  p1->>p2: 4, not taken: :x"
          "  Note over p1: takes :down"]
         (let [shop "#magnetar/pid \"0.7.1 spawn shop.clj:3\""]
           (str/split-lines
             (trace/diagram [{:event :send, :number 1, :by ":till", :to shop, :kind :call, :value [:take "a; b"]}
                             {:event :take, :number 1, :by shop, :value [:take "a; b"]}
                             {:event :send, :number 2, :by shop, :to ":till", :kind :answer, :value :ok, :cause 1}
                             {:event :lost, :number 2, :by shop, :to ":till", :kind :answer, :value :ok}
                             {:event :send, :number 3, :by ":till", :to shop, :kind :cast, :value #{'<}}
                             {:event :take, :number 3, :by shop, :value #{'<}}
                             {:event :unhandled, :number 3, :by shop, :value #{'<}}
                             {:event :send, :number 4, :by ":till", :to shop, :kind :message, :value :x}
                             {:event :take, :by ":till", :value :down}
                             {:event :end, :reason :stopped, :dropped 0}]))))))

(deftest a-diagram-of-a-running-trace-says-that-a-message-was-not-taken-so-far
  (is (= "  p1->>p1: 1, not taken so far: :x"
         (last (str/split-lines (trace/diagram [{:event :send, :number 1, :by ":till", :to ":till", :kind :message, :value :x}]))))))

(deftest a-diagram-of-what-is-no-event-is-refused
  (doseq [wrong [1 {:event :sned} {:event :send} {:event :send, :number 1, :by "a", :to "b", :value 1} {:event :take}]]
    (is (= [:magnetar/not-a-tracer wrong] ((juxt :magnetar/reason :value) (refusal #(trace/diagram [{:event :end} wrong])))))))

(deftest all-traces-are-stopped
  (let [traces (repeatedly 2 #(trace/messages {:limit 9, :match [::it _], :to nothing}))]
    (run! identity traces)
    (is (<= 2 (count (trace/stop))))
    (is (= [:stopped :stopped] (map (comp :reason peek trace/events) traces)))
    (is (= [] (trace/stop)))))

(deftest a-fork-that-calls-has-one-text
  (let [server (start-shelf)
        events (traced
                 (let [me (self)]
                   (with-scope [s]
                     @(fork s (fn []
                                (! me (it :before))
                                (gs/call server (it :apple))
                                (! me (it :after)))))))
        texts (fn [event] (map :by (filter #(and (= event (:event %)) (not= :answer (:kind %))) events)))]
    (is (= 1 (count (distinct (texts :send)))))
    (is (= (first (texts :send)) (:to (first (filter #(= :answer (:kind %)) events)))))
    (gs/stop server)))

(deftest events-tell-the-line-and-the-time
  (mt/with-virtual-clock
    (let [[sent taken] (traced
                         (scope/sleep 5)
                         (! (self) (it 1))
                         (scope/sleep 5)
                         (receive [::it _] nil))]
      (is (re-matches #"trace_messages_test\.clj:\d+" (:line sent)))
      (is (nil? (:line taken)))
      (is (= [5000000 10000000] (map :nanos [sent taken]))))))

(deftest a-diagram-of-many-participants-keeps-their-order
  (let [line (fn [n] (str "  participant p" n " as :till-" n))]
    (is (= (map line (range 1 21))
           (filter #(str/includes? % "participant")
                   (str/split-lines
                     (trace/diagram (vec (for [n (range 1 21 2)]
                                           {:event :send, :number n, :by (str ":till-" n), :to (str ":till-" (inc n)), :kind :message, :value n})))))))))

(deftest secrets-are-not-shown
  (let [out (StringWriter.)
        messages (atom nil)]
    (inspect/redact-with #(if (= ::it (when (vector? %) (first %))) [::it :hidden] %))
    (try
      (binding [*out* out]
        (with-process {}
          (reset! messages (trace/messages {:limit 10, :match [::it _]}))
          (! (self) (it "secret"))
          (trace/stop @messages)))
      (testing "in lines, diagrams and at the prompt"
        (doseq [text [(str out) (trace/diagram @messages) (pr-str @messages) (with-out-str (pprint/pprint @messages))]]
          (is (not (str/includes? text "secret")))))
      (finally (inspect/redact-with nil)))))
