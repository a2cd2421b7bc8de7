(ns magnetar.simulated-programs
  "Programs to simulate, and a main that prints their logs: two JVMs must print the same."
  (:require
   [magnetar.actor :as actor :refer [! receive self spawn spawn-link]]
   [magnetar.async :as a]
   [magnetar.calls :as calls]
   [magnetar.seeded-bugs :as seeded-bugs]
   [magnetar.scope :as scope]
   [magnetar.supervision :as supervision]
   [magnetar.test :as mt]))

(defn many-to-one
  "Three go blocks put on one channel."
  []
  (let [c (a/chan)]
    (dotimes [i 3]
      (a/go (dotimes [j 3] (a/>! c [i j]))))
    (vec (repeatedly 9 #(a/<! c)))))

(defn requests
  "A server that two clients call, and that is killed."
  []
  (actor/with-process {:trap-exit true}
    (let [server (spawn-link (fn [] (loop [n 0] (receive [:add from] (do (! from [:sum n]) (recur (inc n)))))))
          me (self)
          client (fn [] (! server [:add (self)]) (! me (receive [:sum n] [:got n] (after 100 [:got nil]))))]
      (spawn client)
      (spawn client)
      (let [answers [(receive [:got n] n) (receive [:got n] n)]]
        (actor/exit server :kill)
        (conj answers (receive [:EXIT _ why] why))))))

(defn choices
  "Selects over channels, with a timeout, and random choice."
  []
  (let [cs (vec (repeatedly 3 #(a/chan 1)))
        done (a/chan 3)]
    (dotimes [i 3]
      (a/go (a/>! (cs i) i) (a/>! done i)))
    (vec (for [_ (range 4)] (first (a/alts! (conj cs (a/timeout 50))))))))

(defn scopes
  "Forks in a scope, one of which fails."
  []
  (try
    (scope/with-scope [s {}]
      (let [slow (scope/fork s (fn [] (scope/sleep 1000)))
            quick (scope/fork s (fn [] (scope/sleep 10) (throw (ex-info "quick" {}))))]
        [(scope/join quick) (scope/join slow)]))
    (catch Exception e (ex-message e))))

(defn hashes
  "Identity hashes decide the order of this set; the log must not show it."
  []
  (let [cs (set (repeatedly 10 #(a/chan 1)))]
    (count cs)))

(defn supervisors
  "A random tree of supervisors whose children end in all ways."
  []
  (seeded-bugs/without-reports #(supervision/program {:steps 2 :bad-starts 10})))

(defn servers
  "Clients that call a server without a thread of its own, which is killed."
  []
  (seeded-bugs/without-reports #(calls/program {:hosting :activated})))

(def all
  "The programs by name."
  (array-map "many-to-one" many-to-one "requests" requests "choices" choices "scopes" scopes "hashes" hashes
             "supervisors" supervisors "servers" servers))

(defn -main
  "Prints the logs of all programs."
  []
  (doseq [[program-name program] all
          strategy [:uniform :priorities]
          seed [1 42]]
    (println program-name strategy seed)
    (run! println (:log-text (mt/simulate* {:seed seed :strategy strategy :log true} program)))))
