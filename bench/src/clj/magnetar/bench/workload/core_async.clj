(ns magnetar.bench.workload.core-async
  "The workloads of `magnetar.bench.template` with `clojure.core.async`."
  (:require
   [clojure.core.async]
   [magnetar.bench.template :as template]))

;; core.async boxes the numbers of a go block, whatever we write: no warnings about that.
(set! *unchecked-math* true)

(template/define-workloads clojure.core.async)
