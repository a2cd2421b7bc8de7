(ns magnetar.supervisor.specs
  "What a supervisor is told, checked: what is wrong is said with where it stands, and what was meant."
  {:no-doc true}
  (:require
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.gen-server :as gs]
   [magnetar.impl.actor.codec :as codec]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.clock :as clock]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.reasons :as reasons]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest]
   [magnetar.proc-lib :as proc-lib])
  (:import
   (java.io FileNotFoundException)))

(set! *warn-on-reflection* true)

(def ^:private strategies [:one-for-one :one-for-all :rest-for-one :simple-one-for-one :dynamic])
(def ^:private restarts [:permanent :transient :temporary])
(def ^:private types [:worker :supervisor])
(def ^:private auto-shutdowns [:never :any-significant :all-significant])
(def ^:private flag-keys [:strategy :intensity :period :auto-shutdown :children :max-children :extra-arguments :history])
(def child-keys
  "The keys of a child spec."
  [:id :start :restart :shutdown :type :significant])

;; ---- what is wrong

(def ^:dynamic *within*
  "Where a spec stands that is a part of another one."
  [])

(defn invalid
  "Throws what is wrong: why, where, the value, what it may be, and what was meant."
  [kind why at value may-be meant]
  (let [path (into *within* at)]
    (throw (ex-info "an error in a spec" {::refusal [kind {:why why
                                                           :path (codec/plain path) ; a key or a value may have no end
                                                           :value (codec/plain value)
                                                           :meant meant
                                                           :message (str (str/replace (name why) "-" " ") " at " (arguments/show path) ": " (arguments/show value)
                                                                         "; expected " may-be "."
                                                                         (when meant (str " Is " meant " meant?")))}]}))))

(def ^:private misuses
  "The :magnetar/reason of each kind of error in a spec."
  {:start-spec :magnetar/bad-child-spec
   :supervisor-data :magnetar/bad-supervisor-spec
   :bad-start-spec :magnetar/bad-supervisor-spec
   :bad-return :magnetar/bad-supervisor-spec
   :application-spec :magnetar/bad-application-spec})

(defn- exit-reason
  "The exit reason of a process that dies of the error: Erlang's."
  [[kind refusal :as reason]]
  (if (= :bad-return kind) [:bad-return [:init (:value refusal)]] reason))

(defn refuse
  "Throws [kind what is wrong] in the caller: a program that gives a wrong spec is told so where it gives it."
  [[kind {:keys [message] :as refusal} :as reason]]
  (let [operation (errors/operation)]
    (arguments/misuse (misuses kind)
                      (str (when operation (str "`" operation "`: ")) message)
                      (assoc (dissoc refusal :message) :magnetar/exit (exit-reason reason)))))

