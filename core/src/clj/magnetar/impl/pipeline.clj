(ns magnetar.impl.pipeline
  "Transforms a channel's values with n workers, results in the order of the inputs."
  {:no-doc true}
  (:require
   [magnetar.impl.chans :as chans]
   [magnetar.impl.fibers :refer [background]]
   [magnetar.impl.ports :as ports]
   [magnetar.impl.refusals :as refusals]
   [magnetar.impl.reports :as reports]
   [magnetar.impl.runtime]
   [magnetar.impl.threads :as threads])
  (:import
   (magnetar.kernel.channel Buffer Channel Ports)))

(set! *warn-on-reflection* true)

;; Each input becomes a job [input place]; the worker puts the channel of its results on the place, which stands in line in
;; `results` meanwhile. So the order is kept, and at most n inputs are in the works.

(defn- channel ^Channel [n]
  (Channel/of (Buffer/fixed n)))

(defn- reporting
  "A function that reports an error under the site of the pipeline, not of the pool's thread that did the job; returns nil."
  [^String site]
  (fn [error]
    (reports/report site error)
    nil))

(defn- attempt
  "The channel of the job's results; empty and closed if the job could not be started."
  [start-job report input]
  (try
    (start-job input)
    (catch Throwable e
      (report e)
      (doto (channel 1) (ports/close)))))

(defn- work
  "Does jobs until there are no more."
  [jobs start-job report]
  (loop []
    (when-some [[input place] (ports/take jobs)]
      (ports/put place (attempt start-job report input))
      (recur))))

(defn- transducing-job
  "A job that runs the input through `xf`."
  [site xf ex-handler]
  (let [xf (when xf #(refusals/built "pipeline" xf %))
        ex-handler (or ex-handler (reporting site))]
    (fn [input]
      (doto (chans/chan (Buffer/fixed 1) xf ex-handler)
        (ports/put input)
        (ports/close)))))

(defn- async-job
  "A job that calls `af` with the input and the channel of the results; if it throws, the input yields nothing more."
  [site af]
  (let [af (refusals/callable "pipeline-async" af)
        report (reporting site)]
    (fn [input]
      (let [results (channel 1)]
        (try
          (af input results)
          (catch Throwable e
            (report e) ; first: who sees the end of the results may look at the reports
            (ports/close results)))
        results))))

(defn- unless-stopped
  "The answer of the operation, or nil once the results are no longer wanted."
  [stopped operation]
  (first (ports/alts [stopped operation] {:priority true})))

(defn- take-in
  "Makes jobs of the inputs until there are no more, or the results are no longer wanted."
  [from jobs results stopped]
  (loop []
    (when-some [input (unless-stopped stopped from)]
      (let [place (channel 1)]
        (when (and (unless-stopped stopped [jobs [input place]])
                   (unless-stopped stopped [results place]))
          (recur))))))

(defn- give-out
  "Puts all results of one input on `to`; false once that is closed."
  [place to]
  (let [results (ports/take place)]
    (loop []
      (let [value (ports/take results)]
        (or (nil? value)
            (and (ports/put to value) (recur)))))))

(defn- give-all-out [results to]
  (loop []
    (when-some [place (ports/take results)]
      (when (give-out place to)
        (recur)))))

(defn- check-parallelism [n]
  (let [n (long (refusals/number "pipeline" n))]
    (assert (pos? n) "a pipeline must have 1 worker or more")))

(defn- start
  "Starts `n` workers by `start-worker`, which takes a name and a function to run; returns a channel that closes when all is done."
  [site n to from close? start-job start-worker]
  (check-parallelism n)
  (Ports/readPort from)
  (Ports/writePort to)
  (let [jobs (channel n)
        results (channel n)
        stopped (Channel/rendezvous)
        report (reporting site)]
    (dotimes [_ n]
      (start-worker site #(work jobs start-job report)))
    (background (str site ", input")
      (try
        (take-in from jobs results stopped)
        (finally
          (ports/close jobs)
          (ports/close results))))
    (background (str site ", output")
      (try
        (give-all-out results to)
        (finally
          (ports/close stopped)
          (when close? (ports/close to)))))))

(defn- on-platform-thread [site f]
  (threads/start-thread site f :mixed))

(defn- on-fiber [site f]
  (background site (f)))

(defn transducing
  "Runs each value through the transducer `xf` on one of `n` platform threads."
  [site n to xf from close? ex-handler]
  (start site n to from close? (transducing-job site xf ex-handler) on-platform-thread))

(defn asynchronous
  "Hands each value to the function `af` on one of `n` fibers."
  [site n to af from close?]
  (start site n to from close? (async-job site af) on-fiber))
