;; One of the servers for load programs, see magnetar.bench.http: bin/magnetar run bench/http/serve.clj magnetar 8081

(require '[magnetar.bench.http :as http])

(apply http/-main *command-line-args*)
