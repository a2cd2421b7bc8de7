(ns magnetar.otp.scenarios
  "The table of scenarios, and the configurations that run them: our processes, and a real `erl` or `elixir`.

  A scenario is a var named by its ID that holds a map:

    :id :says    the ID, and what has to happen
    :expect      what is observed, as data
    :ours        a function that does it with magnetar.actor and returns what it observed
    :erl         the body of an Erlang function that does the same; nil if it has no counterpart, with :no-erl, the reason
    :elixir      the body of an Elixir function that does the same, where it is about what Elixir has and Erlang has not
    :erl-expect  what Erlang shows, where it is not the same as :expect, with :differs, the reason"
  (:require
   [clojure.test :as t]
   [magnetar.actor :as actor :refer [! after receive]]
   [magnetar.impl.runtime]
   [magnetar.support :as support])
  (:import
   (magnetar TimeoutException)
   (magnetar.kernel.fiber Exit)
   (magnetar.kernel.process LocalProcess ProcessTable Send Zombie Zombies)))

(set! *warn-on-reflection* true)

;; ---- the scenarios with our processes

(defn- running
  "The pids of the processes whose threads run: those alive, and those killed that have not come to their end."
  []
  (into #{} (concat (map LocalProcess/.pid (ProcessTable/all)) (map Zombie/.pid (Zombies/all)))))

(defn- host [f]
  (fn []
    (try
      (actor/with-process {} (f))
      (catch Throwable e
        [:died (or (:reason (ex-data e)) (class e)) (ex-message e)]))))

(defn- ended?
  "Kills the processes; true if the list is empty."
  [pids]
  (run! #(Send/exit % :kill) pids)
  (empty? pids))

(defn leaving-nobody
  "Calls f, then kills the processes that it has left behind; returns its value.
  Their threads have ended when it returns: a process that dies may report until then."
  [f]
  (let [before (running)]
    (try
      (f)
      (finally (support/wait-until #(ended? (remove before (running))))))))

(def reports
  "The events of OTP since the scenario began."
  (atom []))

(defn- with-reports
  "Calls f with the reports of OTP going to `reports`."
  [f]
  (reset! reports [])
  (support/with-hook [:report #(swap! reports conj %)]
    (f)))

(defn observe
  "What the scenario shows with our processes, :late if nothing in time."
  [{:keys [ours]}]
  (support/with-failures [_]
    (with-reports
      #(leaving-nobody (fn [] (support/value-of (second (support/start-thread :virtual (host ours)))))))))

(defn check
  "Compares what the scenario shows with our processes with what it has to show, as a test."
  [{:keys [id says expect] :as scenario}]
  (t/testing (str id ": " says)
    (t/is (= expect (observe scenario)))))

(defmacro scenario
  "Defines a scenario and its test; its parts are forms, :ours the body of a function."
  [id says & {:keys [expect ours erl elixir no-erl differs] :as parts}]
  `(def ~(with-meta id {:otp (str id) :test `(fn [] (check @(var ~id)))})
     ~says
     ~(cond-> {:id (str id) :says says :expect expect :ours `(fn [] ~ours) :erl erl}
        elixir (assoc :elixir elixir)
        no-erl (assoc :no-erl no-erl)
        differs (assoc :differs differs)
        (contains? parts :erl-expect) (assoc :erl-expect (:erl-expect parts)))))

;; ---- the table

(def groups
  "The namespaces with the scenarios."
  '[magnetar.otp.spawn-test magnetar.otp.link-test magnetar.otp.monitor-test magnetar.otp.name-test magnetar.otp.receive-test
    magnetar.otp.order-test magnetar.otp.timer-test magnetar.otp.info-test magnetar.otp.proc-lib-test magnetar.otp.server-test
    magnetar.otp.supervisor-test magnetar.otp.strategy-test magnetar.otp.dynamic-test magnetar.otp.sys-test
    magnetar.otp.statem-test magnetar.otp.event-test magnetar.otp.registry-test magnetar.otp.task-test magnetar.otp.hot-test
    magnetar.otp.application-test])

(defn table
  "All scenarios, in the order of the files."
  []
  (run! require groups)
  (for [group groups
        v (sort-by (comp :line meta) (filter (comp :otp meta) (vals (ns-interns group))))]
    @v))

;; ---- what scenarios are made of

(defn reason-of
  "The reason for which a process ends that calls f."
  [f]
  (let [[pid ref] (actor/spawn-monitor f)]
    (receive [:DOWN ref :process pid why] why)))

(defn late
  "Returns the value of (f), or :late if it throws that no answer came in time."
  [f]
  (try
    (f)
    (catch TimeoutException _ :late)))

(defn idle
  "A process that waits, without an end and without taking a message."
  []
  (actor/spawn #(receive ::never nil)))

(defn dead
  "The pid of a process that was."
  []
  (let [pid (actor/spawn (fn []))]
    (actor/join pid)
    pid))

(defn trapper
  "A process that traps exits and tells `to` of each: [:trapped reason]. What else it gets it tells as [:got message]."
  [to]
  (actor/spawn-opt #(loop []
                      (receive
                        [:EXIT _ why] (! to [:trapped why])
                        message (! to [:got message]))
                      (recur))
                   {:trap-exit true}))

(defn waits?
  "Does the process wait for something?"
  [pid]
  (= :waiting (actor/process-info pid :status)))

(defn wait-for
  "True once f is true; in a process that has a message to take f may not wait."
  [f]
  (support/wait-until f))

(defn queued?
  "Has this process n messages?"
  [n]
  (= n (actor/process-info (actor/self) :message-queue-len)))

(defn- ended [pid]
  (try (actor/join pid) (catch clojure.lang.ExceptionInfo _)))

(defn through-death
  "Calls f, which ends the process, and waits until all who have to know of its end do."
  [pid f]
  (let [told (promise)
        observer (actor/spawn #(do (ended pid) (deliver told true)))]
    (wait-for #(waits? observer))
    (f)
    (support/value-of told)))

(defn observe-error
  "[:error what] of the misuse that f is, [:exit reason] of its exit, else [:ok value]."
  [f]
  (try
    [:ok (f)]
    (catch IllegalArgumentException e
      [:error (if (= :noproc (:magnetar/reason (ex-data e))) :noproc :badarg)])
    (catch Exit e
      [:exit (.reason e)])))

(defn pause
  "Lets so many milliseconds pass, in the way of processes; only where nothing has to happen meanwhile."
  [ms]
  (receive (after ms nil)))
