(ns integrant.core
  "A stand-in for Integrant where that cannot be fetched: as much of its public protocol as the guide uses."
  (:refer-clojure :exclude [ref]))

(defrecord Ref [key])

(defn ref
  "A reference to the value of a key."
  [key]
  (->Ref key))

(defmulti init-key
  "Makes the value of a key."
  (fn [key _] key))

(defmulti halt-key!
  "Ends the value of a key."
  (fn [key _] key))

(defmethod halt-key! :default [_ _])

(defn- refs [x]
  (map :key (filter #(instance? Ref %) (tree-seq coll? seq x))))

(defn- order [config]
  (letfn [(visit [done key] (if (some #{key} done) done (conj (reduce visit done (refs (config key))) key)))]
    (reduce visit [] (keys config))))

(defn- resolved [system x]
  (cond
    (instance? Ref x) (system (:key x))
    (map? x) (update-vals x #(resolved system %))
    (vector? x) (mapv #(resolved system %) x)
    :else x))

(defn init
  "The system of a configuration, each key after those that it refers to."
  [config]
  (let [keys (order config)]
    (with-meta (reduce (fn [system key] (assoc system key (init-key key (resolved system (config key))))) {} keys)
      {::order keys})))

(defn halt!
  "Ends all keys of the system, in reverse."
  [system]
  (doseq [key (reverse (::order (meta system)))]
    (halt-key! key (system key))))
