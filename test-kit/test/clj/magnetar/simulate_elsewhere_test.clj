(ns ^:slow magnetar.simulate-elsewhere-test
  "The runs of a simulation in another JVM."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.simulated-programs :as programs])
  (:import
   (java.util.concurrent TimeUnit)))

(defn- child-log []
  (let [java (str (System/getProperty "java.home") "/bin/java")
        command [java "--add-opens" "java.base/java.lang=ALL-UNNAMED" "-cp" (System/getProperty "java.class.path")
                 "clojure.main" "-m" "magnetar.simulated-programs"]
        process (.start (.redirectErrorStream (ProcessBuilder. ^java.util.List command) true))
        out (slurp (.getInputStream process))]
    (.waitFor process 60 TimeUnit/SECONDS)
    out))

(defn- first-difference
  "Where two logs differ, with the lines before; nil if they are equal."
  [a b]
  (when-let [i (first (keep-indexed (fn [i [x y]] (when (not= x y) i)) (map vector a b)))]
    (let [around #(subvec % (max 0 (- (long i) 10)) (min (count %) (+ 3 (long i))))]
      [(around a) (around b)])))

(deftest another-jvm-gives-the-same-log
  (let [here (str/split-lines (with-out-str (programs/-main)))
        there (str/split-lines (child-log))]
    (is (= (count here) (count there)))
    (is (nil? (first-difference here there)))))
