(ns magnetar.dev.hops-test
  "How a recording of entered methods is counted. `magnetar.dev.hops-program-test` records real programs."
  {:wakes false}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.dev.hops :as hops]
   [magnetar.dev.hops.count :as hops-count]))

(defn- entry [thread file class method]
  {:thread thread :file file :class class :method method})

(defn- recording [& entries]
  {:title "planted" :entries entries})

(deftest the-two-methods-of-a-clojure-function-are-one
  (let [f "magnetar.order$total"]
    (is (= 1 (:methods (hops-count/counts (recording (entry 1 "order.clj" f "invoke") (entry 1 "order.clj" f "invokeStatic"))))))
    (is (= 2 (:methods (hops-count/counts (recording (entry 1 "order.clj" f "invokeStatic") (entry 1 "order.clj" f "invokeStatic"))))))
    (is (= 2 (:methods (hops-count/counts (recording (entry 1 "order.clj" f "invoke") (entry 2 "order.clj" f "invokeStatic"))))))))

(deftest the-methods-local-and-cell-are-counted-apart
  (is (= 3 (:seam (hops-count/counts (recording (entry 1 "Environment.java" "magnetar.kernel.park.Environment" "park")
                                                (entry 1 "Environment.java" "magnetar.seam.Environment$Real" "park")
                                                (entry 1 "Cell.java" "magnetar.seam.Cell" "get")
                                                (entry 1 "SimEnvironment.java" "magnetar.kernel.sim.SimEnvironment" "park")
                                                (entry 1 "Environment.java" "magnetar.Environment.Inner" "park")))))))

(deftest hops-and-crossings-are-between-neighbours-in-one-thread
  (is (= {:methods 4 :seam 0 :files 3 :hops 2 :crossings 1}
         (hops-count/counts (recording (entry 1 "order.clj" "magnetar.order$total" "invoke")
                                       (entry 2 "Shelf.java" "magnetar.Shelf" "take")
                                       (entry 1 "session.clj" "magnetar.session$user" "invoke")
                                       (entry 1 "Shelf.java" "magnetar.Shelf" "take"))))))

(deftest a-row-is-the-run-with-the-median-of-the-methods
  (let [run (fn [n] (apply recording (repeat n (entry 1 "Shelf.java" "magnetar.Shelf" "take"))))]
    (is (= [{:title "planted" :methods 5 :seam 0 :files 1 :hops 0 :crossings 0 :runs 3 :spread [4 9]}]
           (hops-count/rows [(run 9) (run 4) (run 5)])))
    (is (= ["operation                                  methods      seam     files      hops crossings  spread of methods"
            "planted                                          5         0         1         0         0  4-9"]
           (hops/table (hops-count/rows [(run 9) (run 4) (run 5)]))))))
