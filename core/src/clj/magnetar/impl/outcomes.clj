(ns magnetar.impl.outcomes
  "What becomes of forks, and what a scope comes to: values, failures, cancellations."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (java.util.concurrent ExecutionException)
   (magnetar.kernel.fiber Cancelled Exit Fiber)
   (magnetar.kernel.process Hosting)
   (magnetar.kernel.scope Fork Joiner Scope)))

(set! *warn-on-reflection* true)

;; ---- of a fork

(defn by-cancellation?
  "True if the error, or a cause of it, is how an operation answers a cancellation, or the interrupt that comes with it."
  [error]
  (Cancelled/isBehind error))

(defn cancellation?
  "True if the error is not a failure: this fiber has been told to end, or its process drops the stack with `continue`."
  [error]
  (or (instance? Cancelled error)
      (instance? Exit error)
      (Hosting/isContinue error)
      (instance? InterruptedException error)
      (and (.isCancelled (Fiber/current)) (by-cancellation? error))))

(defn- failure-in
  "The failure of a clean-up that a cancellation carries with it, else the error itself."
  [^Throwable error]
  (or (when (instance? Cancelled error)
        (first (remove by-cancellation? (.getSuppressed error))))
      error))

(defn outcome
  "What has become of a fork that has ended."
  [^Fork fork]
  (let [error (some-> (.error fork) failure-in)
        status (cond
                 (nil? error) :success
                 (instance? Cancelled error) :cancelled
                 (and (.isCancelRequested fork) (by-cancellation? error)) :cancelled
                 :else :failure)]
    (cond-> {:status status :site (.site fork) :fork fork}
      (= :success status) (assoc :value (.value fork))
      error (assoc :error error))))

(defn failed? [{:keys [status]}]
  (= :failure status))

;; ---- errors of a scope

(defn suppress
  "The error with the others suppressed by it, except its own cause."
  [^Throwable e others]
  (doseq [^Throwable other others :when (not (or (identical? e other) (identical? (ex-cause e) other)))]
    (.addSuppressed e other))
  e)

(defn fork-failed
  "The error of a scope whose forks failed: the first one, the others suppressed, the lines of all in the message."
  [[{:keys [site error]} & others]]
  (let [also (when others (str " (and so did " (apply str (interpose ", " (map :site others))) ")"))]
    (suppress (errors/failure (str "The " site " failed: " (or (ex-message error) (class error)) also)
                {:magnetar/reason :magnetar/fork-failed :site site :also (mapv :site others)}
                error)
              (map :error others))))

(defn nothing-forked
  "The error of a scope whose joiner takes the value of a fork, and that has none."
  []
  (errors/failure "The scope has no result: nothing was forked in it, and its joiner takes the value of a fork."
    {:magnetar/reason :magnetar/no-fork}))

(defn cancelled-error
  "The error of a scope that was cancelled, or ran out of time."
  [^Scope scope]
  (let [why (.why scope)]
    (if (identical? why Scope/DEADLINE)
      (errors/failure (str "The " (.site scope) " ran out of time: its deadline has passed. Give it a later one, or look with `magnetar.inspect/fibers` at what waits in it.")
        {:magnetar/reason :magnetar/deadline :site (.site scope)})
      (errors/failure (str "The " (.site scope) " was cancelled: " (if (instance? Throwable why) (ex-message why) (arguments/show why)))
        {:magnetar/reason :magnetar/cancelled :site (.site scope) :cause why}
        (when (instance? Throwable why) why)))))

;; ---- joiners

(defn- stepped
  "The state of a joiner after the outcome of a fork. A daemon matters only if it fails; a step that throws is the last."
  [step {:keys [value done?] :as state} outcome ^Fork fork]
  (let [next (cond
               done? value
               (and (.isDaemon fork) (not (failed? outcome))) value
               :else (try (step value outcome) (catch Throwable e (reduced {::broken e}))))]
    (cond-> (assoc state :value (unreduced next) :done? (or done? (reduced? next)))
      (failed? outcome) (update :failures conj outcome))))

(defn beginning
  "The state of a joiner before any fork has ended, to be kept in a volatile."
  [joiner]
  {:value (:init joiner) :failures []})

(defn until-failure
  "The step of a joiner that wants all forks to succeed."
  [state outcome]
  (if (failed? outcome) (reduced state) state))

(defn joining
  "The kernel's joiner of `joiner`; keeps its state and the failures in the volatile `state`. It runs under the scope's lock, so a success
  that changes nothing makes no outcome."
  [{:keys [step]} state]
  (let [failures-only? (identical? until-failure step)]
    (reify Joiner
      (ended [_ fork]
        (if (and failures-only? (nil? (.error ^Fork fork)))
          false
          (let [before (:done? @state)]
            (vswap! state #(stepped step % (outcome fork) fork))
            (and (not before) (boolean (:done? @state))))))
      (needsAll [_] failures-only?))))

;; ---- of a scope

(defn of-body
  "The outcome of the body and of joining its forks: {:value v} or {:error e}."
  [^Scope scope f]
  (try
    (let [value (f scope)]
      (.join scope)
      {:value value})
    (catch Throwable e
      (.cancel scope ^Object e)
      {:error e})))

(defn- value-or-throw
  "The value of the scope, or throws."
  [^Scope scope joiner {:keys [value failures]} {body-value :value :keys [error]}]
  (let [why (.why scope)]
    (cond
      (::broken value) (throw (suppress (::broken value) (map :error failures)))
      (or (nil? error) (instance? Fork why)) ((:result joiner) value body-value failures)
      (identical? why error) (throw (suppress error (map :error failures)))
      :else (throw (suppress (cancelled-error scope) (map :error failures))))))

(defn- closed-outcome
  "{:value v} or {:error e} of a scope that has closed; the cancellation of what is around it comes first."
  [scope joiner state body]
  (try
    (.check (Fiber/current))
    {:value (value-or-throw scope joiner state body)}
    (catch Throwable e {:error e})))

(defn- of-a-fork?
  "True if the body threw no more than what it was told of a fork that has failed."
  [{:keys [failures]} error]
  (and (instance? ExecutionException error)
       (some #(identical? (ex-cause error) (:error %)) failures)))

(defn- own-failure [state {:keys [error]}]
  (let [error (some-> error failure-in)]
    (when-not (or (by-cancellation? error) (of-a-fork? state error)) error)))

(defn conclude
  "Returns or throws what the scope comes to; no failure of its body or its clean-ups is lost."
  [scope joiner state body thrown]
  (let [{:keys [value error]} (closed-outcome scope joiner state body)
        own (own-failure state body)]
    (if (or error own (seq thrown))
      (let [[e & others] (remove nil? (list* error own thrown))]
        (throw (suppress e others)))
      value)))
