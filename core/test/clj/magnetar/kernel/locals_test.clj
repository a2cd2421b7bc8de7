(ns magnetar.kernel.locals-test
  "The local variables of waiting fibers are read while these are woken in all ways."
  {:slow true}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.kernel.checks :as checks :refer [green?]]))

(deftest no-fiber-loses-a-wake-up-by-being-read-and-what-is-read-of-it-is-its-own
  (green? 60 "stacks-read"))

(deftest it-is-so-on-one-carrier-and-with-other-collectors
  (green? 60 "-Djdk.virtualThreadScheduler.parallelism=1" "stacks-read")
  (green? 60 "-XX:+UseZGC" "stacks-read")
  (green? 60 "-XX:+UseSerialGC" "stacks-read"))

(deftest the-check-finds-a-reader-that-forgets-who-woke-the-fiber
  (let [{:keys [exit out]} (checks/run 60 "-Xmx600m" "-Dmagnetar.check.seconds=3" "-Dmagnetar.check.meeting=500"
                                       "-Dmagnetar.check.careless=true" "magnetar.check.Main" "stacks-read")]
    (is (= 1 exit) out)
    (is (str/includes? out "red stacks-read a thread hangs") out)))
