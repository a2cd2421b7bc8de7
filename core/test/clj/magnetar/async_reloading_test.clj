(ns magnetar.async-reloading-test
  "Reloading everything, and executors of the program; in a JVM of their own."
  {:slow true}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.processes :refer [home start]]))

(set! *warn-on-reflection* true)

(def ^:private program
  '(do
     (def asked (atom []))
     (defn executor [workload] (swap! asked conj workload) nil)
     (require '[magnetar.async :as a] '[magnetar.channel :as channel])
     (let [waits (a/chan) out (a/chan 10) source (a/chan) mixed (a/chan)
           m (a/mult source) tapped (a/tap m (a/chan 10))
           x (a/mix out)
           p (a/pub (a/tap m (a/chan)) odd?) sub (a/sub p true (a/chan 10))
           result (a/go (a/<! waits))
           their-port (resolve 'clojure.core.async.impl.protocols/ReadPort)
           their-interface (:on-interface @their-port)]
       (a/admix x mixed)
       (require 'magnetar.channel 'magnetar.inspect 'magnetar.async :reload-all)
       (let [taken (fn [ch] (channel/take ch {:timeout 5000 :else :late}))
             late-tap (a/tap m (a/chan 10))]
         (a/>!! waits 1)
         (a/>!! mixed 2)
         (a/>!! source 3)
         (a/toggle x {mixed {:mute true}})
         (a/unmix x mixed)
         (prn :reloaded [(taken result) (taken out) (taken tapped) (taken sub) (taken late-tap)
                         (taken (a/go (a/alt! waits :no :default :default)))
                         (identical? their-interface (:on-interface @their-port))])
         (dotimes [_ 3]
           (run! taken [(a/thread 1) (a/io-thread 1) (a/thread-call (fn [] 1) :compute)]))
         (prn :asked (sort @asked))
         (let [c (a/chan)
               held (let [held (Object.)] (a/go (a/<! c) (str held)) (java.lang.ref.WeakReference. held))]
           (while (empty? (:takers (channel/info c))) (Thread/yield))
           (def weak held))))
     (dotimes [_ 50] (System/gc))
     (prn :collected (nil? (.get weak)))))

(def ^:private printed
  "The lines that the program prints."
  (delay
    (let [java (str (System/getProperty "java.home") "/bin/java")
          {:keys [out err exit]} (start {:folder home} java "-Xmx128m" "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC"
                                        "-Dclojure.core.async.executor-factory=user/executor" "-Djdk.trackAllThreads=false"
                                        "-cp" (System/getProperty "java.class.path") "clojure.main" "-e" (pr-str program))]
      {:lines (set (str/split-lines out)), :err err, :exit exit})))

(deftest reloading-everything-leaves-living-channels-mults-and-mixes-and-core-async-itself-working
  (let [{:keys [lines err exit]} @printed]
    (is (contains? lines ":reloaded [1 2 3 3 3 :default true]") err)
    (is (zero? exit))))

(deftest the-executor-factory-of-the-program-is-asked-once-for-each-workload
  (is (contains? (:lines @printed) ":asked (:compute :io :mixed)") (str (:lines @printed))))

(deftest ^{:spec ["C29"]} a-go-that-nobody-can-reach-is-collected-also-when-the-jvm-does-not-track-its-threads
  (is (contains? (:lines @printed) ":collected true") (str (:lines @printed))))
