(ns ring.core.protocols
  "Stands in for Ring's namespace: the protocol that Ring's SPEC describes, without its extensions.")

(defprotocol StreamableResponseBody
  (write-body-to-stream [body response output-stream]))
