(ns magnetar.erlang.tls-beam-test
  "This JVM and real BEAMs with `-proto_dist inet_tls`, in a run with --with-erl."
  {:wakes false
   :limit 180000}
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! self]]
   [magnetar.dev.certificates :as certificates]
   [magnetar.dev.processes :as processes]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.beam :as beam :refer [ask end-beam got nothing-more? start-beam with-beam]]
   [magnetar.erlang.scripted :refer [eventually]]
   [magnetar.gen-server :as gs]))

(set! *warn-on-reflection* true)

(def ^:private us "m@localhost") ; Erlang takes 127.0.0.1 for a name of DNS, which the certificate does not have
(def ^:private them "b@localhost")

(defn- files [certificate]
  (assoc (certificates/identity-of certificate) :cacertfile (certificates/path "ca.pem")))

(defn- options [words]
  {:name us :other them :tls (files "server") :words words})

(defn- words
  "The words of the command line of a BEAM with TLS and the certificate."
  [certificate]
  (let [{:keys [certfile keyfile cacertfile]} (files certificate)
        file (io/file (processes/temporary-folder) "tls.conf")
        common (format "{certfile, \"%s\"}, {keyfile, \"%s\"}, {cacertfile, \"%s\"}, {verify, verify_peer}" certfile keyfile cacertfile)]
    (spit file (format "[{server, [%s, {fail_if_no_peer_cert, true}]}, {client, [%s]}]." common common))
    ["-hidden" "-proto_dist" "inet_tls" "-ssl_dist_optfile" (str file)]))

(deftest nodes-with-tls-talk
  (with-beam (options (words "server"))
    (fn [_ b]
      (ask b "{ok, S} = gen_server:start({local, counter}, erlang_peer, {inbox, '" us "'}, []), register(shell, self())")
      (is (= [0 1] [(gs/call [:counter them] :next) (gs/call [:counter them] :next)]) "this node dials")
      (is (true? (erlang/disconnect them)))
      (is (eventually #(= "[]" (ask b "nodes(connected)"))))
      (is (= "pong" (ask b "net_adm:ping('" us "')")) "the BEAM dials")
      (ask b "spawn(fun F() -> register(mirror, self()), (fun L() -> receive {P, X} -> P ! X, L() end end)() end)")
      (is (eventually #(= "true" (ask b "is_pid(whereis(mirror))"))))
      (let [text (apply str (repeat 1000000 "ä"))]
        (! [:mirror them] [(self) text])
        (is (= text (got))))
      (let [ref (actor/monitor [:shell them])]
        (end-beam b)
        (is (= [:DOWN ref :process [:shell them] :noconnection] (got)))
        (is (nothing-more?))))))

(deftest beams-whose-certificates-will-not-do-are-refused-with-one-line
  (let [lines (atom [])]
    (with-beam (assoc (options (words "other-host")) :lines lines)
      (fn [port b]
        (is (false? (erlang/connect them)) "a certificate of another host")
        (let [c (start-beam "c@localhost" port "-hidden")]
          (try
            (is (= "pang" (ask c "net_adm:ping('" us "')")) "without TLS")
            (finally (end-beam c))))
        (let [[word & more] (words "expired")
              c (apply start-beam "d@localhost" port word more)]
          (try
            (is (= "pang" (ask c "net_adm:ping('" us "')")))
            (is (false? (erlang/connect "d@localhost")))
            (finally (end-beam c))))
        (is (= [] (erlang/nodes)))
        (is (some? b))
        (is (eventually #(= 4 (count @lines))) (pr-str @lines))))
    (when-not (beam/missing)
      (is (= 4 (count @lines)) (pr-str @lines)))))
