(ns magnetar.kernel.computing-test
  "Fibers that compute get carriers of their own, in both ways to wake a fiber.

  Each JVM has loops that compute for seconds on both cores, which takes a busy machine longer than a test may take as a rule."
  {:slow true
   :limit 240000}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.child :as child]
   [magnetar.impl.runtime]
   [magnetar.kernel.checks :as checks :refer [green?]]))

(defn- carriers [n]
  (str "-Djdk.virtualThreadScheduler.parallelism=" n))

(defn- get-carriers [& options]
  (apply green? 180 (concat options ["computing" "computing-busy-afterwards" "computing-host" "computing-pairs" "computing-yielding"])))

(deftest ^{:spec ["C31"]} fibers-that-compute-get-carriers-of-their-own-and-no-others-do
  (get-carriers (carriers 1))
  (get-carriers (carriers 2)))

(deftest fibers-that-compute-get-carriers-where-fibers-are-woken-by-unpark
  (get-carriers (carriers 2) "-Dmagnetar.hand-off=false"))

(deftest without-carriers-to-add-fibers-that-compute-keep-theirs
  (green? 180 (carriers 1) "-Dmagnetar.added-carriers=0" "computing-off")
  (green? 180 "-Dmagnetar.added-carriers=0" "timers-in-backlog"))

(def ^:private crowd
  "More fibers that compute than carriers. Calls a server until the reason of the time-out tells of that, then waits for the line on standard error."
  '(do (require '[magnetar.actor :as actor] '[magnetar.async :as a] '[magnetar.gen-server :as gs])
       (def said (promise))
       (System/setErr (proxy [java.io.PrintStream] [System/err true]
                        (println [line] (.println System/out (str line)) (deliver said true))))
       (actor/with-process {}
         (let [[_ server] (gs/start {:init (fn [_] [:ok 0]) :handle-call (fn [_ _ n] [:reply n n])} nil)
               ask #(try (gs/call server :n {:timeout 20}) (catch Exception e (ex-message e)))]
           (ask)
           (dotimes [_ 5] (a/go (loop [i 0] (when-not (realized? said) (recur (inc i))))))
           (println (first (filter string? (repeatedly ask))))
           (deref said 20000 :silent)))
       (System/exit 0)))

(deftest fibers-that-no-carrier-can-be-added-for-are-told-of
  (doseq [way [[] ["-Dmagnetar.hand-off=false"]]]
    (let [{:keys [exit out]} (apply child/run (checks/class-path) 100
                                    (concat child/opens ["-Djdk.virtualThreadScheduler.parallelism=1" "-Dmagnetar.added-carriers=2"] way
                                            ["clojure.main" "-e" (pr-str crowd)]))]
      (is (= 0 exit) out)
      (is (= 1 (count (re-seq #"Fibers have waited for a second, because all 3 carriers are occupied, 2 of them added" out))) out)
      (is (str/includes? out "set -Dmagnetar.added-carriers=4.") out)
      (is (str/includes? out "The server is ready to run, but waits for a carrier: ") out))))
