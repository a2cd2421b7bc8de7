(ns magnetar.http.options
  "Checks the options of a server."
  {:no-doc true}
  (:require
   [magnetar.http.tls :as tls]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]))

(set! *warn-on-reflection* true)

(def defaults
  "What a server has where no option says otherwise."
  {:port 8080
   :host nil
   :tls nil
   :http2 true
   :request-timeout 30000
   :header-timeout 10000
   :idle-timeout 60000
   :drain-timeout 3000
   :max-concurrent 1000
   :max-queue 1000
   :max-header 8192
   :max-body 1048576
   :max-connections 10000
   :max-streams 128
   :max-events 128})

(def known
  "The names of all options."
  (vec (sort (keys defaults))))

(defn- refuse [what wanted x]
  (arguments/misuse :magnetar/bad-option (str (arguments/subject what) " " wanted "; this is " (arguments/show x) ".")
                    (arguments/data what x)))

(defn- check-host [x]
  (when-not (or (nil? x) (and (string? x) (seq x)))
    (refuse :host "the name or the address of this machine to listen on, as a string" x)))

(defn- check-port [x]
  (when-not (and (int? x) (<= 0 (long x) 65535))
    (refuse :port "a whole number from 0 to 65535" x)))

(defn- check [[what x]]
  (case what
    :port (check-port x)
    :host (check-host x)
    :tls (tls/checked x)
    :http2 (arguments/flag :http2 x)
    (:header-timeout :idle-timeout) (arguments/period what x)
    (:request-timeout :drain-timeout) (arguments/nanos what x)
    :max-queue (arguments/from-zero :max-queue x Integer/MAX_VALUE)
    :max-body (arguments/from-zero :max-body x)
    (:max-concurrent :max-header :max-connections :max-streams :max-events) (arguments/whole what x Integer/MAX_VALUE)))

(defn checked
  "All options of a server, the given ones over the defaults."
  [operation options]
  (arguments/options operation known options)
  (run! check options)
  (update (merge defaults options) :tls tls/checked))
