(ns magnetar.application.specs
  "What an application is told, checked; and the order in which applications start."
  {:no-doc true}
  (:require
   [magnetar.impl.suggest :as suggest]
   [magnetar.supervisor.specs :as specs]))

(set! *warn-on-reflection* true)

(def ^:private known
  [:name :description :vsn :env :applications :optional-applications :included-applications :start :prep-stop :stop])

(defn- refuse [why at value may-be meant]
  (specs/invalid :application-spec why at value may-be meant))

(defn- callable? [f]
  (and (ifn? f) (not (ident? f)) (not (coll? f))))

;; ---- one application

(defn- named? [x]
  (or (keyword? x) (symbol? x)))

(defn- check-name [spec]
  (when-not (named? (:name spec))
    (refuse :invalid-name [:name] (:name spec) "a :name that is a keyword or symbol" nil)))

(defn- check-start [start]
  (cond
    (map? start) (binding [specs/*within* (conj specs/*within* :start)] (specs/check start))
    (and (vector? start) (callable? (first start))) nil
    (or (nil? start) (callable? start)) nil
    :else (refuse :invalid-start [:start] start "the spec of a supervisor, or a function, or a vector of a function and its arguments" nil)))

(defn- check-callback [spec word]
  (when-not (or (nil? (word spec)) (callable? (word spec)))
    (refuse :invalid-callback [word] (word spec) "a function" nil)))

(defn- check-names [spec word]
  (let [names (word spec)]
    (when-not (or (nil? names) (sequential? names))
      (refuse :invalid-names [word] names "a vector of names of applications" nil))
    (doseq [[i x] (map-indexed vector names)
            :when (not (named? x))]
      (refuse :invalid-name [word i] x "the name of an application, a keyword or symbol" nil))))

(declare check)

(defn- included [i spec]
  (binding [specs/*within* (conj specs/*within* :included-applications i)]
    (check spec)))

(defn- check
  "The spec, checked; those that it includes are under :included."
  [spec]
  (when-not (map? spec)
    (refuse :invalid-application-spec [] spec "a map with :name, and with :start if it has processes" nil))
  (specs/known-keys :application-spec [] known spec)
  (check-name spec)
  (check-start (:start spec))
  (run! #(check-callback spec %) [:prep-stop :stop])
  (run! #(check-names spec %) [:applications :optional-applications])
  (when-not (or (nil? (:env spec)) (map? (:env spec)))
    (refuse :invalid-env [:env] (:env spec) "a map" nil))
  (when-not (or (nil? (:included-applications spec)) (sequential? (:included-applications spec)))
    (refuse :invalid-names [:included-applications] (:included-applications spec) "a vector of specs of applications" nil))
  (assoc spec :included (vec (map-indexed included (:included-applications spec)))))

(defn application
  "The spec, checked; throws in the caller if it is wrong."
  [spec]
  (let [[how x] (specs/caught #(check spec))]
    (if (= :ok how) x (specs/refuse x))))

;; ---- the order

(defn- unknown [specs from word i wanted]
  {:why :unknown-application
   :path [from word i]
   :value wanted
   :meant (suggest/closest wanted (keys specs))})

(defn- wanted-by
  "The applications that must have started before this one starts. Throws if one is not loaded, unless it is optional."
  [specs from]
  (let [{:keys [applications optional-applications]} (specs from)
        optional? (set optional-applications)
        needed (remove optional? applications)]
    (doseq [[i x] (map-indexed vector applications)
            :when (and (not (optional? x)) (not (contains? specs x)))
            :let [{:keys [why path value meant]} (unknown specs from :applications i x)]]
      (refuse why path value "an application that is loaded" meant))
    (concat needed (filter specs optional-applications))))

(declare visit)

(defn- visit-all [specs state path names]
  (reduce #(visit specs %1 path %2) state names))

(defn- visit [specs state path name]
  (cond
    (some #{name} (:order state)) state
    (some #{name} path) (let [way (conj (vec (drop-while #(not= name %) path)) name)]
                          (refuse :cycle [(peek path) :applications] way "applications that do not depend on themselves" nil))
    :else (-> (visit-all specs state (conj path name) (wanted-by specs name))
              (update :order conj name))))

(defn in-order
  "[:ok names], these applications and all that they depend on, in the order of their start; or [:error [kind what is wrong]]."
  [specs names]
  (specs/caught
    (fn []
      (doseq [[i x] (map-indexed vector names)
              :when (not (contains? specs x))]
        (refuse :unknown-application [i] x "an application that is loaded" (suggest/closest x (keys specs))))
      (:order (visit-all specs {:order []} [] names)))))
