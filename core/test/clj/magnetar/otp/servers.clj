(ns magnetar.otp.servers
  "Servers and supervisors that the scenarios of OTP are made of."
  (:require
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.supervisor :as sup])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

;; ---- servers that do what they are told

(defn tell
  "Sends to whom this server was told to tell."
  [message]
  (when-some [to (actor/pget :to)]
    (! to message)))

(def scripted
  "A callback module whose requests are functions: of the caller and the state for a call, else of the state. What befalls it, it tells."
  {:name 'scripted
   :init (fn [f] (f))
   :handle-call (fn [request from s] (if (= :get request) [:reply s s] (request from s)))
   :handle-cast (fn [f s] (f s))
   :handle-info (fn [message s] (if (fn? message) (message s) (do (tell [:info message]) [:noreply s])))
   :handle-continue (fn [x s] (tell [:continue x]) [:noreply s])
   :terminate (fn [why _] (tell [:terminate why]))
   :code-change (fn [old s extra] [:ok [:changed old s extra]])})

(defn server
  "A server with the state, linked to this process, which it tells what befalls it."
  ([state] (server state nil))
  ([state options]
   (let [me (self)]
     (second (gs/start-link scripted (fn [] (actor/pput :to me) [:ok state]) options)))))

(defn lone
  "Like `server`, without a link."
  ([state] (lone state nil))
  ([state options]
   (let [me (self)]
     (second (gs/start scripted (fn [] (actor/pput :to me) [:ok state]) options)))))

(defn tells
  "The next message."
  []
  (receive message message (after 20000 :late)))

(defn reason-of-end
  "The reason for which the process ends when f has been called."
  [pid f]
  (let [ref (actor/monitor pid)]
    (f)
    (receive [:DOWN ref :process _ why] why (after 20000 :late))))

(defn failure
  "The reason of the call that f is."
  [f]
  (try
    [:value (f)]
    (catch ExceptionInfo e
      (:reason (ex-data e)))))

(defn head
  "The first of a vector, what else it is."
  [x]
  (if (vector? x) (first x) x))

(defn messages-of-errors
  "An exit reason that is what an error says, as [message :stack]."
  [[{:keys [message]} frames]]
  [(keyword message) (when (every? string? frames) :stack)])

;; ---- children

(def kid
  "A child that tells when it starts and stops."
  {:name 'kid
   :init (fn [{:keys [id to traps] :as s}]
           (actor/flag :trap-exit (not (false? traps)))
           (when to (! to [:started id]))
           [:ok s])
   :handle-call (fn [f _ s] [:reply (if (fn? f) (f) s) s])
   :handle-cast (fn [[_ why] s] [:stop why (dissoc s :to)])
   :terminate (fn [why {:keys [id to]}] (when to (! to [:stopping id why])))})

(defn child
  "The spec of a child that tells this process."
  ([id] (child id nil))
  ([id more]
   (merge {:id id :start [gs/start-link kid (merge {:id id :to (self)} (:state more))]} (dissoc more :state))))

(defn quiet
  "The spec of a child that sends no message."
  ([id] (quiet id nil))
  ([id more]
   (merge {:id id :start [gs/start-link kid {:id id}]} more)))

(defn supervisor
  "A supervisor, linked to this process, which traps exits from now on; what the children told is forgotten."
  [spec]
  (actor/flag :trap-exit true)
  (let [[how pid :as outcome] (sup/start-link spec)]
    (actor/flush)
    (if (= :ok how) pid outcome)))

(defn thrown
  "[:thrown reason] if the start of a supervisor with the spec is refused in the caller, the reason being what a process would end for."
  [spec]
  (try
    (supervisor spec)
    (catch IllegalArgumentException e
      [:thrown (:magnetar/exit (ex-data e))])))

(defn view
  "The children as [id :up], or what they are instead."
  [s]
  (mapv (fn [{:keys [id pid]}] [id (if (or (nil? pid) (keyword? pid)) pid :up)]) (sup/which-children s)))

(defn pid-of
  "The pid of a child."
  [s id]
  (some #(when (= id (:id %)) (:pid %)) (sup/which-children s)))

(defn- present? [s pid]
  (try
    (some #{pid} (map :pid (sup/which-children s)))
    (catch ExceptionInfo _ false)))

(defn- settle
  "Waits until the supervisor knows that this child has ended."
  [s pid]
  (while (present? s pid)))

(defn end
  "Lets a child end for the reason, and waits until its supervisor has acted on it."
  [s id why]
  (let [pid (pid-of s id)]
    (reason-of-end pid #(gs/cast pid [:end why]))
    (settle s pid)))

(defn crash
  "Kills a child without a word of it, and waits until its supervisor has acted on it."
  [s id]
  (let [pid (pid-of s id)]
    (actor/exit pid :kill)
    (settle s pid)))

(defn state-of
  "Is the supervisor :up, or for what reason has it ended?"
  [s]
  (if (actor/alive? s)
    :up
    (receive [:EXIT s why] why (after 20000 :late))))

(defn told
  "What the children have told so far."
  []
  (filterv #(#{:started :stopping} (head %)) (actor/flush)))

(defn reports
  "The events that were reported since the scenario began."
  []
  @scenarios/reports)
