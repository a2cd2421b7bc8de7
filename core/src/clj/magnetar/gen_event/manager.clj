(ns magnetar.gen-event.manager
  "The callbacks of an event manager, which is a server. Its state are the handlers, the one that was added last first."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor :refer [!]]
   [magnetar.gen-event.erlang :as erlang]
   [magnetar.gen-event.handlers :as handlers]
   [magnetar.gen-server.loop :as server]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.context :as context]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.otp.host :as host]
   [magnetar.impl.runtime]
   [magnetar.impl.versions :as versions]
   [magnetar.proc-lib.report :as report])
  (:import
   (magnetar.gen_event.handlers Handler Spec)
   (magnetar.impl.otp.behaviour Behaviour)
   (magnetar.impl.otp.host Failed Kind Server)
   (magnetar.kernel.process LocalProcess Pid)))

(set! *warn-on-reflection* true)

;; ---- one handler

(defn- server ^Server []
  (.server (LocalProcess/current)))

(defn- attempt
  "What the callback of the handler returns, or that it Failed. The next handler does not see the thread-locals that it sets."
  [behaviour word & arguments]
  (try
    (context/restored (apply (behaviour/callback behaviour word) arguments))
    (catch Throwable t (host/escaped (server) behaviour t))))

(defn- exit-of [^Failed failed]
  [:EXIT (.-reason failed)])

(defn- leave
  "Ends a handler: what its terminate, which is told `argument`, returned. Its supervisor hears why it goes, when
  `report` has been called."
  ([handler argument why] (leave handler argument why (fn [])))
  ([{:keys [known-by behaviour state supervisor]} argument why report]
   (let [value (when (behaviour/callback behaviour :terminate)
                 (attempt behaviour :terminate argument state))]
     (report)
     (when supervisor
       (! supervisor [:gen-event-EXIT known-by why]))
     (if (instance? Failed value) (exit-of value) value))))

(defn- report-removed [{:keys [known-by state]} why event]
  (report/tell {:event :handler-removed :level :error :pid (actor/self) :name (.-who (server)) :handler known-by
                :reason (codec/plain why) :last-message (codec/plain event) :state (codec/plain state)}))

