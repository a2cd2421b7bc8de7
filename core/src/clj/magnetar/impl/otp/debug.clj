(ns magnetar.impl.otp.debug
  "What every process of OTP answers to `magnetar.sys`: messages [:magnetar/system from request]."
  {:no-doc true}
  (:require
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.actor.receive :refer [receive]]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.environment :as environment]
   [magnetar.impl.otp.erlang :as erlang]
   [magnetar.impl.otp.reply :refer [reply]]
   [magnetar.impl.runtime]
   [magnetar.impl.versions :as versions])
  (:import
   (magnetar.impl.otp.erlang Asked)
   (magnetar.kernel.process Hosting LocalProcess)))

(set! *warn-on-reflection* true)

(defn- attempt
  "[:ok value of f], or [:error reason] if it throws and the process has not to exit."
  [f]
  (try
    [:ok (f)]
    (catch Throwable t
      (if (and (.isAlive (.pid (LocalProcess/current))) (not (Hosting/isContinue t)))
        [:error (codec/reason t)]
        (throw t)))))

;; ---- debugging: nil, or a map of what is on

(def ^:private most-logged 10)

(defn- count-event [statistics [kind]]
  (case kind
    :in (update statistics :messages-in inc)
    :out (update statistics :messages-out inc)
    statistics))

(defn- log-event [{:keys [size events]} event]
  (let [events (conj events event)]
    {:size size :events (if (< (long size) (count events)) (pop events) events)}))

(defn- show [who event]
  (println "*DBG*" (codec/text who) (codec/text event)))

