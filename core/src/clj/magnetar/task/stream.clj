(ns magnetar.task.stream
  "A task for each element of a collection, a limited number at a time, while a process reduces over their results.

  All that happens in the process that reduces: it starts tasks, takes what comes of them, and hands results on. What runs is a sorted map from
  the number of an element to its task; the oldest is the first whose time is over, since all have the same."
  {:no-doc true}
  (:require
   [magnetar.actor :as actor]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.impl.transactions :as transactions]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.task.work :as work])
  (:import
   (clojure.lang IReduce Seqable)
   (magnetar.kernel.process LocalProcess Matcher Refs)))

(set! *warn-on-reflection* true)

;; `start` makes a task of an element; `most` run at once; `limit` is the time of each in nanoseconds, as `timeout` says.
(defrecord Plan [^LocalProcess me start most ordered? limit timeout kill? zip?])

;; Elements that are left; the number of the next one to be started, and of the next one to be handed on; what runs; from references to numbers;
;; results that wait for those before them.
(defrecord Now [left started given running numbers waiting])

;; ---- tasks come and go

(defn- start-next [{:keys [start limit]} {:keys [left started] :as state}]
  (let [item (first left)
        birth (actor/make-ref) ; no message about the task is older
        task (assoc (start item) :birth birth)]
    (-> state
        (assoc :left (rest left) :started (inc (long started)))
        (assoc-in [:running started] {:task task :item item :deadline (clock/deadline (long limit))})
        (assoc-in [:numbers (:ref task)] started))))

(defn- fill
  "Starts tasks while there is room for them, and an element."
  [{:keys [most] :as plan} latest]
  (let [{:keys [running left] :as state} @latest]
    (when (and (< (count running) (long most)) (seq left))
      (vreset! latest (start-next plan state))
      (recur plan latest))))

(defn- forget-exit
  "Takes the message of the link out of the mailbox, if this process traps exits and it is there."
  [^LocalProcess me {:keys [pid birth]}]
  (when (.trapsExits me)
    (.receive me (reify Matcher
                   (match [_ message]
                     (when (and (vector? message) (= 3 (count message)) (= :EXIT (nth message 0)) (= pid (nth message 1)))
                       true)))
              0 (Refs/mark me (object-array [birth])))))

(defn- part
  "Undoes the link with a task, of which nothing stays in the mailbox."
  [me {:keys [pid] :as task}]
  (actor/unlink pid)
  (forget-exit me task))

(defn- kill
  "Ends a task: what it had to say already, or nil."
  [me {:keys [pid] :as task}]
  (let [result (work/give-up me task)]
    (actor/unlink pid)
    (actor/exit pid :kill)
    (forget-exit me task)
    result))

