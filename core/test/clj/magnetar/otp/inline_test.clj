(ns magnetar.otp.inline-test
  "Calls that are served on the thread of the caller, and those that must not be."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self]]
   [magnetar.actor-support :as processes]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.scope :as scope]
   [magnetar.scope.context :refer [defcontext with-context]]
   [magnetar.support :refer [eventually value-of]]
   [magnetar.sys :as sys])
  (:import
   (magnetar.kernel.process Inline LocalProcess Processes)))

(set! *warn-on-reflection* true)

(def ^:private script
  {:init (fn [s] [:ok s])
   :handle-call (fn [f from s] (f from s))
   :handle-cast (fn [f s] (f s))})

(defn- server
  ([] (server nil))
  ([options]
   (second (gs/start script :st (merge {:hosting :activated :inline-calls true} options)))))

(defn- ready? [pid]
  (eventually (Inline/rests pid)))

(defn- as-process
  "What f returns in a process of its own, or the reason that it died for."
  [f]
  (let [boss (self)
        [pid ref] (actor/spawn-monitor (fn [] (! boss [(self) (f)])))]
    (receive [pid value] (do (actor/demonitor ref {:flush true}) value)
             [:DOWN ref :process _ why] [:died why])))

(defn- in-process [f]
  (actor/with-process* {} #(as-process f)))

(defn- failure-of [f]
  (try (f) nil (catch Exception e e)))

(defn- where [_ s]
  [:reply (Thread/currentThread) s])

(defn- inline?
  "Was the call served on this thread?"
  ([pid] (inline? pid nil))
  ([pid options]
   (= (Thread/currentThread) (gs/call pid where options))))

;; ---- as the server

(def ^:dynamic *mine* :root)

(defcontext tenant :nobody)

(deftest ^{:spec ["C85" "C86"]}
  a-call-of-a-server-at-rest-is-served-on-the-thread-of-the-caller-as-the-server
  (let [pid (with-context [tenant :acme] (binding [*mine* :bound] (server)))
        who (fn [_ s] (actor/pput :served true) [:reply [(self) *mine* @tenant (actor/pget :served)] s])]
    (is (ready? pid))
    (is (in-process #(inline? pid)))
    (is (= [pid :bound :acme true] (in-process #(with-context [tenant :mine] (binding [*mine* :mine] (gs/call pid who))))))
    (is (= [true nil :mine] (in-process #(binding [*mine* :mine]
                                           (let [me (self)]
                                             (gs/call pid who)
                                             [(= me (self)) (actor/pget :served) *mine*])))))
    (testing "and the answer, nil too, is the one that came back"
      (is (nil? (in-process #(gs/call pid (fn [_ s] [:reply nil s])))))
      (is (= [:st :new] (in-process #(vector (gs/call pid (fn [_ s] [:reply s :new])) (sys/get-state pid))))))
    (gs/stop pid)))

(deftest a-server-says-which-requests-do-not-block
  (let [pid (second (gs/start {:init (fn [_] [:ok nil])
                               :handle-call (fn [_ _ s] [:reply (Thread/currentThread) s])
                               :handle-cast (fn [_ s] [:noreply s])}
                              nil {:hosting :activated :inline-calls #{:get}}))
        served-here? (fn [request] (= (Thread/currentThread) (gs/call pid request)))]
    (is (ready? pid))
    (is (in-process #(served-here? :get)))
    (is (not (in-process #(served-here? :put))))
    (gs/stop pid)))

;; ---- what is refused goes the ordinary way

(deftest ^{:spec ["C85"]}
  inline-calls-are-off-unless-they-are-asked-for
  (doseq [options [{:inline-calls false} {:inline-calls nil} {:inline-calls (constantly false)} {:inline-calls (fn [_] (throw (ex-info "no" {})))}]]
    (let [pid (server options)]
      (is (not (in-process #(inline? pid))))
      (gs/stop pid))))

(deftest inline-calls-want-a-server-that-rests
  (is (= "Only a server that rests serves calls inline: give it {:hosting :activated} beside its :inline-calls."
         (ex-message (failure-of #(gs/start script :st {:inline-calls true})))))
  (is (= "The :inline-calls of a server are true or a function of the request, as in {:inline-calls #{:get}}; this is \"yes\"."
         (ex-message (failure-of #(gs/start script :st {:hosting :activated :inline-calls "yes"}))))))

(defn- refused-in
  "Is a call of a server that is ready served elsewhere, if it is done as f does it?"
  [f]
  (let [pid (server)]
    (is (ready? pid))
    (let [[here there] (f pid)]
      (gs/stop pid)
      (and (instance? Thread there) (not= here there)))))

(defn- called
  ([pid] (called pid nil))
  ([pid options] [(Thread/currentThread) (gs/call pid where options)]))

(deftest ^{:spec ["C85"]}
  a-call-that-must-not-be-served-inline-is-a-call-as-any-other
  (testing "from a platform thread"
    (is (refused-in #(actor/with-process* {} (fn [] (called %))))))
  (testing "with a time that the handler might exceed"
    (is (refused-in #(in-process (fn [] (called % {:timeout 900})))))
    (is (refused-in #(in-process (fn [] (scope/with-scope [_ {:deadline 900}] (called %)))))))
  (testing "in a shield, and in a fork"
    (is (refused-in #(in-process (fn [] (scope/shield (called %))))))
    (is (refused-in #(in-process (fn [] (scope/with-scope [s] @(scope/fork s (fn [] (called %)))))))))
  (testing "of a server that is watched"
    (is (refused-in #(do (sys/statistics % true) (ready? %) (in-process (fn [] (called %)))))))
  (testing "more time, and a scope without a deadline, are no obstacle"
    (is (not (refused-in #(in-process (fn [] (called % {:timeout :infinity}))))))
    (is (not (refused-in #(in-process (fn [] (scope/with-scope [_] (called %)))))))))

(deftest a-server-with-a-message-is-not-served-inline
  (let [pid (server)
        gate (promise)]
    (is (ready? pid))
    (gs/cast pid (fn [_] @gate [:noreply :after-the-cast]))
    (let [answer (future (in-process #(gs/call pid (fn [_ s] [:reply s s]))))]
      (is (eventually (pos? (.messages (.info ^LocalProcess (Processes/processOf pid))))))
      (deliver gate true)
      (is (= :after-the-cast (value-of answer))))
    (gs/stop pid)))

(deftest who-finds-a-server-lent-for-long-sends-as-to-any-other
  (let [pid (server)
        lent (promise)
        gate (promise)
        answer #(future (in-process (fn [] (gs/call pid %))))]
    (is (ready? pid))
    (let [first-answer (answer (fn [_ s] (deliver lent true) @gate [:reply s :changed]))]
      (is (value-of lent))
      (let [second-answer (answer (fn [_ s] [:reply s s]))]
        (is (eventually (pos? (.messages (.info ^LocalProcess (Processes/processOf pid))))))
        (deliver gate true)
        (is (= [:st :changed] [(value-of first-answer) (value-of second-answer)]))))
    (gs/stop pid)))

(deftest servers-serve-each-other-eight-deep
  (let [chain (vec (repeatedly 12 server))
        threads (fn threads [[pid & more]]
                  (gs/call pid (fn [_ s] [:reply (cons (Thread/currentThread) (when more (threads more))) s])))]
    (is (every? ready? chain))
    (let [[me & seen] (in-process #(cons (Thread/currentThread) (threads chain)))]
      (is (= 12 (count seen)))
      (is (= (repeat 8 me) (take 8 seen)))
      (is (not= me (nth seen 8))))
    (run! gs/stop chain)))

;; ---- answers that are not at once

(deftest what-a-handler-returns-inline-is-what-it-means-elsewhere
  (let [before (proc-lib/set-report-hook (fn [_]))
        outcome (fn [f]
                  (let [pid (server)]
                    (is (ready? pid))
                    (in-process #(try (gs/call pid f)
                                      (catch clojure.lang.ExceptionInfo e (:reason (ex-data e)))))))]
    (is (= :later (outcome (fn [from s] (actor/spawn gs/reply from :later) [:noreply s]))))
    (is (= :early (outcome (fn [from s] (gs/reply from :early) [:noreply s]))))
    (is (= :first (outcome (fn [from s] (gs/reply from :first) [:reply :second s]))))
    (is (= :thrown (outcome (fn [_ s] (gs/return [:reply :thrown s])))))
    (is (= :bye (outcome (fn [_ s] [:stop :done :bye s]))))
    (is (= :done (outcome (fn [_ s] [:stop :done s]))))
    (is (= :out (outcome (fn [_ _] (actor/exit :out)))))
    (is (= :bad-return-value (first (outcome (fn [_ _] :nonsense)))))
    (is (= "boom" (re-find #"boom" (str (outcome (fn [_ _] (throw (ex-info "boom" {}))))))))
    (is (= :hm (outcome (fn [_ s] [:reply :hm s :hibernate]))))
    (proc-lib/set-report-hook before)))

(deftest a-server-that-calls-itself-inline-is-told-so
  (let [pid (server)]
    (is (ready? pid))
    (is (= :calling-self (in-process #(gs/call pid (fn [_ s] [:reply (:reason (ex-data (failure-of (fn [] (gs/call pid :x))))) s])))))
    (gs/stop pid)))

(deftest a-cycle-is-told-though-its-first-call-is-served-inline
  (let [a (server {:inline-calls nil})
        b (server)]
    (is (ready? b))
    (is (= :call-cycle
           (gs/call a (fn [_ s]
                        [:reply (gs/call b (fn [_ t] [:reply (first (:reason (ex-data (failure-of #(gs/call a where))))) t])) s]))))
    (run! gs/stop [a b])))

;; ---- deaths in the middle

(defn- half-way
  "A handler that moves the state in two steps, and says when it is between them, and waits there."
  [at go]
  (fn [_ s]
    (let [half (conj s :debit)]
      (deliver at (Thread/currentThread))
      (while (not (realized? go)) (Thread/onSpinWait))
      [:reply :moved (conj half :credit (Thread/interrupted))])))

(deftest ^{:spec ["C86"]}
  who-is-killed-while-served-leaves-the-work-to-its-end
  (doseq [signal [:kill :boom]]
    (let [pid (second (gs/start script [] {:hosting :activated :inline-calls true}))
          [at go] (repeatedly promise)
          _ (is (ready? pid))
          after (atom nil)
          caller (actor/spawn #(do (gs/call pid (half-way at go)) (receive :never nil) (reset! after :survived)))]
      (is (.isVirtual ^Thread (value-of at)))
      (actor/exit caller signal)
      (is (not (actor/alive? caller)))
      (deliver go true)
      (is (= [:debit :credit false] (gs/call pid (fn [_ s] [:reply s s]))))
      (is (= ({:kill :killed} signal signal) (processes/reason caller)))
      (is (nil? @after))
      (gs/stop pid))))

(deftest who-is-served-by-one-that-dies-learns-why
  (let [before (proc-lib/set-report-hook (fn [_]))]
    (doseq [[signal why] {:kill :killed, :boom :boom}]
      (let [pid (second (gs/start script [] {:hosting :activated :inline-calls true}))
            [at go] (repeatedly promise)
            _ (is (ready? pid))
            reason (future (in-process #(:reason (ex-data (failure-of (fn [] (gs/call pid (half-way at go))))))))]
        (value-of at)
        (actor/exit pid signal)
        (deliver go true)
        (is (= why (value-of reason)))
        (is (= why (processes/reason pid)))))
    (proc-lib/set-report-hook before)))

(deftest no-work-is-lost-or-done-twice-among-callers-casts-and-deaths
  (let [pid (second (gs/start script 0 {:hosting :activated :inline-calls true}))
        n 3000
        more (fn [_ s] [:reply :ok (inc (long s))])
        callers (doall (for [_ (range 3)] (actor/spawn #(dotimes [_ n] (gs/call pid more)))))
        caster (actor/spawn #(dotimes [_ n] (gs/cast pid (fn [s] [:noreply (inc (long s))]))))]
    (is (= [:normal :normal :normal :normal] (mapv processes/reason (conj (vec callers) caster))))
    (is (= (* 4 n) (gs/call pid (fn [_ s] [:reply s s]))))
    (gs/stop pid)))
