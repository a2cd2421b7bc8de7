(ns magnetar.dev.top-test
  "What bin/magnetar top shows, and what its keys do. The terminal itself was looked at by hand."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.top :as top]))

(set! *warn-on-reflection* true)

(def ^:private rows
  (for [n (range 50)]
    {:kind :process, :name (str ":p" n), :cpu (/ n 100.0), :messages-per-s (double (- 50 n)), :messages n, :age-ms 1000, :waits-for "message"}))

(def ^:private answered
  (assoc top/start
         :pid 4711
         :height 10
         :answer {:at "12:00:01"
                  :top {:rows rows}
                  :dump {:tree [{:kind :thread, :name "main"}]
                         :deadlocks [{:text "a waits for b, which waits for a." :grade :exact}]
                         :why-stuck []
                         :restarts []}}))

(defn- names [state]
  (keep #(second (re-find #"(:p\d+)" %)) (top/screen state)))

(defn- after [& keys]
  (reduce top/pressed answered keys))

(deftest a-screen-has-as-many-lines-as-the-terminal
  (doseq [state [answered (after "t") (after "d") (after "r") (after "page-down") (assoc top/start :pid 1 :height 10)]]
    (is (= 10 (count (top/screen state)))))
  (is (= 4 (count (top/screen (assoc answered :height 1)))) "one line at least, however low the terminal is"))

(deftest keys-choose-the-order-and-the-view
  (is (= ":p49" (first (names answered))) "by CPU at first")
  (is (= ":p0" (first (names (after "m")))))
  (is (= ":p49" (first (names (after "b")))))
  (is (str/includes? (first (top/screen (after "a"))) "by age"))
  (is (some #{"thread main  runs"} (top/screen (after "t"))))
  (is (some #{"Deadlocks:"} (top/screen (after "d"))))
  (is (some #{"Nothing is blocked."} (top/screen (after "d"))))
  (is (some #{"No supervisor."} (top/screen (after "t" "r"))))
  (is (= answered (after "x")) "another key does nothing"))

(deftest keys-scroll-within-what-there-is
  (is (= 1 (:offset (after "down"))))
  (is (= 0 (:offset (after "up"))))
  (is (= 7 (:offset (after "page-down"))))
  (is (= 44 (:offset (apply after (repeat 20 "page-down")))) "the last line is the last one on the screen")
  (is (= 0 (:offset (after "page-down" "t"))) "another view begins at its top"))

(deftest the-last-answer-stays-when-the-program-does-not-answer
  (let [lines (top/screen (assoc answered :problem "There is no process 4711."))]
    (is (str/ends-with? (first lines) "There is no process 4711."))
    (is (some #(str/includes? % ":p49") lines))))

(deftest it-can-be-left-before-the-first-answer
  (is (:over (top/pressed top/start "q")))
  (is (not-any? :over [(top/pressed top/start "down") (top/pressed top/start "t")])))
