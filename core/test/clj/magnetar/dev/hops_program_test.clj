(ns magnetar.dev.hops-program-test
  "The counter of hops on a planted program whose counts are known, and on Magnetar itself."
  {:slow true
   :limit 120000}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.child :as child]
   [magnetar.dev.hops.count :as hops-count]
   [magnetar.dev.hops.trace :as trace]
   [magnetar.dev.processes :refer [home magnetar temporary-folder write]])
  (:import
   (clojure.lang ExceptionInfo)))

(def ^:private planted-program
  "(ns magnetar.planted
     (:require [magnetar.dev.hops.marks :as marks])
     (:import (magnetar.planted_java Shelf Environment)))
   (defn twice [] (Shelf/take) (Shelf/take))
   (defn once [] (Shelf/take))
   (defn by-way [] (once) (once))
   (defn seam [] (Environment/now))
   (defn beside [] (.join (Thread/startVirtualThread #(Shelf/take))))
   (defn outside [] (reduce + (range 10)))
   (defn measured [title f]
     (f)
     (dotimes [_ 3] (marks/begin title) (f) (marks/end)))
   (defn -main []
     (measured \"twice\" twice)
     (measured \"by way\" by-way)
     (measured \"seam\" seam)
     (measured \"beside\" beside)
     (measured \"outside\" outside)
     (System/exit 0))")

(def ^:private planted-java
  {"Shelf" "package magnetar.planted_java; public class Shelf { public static Object take() { return null; } }"
   "Environment" "package magnetar.planted_java; public class Environment { public static Object now() { return Shelf.take(); } }"})

(defn- plant
  "A folder with the program and its classes; returns a class path with it."
  []
  (let [folder (temporary-folder)]
    (write folder "magnetar/planted.clj" planted-program)
    (doseq [[class text] planted-java] (write folder (str "java/magnetar/planted_java/" class ".java") text))
    (is (nil? (child/compile-java [(io/file folder "java")] folder [])))
    (str (System/getProperty "java.class.path") ":" folder)))

(deftest a-planted-program-has-its-known-counts
  (let [rows (hops-count/rows (trace/recordings {:main "magnetar.planted" :class-path (plant) :options []}))]
    (is (= {"twice" [3 0 2 1 1] ; twice, take, take
            "by way" [5 0 2 3 3] ; by-way, once, take, once, take
            "seam" [3 1 3 2 1] ; seam, now, take
            "beside" [4 0 2 1 1] ; beside, the function's constructor; in the other thread the function, take
            "outside" [1 0 1 0 0]}
           (into {} (map (juxt :title (juxt :methods :seam :files :hops :crossings))) rows)))
    (is (every? #(apply = (:spread %)) rows))
    (is (= #{3} (set (map :runs rows))))))

(deftest a-program-that-fails-says-what-it-printed
  (let [failure (try (trace/recordings {:main "no.such.program" :class-path (System/getProperty "java.class.path") :options [child/temp]})
                     (catch ExceptionInfo e e))]
    (is (= 1 (:exit (ex-data failure))))
    (is (str/includes? (ex-message failure) "no/such/program"))))

(deftest an-unknown-option-is-refused
  (let [{:keys [exit out]} (magnetar "hops" "--fast")]
    (is (= [2 "hops takes [--edn] [--checkout DIR] [--trace TEXT], not `--fast`."] [exit out]))))

(deftest the-operations-of-this-checkout-are-counted-from-another-as-well
  (let [{:keys [exit out]} (magnetar "hops" "--edn" "--checkout" home)
        rows (map edn/read-string (str/split-lines out))
        [put] rows]
    (is (= 0 exit))
    (is (= 7 (count rows)))
    (is (every? #(and (= 3 (:runs %)) (< 1 (:files %)) (<= (:files %) (inc (:hops %)) (:methods %)) (pos? (:crossings %))) rows))
    (is (= "a/>! with room in the buffer" (:title put)))
    (is (apply = (:spread put)))
    (is (< 5 (:methods put) 100))))
