(ns magnetar.supervisor.stages
  "A pipeline that is one process: its workers are forks of a scope of that process, so they end with it."
  {:no-doc true}
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope])
  (:import
   (magnetar.kernel.channel Buffer Channel Ports)))

(set! *warn-on-reflection* true)

;; As in magnetar.impl.pipeline: each input becomes a job [input place], and its place stands in line in `results`. The workers of
;; `magnetar.impl.pipeline` have no owner and run on platform threads, so an exit signal would not reach them.

(defn- channel ^Channel [n]
  (Channel/of (Buffer/fixed n)))

(defn- work
  "Does jobs until there are no more."
  [jobs xf]
  (when-some [[input place] (ports/take jobs)]
    (ports/put place (into [] xf [input]))
    (recur jobs xf)))

(defn- take-in
  "Makes jobs of the inputs until there are no more."
  [from jobs results]
  (if-some [input (ports/take from)]
    (let [place (channel 1)]
      (ports/put jobs [input place])
      (ports/put results place)
      (recur from jobs results))
    (do (ports/close jobs)
        (ports/close results))))

(defn- give-out
  "Puts the results on `to`, in the order of the inputs, until there are no more or it is closed."
  [results to]
  (when-some [place (ports/take results)]
    (when (every? #(ports/put to %) (ports/take place))
      (recur results to))))

(defn check
  "Refuses what is no pipeline."
  [n to xf from]
  (arguments/whole "number of workers of a pipeline" n)
  (arguments/function "start-pipeline-link" xf "(sup/start-pipeline-link 4 out (map parse) in)")
  (Ports/readPort from)
  (Ports/writePort to))

(defn run
  "Is the pipeline, until its input is at an end, which closes its output, or its output is closed. The site names its workers."
  [site n to xf from]
  (scope/scope* site nil
    (fn [s]
      (let [jobs (channel n)
            results (channel n)]
        (dotimes [_ n]
          (scope/daemon-at site s work jobs xf))
        (scope/daemon-at site s take-in from jobs results)
        (give-out results to))))
  (ports/close to))