(defn- tell-installed [installed who event]
  (reduce-kv (fn [left id [f state]]
               (let [[how next] (attempt #(f state event who))]
                 (if (or (= :error how) (= :done next)) (dissoc left id) (assoc left id [f next]))))
             installed installed))

(defn note
  "The debugging after an event of the process: [:in message], [:out value to] or [:noreply state]."
  [debug who event]
  (when (:trace debug)
    (show who event))
  (cond-> debug
    (:statistics debug) (update :statistics count-event event)
    (:log debug) (update :log log-event event)
    (:installed debug) (update :installed tell-installed who event)))

(defn- slim [debug]
  (not-empty (into {} (remove (comp empty? #(if (boolean? %) [%] %) val)) debug)))

(defn- statistics [debug what]
  (case what
    true [:ok (assoc debug :statistics {:start-time (environment/date) :messages-in 0 :messages-out 0})]
    false [:ok (dissoc debug :statistics)]
    :get [[:ok (if-some [known (:statistics debug)] (assoc known :current-time (environment/date)) :no-statistics)] debug]
    nil))

(defn switch?
  "May the debugging :statistics, :trace or :log be set to this?"
  [word x]
  (case word
    (:trace :statistics) (boolean? x)
    :log (or (boolean? x) (pos-int? x))
    false))

(defn- log [debug what]
  (cond
    (= :get what) [[:ok (vec (get-in debug [:log :events]))] debug]
    (false? what) [:ok (dissoc debug :log)]
    (switch? :log what) [:ok (assoc debug :log {:size (if (true? what) most-logged what) :events clojure.lang.PersistentQueue/EMPTY})]))

(defn- set-debug
  "[answer debugging] of a request about debugging; nil if it is no such request, or a malformed one of another node."
  [debug [word a b c]]
  (case word
    :statistics (statistics debug a)
    :log (log debug a)
    :trace [:ok (if a (assoc debug :trace true) (dissoc debug :trace))]
    :install [:ok (assoc-in debug [:installed a] [b c])]
    :remove [:ok (update debug :installed dissoc a)]
    :no-debug [:ok nil]
    nil))

(defn- debug-option? [option]
  (let [[word x :as whole] (if (vector? option) option [option true])]
    (or (switch? word x) (and (= :install word) (= 4 (count whole)) (ifn? (nth whole 2))))))

(defn check-debug
  "Refuses what cannot be the option :debug."
  [options]
  (when-not (and (or (nil? options) (sequential? options) (set? options)) (every? debug-option? options))
    (arguments/misuse :magnetar/bad-debug
                      (str "The :debug of a server is a list of :trace, :statistics, :log and [:log n]; this is " (arguments/show options) ".")
                      {:debug options})))

(defn start-debug
  "The debugging that a process begins with, from its option :debug."
  [options]
  (when (seq options)
    (slim (reduce (fn [debug option]
                    (second (set-debug debug (if (vector? option) option [option true]))))
                  nil options))))

;; ---- requests

(defn- tell
  "Answers a request of this library, or one of Erlang in its words."
  [from value]
  (if (instance? Asked from)
    (reply (.-from ^Asked from) (erlang/answer (.-word ^Asked from) value))
    (reply from value)))

(defn- unknown [request]
  [:error [:unknown-system-msg (codec/plain request)]])

(defn- on-state
  "[answer state] of a request about the state."
  [{:keys [state-of replaced]} state [word f :as request]]
  (case word
    :get-state [[:ok (state-of state)] state]
    :replace-state (let [[how new :as outcome] (attempt #(replaced state f))]
                     (if (= :ok how) [[:ok (state-of new)] new] [outcome state]))
    :refused [f state]
    [(unknown request) state]))

(defn- seen-by
  "The view as the process that asks sees it: a state may have a form of its own in Erlang."
  [{:keys [state-in-erlang] :as view} from]
  (cond-> view
    (and state-in-erlang (instance? Asked from)) (assoc :state-of state-in-erlang)))

(defn- change-code [{:keys [change-code]} state [_ old extra]]
  (let [[how new :as outcome] (attempt #(change-code state old extra))]
    (if (= :ok how)
      (do (versions/renew) [:ok new])
      [outcome state])))

(defn- put-back
  "The state before the changes of code since the process was told to suspend, the last time."
  [state [before :as changed]]
  (if changed
    (let [[state versions] before]
      (versions/put-back versions)
      state)
    state))

(defn- before-change
  "What has to be kept to take the changes of code back: the state and its versions, in a vector."
  [state changed]
  (or changed [[state (versions/served-by (LocalProcess/current))]]))

(declare suspended)

(defn handle
  "Does what a system message asks, in the words of this library; returns [state debugging] to go on with, once it is not suspended any more.

  The view of a process is a map: :who, :parent, and functions :state-of, :replaced, :change-code, :status and :terminate, which does not
  return. With :state-in-erlang, a function as well, a process of Erlang gets what that returns of the state."
  [{:keys [status terminate] :as view} state debug from [word x :as request]]
  (if-some [[answer debug] (set-debug debug request)]
    (do (tell from answer) [state (slim debug)])
    (case word
      :suspend (do (tell from :ok) (suspended view state debug))
      :resume (do (tell from :ok) [state debug])
      :terminate (do (tell from :ok) (terminate state x))
      :get-status (do (tell from (status state debug :running)) [state debug])
      (let [[answer state] (on-state (seen-by view from) state request)]
        (tell from answer)
        [state debug]))))

(defn- changed-code
  "[state changed] after a change of code that a suspended process was asked for."
  [view state changed from request]
  (let [kept (before-change state changed)
        [answer state] (change-code view state request)]
    (tell from answer)
    [state (if (= :ok answer) kept changed)]))

(defn- while-suspended
  "[state debugging changed], and a fourth item if the process is not suspended any more."
  [{:keys [status] :as view} state debug changed from [word :as request]]
  (case word
    :resume (do (tell from :ok) [state debug changed :resumed])
    ;; A process that suspends it again undoes later changes only, and not the changes of another process before.
    :suspend (do (tell from :ok) [state debug nil])
    :get-status (do (tell from (status state debug :suspended)) [state debug changed])
    :change-code (let [[state changed] (changed-code view state changed from request)]
                   [state debug changed])
    :undo-change (let [state (put-back state changed)]
                   (tell from :ok)
                   [state debug nil])
    (let [[state debug] (handle view state debug from request)]
      [state debug changed])))

(defn- suspended [{:keys [parent terminate] :as view} state debug]
  (loop [state state debug debug changed nil]
    (receive
      [:magnetar/system from request] (let [[from request] (erlang/own from request)
                                            [state debug changed resumed] (while-suspended view state debug changed from request)]
                                        (if resumed
                                          [state debug]
                                          (recur state debug changed)))
      [:EXIT parent why] (terminate state why))))
