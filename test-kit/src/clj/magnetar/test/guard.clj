(ns magnetar.test.guard
  "`future`, `send` and `send-off` run on threads of a pool, which no seed orders: called in a simulation they are refused, at the line."
  {:no-doc true}
  (:require
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Agent)
   (java.lang.reflect InvocationHandler InvocationTargetException Method Proxy)
   (java.util.concurrent ExecutorService)
   (magnetar.kernel.sim Simulation)))

(set! *warn-on-reflection* true)

(definterface Guarding)

(defn- refuse []
  (throw (errors/illegal-state :magnetar.test/foreign-thread
                               (Simulation/refuse "A future, a pmap or an agent was used in a simulation")
                               {})))

(defn- call [^Method method executor arguments]
  (try
    (.invoke method executor arguments)
    (catch InvocationTargetException e (throw (.getCause e)))))

(defn- guarded
  "The executor, which refuses fibers of a simulation."
  [executor]
  (if (instance? Guarding executor)
    executor
    (Proxy/newProxyInstance (.getClassLoader Guarding)
                            (into-array Class [ExecutorService Guarding])
                            (reify InvocationHandler
                              (invoke [_ _ method arguments]
                                (when (Simulation/isInside) (refuse))
                                (call method executor arguments))))))

(defn install
  "Puts the guard before the pools of Clojure; real fibers and threads pass it."
  []
  (set-agent-send-executor! (guarded Agent/pooledExecutor))
  (set-agent-send-off-executor! (guarded Agent/soloExecutor)))

(install)
