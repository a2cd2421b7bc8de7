(ns magnetar.supervisor.specs
  "What a supervisor is told, checked: what is wrong is said with where it stands, and what was meant."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.gen-server.behaviour :as behaviour]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.time Durations)))

(set! *warn-on-reflection* true)

(def ^:private strategies [:one-for-one :one-for-all :rest-for-one :simple-one-for-one :dynamic])
(def ^:private restarts [:permanent :transient :temporary])
(def ^:private types [:worker :supervisor])
(def ^:private auto-shutdowns [:never :any-significant :all-significant])
(def ^:private flag-keys [:strategy :intensity :period :auto-shutdown :children :max-children :extra-arguments :history])
(def ^:private child-keys [:id :start :restart :shutdown :type :significant])

;; ---- what is wrong

(def ^:dynamic *within*
  "Where a spec stands that is a part of another one."
  [])

(defn flaw
  "Throws what is wrong: why, where, the value, what it may be, and what was meant."
  [kind why at value may-be meant]
  (let [at (into *within* at)]
    (throw (ex-info "flaw" {::flaw [kind {:why why
                                          :at at
                                          :value value
                                          :meant meant
                                          :message (str (str/replace (name why) "-" " ") " at " (pr-str at) ": " (arguments/show value) "; " may-be "."
                                                        (when meant (str " Is " meant " meant?")))}]}))))