(defn- fail
  "Ends a handler that crashed, or returned what it may not; nil."
  [handler value event]
  (let [why (if (instance? Failed value) (exit-of value) value)]
    (leave handler [:error why] why #(report-removed handler why event))
    nil))

(defn- ok?
  "Is the value [:ok ..], with so many parts, or :hibernate behind them?"
  [value size]
  (and (vector? value) (= :ok (nth value 0 nil))
       (or (= size (count value))
           (and (= (inc (long size)) (count value)) (= :hibernate (peek value))))))

(defn- source-of [{:keys [^Behaviour behaviour]}]
  (.-source behaviour))

(defn- version-now
  "The version of the handler's code that is loaded; nil of a map of functions."
  [source]
  (some-> (versions/home source) versions/version))

(defn- join
  "[handler nil], or [nil value] if its init returned something else."
  [^Spec spec argument supervisor]
  (let [value (attempt (.-behaviour spec) :init argument)]
    (cond
      (instance? Failed value) [nil (exit-of value)]
      (ok? value 2) (do
                      (when supervisor (actor/link supervisor))
                      (versions/serves-too (.-source ^Behaviour (.-behaviour spec)))
                      [(Handler. (.-known-by spec) (.-behaviour spec) (nth value 1) supervisor (version-now (.-source ^Behaviour (.-behaviour spec)))) nil])
      :else [nil value])))

(defn- swap
  "[new-handler nil], or [nil value]; the old one is gone."
  [handler argument ^Spec spec new-argument supervisor]
  (let [left (leave handler argument [:swapped (.-known-by spec) (:supervisor handler)])]
    (join spec [new-argument left] supervisor)))

(defn- swap-in-callback
  "The handler in the place of the one that asked for it; nil if it did not come up."
  [handler [argument state new new-argument] event]
  (let [spec (host/guarded (server) (handlers/spec "swap-handler" new))]
    (if (instance? Failed spec)
      (fail handler spec event)
      (let [handler (assoc handler :state state)
            [new value] (swap handler argument spec new-argument (:supervisor handler))]
        (when (nil? new)
          (report-removed (assoc handler :known-by (.-known-by ^Spec spec)) value event))
        new))))

(defn- sized? [value word size]
  (and (vector? value) (= size (count value)) (= word (nth value 0))))

(defn- after
  "The handler after a callback that returned the value; nil if it is gone."
  [handler value event]
  (cond
    (ok? value 2) (assoc handler :state (nth value 1))
    (= :remove-handler value) (do (leave handler :remove-handler :normal) nil)
    (sized? value :swap-handler 5) (swap-in-callback handler (subvec value 1) event)
    :else (fail handler value event)))

;; ---- all handlers

(defn- supervisors [handlers]
  (into #{} (keep :supervisor) handlers))

(defn- without-links
  "The handlers after a change. A process that supervises no handler any more is unlinked. A callback module without a handler is not served any
  more."
  [before handlers]
  (when-some [gone (seq (remove (supervisors handlers) (supervisors before)))]
    (run! actor/unlink gone))
  (when-not (= (map source-of before) (map source-of handlers))
    (versions/serves-only (map source-of handlers)))
  handlers)

(defn- each
  "The handlers after (f handler), which returns the handler or nil."
  [handlers f]
  (without-links handlers (into [] (keep f) handlers)))

(defn- handle-event [handlers event]
  (each handlers (fn [{:keys [behaviour state] :as handler}]
                   (after handler (attempt behaviour :handle-event event state) event))))

(defn- informed [{:keys [behaviour state] :as handler} message]
  (if (behaviour/callback behaviour :handle-info)
    (after handler (attempt behaviour :handle-info message state) message)
    handler))

(defn- inform [handlers message]
  (when-not (some #(behaviour/callback (:behaviour %) :handle-info) handlers)
    (host/unexpected (server) message))
  (each handlers #(informed % message)))

(defn- supervisor-ended [handlers pid why]
  (each handlers (fn [{:keys [supervisor] :as handler}]
                   (if (= pid supervisor)
                     (do (leave handler [:stop why] :shutdown) nil)
                     handler))))

(defn- exited [handlers [_ pid why :as message]]
  (let [handlers (supervisor-ended handlers pid why)]
    (if (some #(behaviour/callback (:behaviour %) :handle-info) handlers)
      (inform handlers message)
      handlers)))

;; ---- requests: [answer handlers]

(defn- index-of [handlers known-by]
  (first (keep-indexed #(when (= known-by (:known-by %2)) %1) handlers)))

(defn- replaced
  "The handlers with this one, or none, in the place of another."
  [handlers at handler]
  (without-links handlers (into (subvec handlers 0 at) (concat (when handler [handler]) (subvec handlers (inc (long at)))))))

(defn- add [handlers spec argument supervisor]
  (let [[handler value] (join spec argument supervisor)]
    (if handler
      [:ok (into [handler] handlers)]
      [value handlers])))

(defn- swapped [handlers known-by argument spec new-argument supervisor]
  (if-some [at (index-of handlers known-by)]
    (let [old (nth handlers at)
          [handler value] (swap old argument spec new-argument (or supervisor (:supervisor old)))
          others (into (subvec handlers 0 at) (subvec handlers (inc (long at))))]
      [(if handler :ok [:error value]) (without-links handlers (if handler (into [handler] others) others))])
    (let [[answer handlers] (add handlers spec [new-argument :error] supervisor)]
      [(if (= :ok answer) :ok [:error answer]) handlers])))

(defn- delete [handlers known-by argument]
  (if-some [at (index-of handlers known-by)]
    [(leave (nth handlers at) argument :normal) (replaced handlers at nil)]
    [[:error :module-not-found] handlers]))

(defn- answered
  "[answer handler] after a handle-call that returned the value."
  [handler value request]
  (cond
    (ok? value 3) [(nth value 1) (assoc handler :state (nth value 2))]
    (sized? value :remove-handler 2) [(nth value 1) (after handler :remove-handler request)]
    (sized? value :swap-handler 6) [(nth value 1) (swap-in-callback handler (subvec value 2) request)]
    :else [[:error (if (instance? Failed value) (exit-of value) value)] (fail handler value request)]))

(defn- ask [handlers known-by request]
  (let [at (index-of handlers known-by)
        {:keys [behaviour state] :as handler} (when at (nth handlers at))]
    (cond
      (nil? at) [[:error :bad-module] handlers]
      (nil? (behaviour/callback behaviour :handle-call)) [[:error :no-handle-call] handlers]
      :else (let [[answer handler] (answered handler (attempt behaviour :handle-call request state) request)]
              [answer (replaced handlers at handler)]))))

(defn- of-erlang
  "[answer handlers] of a request in Erlang's words."
  [handlers request]
  (let [[word a b c d] (if (vector? request) request [request])
        known-by (when-some [at (erlang/index-of handlers a)] (:known-by (nth handlers at)))]
    (case word
      :sync_notify [:ok (handle-event handlers a)]
      :call (if known-by (ask handlers known-by b) [[:error :bad_module] handlers])
      :delete_handler (if known-by (delete handlers known-by b) [[:error :module_not_found] handlers])
      :which_handlers [(erlang/names handlers) handlers]
      (:add_handler :add_sup_handler) [(erlang/undefined a b) handlers]
      (:swap_handler :swap_sup_handler) [[:error (erlang/undefined c d)] handlers]
      [[:error [:unknown_call request]] handlers])))

(defn- takes?
  "May the handler be added with the supervisor? Another node may ask for anything."
  [spec supervisor]
  (and (instance? Spec spec) (or (nil? supervisor) (instance? Pid supervisor))))

(defn- unknown [handlers request]
  [[:error [:unknown-call (codec/plain request)]] handlers])

(defn- answer [handlers [word a b c d e :as request]]
  (case word
    :add-handler (if (takes? a c) (add handlers a b c) (unknown handlers request))
    :swap-handler (if (takes? c e) (swapped handlers a b c d e) (unknown handlers request))
    :delete-handler (delete handlers a b)
    :which-handlers [(mapv :known-by handlers) handlers]
    :sync-notify [:ok (handle-event handlers a)]
    :call (ask handlers a b)
    :magnetar/event (of-erlang handlers a)
    (unknown handlers request)))

;; ---- the manager

(defn- init [_]
  (actor/flag :trap-exit true)
  [:ok []])

(defn- handle-call [request _ handlers]
  (let [[value handlers] (answer handlers (if (vector? request) request [request]))]
    [:reply value handlers]))

(defn- handle-info [message handlers]
  (let [word (host/head message)]
    [:noreply (cond
                (and (= :EXIT word) (= 3 (count message))) (exited handlers message)
                (and (= :notify word) (= 2 (count message))) (handle-event handlers (peek message)) ; as Erlang sends events
                :else (inform handlers message))]))

(defn- terminate
  "Ends the handlers. Their supervisors are unlinked, except the parent of the manager: they have been told why, and do
  not end with it."
  [_ handlers]
  (run! #(leave % :stop :shutdown) handlers)
  (run! actor/unlink (disj (supervisors handlers) (.-parent (server)))))

(defn- shown [{:keys [known-by behaviour state]}]
  (let [hide (or (behaviour/callback behaviour :format-status) identity)]
    [known-by (:state (hide {:state state}))]))

(def behaviour
  "What an event manager does."
  {:name 'magnetar.gen-event
   :init init
   :handle-call handle-call
   :handle-cast (fn [event handlers] [:noreply (handle-event handlers event)])
   :handle-info handle-info
   :terminate terminate
   :format-status (fn [status] (update status :state #(mapv shown %)))})

;; ---- sys

(defn- seen [{:keys [known-by state]}]
  [known-by state])

(defn- replace-each [handlers f]
  (mapv (fn [handler]
          (let [value (f (seen handler))]
            (if (and (vector? value) (= 2 (count value)))
              (assoc handler :state (nth value 1))
              (throw (ex-info (str "The function of replace-state returned " (codec/text value) "; it has to return [handler state].") {})))))
        handlers))

(defn- old-version
  "[version] of the handler's state, where `old` is that, or a map from namespaces to versions; nil if the state is of the version that is loaded."
  [{:keys [version] :as handler} old]
  (cond
    (not (map? old)) [old]
    (not= version (version-now (source-of handler))) [version]))

(defn- changed [{:keys [behaviour state known-by] :as handler} old extra]
  (if-some [change (behaviour/callback behaviour :code-change)]
    (let [value (change old state extra)]
      (if (ok? value 2)
        (assoc handler :state (nth value 1))
        (throw (ex-info (str "code-change of " known-by " returned " (codec/text value) "; it has to return [:ok s].") {}))))
    handler))

(defn- change-code [handlers old extra]
  (mapv (fn [handler]
          (if-some [[old] (old-version handler old)]
            (assoc (changed handler old extra) :version (version-now (source-of handler)))
            handler))
        handlers))

(def kind
  "A server whose state `magnetar.sys` shows as [handler state] of each handler."
  (reify Kind
    (process [_ server message state debug] (.process ^Kind server/kind server message state debug))
    (end [_ server reason state message debug] (.end ^Kind server/kind server reason state message debug))
    (view [_ server debug]
      (assoc (server/debug-view server debug)
             :state-of #(mapv seen %)
             :state-in-erlang erlang/states
             :replaced replace-each
             :change-code change-code))
    (idle [_ server state debug frame] (.idle ^Kind server/kind server state debug frame))))
