(ns magnetar.actor-guest-test
  "How with-process ends, when its process is told to exit while the thread is somewhere in the JDK."
  (:require
   [clojure.test :refer [are deftest is]]
   [magnetar.actor :as actor :refer [exit receive self with-process]]
   [magnetar.support :refer [value-of]])
  (:import
   (java.util.concurrent CountDownLatch)))

(set! *warn-on-reflection* true)

(defn- told-to-exit
  "What with-process throws on a thread that does f, when another sends it the signal :boom."
  [start f]
  (let [pid (promise)
        thrown (promise)]
    (start #(try
              (with-process {} (deliver pid (self)) (f))
              (deliver thrown :nothing)
              (catch Throwable e
                (deliver thrown e))))
    (exit (value-of pid) :boom)
    (value-of thrown)))

(defn- platform [f]
  (.start (Thread. ^Runnable f)))

(defn- virtual [f]
  (Thread/startVirtualThread f))

(deftest an-exit-in-a-wait-of-the-jdk-comes-out-as-the-reason
  (are [f] (= [:boom :boom] (for [start [platform virtual]] (:reason (ex-data (told-to-exit start f)))))
    #(Thread/sleep 100000)
    #(.await (CountDownLatch. 1))
    #(deref (promise))
    #(try (Thread/sleep 100000) (catch InterruptedException e (throw (RuntimeException. "wrapped" e))))
    #(receive ::never nil)))

(deftest what-body-throws-by-itself-is-thrown-on
  (is (thrown-with-msg? InterruptedException #"^own$" (with-process {} (throw (InterruptedException. "own")))))
  (is (thrown-with-msg? IllegalStateException #"^in finally$"
                        (throw (told-to-exit platform #(try (receive ::never nil) (finally (throw (IllegalStateException. "in finally")))))))))
