(ns magnetar.application.loaded
  "The applications that are known, and their environments: a value for all of the world, read without asking a process."
  {:no-doc true}
  (:require
   [magnetar.impl.environment :as environment]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

;; {:specs {name spec}, :put {name {key value}}}: what was put is kept apart, so that it outlives a new spec.
(defonce ^:private real (atom {}))

(defn- here []
  (environment/local real ::loaded {}))

(defn specs
  "All specs, by name."
  []
  (or (:specs @(here)) {}))

(defn- add-spec [known spec]
  (reduce add-spec (assoc-in known [:specs (:name spec)] spec) (:included spec)))

(defn put-spec
  "Makes the spec, and those that it includes, known."
  [spec]
  (swap! (here) add-spec spec))

(defn forget
  "Forgets the application, and what was put into its environment."
  [name]
  (swap! (here) #(-> % (update :specs dissoc name) (update :put dissoc name))))

(defn env
  "The environment of an application."
  [name]
  (let [known @(here)]
    (into {}
          (remove #(= ::unset (val %)))
          (merge (get-in known [:specs name :env]) (get-in known [:put name])))))

(defn put-env
  "Sets a key of an environment."
  [name key value]
  (swap! (here) assoc-in [:put name key] value))

(defn unset-env
  "Takes a key out of an environment."
  [name key]
  (put-env name key ::unset))
