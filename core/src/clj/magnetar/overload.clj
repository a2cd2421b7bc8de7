(ns magnetar.overload
  "Servers that stay useful when they are asked for more than they can do: what has waited for too long is refused instead of worked on.

    (gs/start-link (overload/shedding 'my.search {:target 20 :interval 200}) nil {:name :search})

    (overload/call :search [:find \"x\"] {:timeout 1000})

  A queue in front of a server that is too slow grows until every answer comes after its caller has given up: the server is busy, and useful to nobody. So
  a call carries when it was sent, and how long its caller waits; the server looks at both when it takes the call out of its mailbox, not when it comes in.
  What nobody waits for any more is not worked on. And while even the shortest wait of the last interval was above the target, the queue is not a burst
  but a state: then calls that waited for twice the target are refused, so that those that are served are served in time.

  The rule is that of CoDel, as servers use it. To refuse at the door, by number, see the :mailbox of `magnetar.actor/spawn-opt`, and `magnetar.resilience`."
  (:require
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.gen-server.behaviour :as gen-server]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.otp.behaviour :as behaviour]
   [magnetar.impl.runtime]
   [magnetar.overload.queue-age :as queue-age])
  (:import
   (clojure.lang ExceptionInfo)
   (magnetar.impl.otp.behaviour Behaviour)))

(set! *warn-on-reflection* true)

;; ---- the server; its state is kept in the dictionary of its process, so that the state of the behaviour stays what it is

(defn- judge
  "nil if the call may pass, else why not; counts it."
  [limits sent due]
  (let [at (clock/now)
        {:keys [verdict] :as state} (queue-age/judge (actor/pget ::state) limits {:at at :sent sent :due due})]
    (actor/pput ::state (update state (or verdict :passed) inc))
    verdict))

(defn- stats []
  (let [{:keys [passed shed expired overloaded?]} (actor/pget ::state)]
    {:passed passed :shed shed :expired expired :overloaded? (boolean overloaded?)}))

(defn- handle-stamped [handle-call limits [_ sent due request] from s]
  (case (judge limits sent due)
    nil (handle-call request from s)
    :expired [:noreply s]
    :shed [:reply [::shed (quot (- (clock/now) (long sent)) 1000000)] s]))

(defn- handle [handle-call limits request from s]
  (case (when (vector? request) (first request))
    ::call (handle-stamped handle-call limits request from s)
    ::stats [:reply (stats) s]
    (handle-call request from s)))

(defn- callbacks
  "The callbacks of a behaviour as functions that follow what it is redefined to."
  [^Behaviour checked]
  (into {:name (.-label checked)}
        (for [word (behaviour/known (.-kind checked))
              :when (behaviour/callback checked word)]
          [word (fn [& args] (apply (behaviour/callback checked word) args))])))

(defn shedding
  "A behaviour that does what the one given does, and refuses calls that have waited for too long. A behaviour is what `magnetar.gen-server` takes.

  Only calls of `overload/call` are looked at: they know when they were sent. Options:

    :target    how long a call may wait in the mailbox when all is well; 20
    :interval  over which time the shortest wait has to be above the target before calls are shed; 200

    (gs/start-link (overload/shedding 'my.search {:target 20}) nil)

  In Erlang: the library sbroker."
  ([behaviour] (shedding behaviour nil))
  ([behaviour {:keys [target interval] :or {target 20 interval 200} :as options}]
   (arguments/options "shedding" [:target :interval] options)
   (let [limits {:target (arguments/period :target target) :interval (arguments/period :interval interval)}
         ^Behaviour checked (gen-server/behaviour behaviour)
         {:keys [init handle-call] :as known} (callbacks checked)]
     (when-not handle-call
       (behaviour/missing (.-kind checked) (.-label checked) (.-source checked) :handle-call))
     (assoc known
            :init (fn [argument]
                    (actor/pput ::state queue-age/idle)
                    (init argument))
            :handle-call (fn [request from s] (handle handle-call limits request from s))))))

;; ---- the callers

(defn- shed-error [server waited]
  (ex-info (str "The server " (arguments/show server) " is overloaded: the call had waited for " waited " ms and was refused.")
           {:magnetar/reason :magnetar/overloaded :server server :waited-ms waited}))

(defn call
  "Like `magnetar.gen-server/call`, for a server that is `shedding`: throws an ExceptionInfo of :magnetar/overloaded if it refuses the call.

  A server that is not shedding must not be called so.

    (overload/call :search [:find \"x\"] {:timeout 1000})"
  ([server request] (call server request nil))
  ([server request {:keys [timeout] :or {timeout 5000} :as options}]
   (arguments/options "call" [:timeout] options)
   (let [sent (clock/now)
         due (clock/instant-after sent (arguments/nanos :timeout timeout))
         answer (gs/call server [::call sent due request] {:timeout timeout})]
     (if (and (vector? answer) (= ::shed (first answer)))
       (throw (shed-error server (second answer)))
       answer))))

(defn overloaded?
  "Is this the error of a call that was refused because its server was overloaded?

    (try (overload/call :search x) (catch Exception e (if (overload/overloaded? e) :busy (throw e))))"
  [e]
  (and (instance? ExceptionInfo e) (= :magnetar/overloaded (:magnetar/reason (ex-data e)))))

(defn status
  "What a shedding server has done: {:passed :shed :expired :overloaded?}. :expired are calls whose callers had given up.

    (overload/status :search) ;=> {:passed 100 :shed 0 :expired 0 :overloaded? false}"
  [server]
  (gs/call server [::stats]))
