(ns magnetar.supervision-model
  "What a supervisor has to do with each message that it handles, one after the other: a model without processes.

  It is given the trace of a supervisor that `magnetar.supervision` has written, and says the first thing that is wrong with it. Entries of a trace:

  [:in kind message at]    the supervisor begins to handle: kind is :init, :info, :cast, :call or :terminate, at a time in nanoseconds
  [:start id alive at]     it calls the start function of a child; `alive` are the pids of its children that have not ended
  [:started outcome at]    what that gave
  [:stopping pid alive]    a child that takes its time was told to shut down
  [:tidied pid]            and has ended as it wanted
  [:out result alive at]   it has handled: :view, its children as [id pid], and :reply or :end"
  (:import
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(defn- wrong [m & words]
  (if (:wrong m) m (assoc m :wrong (vec words))))

(defn- dynamic? [m]
  (contains? #{:simple-one-for-one :dynamic} (:strategy m)))

(defn- runs? [kid]
  (instance? Pid (:pid kid)))

;; --- children of the model: each has a number of its own

(defn- change [m {:keys [n]} f & args]
  (update m :kids #(into [] (keep (fn [kid] (if (= n (:n kid)) (apply f kid args) kid))) %)))

(defn- add [m kid]
  (-> m (update :next inc) (update :kids conj (assoc kid :n (:next m)))))

(defn- down
  "The child has ended, and is not to be started now."
  [m kid]
  (change m kid #(when-not (or (dynamic? m) (= :temporary (:restart %))) (assoc % :pid nil))))

(defn- kid-of [m key value]
  (first (filter #(= value (key %)) (:kids m))))

;; --- what the trace tells of the handling at hand

(defn- next-event
  "The next entry; a supervisor that was killed has left none, and nothing more can be said of it."
  [m]
  (or (first (:events m)) (throw (ex-info "The trace ends here." {::end m}))))

(defn- none-alive-but-children
  "Every living process has to be a child of the model: what was stopped is dead."
  [m alive]
  (let [known (set (map :pid (:kids m)))]
    (if-let [left (seq (remove known alive))]
      (wrong m :outlives-its-stop (vec left))
      m)))

;; --- stops

(defn- longest
  "How many nanoseconds the stop of the child takes; nil if that cannot be known."
  [{:keys [style ms shutdown]}]
  (let [limit (if (= :infinity shutdown) Long/MAX_VALUE (if (= :brutal-kill shutdown) 0 shutdown))
        millis (case style (:tidy :cleans :server) (min ms limit) :deaf limit :plain 0 nil)]
    (some->> millis (* 1000000))))

(defn- told-in-order [m order told]
  (reduce (fn [m [word pid alive]]
            (let [before (when-not (dynamic? m) (take-while #(not= pid %) order))]
              (cond
                (= :tidied word) m
                (not (some #{pid} order)) (wrong m :stops-another pid)
                (some (set alive) before) (wrong m :stops-before-the-later-one-has-ended pid)
                :else m)))
          m told))

(defn- left-its-time [m kids told]
  (reduce (fn [m {:keys [pid] :as kid}]
            (let [tidy? (and (#{:tidy :cleans :server} (:style kid)) (not= :brutal-kill (:shutdown kid))
                             (or (= :infinity (:shutdown kid)) (< (:ms kid) (:shutdown kid))))]
              (if (and tidy? (not (some #{[:tidied pid]} told)))
                (wrong m :killed-before-its-time (:id kid))
                m)))
          m kids))

(defn- in-time [m kids]
  (let [at (last (next-event m))
        took (- at (:at m))
        each (map longest kids)
        all (when (every? some? each) (reduce + each))
        right? (if (:strict m) = <=)]
    (if (or (nil? all) (dynamic? m) (right? took all))
      (assoc m :at at)
      (wrong m :stop-takes took :and-not all (map :id kids)))))

(defn- stop
  "These children are stopped, the last one first."
  [m kids]
  (let [kids (filter runs? (reverse kids))
        [told events] (split-with #(#{:stopping :tidied} (first %)) (:events m))
        m (told-in-order (assoc m :events events) (map :pid kids) told)]
    (cond-> (reduce down m kids)
      (seq kids) (in-time kids)
      (:strict m) (left-its-time kids told))))

;; --- starts

(defn- start
  "The child is started; the outcome is taken from the trace."
  [m {:keys [id]}]
  (let [[word started alive :as event] (next-event m)]
    (if (= [:start id] [word started])
      (let [[word outcome at :as event] (next-event (update m :events rest))]
        (if (= :started word)
          (none-alive-but-children (assoc m :events (drop 2 (:events m)) :outcome outcome :at at) alive)
          (wrong m :has-not-started id :but event)))
      (wrong m :starts id :but-the-trace-has event))))

(defn- start-all
  "Starts these in their order; :failed is the one that does not come up."
  [m kids]
  (reduce (fn [m kid]
            (let [{[how x] :outcome :as m} (start m kid)]
              (cond
                (:wrong m) (reduced m)
                (= :ok how) (change m kid assoc :pid x)
                (= :ignore how) (down m kid)
                :else (reduced (assoc m :failed kid)))))
          m kids))

(defn- group [{:keys [strategy kids]} {:keys [n] :as kid}]
  (case strategy
    :one-for-all kids
    :rest-for-one (filter #(<= n (:n %)) kids)
    [kid]))

(defn- members [m kids]
  (keep #(kid-of m :n (:n %)) kids))

(defn- start-group [m kids]
  (let [m (start-all m (members m kids))]
    (if-let [kid (:failed m)]
      (-> (dissoc m :failed) (change kid assoc :pid :restarting))
      m)))

(defn- stop-group
  "The others of a group are stopped; one whose start was being tried again is so with the group now, not by itself."
  [m others]
  (let [tried-again (filter #(= :restarting (:pid %)) others)]
    (reduce down (stop m others) tried-again)))

(defn- start-again [{:keys [intensity period] :as m} kid]
  (let [late (conj (filterv #(< (- (:at m) period) %) (:times m)) (:at m))
        m (assoc m :times late)]
    (if (< intensity (count late))
      (assoc (down m kid) :end :shutdown)
      (let [m (change m kid assoc :pid nil :last (if (= :restarting (:pid kid)) (:last kid) (:pid kid)))
            kids (group m kid)]
        (start-group (stop-group m (remove #(= (:n kid) (:n %)) (members m kids))) kids)))))

;; --- what is handled

(defn- as-it-should? [why]
  (or (#{:normal :shutdown} why) (and (vector? why) (= :shutdown (first why)) (= 2 (count why)))))

(defn- last-of-the-significant? [m]
  (not-any? #(and (:significant %) (:pid %)) (:kids m)))

(defn- end-of-significant [m {:keys [significant]}]
  (if (and significant (case (:auto-shutdown m) :any-significant true :all-significant (last-of-the-significant? m) false))
    (assoc m :end :shutdown)
    m))

(defn- exit [m pid why]
  (let [{:keys [restart] :as kid} (kid-of m :pid pid)]
    (cond
      (nil? kid) m
      (or (= :permanent restart) (and (= :transient restart) (not (as-it-should? why)))) (start-again m kid)
      :else (end-of-significant (down m kid) kid))))

(defn- add-started [m kid refusal]
  (let [{[how x :as outcome] :outcome :as m} (start m kid)
        keep? (or (= :ok how) (and (= :ignore how) (not (dynamic? m)) (not= :temporary (:restart kid))))
        m (assoc m :reply (case how :ok outcome :ignore (if (= :dynamic (:strategy m)) :ignore [:ok nil]) [:error (refusal x)]))]
    (if keep? (add m (assoc kid :pid x)) m)))

(defn- start-child [{:keys [template strategy max-children] :as m} x]
  (let [{:keys [pid] :as present} (when-not (dynamic? m) (kid-of m :id (:id x)))]
    (cond
      (= :simple-one-for-one strategy) (add-started m template identity)
      (and (= :dynamic strategy) (int? max-children) (<= max-children (count (:kids m)))) (assoc m :reply [:error :max-children])
      (= :dynamic strategy) (add-started m x identity)
      (and pid (not= :restarting pid)) (assoc m :reply [:error [:already-started pid]])
      present (assoc m :reply [:error :already-present])
      :else (add-started m x (fn [_] :refused)))))

(defn- to-terminate
  "The child of an id, or of a pid: also of the last one of a child whose start is tried again."
  [m x]
  (if (dynamic? m)
    (or (kid-of m :pid x) (first (filter #(and (= :restarting (:pid %)) (= x (:last %))) (:kids m))))
    (kid-of m :id x)))

(defn- terminate-child [m x]
  (if-let [kid (to-terminate m x)]
    (assoc (down (stop m [kid]) kid) :reply :ok)
    (assoc m :reply (when-not (= :simple-one-for-one (:strategy m)) [:error :not-found])))) ; :ok there if it is dead, which the trace does not say

(defn- stopped [m id f]
  (let [{:keys [pid] :as kid} (kid-of m :id id)]
    (cond
      (dynamic? m) (assoc m :reply [:error (:strategy m)])
      (nil? kid) (assoc m :reply [:error :not-found])
      (= :restarting pid) (assoc m :reply [:error :restarting])
      pid (assoc m :reply [:error :running])
      :else (f kid))))

(defn- restart-child [m id]
  (stopped m id (fn [kid]
                  (let [{[how x :as outcome] :outcome :as m} (start m kid)]
                    (if (= :ok how)
                      (assoc (change m kid assoc :pid x) :reply outcome)
                      (assoc m :reply (if (= :ignore how) [:ok nil] outcome)))))))

(defn- request [m [word x]]
  (case word
    :start-child (start-child m x)
    :terminate-child (terminate-child m x)
    :restart-child (restart-child m x)
    :delete-child (stopped m x #(assoc (change m % (constantly nil)) :reply :ok))
    m))

(defn- begin [m]
  (let [{:keys [failed outcome] :as m} (start-all m (:kids m))]
    (if failed
      (assoc (stop (dissoc m :failed) (:kids m)) :end [:shutdown [:failed-to-start-child (:id failed) (second outcome)]])
      m)))

(defn- try-again [m key]
  (if-let [kid (first (filter #(and (= :restarting (:pid %)) (= key ((if (dynamic? m) :n :id) %))) (:kids m)))]
    (start-again m kid)
    m))

(defn- handle [m [_ kind message at]]
  (let [m (-> m (assoc :at at) (dissoc :reply))]
    (case kind
      :init (begin m)
      :info (if (= :EXIT (first message)) (exit m (second message) (last message)) m)
      :cast (try-again m (second message))
      :call (request m message)
      :terminate (stop m (:kids m)))))

;; --- the whole trace

(defn shown
  "The children as [id pid]; those of a dynamic supervisor have no ids."
  [m]
  (mapv (juxt (if (dynamic? m) (constantly nil) :id) :pid) (:kids m)))

(defn- same-reply? [expected reply]
  (or (nil? expected) (= expected reply)
      (and (= [:error :refused] expected) (= :error (first reply)))))

(defn- compare-out [m kind]
  (let [[word {:keys [view reply end]} alive :as event] (next-event m)]
    (cond
      (:wrong m) m
      (not= :out word) (wrong m :does-not-expect event)
      (and (not= :terminate kind) (not= (:end m) end)) (wrong m :ends (:end m) :not end)
      (and view (not= (shown m) view)) (wrong m :has (shown m) :not view)
      (not (same-reply? (:reply m) reply)) (wrong m :replies (:reply m) :not reply)
      :else (none-alive-but-children m alive))))

(defn- handlings [trace]
  (reduce (fn [all event]
            (if (= :in (first event)) (conj all [event]) (update all (dec (count all)) conj event)))
          [] trace))

(defn- step [m [in & events]]
  (try
    (let [after (compare-out (handle (assoc m :events events) in) (second in))]
      (cond-> after (:wrong after) (-> (assoc :handling (into [in] events)) reduced)))
    (catch clojure.lang.ExceptionInfo e
      (reduced (assoc (or (::end (ex-data e)) (throw e)) :cut true)))))

(defn explain
  "The model after the trace: with :wrong if it does not explain it, and the :handling that it stopped at; with :cut if the supervisor was
  killed while it handled something. With :strict nothing happens meanwhile that the trace does not tell of."
  [{:keys [children strategy] :as spec} trace strict?]
  (let [dynamic (dynamic? spec)
        m {:strategy strategy :intensity (:intensity spec) :period (* 1000000 (:period spec)) :auto-shutdown (:auto-shutdown spec :never)
           :max-children (:max-children spec) :template (when dynamic (first children)) :strict strict?
           :kids [] :next 0 :times []}]
    (dissoc (reduce step (if dynamic m (reduce add m children)) (handlings trace)) :events)))
