(ns magnetar.gen-statem-test
  "State machines beyond the scenarios of OTP: behaviours as namespaces, what wrong returns say, sys, machines declared as data."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.actor-support :as processes]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.support :refer [collecting eventually value-of]]
   [magnetar.sys :as sys])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io StringWriter)
   (magnetar.kernel.process LocalProcess ProcessTable)))

(set! *warn-on-reflection* true)

(def ^:private reports (atom []))

(use-fixtures :each (fn [f] (collecting reports #(scenarios/leaving-nobody f))))

;; ---- machines whose events are functions

(def ^:private plain :handle-event-function)

(defn- handle-event [type content state data]
  (cond
    (= :enter type) :keep-state-and-data
    (fn? content) (content type state data)
    (= :get content) [:keep-state-and-data [:reply (second type) [state data]]]
    :else [:keep-state (conj data [type content])]))

(def ^:private script
  {:name 'script, :callback-mode plain, :init (fn [state] [:ok state []]), :handle-event handle-event})

(defn- machine
  ([] (machine script))
  ([behaviour] (machine behaviour nil))
  ([behaviour options]
   (let [[how pid] (statem/start behaviour :a options)]
     (is (= :ok how))
     pid)))

(defn- does
  "An event that returns the value."
  [value]
  (fn [_ _ _] value))

(defn- told
  "The reason for which a machine ends whose callback returns this."
  [value]
  (let [pid (machine)]
    (statem/cast pid (does value))
    (processes/reason pid)))

;; ---- what is wrong

(deftest ^{:spec ["C94"]} a-wrong-return-is-answered-with-the-callback-the-state-and-what-was-meant
  (doseq [[value meant] {:garbage nil
                         [:next_state :b []] "Is :next-state meant?"
                         [:next-state :b] "The parts of :next-state are wrong."
                         [:keep-state] "The parts of :keep-state are wrong."
                         :keep-state "The parts of"
                         [:stop :a :b :c] "The parts of :stop are wrong."
                         [:stop-and-reply :why [:not-a-reply]] "The parts of :stop-and-reply"
                         nil nil}]
    (let [[reason shown sentence] (told value)]
      (is (= [:bad-return-from-state-function value] [reason shown]))
      (is (str/includes? sentence "handle-event in the state :a of script, called for [:cast "))
      (is (str/includes? sentence (or meant "It has to return")) (pr-str value)))))

(deftest ^{:spec ["C94"]} a-wrong-action-is-answered-with-what-was-meant
  (doseq [[action meant] {[:replyy 1 2] "Is :reply meant?"
                          [:reply :nobody 2] "The parts of :reply are wrong."
                          [:state-timeout 10] "The parts of :state-timeout are wrong."
                          [:state-timeout -1 :x] "The parts of :state-timeout are wrong."
                          [:state-timeout nil :x] "The parts of :state-timeout are wrong."
                          [:next-event :casts :x] "The parts of :next-event are wrong."
                          [:next-event [:call :nobody] :x] "The parts of :next-event are wrong."
                          [:postpone :perhaps] "Is"
                          :postpoen "Is :postpone meant?"
                          "text" "The actions are"
                          {:a 1} "The actions are"
                          -1 "The actions are"}]
    (let [[reason shown sentence] (told [:keep-state-and-data [[[:timeout :n] 5 :x] action]])]
      (is (= [:bad-action-from-state-function action] [reason shown]) (pr-str action))
      (when-not (= [:postpone :perhaps] action)
        (is (str/includes? sentence meant) (pr-str action))))))

(deftest ^{:spec ["C94"]} one-action-needs-no-list-and-an-empty-list-is-none
  (doseq [actions [nil [] () :hibernate [:hibernate true] 5000 :infinity [:timeout :cancel] [[:timeout :cancel] :hibernate]
                   [[:timeout [:a :b]] 5000 :x] '([:state-timeout 5000 :x]) [5000 :hibernate]]]
    (let [pid (machine)]
      (statem/cast pid (does [:keep-state-and-data actions]))
      (is (= [:a []] (statem/call pid :get)) (pr-str actions))
      (statem/stop pid))))

(def ^:private two-states
  {:name 'two, :callback-mode :state-functions, :init (fn [state] [:ok state nil])
   :states {:locked (fn [_ content _] content), :open (fn [_ content _] content)}})

(deftest ^{:spec ["C94"]} a-state-without-a-function-is-answered-at-once
  (testing "in init"
    (let [[how [reason state sentence]] (statem/start two-states :lockd)]
      (is (= [:error :bad-state-from-init :lockd] [how reason state]))
      (is (str/includes? sentence "it has them for :locked, :open. Is :locked meant?"))))
  (testing "on the way"
    (let [[_ pid] (statem/start two-states :open)]
      (statem/cast pid [:next-state :loked nil])
      (let [[reason state sentence] (processes/reason pid)]
        (is (= [:bad-state-from-state-function :loked] [reason state]))
        (is (str/includes? sentence "The state function :open of two"))
        (is (str/includes? sentence "Is :locked meant?")))))
  (testing "by replace-state, which leaves the machine alone"
    (let [[_ pid] (statem/start two-states :open)]
      (is (thrown-with-msg? ExceptionInfo #"no function for the state :x" (sys/replace-state pid (fn [_] [:x 1]))))
      (is (thrown-with-msg? ExceptionInfo #"has to return \[state data\]" (sys/replace-state pid (fn [_] :x))))
      (is (= [:open nil] (sys/get-state pid)))
      (statem/stop pid))))

(deftest what-is-no-callback-module-is-refused-before-anything-starts
  (doseq [[behaviour reason] {(dissoc script :callback-mode) :magnetar/missing-callback
                              (dissoc script :handle-event) :magnetar/missing-callback
                              (dissoc script :init) :magnetar/missing-callback
                              (assoc script :callback-mode :state-function) :magnetar/bad-callback-mode
                              (assoc script :callback-mode [:state-functions plain]) :magnetar/bad-callback-mode
                              (assoc script :callback-mode [:state-enter]) :magnetar/bad-callback-mode
                              (assoc script :callback-mode :state-functions) :magnetar/bad-states
                              (assoc two-states :states {:a 1}) :magnetar/bad-states
                              (assoc script :terminat identity) :magnetar/unknown-callback}]
    (is (= reason (first (processes/misuse #(statem/start behaviour :a))))))
  (is (= :magnetar/unknown-option (first (processes/misuse #(statem/start script :a {:nmae 1})))))
  (is (= :magnetar/unknown-option (first (processes/misuse #(statem/call :x :y {:timout 1})))))
  (is (= :magnetar/bad-replies (first (processes/misuse #(statem/reply [:reply :nobody 1]))))))

(deftest ^{:spec ["C93"]} while-a-state-is-entered-there-is-no-way-to-another
  (doseq [[value reason] {[:next-state :c nil] :bad-state-enter-return-from-state-function
                          [:keep-state-and-data :postpone] :bad-state-enter-action-from-state-function
                          [:keep-state-and-data [:next-event :cast :x]] :bad-state-enter-action-from-state-function
                          :garbage :bad-return-from-state-function}]
    (let [enters (fn [type content state data]
                   (cond
                     (not= :enter type) (handle-event type content state data)
                     (= :b state) value
                     :else :keep-state-and-data))
          pid (machine (assoc script :callback-mode [plain :state-enter] :handle-event enters))]
      (statem/cast pid (does [:next-state :b nil]))
      (let [[why _ sentence] (processes/reason pid)]
        (is (= reason why))
        (is (str/includes? sentence "in the state :b of script, called for [:enter"))))))

;; ---- behaviours

(defn- behaviour-namespace [vars]
  (let [ns (create-ns (gensym "magnetar.gen-statem-test.behaviour"))]
    (doseq [[word x] vars]
      (intern ns word x))
    (ns-name ns)))

(def ^:private door-vars
  {'callback-mode :state-functions
   'init (fn [_] [:ok :open 0])
   'open (fn [type _ n] [:keep-state (inc n) [:reply (second type) [:old n]]])
   'shut (fn [type _ n] [:keep-state n [:reply (second type) [:shut n]]])})

(deftest a-namespace-is-a-behaviour-and-its-vars-may-be-redefined
  (let [ns (behaviour-namespace door-vars)
        pid (machine ns)]
    (is (= [:old 0] (statem/call pid :x)))
    (intern ns 'open (fn [type _ n] [:next-state :shut n [:reply (second type) [:new n]]]))
    (is (= [:new 1] (statem/call pid :x)))
    (is (= [:shut 1] (statem/call pid :x)))
    (statem/stop pid))
  (testing "a callback is no state, and a private function neither"
    (let [[_ [_ _ sentence]] (statem/start (behaviour-namespace (assoc door-vars 'init (fn [_] [:ok :init 0]))) nil)]
      (is (str/includes? sentence "no function for the state :init; it has them for :open, :shut.")))))

(def ^:private in-a-var two-states)

(deftest a-var-that-holds-a-map-is-a-behaviour-that-follows-the-var
  (let [[_ pid] (statem/start #'in-a-var :open)]
    (with-redefs [in-a-var (assoc-in two-states [:states :open] (fn [type _ _] [:keep-state-and-data [:reply (second type) :redefined]]))]
      (is (= :redefined (statem/call pid :x))))
    (statem/stop pid)))

(deftest a-callback-module-that-is-none-or-is-not-there-ends-the-machine
  (is (= :magnetar/bad-callback-module (get-in (told [:keep-state-and-data [:change-callback-module 7]]) [0 :data :magnetar/reason])))
  (is (str/includes? (peek (told [:keep-state-and-data :pop-callback-module])) "no callback module under script")))

(deftest the-callback-mode-is-read-again-when-the-code-is-changed
  (let [holder (atom (assoc script :code-change (fn [old state data extra] [:ok [:now state] [old data extra]])))
        ns (behaviour-namespace (update-keys @holder (comp symbol name)))
        pid (machine ns)]
    (intern ns 'callback-mode [plain :state-enter])
    (intern ns 'handle-event (fn [type content state data]
                               (if (= :enter type) [:keep-state [:entered content data]] (handle-event type content state data))))
    (sys/suspend pid)
    (is (= :ok (sys/change-code pid :v1 :extra)))
    (sys/resume pid)
    (is (= [[:now :a] [:v1 [] :extra]] (statem/call pid :get)))
    (statem/cast pid (does [:next-state :b 1]))
    (is (= [:b [:entered [:now :a] 1]] (statem/call pid :get)))
    (statem/stop pid)))

;; ---- events

(deftest ^{:spec ["C90" "C91"]} inserted-retried-due-and-queued-events-come-in-this-order
  (let [pid (machine)]
    (sys/suspend pid)
    (statem/cast pid (fn [_ state _] (if (= :a state) [:keep-state-and-data :postpone] [:keep-state [:retried]])))
    (statem/cast pid (does [:next-state :b [] [[:state-timeout 0 :zero] [:next-event :internal (fn [_ _ data] [:keep-state (conj data :inserted)])]]]))
    (statem/cast pid :queued)
    (sys/resume pid)
    (is (= [:b [:retried [:state-timeout :zero] [:cast :queued]]] (statem/call pid :get)))
    (statem/stop pid)))

(deftest ^{:spec ["C92"]} a-timeout-that-was-stopped-is-not-heard-also-if-it-had-sent
  (let [pid (machine)
        sent (promise)]
    (sys/suspend pid) ; until both are in its mailbox
    (statem/cast pid (does [:keep-state-and-data [[:timeout :n] 1 :early]]))
    (statem/cast pid (fn [_ _ _]
                       (deliver sent (eventually (= 1 (actor/process-info (actor/self) :message-queue-len))))
                       [:keep-state-and-data [[:timeout :n] :cancel]]))
    (sys/resume pid)
    (is (value-of sent))
    (is (= [:a []] (statem/call pid :get)))
    (statem/stop pid)))

(deftest any-other-message-is-an-info-also-one-that-looks-like-a-timer
  (let [pid (machine)]
    (! pid :hello)
    (! pid [:timeout (actor/make-ref) :x])
    (is (= [[:info :hello] :info] (let [[_ [a [type]]] (statem/call pid :get)] [a type])))
    (statem/stop pid)))

(deftest replies-may-be-sent-from-anywhere-and-as-actions
  (let [pid (machine)]
    (is (= :later (statem/call pid (fn [[_ from] _ _] (actor/spawn statem/reply from :later) :keep-state-and-data))))
    (is (= :listed (statem/call pid (fn [[_ from] _ _] (statem/reply [[:reply from :listed]]) :keep-state-and-data))))
    (is (= :one (statem/call pid (fn [[_ from] _ _] (statem/reply [:reply from :one]) :keep-state-and-data))))
    (statem/stop pid)))

(deftest a-call-that-fails-names-the-call
  (let [e (try (statem/call (machine) (does [:stop :boom])) (catch ExceptionInfo e (ex-data e)))]
    (is (= [:boom 'magnetar.gen-statem :call :infinity] (into [(:reason e)] (update (:call e) 2 peek))))))

(deftest a-crash-is-reported-once-with-state-data-and-what-waits
  (let [pid (machine (assoc script :format-status (fn [status] (assoc status :data :hidden))))]
    (statem/cast pid (does [:keep-state-and-data :postpone]))
    (statem/cast pid (fn [_ _ _] (throw (ex-info "boom" {}))))
    (is (= "boom" (:message (first (processes/reason pid)))))
    (let [[{:keys [event state data postponed callback-module]} & more] @reports]
      (is (= [:crash :a :hidden 1 'script nil] [event state data (count postponed) callback-module more])))))

;; ---- hosting, sys, sight

(defn- thread-of [pid]
  (.thread (.info ^LocalProcess (ProcessTable/live pid))))

(deftest ^{:spec ["C95"]} a-machine-that-waits-for-a-timeout-has-no-thread
  (let [pid (machine script {:hosting :activated})
        came (promise)]
    (statem/cast pid (does [:keep-state-and-data [[:state-timeout 200 (fn [_ state data] (deliver came state) [:next-state :b data])]]]))
    (is (eventually (nil? (thread-of pid))))
    (is (= :a (value-of came)))
    (is (= [:b []] (statem/call pid :get)))
    (statem/stop pid)))

(deftest ^{:spec ["C99"]} sys-works-on-machines
  (let [out (StringWriter.)
        pid (binding [*out* out] (machine))]
    (is (= [:a []] (sys/get-state pid)))
    (is (= [:b 1] (sys/replace-state pid (fn [[_ _]] [:b 1]))))
    (sys/statistics pid true)
    (sys/log pid true)
    (statem/call pid :get)
    (statem/cast pid (does [:keep-state-and-data :postpone]))
    (is (= [:in :out :consume :in :postpone] (mapv first (second (sys/log pid :get)))))
    (is (= [2 1] ((juxt :messages-in :messages-out) (second (sys/statistics pid :get)))))
    (sys/trace pid true)
    (statem/call pid :get)
    (is (str/includes? (str out) "*DBG*"))
    (let [{:keys [state data postponed queue timeouts status]} (sys/get-status pid)]
      (is (= [:b 1 1 0 [] :running] [state data (count postponed) (count queue) timeouts status])))
    (is (= ["script"] (keep #(when (= pid (:pid %)) (:label %)) (inspect/processes))))
    (sys/terminate pid :shutdown)
    (is (= :shutdown (processes/reason pid)))))

(deftest what-goes-on-inside-a-state-does-not-change-by-a-look-from-sys
  (let [pid (machine)]
    (statem/cast pid (does [:keep-state-and-data [60 [[:timeout :end] 5000 :x]]]))
    (sys/get-state pid)
    (is (= [:timeout [:timeout :end]] (sort-by str (:timeouts (sys/get-status pid)))))
    (statem/stop pid)))

;; ---- machines declared as data

(defn- remember [data [_ digit]] (update data :so-far conj digit))
(defn- forget [data] (assoc data :so-far []))
(defn- right? [{:keys [code so-far]} [_ digit]] (= code (conj so-far digit)))

(def ^:private door
  {:name 'door
   :initial :locked
   :data (fn [code] {:code code, :so-far []})
   :states {:locked {:enter forget
                     :on {:button [{:when right?, :to :open}
                                   {:do remember, :reply (fn [{:keys [so-far]} _] (count so-far))}]}}
            :open {:after [100000 :locked]
                   :postpone #{:button}
                   :on {:close :locked, :hold {:actions (fn [_ _] [:state-timeout :cancel]), :label "held"}}}
            "taken: away" {:final true}}
   :on {:remove "taken: away"}})

(deftest ^{:spec ["C96"]} a-machine-that-is-data-runs
  (let [[_ pid] (statem/start (statem/machine door) [1 2])]
    (is (= 1 (statem/call pid [:button 1])))
    (is (= :ok (statem/call pid [:button 2])))
    (is (= :ok (statem/call pid :hold)))
    (is (= :open (first (sys/get-state pid))))
    (is (= [:error [:unexpected-event :sing :in :open]] (statem/call pid :sing)))
    (statem/cast pid [:button 7])
    (statem/cast pid :close)
    (is (= [:locked {:code [1 2], :so-far [7]}] (sys/get-state pid)) "the button waited for the door to close")
    (statem/cast pid :remove)
    (is (= :normal (processes/reason pid)))))

(deftest a-state-that-is-data-is-left-after-its-time
  (let [left (promise)
        [_ pid] (statem/start (statem/machine {:initial :a, :data 0
                                               :states {:a {:after [5 [{:when (constantly false), :to :a} {:to :b, :do (fn [n _] (inc n))}]]}
                                                        :b {:enter (fn [n] (deliver left n) n)}}})
                              :unused)]
    (is (= 1 (value-of left)))
    (statem/cast pid :unknown)
    (is (= [:b 1] (sys/get-state pid)))
    (is (= [:unexpected-event] (map :event @reports)))
    (statem/stop pid)))

(deftest ^{:spec ["C96"]} the-diagram-has-each-state-and-each-transition
  (is (= ["stateDiagram-v2"
          "    [*] --> locked"
          "    locked : enter / forget"
          "    locked --> open : button [right?]"
          "    locked --> locked : button / remember"
          "    open : postpones button"
          "    open --> locked : close"
          "    open --> open : held"
          "    open --> locked : after 100000 ms"
          "    state \"taken away\" as s3"
          "    s3 --> [*]"
          "    locked --> s3 : remove"
          "    open --> s3 : remove"]
         (str/split-lines (statem/mermaid door))
         (str/split-lines (statem/mermaid (statem/machine door))))))

(deftest ^{:spec ["C96"]} the-diagram-tells-states-apart-whatever-they-are-called
  (is (= ["stateDiagram-v2"
          "    [*] --> nil"
          "    nil --> s2 : x [condition] / inc"
          "    state \"b\" as s2"
          "    s2 --> s2 : [1 2]"
          "    state \"b\" as s3"
          "    state \"a/b\" as s4"
          "    state \"end\" as s5"
          "    alone"]
         (str/split-lines (statem/mermaid {:initial nil
                                           :states (array-map nil {:on {:x {:to "b", :when #(= %1 %2), :do #'inc}}}
                                                              "b" {:on {[1 2] {}}}
                                                              :b {}
                                                              :a/b {}
                                                              :end {}
                                                              :alone {})})))))

(deftest ^{:spec ["C96"]} the-diagram-shows-a-transition-of-all-states-where-that-is-taken
  (let [machine {:initial :a
                 :states (array-map :a {:on {:x {:when (constantly false), :to :c}}}
                                    :b {:on {:x :a}}
                                    :c {:postpone #{:x}, :on {:go :b}})
                 :on {:x :b}}]
    (is (= ["stateDiagram-v2" "    [*] --> a" "    a --> c : x [condition]" "    b --> a : x" "    c : postpones x" "    c --> b : go" "    a --> b : x"]
           (str/split-lines (statem/mermaid machine))))
    (let [[_ pid] (statem/start (statem/machine machine) nil)]
      (statem/call pid :x)
      (is (= :b (first (sys/get-state pid))))
      (statem/stop pid))))

(deftest ^{:spec ["C92"]} of-the-timeouts-of-one-type-in-a-transition-the-last-counts-and-an-update-is-of-one-that-ran-before
  (let [told (atom [])
        [_ pid] (statem/start {:callback-mode :handle-event-function
                               :init (fn [_] [:ok :a nil])
                               :handle-event (fn [type content _ _]
                                               (swap! told conj [type content])
                                               (if (= :cast type) [:keep-state-and-data content] :keep-state-and-data))}
                              nil)
        after (fn [actions]
                (reset! told [])
                (statem/cast pid actions)
                (sys/get-state pid)
                (vec (rest @told)))]
    (is (= [[[:timeout :x] 2]] (after [[[:timeout :x] 100000 1] [[:timeout :x] :update 2]])) "none ran: the update is due at once")
    (is (= [] (after [[[:timeout :x] 100000 1]])))
    (is (= [] (after [[[:timeout :x] 0 2] [[:timeout :x] :update 3]])) "one runs, and goes on")
    (is (= [[:state-timeout 2] [[:timeout :y] 3]] (after [[[:timeout :y] 0 1] [:state-timeout 0 2] [[:timeout :y] 0 3]])))
    (statem/stop pid)))

(deftest a-state-that-postpones-an-event-has-no-transition-for-it
  (is (thrown-with-msg? IllegalArgumentException #"at \[:states :a :postpone\]: :x has a transition as well, which would never be taken"
                        (statem/machine {:initial :a, :states {:a {:postpone #{:x}, :on {:x :a}}}}))))

(deftest a-declaration-that-was-not-made-a-callback-module-is-refused
  (is (= :magnetar/not-a-callback-module (first (processes/misuse #(statem/start door 1))))))

(deftest events-without-an-end-do-not-keep-a-machine-alive-nor-others-from-running
  (doseq [hosting [:threaded :activated]]
    (let [pid (machine script {:hosting hosting})
          seen (promise)
          n (atom 0)
          again (fn again [_ _ _]
                  (when (= 5000 (swap! n inc)) (deliver seen true))
                  [:keep-state-and-data [:state-timeout 0 again]])]
      (statem/cast pid again)
      (is (value-of seen))
      (actor/exit pid :boom)
      (is (= :boom (processes/reason pid))))))

(deftest ^{:spec ["C94"]} a-declaration-that-is-wrong-is-not-made-a-machine
  (doseq [[path value where meant] [[[:initial] :lockd [:initial] :locked]
                                    [[:initial] nil [:initial] nil]
                                    [[:states] {} [:states] nil]
                                    [[:sates] {} [:sates] :states]
                                    [[:states :open :onn] {} [:states :open :onn] :on]
                                    [[:states :open :on :close] :lockedd [:states :open :on :close :to] :locked]
                                    [[:states :open :on :close] {:tto :locked} [:states :open :on :close :tto] :to]
                                    [[:states :locked :on :button 0 :when] 7 [:states :locked :on :button 0 :when] nil]
                                    [[:states :open :after] 20 [:states :open :after] nil]
                                    [[:states :open :after] [:soon :locked] [:states :open :after] nil]
                                    [[:states :open :postpone] :button [:states :open :postpone] nil]
                                    [[:states :open] :closed [:states :open] nil]
                                    [[:on] [] [:on] nil]]]
    (let [e (try (statem/machine (assoc-in door path value)) (catch IllegalArgumentException e e))
          {:keys [at] :as data} (ex-data e)]
      (is (= [:magnetar/bad-machine where meant] [(:magnetar/reason data) at (:meant data)]) (ex-message e))
      (is (str/includes? (str (ex-message e)) (pr-str where))))))

(deftest a-machine-started-by-a-monitor-or-a-link-is-one
  (is (= :normal
         (actor/with-process {}
           (let [[_ [pid ref]] (statem/start-monitor script :a)]
             (is (= [:a []] (statem/call pid :get)))
             (statem/stop pid)
             (receive [:DOWN ref :process pid why] why)))))
  (is (= [:error [:already-started true]]
         (actor/with-process {}
           (let [[_ pid] (statem/start-link script :a {:name ::once})
                 [how [why who]] (statem/start script :a {:name ::once})]
             (statem/stop ::once)
             [how [why (= pid who)]])))))

(deftest a-linked-machine-ends-with-its-parent-and-terminates
  (let [told (promise)
        got (promise)
        traps (assoc script
                     :init (fn [_] (actor/flag :trap-exit true) [:ok :a []])
                     :terminate (fn [why state _] (deliver got [why state])))
        parent (actor/spawn #(let [[_ pid] (statem/start-link traps :a)]
                               (deliver told pid)
                               (receive :never nil)))
        pid (value-of told)]
    (is (processes/waits? parent))
    (actor/exit parent :boom)
    (is (= :boom (processes/reason pid)))
    (is (= [:boom :a] (value-of got)))))
