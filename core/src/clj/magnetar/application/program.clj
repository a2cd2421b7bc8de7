(ns magnetar.application.program
  "A program of applications: what it waits for, what it does with signals, and how it ends.

  The thread that is in `run` waits on a channel for what happens: [:signal number name], [:started], [:failed why], [:ended event],
  [:shutdown status], [:exit] (System/exit was called)."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.actor :as actor]
   [magnetar.application.controller :as controller]
   [magnetar.application.master :as master]
   [magnetar.channel :as channel]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.hooks :as hooks]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.proc-lib.report :as report])
  (:import
   (java.util.concurrent CountDownLatch)
   (sun.misc Signal SignalHandler)))

(set! *warn-on-reflection* true)

;; The channel of the program that runs, or nil.
(defonce ^:private program (atom nil))

(defn tell
  "Tells the program that runs what happens; returns :ok, or nil if no program runs."
  [[word :as event]]
  (when-some [events @program]
    (when (#{:signal :shutdown :exit} word)
      (controller/expect-ends true))
    (channel/try-put events event)
    :ok))

(defn exit
  "Ends the JVM with the status."
  [status]
  (flush)
  (System/exit (int status)))

;; ---- signals

(defn- halt [number]
  (.halt (Runtime/getRuntime) (+ 128 (int number))))

(defn- on-signal
  "Tells of the first signal; the second one halts."
  [signals]
  (reify SignalHandler
    (handle [_ signal]
      (if (= 1 (long (swap! signals inc)))
        (tell [:signal (.getNumber signal) (.getName signal)])
        (halt (.getNumber signal))))))

(defn- handle-signal
  "The handler before; nil where the JVM does not give the signal away, as with -Xrs."
  [name handler]
  (try
    [(Signal. name) (Signal/handle (Signal. name) handler)]
    (catch IllegalArgumentException _)))

(defn- with-signals
  "Calls f while signals are told of."
  [f]
  (let [handler (on-signal (atom 0))
        before (into [] (keep #(handle-signal % handler)) ["TERM" "INT"])]
    (try
      (f)
      (finally
        (doseq [[signal handler] before]
          (Signal/handle signal handler))))))

;; ---- System/exit in the middle

(defn- hook
  "A thread that the JVM starts when it ends: has the applications stopped first."
  [^CountDownLatch stopped]
  (Thread. ^Runnable (fn [] (when (tell [:exit]) (.await stopped))) "magnetar application stop"))

(defn- without-hook [hook]
  (try
    (.removeShutdownHook (Runtime/getRuntime) hook)
    (catch IllegalStateException _))) ; the JVM is ending already

;; ---- start

(defn- names-of [{:keys [given named]}]
  (when (empty? given)
    (arguments/misuse :magnetar/bad-application "`run` wants an application, or a vector of them; this one is empty." {:given given}))
  (mapv (fn [x]
          (let [[how y] (named x)]
            (if (= :ok how)
              y
              (arguments/misuse :magnetar/bad-application (str "`run` was given what does not start: " (reasons/text y) ".") {:given x :why y}))))
        given))

(defn- start-applications [{:keys [start]} names]
  (let [[how why] (start names)]
    (tell (if (= :ok how) [:started] [:failed why]))))

(defn- why-over
  "The status of a program that was told this, with a report if that is not in order; nil if it goes on."
  [[word x y]]
  (case word
    :started nil
    :signal (do (report/tell {:event :stopping :level :info :signal y}) 0)
    :shutdown x
    :exit 0
    :failed (do (report/tell {:event :not-started :level :error :message (reasons/of-application x)}) 1)
    :ended 1))

(defn- await-end [events]
  (loop []
    (let [[word :as event] (channel/take events)]
      (if-some [status (why-over event)]
        [word status]
        (recur)))))

;; ---- stop

(defn- straggler-text [{:keys [pid callback at waits-for]}]
  (str (if callback (str "its " callback) (codec/text pid)) (when at (str " in " at)) (when waits-for (str ", which waits for " waits-for))))

(def ^:private most-named 5)

(defn- few
  "The texts of the first ones, and how many there are beyond."
  [stragglers]
  (let [more (- (count stragglers) (long most-named))]
    (cond-> (mapv straggler-text (take most-named stragglers))
      (pos? more) (conj (str more " more")))))

(defn- late
  "The applications that run still: a map from the name to the processes that it waits for."
  []
  (into {} (for [{:keys [name master]} (controller/which)]
             [name (few (master/stragglers master))])))

(defn- report-late [timeout]
  (let [late (late)]
    (report/tell {:event :stop-timeout :level :error :applications late
                  :message (str "Not stopped within " timeout " ms: "
                                (str/join "; " (for [[name who] late] (str name ", waiting for " (str/join " and " who)))) ".")})))

(defn- stop-applications
  "True once all have stopped in order; false, with a report, if that takes too long. The starter starts no more of them."
  [starter timeout]
  (let [done (channel/chan {:size 1})]
    (actor/exit starter :kill)
    (actor/spawn-opt #(do (controller/stop-all) (channel/try-put done true)) {:context :none :bindings :none})
    (or (channel/take done {:timeout timeout :else nil})
        (do (report-late timeout) false))))

;; ---- all of it

(defn- claim [events]
  (when-not (compare-and-set! program nil events)
    (throw (errors/illegal-state :magnetar/already-running
                                 "`run` was called while a program runs: give it all applications in one vector, or start more with `start`." {}))))

(defn- last-status
  "The status that was told with a `shutdown` while the applications stopped; else this one."
  [events status]
  (loop [status status]
    (if-some [[word x] (channel/try-take events)]
      (recur (if (= :shutdown word) x status))
      status)))

(defn- live
  "Starts, waits, stops: [what ended it, status]."
  [events {:keys [stop-timeout] :as how} names]
  (let [starter (actor/spawn-opt start-applications how names {:context :none :bindings :none})
        [word status] (await-end events)]
    [word (if (stop-applications starter stop-timeout) (last-status events status) 1)]))

(defn run
  "See `magnetar.application/run`."
  [{:keys [exit] :as how}]
  (let [events (channel/chan {:size 100})
        _ (claim events)
        stopped (CountDownLatch. 1)
        hook (hook stopped)
        at-end #(tell [:ended %])
        _ (hooks/add :end at-end)
        [word status] (try
                        (let [names (names-of how)]
                          (.addShutdownHook (Runtime/getRuntime) hook)
                          (with-signals #(live events how names)))
                        (finally
                          (hooks/remove :end at-end)
                          (controller/expect-ends false)
                          (reset! program nil)
                          (.countDown stopped)
                          (without-hook hook)))]
    (if (= :exit word) status (exit status))))
