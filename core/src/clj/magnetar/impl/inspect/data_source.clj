(ns magnetar.impl.inspect.data-source
  "A javax.sql.DataSource that records which threads hold its connections."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.inspect.resources :as resources]
   [magnetar.impl.runtime])
  (:import
   (clojure.lang Reflector)
   (java.lang.reflect InvocationHandler InvocationTargetException Method Proxy)
   (java.sql Connection)
   (javax.sql DataSource)))

(set! *warn-on-reflection* true)

(defn- call [^Method method target args]
  (try
    (.invoke method target args)
    (catch InvocationTargetException e
      (throw (.getCause e)))))

(defn- proxied
  "An object with these interfaces whose methods call (f self method args), except `equals` and `hashCode`, which go
  by identity."
  [interfaces f]
  (Proxy/newProxyInstance
    (.getClassLoader ^Class (first interfaces))
    (into-array Class interfaces)
    (reify InvocationHandler
      (invoke [_ self method args]
        (case (.getName ^Method method)
          "equals" (identical? self (aget ^objects args 0))
          "hashCode" (int (System/identityHashCode self))
          (f self method args))))))

(defn- watched-connection [resource ^Connection connection]
  (proxied [Connection]
           (fn [self ^Method method args]
             (if (#{"close" "abort"} (.getName method))
               (try
                 (call method connection args)
                 (finally (resources/give-back resource self)))
               (call method connection args)))))

(defn- first-answer
  "The result of the first of these methods that the pool has; nil if it has none of them."
  [pool methods]
  (some #(try (Reflector/invokeNoArgInstanceMember pool %) (catch Exception _ nil)) methods))

(defn- size-of
  "The most connections that the pool opens, by the methods that HikariCP, DBCP, c3p0 and the pool of Tomcat have for it."
  [pool]
  (first-answer pool ["getMaximumPoolSize" "getMaxTotal" "getMaxPoolSize" "getMaxActive"]))

(defn- name-of [pool]
  (first-answer pool ["getPoolName" "getDataSourceName" "getName" "toString"]))

(defn watched
  "A DataSource that wraps this one, and records which threads wait for a connection and which threads hold one."
  [^DataSource pool]
  (when-not (instance? DataSource pool)
    (throw (errors/illegal-argument :magnetar/no-data-source
                                    (str "`resource` wants a javax.sql.DataSource, such as a connection pool; this is " (arguments/show pool) ".")
                                    {:value pool})))
  (let [resource (resources/resource (str (name-of pool)) (size-of pool))]
    (proxied (cond-> [DataSource] (instance? java.lang.AutoCloseable pool) (conj java.lang.AutoCloseable))
             (fn [_ ^Method method args]
               (if (= "getConnection" (.getName method))
                 (resources/take-from resource #(watched-connection resource (call method pool args)))
                 (call method pool args))))))
