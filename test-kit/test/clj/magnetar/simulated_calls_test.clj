(ns magnetar.simulated-calls-test
  "Calls under the simulator, against a model, in both hostings. JAVA_OPTS=-Dmagnetar.runs=N for more runs."
  (:require
   [clojure.set :as set]
   [clojure.test :refer [deftest is testing use-fixtures]]
   [magnetar.actor :as actor :refer [after receive]]
   [magnetar.calls :as calls]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.seeded-bugs :as seeded-bugs]
   [magnetar.scope :as scope]
   [magnetar.test :as mt])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(use-fixtures :once seeded-bugs/without-reports)

(def ^:private runs (Long/getLong "magnetar.runs" 60))

(defmacro ^:private holds [options program]
  `(doseq [hosting# [:threaded :activated]]
     (testing hosting#
       (is (:passed (mt/check* (merge {:runs runs :properties [:no-leaked-fiber :every-call-answered]} ~options)
                               #(calls/program (assoc ~program :hosting hosting#))))))))

(deftest each-call-ends-once-in-its-answer-its-timeout-or-the-reason-of-an-end
  (holds {} {:clients 3 :strikes 3}))

(deftest so-it-does-when-servers-workers-and-clients-are-killed-at-any-step
  (holds {:faults #{:kill} :fault-rate 0.01 :victims #(re-find #"server|worker|client" %)} {:faults true}))

(deftest so-it-does-when-timers-come-early-and-late
  (holds {:faults #{:early-timers :late-timers} :properties [:every-call-answered]} {:exact false}))

(defn- one-call
  "A call of a server that is killed some time: what became of it, and what is received later."
  [hosting]
  (actor/with-process {}
    (let [[_ server] (gs/start {:init (fn [_] [:ok nil]), :handle-call (fn [_ _ s] [:reply :answer s]), :handle-cast (fn [_ s] [:noreply s])}
                               nil {:hosting hosting})]
      (actor/spawn #(actor/exit server :kill))
      [(try (gs/call server :question {:timeout 5}) (catch clojure.lang.ExceptionInfo e (:reason (ex-data e))))
       (receive x x (after 10 :nothing))])))

(deftest every-schedule-of-one-call-and-a-kill-with-one-preemption-is-right
  (doseq [hosting [:threaded :activated]]
    (testing hosting
      (let [seen (atom #{})
            found (mt/check {:runs 20000 :strategy :exhaustive :preemptions 1}
                    (let [[answer more] (one-call hosting)]
                      (swap! seen conj answer)
                      (and (contains? #{:answer :killed :noproc} answer) (= :nothing more))))]
        (is (:exhausted found))
        (is (set/subset? #{:answer :killed} @seen))))))

(defn- delegated
  "The values of two calls: a calls b, which gives the call away to a worker, and is asked to call a meanwhile."
  []
  (actor/with-process {}
    (let [server #(second (gs/start {:init (fn [_] [:ok nil]), :handle-call (fn [work from s] (work from s)), :handle-cast (fn [_ s] [:noreply s])} nil))
          a (server)
          b (server)
          me (actor/self)
          given-away (fn [from s]
                       (let [worker (actor/spawn #(receive :go (gs/reply from :by-worker)))]
                         (actor/! me [:worker worker])
                         [:noreply s]))
          fine (fn [_ s] [:reply :fine s])
          asks (fn [pid work] (fn [_ s] [:reply (gs/call pid work) s]))
          calls (fn [tag pid work] (actor/spawn #(actor/! me [tag (try (gs/call pid work) (catch Exception e (ex-message e)))])))]
      (calls :a a (asks b given-away))
      (receive [:worker worker]
        (do (calls :b b (asks a fine))
            (actor/! worker :go)))
      [(receive [:a x] x) (receive [:b x] x)])))

(deftest a-call-that-was-given-away-is-no-part-of-a-cycle
  (is (:passed (mt/check* {:runs (* 5 runs)} #(= [:by-worker :fine] (delegated))))))

(defn- goes-on?
  "Does a process that was killed go on with the answer that had come before?"
  []
  (actor/with-process {}
    (let [went-on (atom false)
          answers-and-kills (fn [_ [caller :as from] s]
                              (gs/reply from :answer)
                              (actor/exit caller :kill)
                              [:noreply s])
          [_ server] (gs/start {:init (fn [_] [:ok nil]), :handle-call answers-and-kills, :handle-cast (fn [_ s] [:noreply s])} nil)
          caller (actor/spawn (fn []
                                (let [^Pid me (actor/self)]
                                  (gs/call server :question)
                                  (when (.ended me)
                                    (reset! went-on true)))))]
      (mt/await-down caller)
      (scope/sleep 10)
      @went-on)))

(deftest who-was-killed-does-not-go-on-with-an-answer-that-had-come-before
  (is (:passed (mt/check* {:runs (* 5 runs)} #(not (goes-on?))))))

;; --- controls: fault points

(def ^:private defects
  ["LATE_ANSWER_COMES"
   "SECOND_ANSWER_COMES"
   "ANY_MESSAGE_IS_THE_ANSWER"
   "CALL_WAITS_TOO_LONG"])

(deftest a-call-that-was-given-away-is-taken-for-a-part-of-a-cycle-by-who-does-not-look-whether-it-is-owed
  (is (seeded-bugs/found "CALL_GIVEN_AWAY_IS_OWED" 500
        #(let [values (delegated)]
           (when (not= [:by-worker :fine] values)
             (throw (ex-info "Another value." {:flaws [values]})))))))

(deftest a-defect-planted-in-calls-is-found
  (doseq [defect defects]
    (testing defect
      (is (seeded-bugs/found defect 200 #(calls/program {:clients 3 :calls 4}))))))

(deftest the-same-programs-find-nothing-in-the-sound-code
  (is (not (seeded-bugs/found {} 50 #(calls/program {:clients 3 :calls 4})))))