(defn refused?
  "Was the error thrown by `refuse`?"
  [error]
  (let [{:magnetar/keys [reason exit]} (ex-data error)]
    (boolean (and exit (some #{reason} (vals misuses))))))

(defn as-error
  "The error of a process whose starter, or caller, is to throw [kind what is wrong]; see `unless-refused`."
  [reason]
  [:error [::refusal reason]])

(defn unless-refused
  "The outcome of a start, or the answer to one; throws if it is `as-error`."
  [outcome]
  (let [[_ why] (when (vector? outcome) outcome)]
    (if (and (vector? why) (= ::refusal (first why)))
      (refuse (second why))
      outcome)))

;; By =, here and below: a set would hash the value, which may have no end.
(defn- among? [values x]
  (boolean (some #(= x %) values)))

(defn- one-of [kind why at value allowed]
  (when-not (among? allowed value)
    (invalid kind why at value (str "one of " (str/join ", " allowed)) (suggest/closest value allowed)))
  value)

(defn- same-stem
  "The one of these keywords that begins with the same five letters as x, or nil."
  [x keywords]
  (when (ident? x)
    (let [stem (fn [word] (subs (name word) 0 (min 5 (count (name word)))))]
      (first (filter #(and (= 5 (count (stem x))) (= (stem x) (stem %))) keywords)))))

(def ^:private elixirs
  "What Elixir calls otherwise."
  {:max-restarts :intensity, :max-seconds :period})

(defn known-keys
  "Refuses a key that a spec does not have, and says which one may have been meant."
  [kind at known m]
  (doseq [[k value] m ; not looked up by the key, which may have no end
          :when (not (among? known k))
          :let [free (remove #(contains? m %) known)]]
    (invalid kind :unknown-key (conj at k) value (str "a key of " (str/join ", " known)) (or (elixirs k) (suggest/closest k free) (same-stem k free)))))

(defn- whole [kind why at value]
  (when-not (nat-int? value)
    (invalid kind why at value (str "a whole number from 0 to " Long/MAX_VALUE) nil))
  value)

(defn- nanos [kind why at value may-be]
  (try
    (when (coll? value) (throw (IllegalArgumentException.))) ; its printed form may have no end
    (clock/nanos value)
    (catch RuntimeException _
      (invalid kind why at value may-be nil))))

(def ^:private a-period
  "a duration above 0, in which restarts are counted; {:intensity 0} allows no restart")

(defn- check-period [at value]
  (let [period (nanos :supervisor-data :invalid-period at value a-period)]
    (when (zero? (long period))
      (invalid :supervisor-data :invalid-period at value a-period nil))
    period))

;; ---- children

(def ^:private most-seen 1000)

(defn- endless?
  "True if the value has no end, as far as one can see: what has more than 1,000 values and has not counted them."
  [x]
  (and (coll? x)
       (or (and (not (counted? x)) (< (long most-seen) (long (bounded-count (inc (long most-seen)) x))))
           (some endless? x))))

;; Data are functions too, and one that stands here is a start that was called, or a name that was not looked up.
(defn- function? [x]
  (and (ifn? x) (not (keyword? x)) (not (symbol? x)) (not (coll? x)) (not (:macro (meta x)))))

(defn- public-in [ns sym]
  (get (ns-publics ns) sym))

(defn- starred
  "The function behind a macro, which has its name with a star; nil if there is no such function."
  [macro]
  (let [{:keys [name ns]} (meta macro)]
    (public-in ns (symbol (str name "*")))))

(defn- a-start
  "What a start may be, in words, where this is in its place: of a macro the function is named."
  [x]
  (if-some [function (when (and (var? x) (:macro (meta x))) (starred x))]
    (str "a function: `" (symbol x) "` is a macro, write `" (symbol function) "`")
    "a function, or a vector of a function and its arguments, as in [gs/start-link 'my.counter 0]"))

(defn- check-start [at start]
  (when (nil? start)
    (invalid :start-spec :missing-start at start "a child spec with :start, as in [gs/start-link 'my.counter 0]" nil))
  (let [whole (if (and (sequential? start) (not (endless? start))) (vec start) [start])]
    (when-not (function? (first whole))
      (invalid :start-spec :invalid-start (conj at :start) start (a-start (first whole)) nil))
    whole))

(defn- check-shutdown [at shutdown]
  (when-not (among? [:brutal-kill :infinity] shutdown)
    (when (keyword? shutdown)
      (invalid :start-spec :invalid-shutdown (conj at :shutdown) shutdown "milliseconds, a java.time.Duration, :infinity or :brutal-kill"
        (suggest/closest shutdown [:brutal-kill :infinity])))
    (nanos :start-spec :invalid-shutdown (conj at :shutdown) shutdown "a duration: milliseconds from 0 up, a java.time.Duration or :infinity"))
  shutdown)

(defn- check-significant [at {:keys [restart significant]} auto-shutdown]
  (when-not (boolean? significant)
    (invalid :start-spec :invalid-significant (conj at :significant) significant "true or false" nil))
  (when (and significant (or (= :permanent restart) (= :never auto-shutdown)))
    (invalid :start-spec :bad-combination (conj at :significant) [restart auto-shutdown]
      "a significant child to be :transient or :temporary, under a supervisor with :auto-shutdown" nil)))

;; ---- children given by a namespace

(defn- guarded
  "The value of (f), or (failed e) of what it throws. The end of this process by a signal goes on."
  [f failed]
  (try
    (f)
    (catch Throwable e
      (if (proc-lib/failed-here? e) (failed e) (throw e)))))

(defn- load-error
  "What kept a namespace from being loaded, in one line, as a prompt says it."
  [e]
  (-> (main/ex-str (main/ex-triage (Throwable->map e))) str/trim (str/replace #"\s+" " ")))

(defn- not-loaded [at sym e]
  (if (instance? FileNotFoundException e)
    (invalid :start-spec :no-such-namespace at sym (str "a namespace that can be loaded. " (str/replace (str (ex-message e)) #"\.$" "")) nil)
    (invalid :start-spec :namespace-does-not-load at sym (str "a namespace that can be loaded. " (str/replace (load-error e) #"\.$" "")) nil)))

(defn- namespace-of
  "The namespace, loaded. One that failed to load is among the libs that are there, by its `ns`, and would not be loaded again: so :reload."
  [at sym]
  (guarded #(do
              (when-not (find-ns sym) (require sym :reload))
              (the-ns sym))
           #(not-loaded at sym %)))

(defn- start-link-in
  "The function of the namespace that starts a child: if start-link is a macro, the starred one."
  [ns]
  (let [start-link (public-in ns 'start-link)]
    (if (:macro (meta start-link)) (starred start-link) start-link)))

(def ^:private supervisors '#{magnetar.supervisor magnetar.task.supervisor magnetar.pool magnetar.registry})

(defn- call-of
  "The start function with its argument, or without one if none is given and it takes none."
  [start-link arguments]
  (into [start-link] (if (or (seq arguments) (some #(= [] %) (:arglists (meta start-link)))) arguments [nil])))

(defn- name-in
  "The :name in the options that a start is given: several of a kind under one supervisor differ by it, as in Elixir."
  [[options]]
  (when (map? options) (:name options)))

(defn- said-by
  "What the function child-spec of the namespace returns for the argument."
  [at sym child-spec argument]
  (guarded #(child-spec argument)
           (fn [e]
             (invalid :start-spec :child-spec-failed at sym
               (str "a map from (" sym "/child-spec " (arguments/show argument) "). It threw: " (reasons/text (codec/reason e)))
               nil))))

(defn- spec-by-namespace
  "What the function child-spec of the namespace says, or the spec of its start-link, or of the server whose callbacks it has."
  [at sym arguments]
  (let [ns (namespace-of at sym)
        start-link (start-link-in ns)
        tree? (contains? supervisors sym)]
    (cond
      (and (public-in ns 'child-spec) (not tree?)) (said-by at sym (public-in ns 'child-spec) (first arguments))
      start-link (cond-> {:id (or (when tree? (name-in arguments)) sym) :start (call-of start-link arguments)}
                   tree? (assoc :type :supervisor)
                   (= 'magnetar.task sym) (assoc :restart :temporary))
      (public-in ns 'handle-call) {:id sym :start [gs/start-link sym (first arguments)]}
      :else (invalid :start-spec :no-child-spec at sym "a namespace with child-spec, start-link or the callbacks of a server" nil))))

(defn- by-namespace? [x]
  (or (simple-symbol? x)
      (and (vector? x) (= 2 (count x)) (simple-symbol? (first x)))))

(def ^:private here (Object.))

(defn from-here
  "The child spec of a request to a supervisor, marked as from this node if it is given by a namespace. Metadata do not travel."
  [x]
  (if (by-namespace? x)
    (with-meta (if (vector? x) (into [] x) x) {::from here})
    x))

;; A peer could write any pid as the caller into a request. It cannot write the mark.
(defn- check-from-here
  "Refuses a namespace of a request from another node, which would choose what is loaded and called here."
  [x]
  (when (and (by-namespace? x) (not (identical? here (::from (meta x)))))
    (invalid :start-spec :namespace-from-elsewhere [] x
      "no namespace, since the request is from another node. Call `start-child` on the supervisor's node, as with `cluster/spawn`" nil)))

(defn given
  "The child spec as a map: as it stands, or what the namespace says that is given as a symbol, or as a vector of symbol and argument."
  [at x]
  (cond
    (not (by-namespace? x)) x
    (symbol? x) (spec-by-namespace at x [])
    :else (spec-by-namespace at (first x) (rest x))))

(defn child
  "A child spec with all its keys, checked."
  [at x {:keys [auto-shutdown needs-id] :or {auto-shutdown :never needs-id true}}]
  (let [spec (given at x)]
    (when-not (map? spec)
      (invalid :start-spec :invalid-child-spec at spec "a map with :id and :start, or the symbol of a namespace" nil))
    (known-keys :start-spec at child-keys spec)
    (when (and needs-id (nil? (:id spec)))
      (invalid :start-spec :missing-id at spec "a child spec with an :id" nil))
    (when (endless? (:id spec))
      (invalid :start-spec :invalid-id (conj at :id) (:id spec) "an :id that ends" nil))
    (let [kind (one-of :start-spec :invalid-child-type (conj at :type) (:type spec :worker) types)
          whole-spec (merge {:restart :permanent, :significant false, :shutdown (if (= :supervisor kind) :infinity 5000)}
                            (select-keys spec child-keys)
                            {:type kind, :start (check-start at (:start spec))})]
      (one-of :start-spec :invalid-restart-type (conj at :restart) (:restart whole-spec) restarts)
      (check-shutdown at (:shutdown whole-spec))
      (check-significant at whole-spec auto-shutdown)
      whole-spec)))

(defn- check-ids [at children]
  (reduce (fn [seen [n {:keys [id]}]]
            (when (contains? seen id)
              (invalid :start-spec :duplicate-child-name (conj at n :id) id "an :id for each child that no other one has" nil))
            (conj seen id))
          #{}
          (map-indexed vector children)))

(defn- check-dynamic
  "Refuses what only a :dynamic supervisor has: elsewhere it would do nothing."
  [spec strategy]
  (doseq [k [:max-children :extra-arguments] :when (not (or (= :dynamic strategy) (among? [nil :infinity] (k spec))))]
    (invalid :supervisor-data :only-of-dynamic [k] (k spec) (str "it only with {:strategy :dynamic}, and this one is " strategy) nil)))

(defn- check-auto-shutdown
  "Refuses an end by significant children where children are no part of the spec: as OTP for templates, and Elixir."
  [auto strategy]
  (when (and (not= :never auto) (#{:simple-one-for-one :dynamic} strategy))
    (invalid :supervisor-data (if (= :dynamic strategy) :invalid-auto-shutdown :bad-combination) [:auto-shutdown] [auto strategy]
      "an :auto-shutdown only with :one-for-one, :one-for-all or :rest-for-one" nil)))

(defn- check-max-children [x]
  (when-not (nat-int? x)
    (invalid :supervisor-data :invalid-max-children [:max-children] x (str "a whole number from 0 to " Long/MAX_VALUE ", or :infinity") nil)))

(defn- check-extra-arguments [x]
  (when-not (or (nil? x) (and (sequential? x) (not (endless? x))))
    (invalid :supervisor-data :invalid-extra-arguments [:extra-arguments] x "a vector of arguments" nil))
  (vec x))

(defn- check-children [{:keys [children strategy at] :or {at [:children]} :as flags}]
  (when-not (or (nil? children) (sequential? children))
    (invalid :start-spec :invalid-children at children "a vector of child specs" nil))
  (let [simple? (= :simple-one-for-one strategy)]
    (when (or (and simple? (not= 1 (count children))) (and (= :dynamic strategy) (seq children)))
      (invalid :bad-start-spec :wrong-number-of-children at children
        (if simple?
          "one child spec, the template of a :simple-one-for-one"
          "no children, since those of a :dynamic supervisor are started by start-child")
        nil))
    (let [checked (vec (map-indexed #(child (conj at %1) %2 flags) children))]
      (check-ids at checked)
      checked)))

;; ---- flags

(defn- default-intensity [strategy]
  (if (= :dynamic strategy) 3 1))

(defn check
  "The flags of a supervisor's spec, with the checked child specs under :specs."
  [spec]
  (when-not (map? spec)
    (invalid :supervisor-data :invalid-spec [] spec "a map with :strategy and :children" nil))
  (known-keys :supervisor-data [] flag-keys spec)
  (let [strategy (one-of :supervisor-data :invalid-strategy [:strategy] (:strategy spec :one-for-one) strategies)
        auto (one-of :supervisor-data :invalid-auto-shutdown [:auto-shutdown] (:auto-shutdown spec :never) auto-shutdowns)
        period (check-period [:period] (:period spec 5000))
        flags {:strategy strategy
               :auto-shutdown auto
               :intensity (whole :supervisor-data :invalid-intensity [:intensity] (:intensity spec (default-intensity strategy)))
               :period period
               :max-children (:max-children spec :infinity)
               :extra-arguments (check-extra-arguments (:extra-arguments spec))
               :history-size (whole :supervisor-data :invalid-history [:history] (:history spec 50))}]
    (check-dynamic spec strategy)
    (check-auto-shutdown auto strategy)
    (when-not (= :infinity (:max-children flags))
      (check-max-children (:max-children flags)))
    (assoc flags :specs (check-children (assoc flags :children (:children spec))))))

(defn caught
  "[:ok value of f], or [:error [kind what is wrong]] if it found an error in a spec."
  [f]
  (try
    [:ok (f)]
    (catch clojure.lang.ExceptionInfo e
      (if-some [refusal (::refusal (ex-data e))]
        [:error refusal]
        (throw e)))))

(defn supervisor
  "[:ok flags], with the checked child specs under :specs, or [:error [kind what is wrong]]."
  [spec]
  (caught #(check spec)))

(defn returned
  "Like `supervisor`, of what the function returned that the program gave as its spec."
  [value]
  (if (map? value)
    (supervisor value)
    (caught #(invalid :bad-return :invalid-spec [] value "a map with :strategy and :children, or :ignore, from the function" nil))))

(defn one-child
  "[:ok child spec] of what a request gives, or [:error [kind what is wrong]]."
  [spec flags]
  (caught #(do (check-from-here spec)
               (child [] spec flags))))

(defn children
  "nil, or what is wrong with these child specs under a supervisor with this :auto-shutdown."
  [specs auto-shutdown]
  (let [[how x] (caught #(do (one-of :supervisor-data :invalid-auto-shutdown [:auto-shutdown] auto-shutdown auto-shutdowns)
                             (check-children {:children specs :strategy :one-for-one :auto-shutdown auto-shutdown :at []})))]
    (when (= :error how)
      (second x))))

(defn more-arguments
  "[:ok arguments] for the start of a template, or [:error [kind what is wrong]]."
  [x]
  (caught #(if (or (nil? x) (sequential? x))
             (vec x)
             (invalid :start-spec :invalid-arguments [] x "a vector of more arguments for the start of the template" nil))))
