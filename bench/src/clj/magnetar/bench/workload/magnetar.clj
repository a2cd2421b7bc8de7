(ns magnetar.bench.workload.magnetar
  "The workloads of `magnetar.bench.template` with `magnetar.async`."
  (:require
   [magnetar.async]
   [magnetar.bench.template :as template]))

;; core.async boxes the numbers of a go block, whatever we write: no warnings about that.
(set! *unchecked-math* true)

(template/define-workloads magnetar.async)