(defn- kill-all [me {:keys [running]}]
  (when (proc-lib/alive-here?) ; else the links do it
    (run! #(kill me (:task %)) (vals running))))

;; ---- results

(defn- shown [{:keys [zip?]} {:keys [item]} [how why :as result]]
  (if (and zip? (= :exit how)) [how [item why]] result))

(defn- keep-result
  "The task of the number has come to its end: the result waits to be handed on."
  [{:keys [ordered?] :as plan} {:keys [running waiting] :as state} number result]
  (let [{:keys [task] :as entry} (running number)]
    (-> state
        (update :running dissoc number)
        (update :numbers dissoc (:ref task))
        (assoc :waiting (assoc waiting (if ordered? number (+ (long (:given state)) (count waiting))) (shown plan entry result))))))

(defn- out-of-time [{:keys [me kill? timeout] :as plan} {:keys [running] :as state}]
  (let [[number {:keys [task]}] (first running)]
    (if kill?
      (keep-result plan state number (or (kill me task) [:exit :timeout]))
      (throw (work/late 'magnetar.task/async-stream task timeout)))))

(defn- await-end
  "Waits until a task that has sent its result is dead, so that its supervisor takes another: all but surely, since who begins to monitor a process at
  the instant of its death may be told before its links are."
  [{:keys [pid]}]
  (let [ref (actor/monitor pid)]
    (actor/receive [:DOWN ref :process _ _] nil)))

(defn- await-one
  "The state when one more task has ended."
  [{:keys [me] :as plan} {:keys [running numbers] :as state}]
  (let [{:keys [deadline task]} (val (first running))
        nanos (clock/left (long deadline))]
    (if-some [[ref result] (work/take-any me numbers (work/mark me [(:ref task)]) nanos)]
      (let [number (numbers ref)
            {:keys [task]} (running number)]
        (work/die-of me task result)
        (part me task)
        (await-end task)
        (keep-result plan state number result))
      (out-of-time plan state))))

(defn- give
  "Hands the next result on, if it is there: [state accumulated], else nil."
  [{:keys [given waiting] :as state} f acc]
  (when-some [result (waiting given)]
    [(assoc state :given (inc (long given)) :waiting (dissoc waiting given))
     (f acc result)]))

;; What runs is in `latest`, so that it can be ended however the reduction is left.
(defn- reduced-over [plan latest f init]
  (loop [acc init]
    (fill plan latest)
    (if-some [[state acc] (give @latest f acc)]
      (do
        (vreset! latest state)
        (if (reduced? acc) @acc (recur acc)))
      (if (seq (:running @latest))
        (do (vreset! latest (await-one plan @latest))
            (recur acc))
        acc))))

(defn- run [{:keys [me] :as plan} coll f init]
  (let [latest (volatile! (->Now (lazy-seq coll) 0 0 (sorted-map) {} {}))]
    (try
      (reduced-over plan latest f init)
      (finally (kill-all me @latest)))))

;; ---- what is reduced

(defn- no-seq [site]
  (arguments/misuse :magnetar/not-a-seq
                    (str "An async-stream (" site ") is reduced, not looked at as a seq: a seq that is dropped would leave its tasks behind. Use "
                         "(into [] stream), reduce, transduce, run! or an eduction; (into [] (take 3) stream) ends the others.")
                    {:site site}))

(defn- without-init [stream f]
  (let [value (reduce (fn [acc x] (if (= ::none acc) x (f acc x))) ::none stream)]
    (if (= ::none value) (f) value)))

(deftype Stream [site start-run]
  IReduce
  (reduce [_ f init] (start-run f init))
  (reduce [this f] (without-init this f))
  Seqable
  (seq [_] (no-seq site))
  Object
  (toString [_] (str "async-stream " site)))

(defmethod print-method Stream [^Stream stream ^java.io.Writer out]
  (.write out (str "#<" stream ">")))

(def ^:private options
  [:max-concurrency :ordered :timeout :on-timeout :zip-input-on-exit])

(defn- check-on-timeout [on-timeout]
  (when-not (#{:exit :kill-task} on-timeout)
    (arguments/misuse :magnetar/bad-option
                      (str "The :on-timeout of an async-stream is :exit or :kill-task; this is " (arguments/show on-timeout) ".")
                      {:on-timeout on-timeout})))

(defn- plan
  [start {:keys [max-concurrency ordered timeout on-timeout zip-input-on-exit]
          :or {ordered true timeout 5000 on-timeout :exit} :as given}]
  (arguments/options "async-stream" options given)
  (check-on-timeout on-timeout)
  (map->Plan {:start start
              :most (if (nil? max-concurrency)
                      (.availableProcessors (Runtime/getRuntime))
                      (arguments/whole ":max-concurrency" max-concurrency))
              :ordered? (arguments/flag :ordered ordered)
              :limit (arguments/nanos ":timeout" timeout)
              :timeout timeout
              :kill? (= :kill-task on-timeout)
              :zip? (arguments/flag :zip-input-on-exit zip-input-on-exit)}))

(defn stream
  "The results of (start element), a task each, as something to reduce over."
  [site coll f start options]
  (work/check-function "async-stream" f)
  (when-not (seqable? coll)
    (arguments/misuse :magnetar/not-a-collection
                      (str "`async-stream` wants a collection, and then a function; this is " (arguments/show coll) ".") {:value coll}))
  (let [plan (plan start options)]
    (Stream. site (fn [f init]
                    (transactions/refuse "async-stream")
                    (run (assoc plan :me (LocalProcess/require "async-stream")) coll f init)))))
