;; wrk and h2load against five servers, see magnetar.bench.http-load: bin/magnetar run bench/http/load.clj

(require '[magnetar.bench.http-load :as load])

(apply load/-main *command-line-args*)
