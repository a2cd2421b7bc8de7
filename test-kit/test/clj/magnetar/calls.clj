(ns magnetar.calls
  "Clients that call a server in all ways, and what may become of a call: an answer, a timeout or the reason of an end, once, and nothing later.

  The server is started again by a supervisor when it ends. What happens is written down with its time: the virtual one, which passes only when
  nobody can run."
  (:require
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.start :as start]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope]
   [magnetar.supervision :refer [below one-of]]
   [magnetar.supervisor :as sup])
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defn- ms [] (/ (clock/now) 1000000))

;; --- the server: each request is [kind x ms]

(defn- note [run key value]
  (vswap! run update key conj value))

(defn- answer [run from x]
  (note run :answers [x (ms)])
  (gs/reply from [:answer x]))

(defn- work
  "Answers after a time, in a process of its own."
  [run from x time]
  (start/spawn-opt "worker" "worker" {} #(do (scope/sleep time) (answer run from x)) nil))

(defn- handle [run [kind x time] from]
  (note run :handled x)
  (case kind
    :now (do (note run :answers [x (ms)]) [:reply [:answer x] nil])
    :slow (do (scope/sleep time) (note run :answers [x (ms)]) [:reply [:answer x] nil])
    :worker (do (work run from x time) [:noreply nil])
    :twice (do (answer run from x) [:reply [:second x] nil])
    :never [:noreply nil]
    :stop (do (note run :answers [x (ms)]) [:stop :asked [:answer x] nil])
    :crash [:stop [:crashed x] nil]))

(defn- behaviour [run]
  {:name 'server
   :init (fn [_]
           (note run :servers (self))
           (! (:coroner @run) [:watch (self)])
           [:ok nil])
   :handle-call (fn [request from _] (handle run request from))
   :handle-cast (fn [_ s] [:noreply s])})

;; --- who ended when, and why

(defn- coroner [run]
  (loop []
    (receive
      [:watch pid] (actor/monitor pid)
      [:all-told pid] (! pid :all-told)
      [:DOWN _ _ pid _] (note run :deaths [(.reason (.ended ^Pid pid)) (ms)]))
    (recur)))

;; --- clients

(defn- outcome-of-call [request timeout]
  (try
    [:reply (gs/call :server request {:timeout timeout})]
    (catch clojure.lang.ExceptionInfo e
      (let [{:keys [reason]} (ex-data e)]
        (if (= :timeout reason) [:timeout] [:exit reason])))))

(defn- outcome-of-request [request timeout]
  (let [sent (gs/send-request :server request)
        early (gs/wait-response sent {:timeout timeout :else :timeout})
        [how x] (if (= :timeout early) (gs/receive-response sent {:timeout timeout :else [:timeout]}) early)]
    (case how
      :reply [:reply x]
      :error [:exit (first x)]
      [:timeout])))

(defn- outcome-of-multi-call [request timeout]
  (let [[[[_ x :as answered]]] (gs/multi-call [(actor/node)] :server request {:timeout timeout})]
    (if answered [:reply x] [:none])))

(defn- ask [run x kinds]
  (let [way (one-of :call :call :request :multi)
        kind (apply one-of kinds)
        timeout (one-of 0 1 5 30 :infinity)
        request [kind x (one-of 0 1 5 40)]
        from (ms)
        outcome (case way
                  :call (outcome-of-call request timeout)
                  :request (outcome-of-request request timeout)
                  :multi (outcome-of-multi-call request timeout))]
    (note run :calls {:x x :kind kind :way way :from from :to (ms) :outcome outcome
                      :timeout (if (and (= :request way) (int? timeout)) (* 2 timeout) timeout)})))

(defn- messages []
  (loop [got []]
    (receive
      x (recur (conj got x))
      (after 1000 got))))

(defn- client [run n {:keys [calls kinds]}]
  (dotimes [i calls]
    (scope/sleep (one-of 0 0 2))
    (ask run [n i] kinds))
  (let [left (:monitors (actor/process-info (self)))]
    (note run :clients {:client n :messages (messages) :monitors left})))

(defn- start-client [run n options]
  (start/spawn-opt "client" "client" {:monitor true} #(client run n options) nil))

;; --- what may become of a call

(defn- wrong-answer [{:keys [exact]} {:keys [x timeout from to]} value at]
  (cond
    (not= [:answer x] value) [:another-answer value]
    (nil? at) [:answered-by-nobody]
    (not (<= from at to)) [:answered-at at]
    (and exact (not= at to)) [:answered-late at]
    (and exact (int? timeout) (< timeout (- to from))) [:beyond-its-time]))

;; An answer is written down before it is sent. Between the two its sender may be killed, or time may pass where it passes anywhere.
(defn- wrong-timeout [{:keys [exact faults]} {:keys [timeout from to]} at]
  (cond
    (= :infinity timeout) [:no-time-was-given]
    (< (- to from) timeout) [:too-early]
    (and exact (not= timeout (- to from))) [:too-late]
    (and at (< at to) exact (not faults)) [:answer-lost at]))

(defn- wrong-exit
  "Who hears of a death hears its reason, and at once; when time may pass anywhere, the coroner may hear of it later."
  [{:keys [exact faults deaths]} {:keys [from to]} why at]
  (cond
    (= :noproc why) (when-not (some (fn [[_ ended]] (or (not exact) (= from ended))) deaths) [:nobody-has-ended])
    (not (some (fn [[reason ended]] (and (= reason why) (or (not exact) (= to ended)))) deaths)) [:no-such-end why]
    (and at (< at to) exact (not faults)) [:answer-lost at]))

(defn- wrong-call [{:keys [answers] :as run} {:keys [x timeout outcome] :as call}]
  (let [[how value] outcome
        at (some (fn [[y answered]] (when (= x y) answered)) answers)
        found (case how
                :reply (wrong-answer run call value at)
                :timeout (wrong-timeout run call at)
                :exit (wrong-exit run call value at)
                :none (when (and (= :infinity timeout) (empty? (:deaths run))) [:no-answer]))]
    (when found
      (assoc call :wrong found))))

(def ^:private noise [[:noise 0] [:noise 1]])

(defn- wrong-client
  "A client receives what was sent to it, and nothing else: no late answer. It may be gone before all is sent."
  [{:keys [exact]} {:keys [messages monitors] :as client}]
  (when-not (and (if exact (= noise messages) (= messages (take (count messages) noise))) (empty? monitors))
    client))

(defn flaws
  "What is wrong with what was written down."
  [run]
  (concat (keep #(wrong-call run %) (:calls run))
          (keep #(wrong-client run %) (:clients run))
          (for [[x n] (frequencies (:handled run)) :when (< 1 n)] [:handled-twice x])))

;; --- all together

(defn- strike []
  (some-> (actor/whereis :server) (actor/exit (one-of :kill :boom))))

(defn- disturb [pids strikes]
  (doseq [message noise, pid pids] (! pid message))
  (dotimes [_ strikes]
    (scope/sleep (one-of 0 1 4 30))
    (strike)))

(defn- await-all
  "Waits for the clients; strikes again when they wait for what never comes."
  [refs]
  (loop [refs (set refs)]
    (when (seq refs)
      (recur (receive
               [:DOWN ref _ _ _] (disj refs ref)
               (after 3000 (strike) refs))))))

(defn- finished
  "Disturbs the clients until all have ended; throws what is wrong with what became of their calls."
  [run root {:keys [clients strikes] :as options}]
  (let [started (mapv #(start-client run % options) (range clients))]
    (disturb (map first started) strikes)
    (await-all (map second started))
    (actor/exit root :shutdown)
    (scope/sleep 100)
    (! (:coroner @run) [:all-told (self)])
    (receive :all-told nil)
    (when-let [found (seq (flaws @run))]
      (throw (ex-info (pr-str (first found)) {:flaws (vec found) :run @run})))))

(defn program
  "Clients that call a server at random: true, or it throws what no call may do.

  Options: :clients, :calls of each, :hosting, :kinds of requests, :strikes (how often the server is killed), :faults (some are killed at random
  besides), :exact (time passes only when nobody can run)."
  [{:keys [hosting] :as options}]
  (actor/with-process {:trap-exit true}
    (let [options (merge {:clients 2 :calls 3 :strikes 2 :exact true :kinds [:now :now :slow :slow :worker :worker :twice :never :stop :crash]} options)
          run (volatile! (merge {:answers [] :deaths [] :calls [] :clients [] :handled []} (select-keys options [:exact :faults])))
          coroner (start/spawn-opt "coroner" "coroner" {} #(coroner run) nil)
          _ (vswap! run assoc :coroner coroner)
          [how root] (sup/start-link {:intensity 100000
                                      :children [{:id :server :start [gs/start-link (behaviour run) nil {:name :server :hosting hosting}]}]})]
      (when (= :ok how)
        (finished run root options))
      (actor/exit coroner :kill)
      true)))