(defn- one-of [kind why at value allowed]
  (when-not (some #{value} allowed)
    (flaw kind why at value (str "one of " (str/join ", " allowed)) (behaviour/near value allowed)))
  value)

(defn misspelt
  "Refuses a key that is none, but nearly one that is missing; other keys are nobody's business."
  [kind at known m]
  (doseq [k (remove (set known) (keys m))
          :let [meant (behaviour/near k (remove #(contains? m %) known))]
          :when meant]
    (flaw kind :unknown-key (conj at k) (m k) (str "the keys are " (str/join ", " known)) meant)))

(defn- whole [kind why at value]
  (when-not (nat-int? value)
    (flaw kind why at value "a whole number from 0 up" nil))
  value)

(defn- nanos [kind why at value]
  (try
    (Durations/nanos value)
    (catch RuntimeException _
      (flaw kind why at value "a duration: milliseconds, a java.time.Duration or :infinity" nil))))

;; ---- children

;; Data are functions too, and one that stands here is a start that was called, or a name that was not looked up.
(defn- function? [x]
  (and (ifn? x) (not (keyword? x)) (not (symbol? x)) (not (coll? x))))

(defn- check-start [at start]
  (when (nil? start)
    (flaw :start-spec :missing-start at start "a child needs :start, as in [gs/start-link 'my.counter 0]" nil))
  (let [whole (if (sequential? start) (vec start) [start])]
    (when-not (function? (first whole))
      (flaw :start-spec :invalid-start (conj at :start) start
            "a function, or a vector of a function and its arguments, as in [gs/start-link 'my.counter 0]" nil))
    whole))

(defn- check-shutdown [at shutdown]
  (if (#{:brutal-kill :infinity} shutdown)
    shutdown
    (do
      (when (keyword? shutdown)
        (flaw :start-spec :invalid-shutdown (conj at :shutdown) shutdown "milliseconds, a java.time.Duration, :infinity or :brutal-kill"
              (behaviour/near shutdown [:brutal-kill :infinity])))
      (nanos :start-spec :invalid-shutdown (conj at :shutdown) shutdown)
      shutdown)))

(defn- check-significant [at {:keys [restart significant]} auto-shutdown]
  (when-not (boolean? significant)
    (flaw :start-spec :invalid-significant (conj at :significant) significant "true or false" nil))
  (when (and significant (or (= :permanent restart) (= :never auto-shutdown)))
    (flaw :start-spec :bad-combination (conj at :significant) [restart auto-shutdown]
          "a significant child is :transient or :temporary, under a supervisor with :auto-shutdown" nil)))

(defn child
  "A child spec with all its keys, checked."
  [at spec {:keys [auto-shutdown needs-id] :or {auto-shutdown :never needs-id true}}]
  (when-not (map? spec)
    (flaw :start-spec :invalid-child-spec at spec "a map with :id and :start" nil))
  (misspelt :start-spec at child-keys spec)
  (when (and needs-id (nil? (:id spec)))
    (flaw :start-spec :missing-id at spec "a child needs an :id" nil))
  (let [kind (one-of :start-spec :invalid-child-type (conj at :type) (:type spec :worker) types)
        whole-spec (merge {:restart :permanent, :significant false, :shutdown (if (= :supervisor kind) :infinity 5000)}
                          (select-keys spec child-keys)
                          {:type kind, :start (check-start at (:start spec))})]
    (one-of :start-spec :invalid-restart-type (conj at :restart) (:restart whole-spec) restarts)
    (check-shutdown at (:shutdown whole-spec))
    (check-significant at whole-spec auto-shutdown)
    whole-spec))

(defn- check-ids [children]
  (reduce (fn [seen [n {:keys [id]}]]
            (when (contains? seen id)
              (flaw :start-spec :duplicate-child-name [:children n :id] id "each child has an :id of its own" nil))
            (conj seen id))
          #{}
          (map-indexed vector children)))

(defn- check-dynamic
  "Refuses what only a :dynamic supervisor has: elsewhere it would do nothing."
  [spec strategy]
  (doseq [k [:max-children :extra-arguments] :when (not (or (= :dynamic strategy) (contains? #{nil :infinity} (k spec))))]
    (flaw :supervisor-data :only-of-dynamic [k] (k spec) (str "a supervisor with {:strategy :dynamic} has it, and this one is " strategy) nil)))

(defn- check-extra-arguments [x]
  (when-not (or (nil? x) (sequential? x))
    (flaw :supervisor-data :invalid-extra-arguments [:extra-arguments] x "a vector of arguments" nil))
  (vec x))

(defn- check-children [{:keys [children strategy] :as flags}]
  (when-not (or (nil? children) (sequential? children))
    (flaw :start-spec :invalid-children [:children] children "a vector of child specs" nil))
  (let [simple? (= :simple-one-for-one strategy)]
    (when (or (and simple? (not= 1 (count children))) (and (= :dynamic strategy) (seq children)))
      (flaw :bad-start-spec :wrong-number-of-children [:children] children
            (if simple? "a :simple-one-for-one has one child spec, the template" "a :dynamic supervisor begins without children") nil))
    (let [checked (vec (map-indexed #(child [:children %1] %2 flags) children))]
      (check-ids checked)
      checked)))

;; ---- flags

(defn- default-intensity [strategy]
  (if (= :dynamic strategy) 3 1))

(defn check
  "The flags of a supervisor's spec, with the checked child specs under :specs."
  [spec]
  (when-not (map? spec)
    (flaw :supervisor-data :invalid-spec [] spec "a map with :strategy and :children" nil))
  (misspelt :supervisor-data [] flag-keys spec)
  (let [strategy (one-of :supervisor-data :invalid-strategy [:strategy] (:strategy spec :one-for-one) strategies)
        auto (one-of :supervisor-data :invalid-auto-shutdown [:auto-shutdown] (:auto-shutdown spec :never) auto-shutdowns)
        period (nanos :supervisor-data :invalid-period [:period] (:period spec 5000))
        flags {:strategy strategy
               :auto-shutdown auto
               :intensity (whole :supervisor-data :invalid-intensity [:intensity] (:intensity spec (default-intensity strategy)))
               :period period
               :max-children (:max-children spec :infinity)
               :extra-arguments (check-extra-arguments (:extra-arguments spec))
               :history-size (whole :supervisor-data :invalid-history [:history] (:history spec 50))}]
    (check-dynamic spec strategy)
    (when-not (= :infinity (:max-children flags))
      (whole :supervisor-data :invalid-max-children [:max-children] (:max-children flags)))
    (assoc flags :specs (check-children (assoc flags :children (:children spec))))))

(defn caught
  "[:ok value of f], or [:error [kind what is wrong]] if it found a flaw."
  [f]
  (try
    [:ok (f)]
    (catch clojure.lang.ExceptionInfo e
      (if-some [flaw (::flaw (ex-data e))]
        [:error flaw]
        (throw e)))))

(defn supervisor
  "[:ok flags], with the checked child specs under :specs, or [:error [kind what is wrong]]."
  [spec]
  (caught #(check spec)))

(defn one-child
  "[:ok child spec], or [:error what is wrong]."
  [spec flags]
  (let [[how x] (caught #(child [] spec flags))]
    (if (= :ok how) [:ok x] [:error (second x)])))

(defn more-arguments
  "[:ok arguments] for the start of a template, or [:error what is wrong]."
  [x]
  (let [[how y] (caught #(if (or (nil? x) (sequential? x))
                           (vec x)
                           (flaw :start-spec :invalid-arguments [] x "a vector of more arguments for the start of the template" nil)))]
    (if (= :ok how) [:ok y] [:error (second y)])))
