(ns magnetar.bench.peers.core-async
  "core.async as a peer, with go blocks or with io-threads."
  (:require
   [clojure.core.async]
   [magnetar.bench.peers.serve :as serve]
   [magnetar.bench.peers.template :refer [channel-workloads]]))

;; core.async boxes the numbers of a go block, whatever we write: no warnings about that.
(set! *unchecked-math* true)

(def workloads
  "What it can be asked, by the kind of fiber.

  Example: (((workloads \"io\") \"spawn\") 1000)"
  {"go" (channel-workloads clojure.core.async :go)
   "io" (channel-workloads clojure.core.async :io)})

(defn -main
  "Serves the workloads: `go` or `io` says in which kind of fiber.

  Example: (-main \"io\")"
  [kind]
  (serve/serve (workloads kind)))
