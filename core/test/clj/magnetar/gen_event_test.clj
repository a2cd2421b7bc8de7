(ns magnetar.gen-event-test
  "Event managers beyond the scenarios of OTP: what supervisors of handlers hear, wrong arguments, sys."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.actor-support :as processes]
   [magnetar.gen-event :as ge]
   [magnetar.gen-server :as gs]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.support :refer [collecting eventually]]
   [magnetar.sys :as sys])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(def ^:private reports (atom []))

(use-fixtures :each (fn [f] (collecting reports #(scenarios/leaving-nobody f))))

(def ^:private keeper
  "A handler that keeps what it hears; an event that is a function is what that returns."
  {:name 'keeper
   :init (fn [x] [:ok x])
   :handle-event (fn [event s] (if (fn? event) (event s) [:ok (conj s event)]))
   :handle-call (fn [request s] (if (fn? request) (request s) [:ok s s]))})

(defn- manager [& handlers]
  (let [[_ pid] (ge/start)]
    (doseq [h handlers] (is (= :ok (ge/add-handler pid h []))))
    pid))

(defn- boom [_]
  (throw (ex-info "boom" {})))

(deftest ^{:spec ["C97"]} a-handler-that-fails-is-removed-and-reported-and-the-others-hear-each-event
  (let [pid (manager keeper [keeper :bad])]
    (ge/notify pid 1)
    (ge/notify pid (fn [s] (if (= [1] s) [:ok (conj s :odd)] [:ok s])))
    (sys/replace-state pid (fn [[known-by s]] (if (vector? known-by) [known-by :broken] [known-by s])))
    (ge/sync-notify pid 2)
    (is (= [['keeper [1 :odd 2]]] (sys/get-state pid)))
    (is (= [[:handler-removed ['keeper :bad] 2 :broken]] (map (juxt :event :handler :last-message :state) @reports)))
    (ge/stop pid)))

(defn- heard
  "What a process hears that supervises a handler, when f has been called with the manager."
  [f]
  (actor/with-process {}
    (let [pid (manager keeper)]
      (ge/add-sup-handler pid [keeper :mine] [])
      (f pid)
      (receive [word handler why] [word handler (if (vector? why) (first why) why)] (after 20000 :late)))))

(deftest ^{:spec ["C98"]} who-supervises-a-handler-hears-how-it-ended
  (let [mine ['keeper :mine]]
    (doseq [[f why] {#(ge/delete-handler % mine :bye) :normal
                     #(ge/notify % (fn [_] :remove-handler)) :normal
                     #(ge/call % mine (fn [_] [:remove-handler :x])) :normal
                     #(ge/call % mine (fn [_] :garbage)) :garbage
                     #(ge/call % mine boom) :EXIT
                     #(ge/swap-handler % mine :swap [keeper :new] :x) :swapped
                     #(ge/stop %) :shutdown}]
      (is (= [:gen-event-EXIT mine why] (heard f))))))

(deftest ^{:spec ["C98"]} the-link-goes-with-the-last-handler-that-the-process-supervises
  (actor/with-process {}
    (let [pid (manager)
          links #(actor/process-info pid :links)]
      (ge/add-sup-handler pid [keeper 1] [])
      (ge/add-sup-handler pid [keeper 2] [])
      (ge/delete-handler pid [keeper 1] nil)
      (is (= [(self)] (links)))
      (ge/delete-handler pid [keeper 2] nil)
      (is (= [] (links)))
      (actor/flush)
      (ge/stop pid))))

(deftest ^{:spec ["C98"]} a-handler-ends-with-its-supervisor-and-one-that-was-swapped-in-too
  (let [pid (manager)
        owner (actor/spawn #(do (ge/add-sup-handler pid keeper [])
                                (ge/swap-handler pid keeper :swap [keeper :new] [])
                                (receive :never nil)))]
    (is (eventually (= [['keeper :new]] (ge/which-handlers pid))))
    (actor/exit owner :boom)
    (is (eventually (= [] (ge/which-handlers pid))))
    (is (actor/alive? pid))
    (ge/stop pid)))

(deftest a-handler-of-a-process-that-is-dead-does-not-stay
  (let [pid (manager)]
    (dotimes [_ 50]
      (let [p (actor/spawn #(ge/add-sup-handler pid keeper []))]
        (actor/exit p :kill)))
    (is (eventually (= [] (ge/which-handlers pid))))
    (ge/stop pid)))

(deftest swaps-say-what-came-of-them
  (let [pid (manager)
        bad (assoc keeper :name 'bad :init (fn [_] :nope))]
    (is (= :ok (ge/swap-handler pid :absent :x (assoc keeper :init (fn [[x left]] [:ok [x left]])) :y)))
    (is (= [:y :error] (ge/call pid 'keeper :get)))
    (is (= [:error :nope] (ge/swap-handler pid keeper :x bad :y)))
    (is (= [] (ge/which-handlers pid)))
    (ge/stop pid)))

(deftest calls-answer-also-where-there-is-nothing-to-ask
  (let [pid (manager keeper [(dissoc keeper :handle-call) :dumb])]
    (is (= [] (ge/call pid keeper :get)))
    (is (= [:error :bad-module] (ge/call pid :absent :get)))
    (is (= [:error :no-handle-call] (ge/call pid [keeper :dumb] :get)))
    (is (= [:error :garbage] (ge/call pid keeper (fn [_] :garbage))))
    (is (= [['keeper :dumb]] (ge/which-handlers pid)))
    (is (= [:reply [:error :bad-module]] (actor/with-process {} (gs/receive-response (ge/send-request pid keeper :get)))))
    (is (= [:error [:unknown-call [:hello]]] (gs/call pid :hello)))
    (ge/stop pid)))

(deftest a-call-of-no-manager-throws-and-a-notify-does-not
  (let [e (try (ge/call ::nobody keeper :get) (catch ExceptionInfo e (ex-data e)))]
    (is (= [:noproc 'magnetar.gen-event :call] (into [(:reason e)] (pop (:call e))))))
  (is (= :ok (ge/notify ::nobody :x))))

(deftest what-is-no-handler-is-refused-before-the-manager-hears-of-it
  (let [pid (manager)]
    (doseq [[handler reason] {"text" :magnetar/bad-handler
                              nil :magnetar/bad-handler
                              [:a :b] :magnetar/bad-handler
                              {} :magnetar/missing-callback
                              (dissoc keeper :handle-event) :magnetar/missing-callback
                              (assoc keeper :handel-inof 1) :magnetar/unknown-callback
                              'no.such.namespace-at-all :magnetar/no-such-callback-module}]
      (is (= reason (first (processes/misuse #(ge/add-handler pid handler []))))))
    (is (= :magnetar/unknown-option (first (processes/misuse #(ge/start {:nmae :x})))))
    (is (= [] (ge/which-handlers pid)))
    (ge/stop pid)))

(deftest a-handler-that-swaps-in-what-is-none-is-removed
  (let [pid (manager keeper)]
    (ge/sync-notify pid (fn [s] [:swap-handler :x s "text" :y]))
    (is (= [] (ge/which-handlers pid)))
    (is (= :magnetar/bad-handler (get-in @reports [0 :reason 1 0 :data :magnetar/reason])))
    (ge/stop pid)))

(deftest a-message-that-no-handler-wants-is-reported-once
  (let [pid (manager keeper [keeper 2])]
    (! pid :hello)
    (is (eventually (= [:unexpected-message] (map :event @reports))))
    (ge/stop pid)))

(deftest ^{:spec ["C99"]} sys-works-on-managers
  (let [pid (manager [(assoc keeper :code-change (fn [old s extra] [:ok [old s extra]])
                             :format-status (fn [status] (assoc status :state :hidden))) 1])]
    (is (= [[['keeper 1] []]] (sys/get-state pid)))
    (is (= [[['keeper 1] [:new]]] (sys/replace-state pid (fn [[known-by _]] [known-by [:new]]))))
    (is (thrown-with-msg? ExceptionInfo #"The function of replace-state returned :x" (sys/replace-state pid (fn [_] :x))))
    (is (= [[['keeper 1] :hidden]] (:state (sys/get-status pid))))
    (sys/suspend pid)
    (ge/notify pid :late)
    (is (= :ok (sys/change-code pid :v1 :extra)))
    (is (= [[['keeper 1] [:v1 [:new] :extra]]] (sys/get-state pid)))
    (sys/statistics pid true)
    (sys/resume pid)
    (ge/sync-notify pid :x)
    (is (= 2 (:messages-in (second (sys/statistics pid :get)))))
    (ge/stop pid)))

(deftest a-manager-at-rest-goes-on-with-its-handlers
  (let [[_ pid] (ge/start {:hosting :activated :name ::resting})]
    (ge/add-handler pid keeper [])
    (ge/notify ::resting :x)
    (is (= [:x] (ge/call ::resting keeper :get)))
    (ge/stop pid)))

(deftest handlers-may-leave-early-and-be-there-twice
  (let [pid (manager keeper keeper)]
    (is (= ['keeper 'keeper] (ge/which-handlers pid)))
    (ge/sync-notify pid (fn [_] (ge/return :remove-handler)))
    (is (= [] (ge/which-handlers pid)))
    (is (str/includes? (str (ge/delete-handler pid keeper nil)) "module-not-found"))
    (ge/stop pid)))
