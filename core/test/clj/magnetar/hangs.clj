(ns magnetar.hangs
  "Starts the programs of core/test/hangs: those that get stuck, and the healthy ones."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [is]]
   [magnetar.support :refer [eventually]]))

(set! *warn-on-reflection* true)

;; HikariCP logs through SLF4J, which has nowhere to log here.
(System/setProperty "slf4j.internal.verbosity" "ERROR")

(defn folder [& path]
  (apply io/file (System/getProperty "magnetar.home") "core" "test" "hangs" path))

(defn start
  "Starts the program, and waits until it is stuck or has done some work. Returns the function that stops it."
  [program]
  (load-file (str (folder (str program ".clj"))))
  (let [{:keys [ready stop]} ((ns-resolve (symbol (str/replace program "_" "-")) 'start))]
    (is (eventually (ready)) program)
    stop))
