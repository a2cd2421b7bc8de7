(ns magnetar.breaker
  "Deprecated: the circuit breaker has moved to `magnetar.resilience`.

  These are its names of version 0.1."
  {:deprecated "0.2"}
  (:require
   [magnetar.impl.runtime]
   [magnetar.resilience :as resilience]))

(set! *warn-on-reflection* true)

(defn start-link
  "Deprecated: use `magnetar.resilience/start-breaker-link`."
  {:deprecated "0.2"}
  [options]
  (resilience/start-breaker-link options))

(defn start
  "Deprecated: use `magnetar.resilience/start-breaker`."
  {:deprecated "0.2"}
  [options]
  (resilience/start-breaker options))

(defn call
  "Deprecated: use `magnetar.resilience/call`.

  It takes a policy, as in (call (circuit-breaker :payments) charge card)."
  {:deprecated "0.2"}
  [breaker f & args]
  (apply resilience/call (resilience/circuit-breaker breaker) f args))

(defn status
  "Deprecated: use @(magnetar.resilience/circuit-breaker :payments)."
  {:deprecated "0.2"}
  [breaker]
  @(resilience/circuit-breaker breaker))

(defn subscribe
  "Deprecated: use `magnetar.resilience/subscribe`."
  {:deprecated "0.2"}
  [breaker]
  (resilience/subscribe breaker))
