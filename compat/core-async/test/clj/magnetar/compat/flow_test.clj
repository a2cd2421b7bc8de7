(ns magnetar.compat.flow-test
  "core.async.flow 1.10.864-alpha1, its own sources, on magnetar-core-async."
  (:require
   [clojure.core.async :as a :refer [<!! >!!]]
   [clojure.datafy :as datafy]
   [clojure.test :refer [deftest is]]
   [magnetar.compat.flow-from-jar])
  (:import
   (java.util.concurrent Future TimeUnit)))

(set! *warn-on-reflection* true)

;; Not in the ns form: it is found only after flow-from-jar has loaded it.
(require '[clojure.core.async.flow :as flow])

(defn- within-5-s [port]
  (let [[value from] (a/alts!! [port (a/timeout 5000)])]
    (if (= from port) value :late)))

(defn- done [^Future future]
  (.get future 5 TimeUnit/SECONDS))

(defn- sink
  "A step function that puts what it gets on a channel of the program, and keeps the count."
  ([] {:ins {:in "values"}, :params {:out "a channel"}})
  ([{:keys [out]}] {::flow/out-ports {:given out}, :seen 0})
  ([state _] state)
  ([state _ value] [(update state :seen inc) {:given [value]}]))

(defn- flow-of
  "A flow in which the values put on [:step :in] pass f and arrive on the channel out."
  [f workload out]
  (flow/create-flow
    {:procs {:step {:proc (flow/process (flow/lift1->step f) {:workload workload})}
             :sink {:proc (flow/process #'sink), :args {:out out}}}
     :conns [[[:step :out] [:sink :in]]]}))

(defmacro ^:private with-flow
  "Does body with the flow started and resumed, and chans bound to its report and error channels; stops it."
  [[g chans] & body]
  `(let [~chans (flow/start ~g)]
     (try
       (flow/resume ~g)
       ~@body
       (finally (flow/stop ~g)))))

(deftest values-pass-procs-of-each-workload
  (doseq [workload [:io :compute :mixed]]
    (let [out (a/chan 10)
          g (flow-of inc workload out)]
      (with-flow [g _]
        (done (flow/inject g [:step :in] [1 2 3]))
        (is (= [2 3 4] (repeatedly 3 #(within-5-s out))) (str workload))))))

(deftest a-flow-starts-paused-and-is-paused-and-resumed
  (let [out (a/chan 10)
        g (flow-of inc :io out)]
    (flow/start g)
    (is (= {:step :paused, :sink :paused} (update-vals (flow/ping g) ::flow/status)))
    (flow/resume g)
    (is (= {:step :running, :sink :running} (update-vals (flow/ping g) ::flow/status)))
    (flow/pause-proc g :sink)
    (is (= :paused (::flow/status (flow/ping-proc g :sink))))
    (done (flow/inject g [:step :in] [1]))
    (is (nil? (a/poll! out)))
    (flow/resume-proc g :sink)
    (is (= 2 (within-5-s out)))
    (flow/pause g)
    (is (= {:step :paused, :sink :paused} (update-vals (flow/ping g) ::flow/status)))
    (is (true? (flow/stop g)))
    (is (nil? (flow/stop g)))))

(deftest ping-shows-the-state-and-the-channels-as-data
  (let [out (a/chan 10)
        g (flow-of inc :io out)]
    (with-flow [g _]
      (done (flow/inject g [:step :in] [1 2]))
      (is (= [2 3] [(within-5-s out) (within-5-s out)]))
      (let [{::flow/keys [count state ins outs]} (flow/ping-proc g :sink)]
        (is (= 2 count (:seen state)))
        (is (= {:type 'FixedBuffer, :count 0, :capacity 10} (get-in ins [:in :buffer])))
        (is (false? (get-in outs [:given :closed?]))))
      (is (= #{:procs :conns :execs :chans} (set (keys (datafy/datafy g))))))))

(deftest a-step-that-throws-is-told-on-the-error-channel-and-the-proc-goes-on
  (let [out (a/chan 10)
        g (flow-of #(if (= 2 %) (throw (ex-info "two" {})) %) :io out)]
    (with-flow [g chans]
      (done (flow/inject g [:step :in] [1 2 3]))
      (is (= [1 3] [(within-5-s out) (within-5-s out)]))
      (let [error (within-5-s (:error-chan chans))]
        (is (= [:step :in 2 "two"] [(::flow/pid error) (::flow/cid error) (::flow/msg error) (ex-message (::flow/ex error))]))))))

(deftest one-output-feeds-several-inputs-and-a-closed-flow-closes-its-channels
  (let [left (a/chan 10)
        right (a/chan 10)
        g (flow/create-flow
            {:procs {:step {:proc (flow/process (flow/lift*->step #(repeat % %)))}
                     :left {:proc (flow/process #'sink), :args {:out left}}
                     :right {:proc (flow/process #'sink), :args {:out right}}}
             :conns [[[:step :out] [:left :in]] [[:step :out] [:right :in]]]})
        {:keys [report-chan error-chan]} (flow/start g)]
    (flow/resume g)
    (done (flow/inject g [:step :in] [2 1]))
    (is (= [[2 2 1] [2 2 1]] (for [ch [left right]] (vec (repeatedly 3 #(within-5-s ch))))))
    (flow/stop g)
    (is (= [nil nil] [(within-5-s report-chan) (within-5-s error-chan)]))))

(deftest signals-and-reports-reach-who-selects-them
  (let [out (a/chan 10)
        listener (flow/map->step {:describe (constantly {:ins {:in ""}, :outs {}, :signal-select #{:tick}})
                                  :transform (fn [state id value] [state {::flow/report [[id value]]}])})
        g (flow/create-flow {:procs {:listener {:proc (flow/process listener)}}, :conns []})]
    (with-flow [g chans]
      (done (flow/inject g [::flow/cast :tick] [1 2]))
      (is (= [[:tick 1] [:tick 2]] (repeatedly 2 #(within-5-s (:report-chan chans))))))
    (a/close! out)))

(deftest in-ports-and-transducers-of-inputs-work
  (let [in (a/chan)
        out (a/chan 10)
        relay (flow/map->step {:describe (constantly {:outs {:out ""}, :params {:from ""}})
                               :init (fn [{:keys [from]}] {::flow/in-ports {:from from}})
                               :transform (fn [state _ value] [state (when value {:out [value]})])})
        g (flow/create-flow
            {:procs {:relay {:proc (flow/process relay), :args {:from in}}
                     :sink {:proc (flow/process #'sink), :args {:out out}
                            :chan-opts {:in {:buf-or-n 4, :xform (map #(if (= % 0) (throw (ex-info "zero" {})) (/ 12 %)))}}}}
             :conns [[[:relay :out] [:sink :in]]]})]
    (with-flow [g chans]
      (run! #(>!! in %) [3 0 4])
      (is (= [4 3] [(within-5-s out) (within-5-s out)]))
      (is (= [:sink :in "zero"] ((juxt ::flow/pid ::flow/cid (comp ex-message ::flow/ex)) (<!! (:error-chan chans))))))))

(deftest futurize-runs-on-the-executor-of-a-workload
  (doseq [[workload virtual?] {:io true, :compute false, :mixed false}]
    (is (= [workload virtual?]
           [workload (done ((flow/futurize #(.isVirtual (Thread/currentThread)) {:exec workload})))]))))

(deftest a-flow-can-be-started-again-after-it-was-stopped
  (let [out (a/chan 10)
        g (flow-of inc :io out)]
    (dotimes [_ 2]
      (with-flow [g _]
        (done (flow/inject g [:step :in] [1]))
        (is (= 2 (within-5-s out)))))))
