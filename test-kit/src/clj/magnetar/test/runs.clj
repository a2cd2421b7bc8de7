(ns magnetar.test.runs
  "One simulation: its options, its run as data, its problem as an error."
  {:no-doc true}
  (:require
   [clojure.string :as str]
   [magnetar.impl.errors :as errors]
   [magnetar.impl.runtime :as runtime]
   [magnetar.test.guard]
   [magnetar.test.text :as text])
  (:import
   (java.util EnumSet)
   (java.util.function Function Predicate)
   (magnetar.kernel.report Failures)
   (magnetar.kernel.sim Choice Choice$What Config Event Nodes Run Run$Failure Run$Problem Run$Waiting Simulation Strategy)))

(set! *warn-on-reflection* true)

(runtime/call-startup "prepareSimulator")

(def ^:private whats
  {:preempt Choice$What/PREEMPT
   :prefer Choice$What/PREFER
   :kill Choice$What/KILL
   :kill-passivated Choice$What/KILL_PASSIVATED
   :crash-node Choice$What/CRASH
   :cut-link Choice$What/CUT
   :flap Choice$What/FLAP
   :lose-message Choice$What/LOSE
   :delay-signals Choice$What/HOLD
   :early-timers Choice$What/HURRY
   :late-timers Choice$What/DELAY})

(def ^:private keywords
  (into {} (map (fn [[k what]] [what k])) whats))

(defn choice
  "A choice as data: what fiber :fiber did when it came to its :point-th place of choice."
  [^Choice c]
  (cond-> {:fiber (.fiber c) :point (.point c) :what (keywords (.what c))}
    (not (neg? (.target c))) (assoc :target (.target c))))

(defn- java-choice [{:keys [fiber point what target]}]
  (Choice. (int fiber) (int point) (whats what) (int (or target -1))))

;; --- options

(defn- victims ^Predicate [options]
  (let [chosen (:victims options)]
    (reify Predicate
      (test [_ name]
        (boolean (if chosen (chosen name) true))))))

(defn- node [creation]
  (Nodes/prefix creation))

(defn- config ^Config [{:keys [seed max-steps patience-ms grace-ms log faults fault-rate max-faults schedule] :as options}]
  (let [c (Config.)
        allowed (EnumSet/noneOf Choice$What)]
    (doseq [k (concat faults (map :what schedule))] (.add allowed (whats (if (= :kill-passivated k) :kill k)))) ; a schedule brings its own faults
    (set! (.seed c) (long seed))
    (set! (.logs c) (boolean log))
    (set! (.text c) (reify Function (apply [_ value] (binding [text/*node* node] (text/text value)))))
    (set! (.kill c) :kill)
    (set! (.victims c) (victims options))
    (set! (.faults c) allowed)
    (set! (.faultRate c) (double (or fault-rate (if (seq faults) 0.05 0))))
    (when max-faults (set! (.maxFaults c) (int max-faults)))
    (when max-steps (set! (.maxSteps c) (long max-steps)))
    (when grace-ms (set! (.graceMillis c) (int grace-ms)))
    (when patience-ms (set! (.patienceMillis c) (long patience-ms)))
    c))

(defn- strategy ^Strategy [{:keys [seed strategy depth length schedule]} config]
  (cond
    schedule (Strategy/replay (mapv java-choice schedule))
    (= :priorities strategy) (Strategy/priorities seed config (or depth 3) (or length 1000))
    :else (Strategy/uniform seed config)))

;; --- a run as data

(defn- event [^Event e]
  (cond-> {:step (.step e) :ms (/ (.nanos e) 1e6) :fiber (.fiber e) :what (.what e)}
    (.on e) (assoc :on (.on e))
    (.value e) (assoc :value (.value e))))

(defn- waiting [^Run$Waiting w]
  {:fiber (.number w) :name (.name w) :waits-for (.waits w) :line (.line w) :calls (.calls w) :owned (.owned w)})

(defn- problem [^Run$Problem p]
  (when p
    {:kind (keyword (str/replace (str/lower-case (.kind p)) "_" "-"))
     :message (.sentence p)
     :waiting (mapv waiting (.waiting p))}))

(defn- failure [^Run$Failure f]
  {:site (.site f) :error (.error f)})

(defn- as-data [^Run run options strategy]
  (cond-> {:seed (:seed options)
           :value (.value run)
           :error (.error run)
           :problem (problem (.problem run))
           :failures (mapv failure (.failures run))
           :left (mapv waiting (.left run))
           :fullest {:process (.process (.fullest run)) :messages (.messages (.fullest run))}
           :steps (.steps run)
           :ms (/ (.nanos run) 1e6)
           :schedule (mapv choice (.choices run))}
    (:log options) (assoc :log-text (mapv str (.events run)))
    (true? (:log options)) (assoc :log (mapv event (.events run)))
    (:schedule options) (assoc :branches (delay (mapv choice (.branches ^magnetar.kernel.sim.Strategy$Replay strategy))))))

(defn- refuse [condition reason message]
  (when condition
    (throw (errors/illegal-state reason message {}))))

(defn refuse-nested
  "Refuses an environment in a simulation."
  []
  (refuse (Simulation/isInside) :magnetar.test/nested "A simulation cannot be run inside of another one: `simulate`, `check` and `with-virtual-clock` stand around it."))

(defn refuse-here
  "Refuses a simulation where there can be none."
  []
  (refuse (not (Simulation/isPossible)) :magnetar.test/closed
          "A simulation needs the JVM option --add-opens java.base/java.lang=ALL-UNNAMED: `bin/magnetar` gives it; add it to yours.")
  (refuse-nested))

(defn run
  "Runs f in a simulation; the run as data."
  [options f]
  (let [config (config options)
        strategy (strategy options config)]
    (as-data (Simulation/run config strategy (bound-fn* f)) options strategy)))

(defn together
  "The value of f, which does many runs: cheaper than one by one."
  [^Callable f]
  (Simulation/together f))

;; --- a problem as an error

(defn- waiting-line [{:keys [fiber name waits-for line]}]
  (str "  #" fiber " " name (if waits-for (str " waits for " waits-for) " could run") (when line (str ", at " line))))

(defn sentence
  "What is wrong with the run, in a sentence, and under it the fibers that wait."
  [{:keys [message waiting]}]
  (str/join "\n" (cons message (map waiting-line waiting))))

(defn throw-problem
  "Throws what stopped the run, if anything did."
  [{:keys [problem seed]}]
  (when problem
    (throw (errors/illegal-state (keyword "magnetar.test" (name (:kind problem)))
                                 (str (sentence problem) "\n  (seed " seed ")")
                                 (assoc problem :seed seed)))))

(defn report-failures
  "Reports what fibers of the run threw as it is reported outside of simulations."
  [run]
  (doseq [{:keys [site error]} (:failures run)]
    (Failures/report ^String site (Thread/currentThread) error)))
