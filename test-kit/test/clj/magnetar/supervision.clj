(ns magnetar.supervision
  "Random trees of supervisors whose children end in all ways, and the trace of what each supervisor does; see `magnetar.supervision-model`."
  (:require
   [magnetar.actor :as actor :refer [! after receive self]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.start :as start]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope]
   [magnetar.supervision-model :as model]
   [magnetar.supervisor :as sup]
   [magnetar.supervisor.behaviour :as behaviour])
  (:import
   (magnetar.kernel.fiber Exit Fiber)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

;; --- chance, from the seed of the simulation

(defn below
  "A random number below n."
  [n]
  (.random (Fiber/current) (int n)))

(defn one-of
  "One of these."
  [& xs]
  (nth xs (below (count xs))))

(defn- chance? [percent]
  (< (below 100) percent))

;; --- what is known of a run: its supervisors, each with its trace, and its children

(defn- ended? [^Pid pid]
  (some? (.ended pid)))

(defn- alive [{:keys [pids]}]
  (vec (remove ended? @pids)))

(defn- note [{:keys [trace]} event]
  (vswap! trace conj event))

;; --- children

(defn- takes-its-time
  "What a child does when it is told to shut down. One that was killed meanwhile is dead, though its thread may go on."
  [seen ms]
  (when-not (ended? (self))
    (note seen [:stopping (self) (alive seen)])
    (scope/sleep ms)
    (when-not (ended? (self))
      (note seen [:tidied (self)]))))

(defn- tidy [seen parent ms]
  (actor/flag :trap-exit true)
  (loop []
    (receive
      [:EXIT parent :shutdown] (do (takes-its-time seen ms) (actor/exit :shutdown))
      [:EXIT _ :normal] (recur)
      [:EXIT _ why] (actor/exit why)
      [:end why] (actor/exit why))))

(defn- cleans [seen ms]
  (let [told (volatile! true)]
    (try
      (receive [:end why] (do (vreset! told false) (actor/exit why)))
      (catch Exit e
        (when (and @told (= :shutdown (.reason e)))
          (scope/shield (takes-its-time seen ms)))
        (throw e)))))

(defn- deaf [parent]
  (actor/flag :trap-exit true)
  (loop []
    (receive
      [:EXIT parent :shutdown] (recur)
      [:EXIT _ :normal] (recur)
      [:EXIT _ why] (actor/exit why)
      [:end why] (actor/exit why))))

(defn- body [seen parent {:keys [style ms]}]
  (case style
    :plain #(receive [:end why] (actor/exit why))
    :tidy #(tidy seen parent ms)
    :cleans #(cleans seen ms)
    :deaf #(deaf parent)))

(defn- server [seen ms]
  {:name 'kid
   :init (fn [_] (actor/flag :trap-exit true) [:ok nil])
   :handle-call (fn [_ _ s] [:reply s s])
   :handle-cast (fn [_ s] [:noreply s])
   :handle-info (fn [[word a b] s] (case word
                                     :end [:stop a :own]
                                     :EXIT (if (= :normal b) [:noreply s] [:stop b s])))
   :terminate (fn [why s] (when (and (= :shutdown why) (not= :own s))
                            (takes-its-time seen ms)))})

(declare start-supervisor)

(defn- start-kid [run seen {:keys [style ms hosting named id spec] :as kid}]
  (case style
    :server (gs/start-link (server seen ms) nil {:hosting hosting})
    :supervisor (start-supervisor run spec)
    [:ok (start/spawn-opt "kid" "kid" (cond-> {:link true} named (assoc :name (keyword (str "kid-" id)))) (body seen (self) kid) nil)]))

(defn- outcome-of
  "The start of a child, which sometimes does not come up."
  [run seen kid]
  (case (long (if (chance? (:bad-starts @run 0)) (below 3) 3))
    0 :ignore
    1 [:error :no]
    2 (throw (ex-info "no start" {:magnetar/exit :no}))
    3 (start-kid run seen kid)))

(defn- started [run seen kid]
  (note seen [:start (:id kid) (alive seen) (clock/now)])
  (let [[how x :as outcome] (try
                              (let [value (outcome-of run seen kid)] (if (= :ignore value) [:ignore] value))
                              (catch Exception e [:error (or (:magnetar/exit (ex-data e)) (ex-message e))]))]
    (when (= :ok how)
      (vswap! (:pids seen) conj x)
      (vswap! run update :born conj {:pid x :kid kid :seen seen}))
    (note seen [:started outcome (clock/now)])
    (if (= :ignore how) :ignore outcome)))

(defn child-spec
  "What `sup/start-child` is told of the child of a spec."
  [run seen kid]
  (merge (select-keys kid [:id :restart :significant :shutdown :type]) {:start [#(started run seen kid)]}))

;; --- supervisors

(defn- view [state]
  (let [[_ kids] ((:handle-call behaviour/behaviour) [:which-children] nil state)]
    (mapv (juxt :id :pid) kids)))

(defn- result [[word x y]]
  (case word
    :ok {:view (view x)}
    :noreply {:view (view x)}
    :reply {:reply x :view (view y)}
    :stop {:end x}
    {}))

(defn- traced
  "Does f, which handles the message, between an entry :in and an entry :out."
  [seen kind message f]
  (note seen [:in kind message (clock/now)])
  (let [value (f)]
    (note seen [:out (if (vector? value) (result value) {}) (alive seen) (clock/now)])
    value))

(defn- as-the-model-has-it
  "The request without the functions in it."
  [request kids]
  (if (= :start-child (first request))
    [:start-child (get kids (:id (second request)) (second request))]
    request))

(defn- behaviour-of [seen]
  (let [{:keys [init handle-info handle-cast handle-call terminate]} behaviour/behaviour]
    {:name 'sup
     :init (fn [argument]
             (vreset! (:self seen) (self))
             (traced seen :init nil #(init argument)))
     :handle-info (fn [message s] (traced seen :info message #(handle-info message s)))
     :handle-cast (fn [message s] (traced seen :cast message #(handle-cast message s)))
     :handle-call (fn [message from s] (traced seen :call (as-the-model-has-it message @(:extra seen)) #(handle-call message from s)))
     :terminate (fn [why s] (traced seen :terminate why #(do (terminate why s) nil)))}))

(defn start-supervisor
  "Starts a supervisor of the spec, linked to this process, and keeps its trace in the run."
  [run spec]
  (let [seen {:self (volatile! nil) :trace (volatile! []) :pids (volatile! []) :extra (volatile! {}) :spec spec}
        _ (vswap! run update :supervisors conj seen)
        ours (-> (select-keys spec [:strategy :intensity :period :auto-shutdown])
                 (assoc :max-children (:max-children spec :infinity))
                 (assoc :children (if (= :dynamic (:strategy spec)) [] (mapv #(child-spec run seen %) (:children spec)))))
        outcome (gs/start-link (behaviour-of seen) [ours nil])]
    outcome))

(defn new-run
  "What will be known of a run."
  [options]
  (volatile! (merge {:supervisors [] :born []} options)))

;; --- random specs

(declare random-spec)

(defn- random-kid [id {:keys [auto-shutdown depth] :as wanted}]
  (let [restart (one-of :permanent :transient :temporary)
        style (if (and (pos? depth) (chance? 30)) :supervisor (one-of :plain :plain :tidy :cleans :deaf :server))]
    (cond-> {:id id :restart restart :style style :ms (one-of 0 3 30)
             :shutdown (case style :deaf (one-of :brutal-kill 0 10) :supervisor (one-of :infinity :infinity 5 :brutal-kill) (one-of :brutal-kill 0 10 :infinity))
             :named (and (:names wanted) (chance? 50))
             :hosting (one-of :threaded :activated)
             :significant (and (not= :permanent restart) (not= :never auto-shutdown) (chance? 60))}
      (= :supervisor style) (assoc :type :supervisor :spec (random-spec (update wanted :depth dec) id)))))

(defn random-spec
  "A random spec of a supervisor with so many levels of supervisors below; ids of children begin with the prefix."
  [{:keys [strategies] :as wanted} prefix]
  (let [strategy (apply one-of strategies)
        dynamic? (#{:simple-one-for-one :dynamic} strategy)
        wanted (assoc wanted :auto-shutdown (if dynamic? :never (one-of :never :any-significant :all-significant)))]
    {:strategy strategy
     :auto-shutdown (:auto-shutdown wanted)
     :intensity (one-of 0 1 3 10)
     :period (one-of 5 1000)
     :wanted wanted
     :max-children (if (= :dynamic strategy) 3 :infinity)
     :children (case strategy
                 :dynamic []
                 :simple-one-for-one [(random-kid (str prefix "-0") (assoc wanted :names false :depth 0))]
                 (mapv #(random-kid (str prefix "-" %) wanted) (range (inc (below 4)))))}))

;; --- what befalls the tree

(defn- reason [] (one-of :normal :shutdown [:shutdown :done] :boom))

(defn- ask
  "A request to a supervisor, which may be dead, or die of it."
  [f]
  (try (f) (catch clojure.lang.ExceptionInfo _ :gone)))

(defn- add-child [run {:keys [seen pid]}]
  (let [{:keys [strategy wanted children]} (:spec seen)]
    (if (= :simple-one-for-one strategy)
      (sup/start-child pid [])
      (let [kid (random-kid (str "extra-" (below 1000)) (assoc wanted :depth 0 :names false))
            kid (if (and (seq children) (chance? 30)) (assoc kid :id (:id (first children))) kid)]
        (vswap! (:extra seen) assoc (:id kid) kid)
        (sup/start-child pid (child-spec run seen kid))))))

(defn- request-of [run {:keys [seen pid] :as supervisor}]
  (let [{:keys [id] kid :pid} (some->> (seq (sup/which-children pid)) (apply one-of))
        x (if (#{:simple-one-for-one :dynamic} (:strategy (:spec seen))) (when (instance? Pid kid) kid) id)]
    (case (long (below 4))
      0 (add-child run supervisor)
      1 (when x (sup/terminate-child pid x))
      2 (when x (sup/restart-child pid x))
      3 (when x (sup/delete-child pid x)))))

(defn- living [run]
  (remove (comp ended? :pid) (:born @run)))

(defn- supervisors-alive [run root]
  (cons root (for [{:keys [pid kid]} (living run) :when (= :supervisor (:style kid))]
               {:pid pid :seen (first (filter #(= pid @(:self %)) (:supervisors @run)))})))

(defn- mischief [run root]
  (let [{:keys [pid kid]} (some->> (seq (take-last 8 (living run))) (apply one-of))]
    (case (long (below 8))
      (0 1 2 3) (when (and pid (not= :supervisor (:style kid))) (! pid [:end (reason)]))
      4 (when pid (actor/exit pid :kill))
      5 (when pid (actor/exit pid :boom))
      (6 7) (ask #(request-of run (apply one-of (supervisors-alive run root)))))))

(defn- rest-between [{:keys [strict]}]
  (cond
    strict (scope/sleep 100)
    (chance? 50) (scope/sleep (one-of 0 1 20 700))))

;; --- what has to be true at the end

(defn- explained [run]
  (let [{:keys [supervisors strict]} @run]
    (doall (for [{:keys [self trace spec]} supervisors]
             (assoc (model/explain spec @trace strict) :pid @self)))))

(defn- difference [pid {:keys [kids] :as model}]
  (let [seen (mapv (juxt :id :pid) (sup/which-children pid))]
    (cond
      (not= seen (model/shown model)) [:which-children seen]
      (some #(= :restarting (:pid %)) kids) [:never-started-again seen]
      (some #(and (instance? Pid (:pid %)) (ended? (:pid %))) kids) [:a-death-unnoticed seen])))

(defn- unlike-its-model
  "How a supervisor that lives differs from its model."
  [{:keys [pid cut wrong] :as model}]
  (when-not (or cut wrong (nil? pid) (ended? pid))
    (let [found (ask #(difference pid model))]
      (when-not (= :gone found) found))))

(defn- left-alive [run]
  (when-let [left (seq (living run))]
    [:orphans (mapv #(select-keys % [:pid :kid]) left)]))

(defn- reason-of-end [models root]
  (let [{:keys [end cut]} (first (filter #(= root (:pid %)) models))]
    (if cut :killed (or end :shutdown))))

(defn- reason-of [^Pid pid]
  (some-> (.ended pid) .reason))

(defn- end-of-root [root]
  (let [ref (actor/monitor root)]
    (actor/exit root :shutdown)
    (receive [:DOWN ref _ _ _] (reason-of root))))

(defn- flaws-at-rest
  "What is wrong when nothing more happens; a death between two checks is no refused."
  [run]
  (loop [looks 10]
    (scope/sleep 5000)
    (let [models (explained run)
          flaws (doall (concat (keep :wrong models) (keep unlike-its-model models)))]
      (if (or (empty? flaws) (zero? looks))
        flaws
        (recur (dec looks))))))

(defn- flaws-after-the-end [run]
  (scope/sleep 5000)
  (concat (keep :wrong (explained run)) (some-> (left-alive run) list)))

(defn- play [run root]
  (rest-between @run)
  (dotimes [_ (:steps @run)]
    (when-not (ended? root)
      (mischief run {:pid root :seen (first (:supervisors @run))})
      (rest-between @run)))
  (let [flaws (flaws-at-rest run)
        why (or (reason-of root) (end-of-root root))
        expected (reason-of-end (explained run) root)]
    (concat flaws
            (when-not (or (= expected why) (and (:killers @run) (= :killed why))) [[:root-ends why :and-not expected]])
            (flaws-after-the-end run))))

(defn program
  "A random tree of supervisors, and so many things that befall it: true, or it throws what a model has against it.

  Options: :steps, :strategies, :depth, :bad-starts (in percent), :names (children that register), :strict (nothing happens while a supervisor is
  at work), :killers (supervisors may be killed from outside)."
  [options]
  (actor/with-process {:trap-exit true}
    (let [run (new-run (merge {:steps 6 :bad-starts 0} options))
          spec (random-spec (merge {:depth 1 :strategies [:one-for-one :one-for-all :rest-for-one]} (select-keys options [:depth :strategies :names])) "kid")
          [how root] (start-supervisor run spec)
          flaws (if (= :ok how) (play run root) (flaws-after-the-end run))]
      (when (seq flaws)
        (throw (ex-info (pr-str (first flaws)) {:flaws (vec flaws) :spec spec :run @run})))
      true)))
