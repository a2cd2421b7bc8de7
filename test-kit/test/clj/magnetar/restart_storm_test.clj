(ns magnetar.restart-storm-test
  (:require
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.gen-server :as gs]
   [magnetar.seeded-bugs :as seeded-bugs]
   [magnetar.supervisor :as sup]
   [magnetar.test :as mt]))

(use-fixtures :each seeded-bugs/without-reports mt/in-a-process)

(defn- counter [id]
  {:id id :start [gs/start-link {:init (fn [_] [:ok 0]), :handle-call (fn [_ _ n] [:reply n (inc n)]), :handle-cast (fn [_ n] [:noreply n])} nil]})

(defn- tree [intensity]
  {:intensity intensity
   :strategy :one-for-all
   :children [(counter :a)
              {:id :below :type :supervisor :start [sup/start-link {:intensity intensity :children [(counter :b) (counter :c)]}]}]})

(defn- all-serve? [supervisor]
  (every? (fn [{:keys [pid type]}] (if (= :supervisor type) (all-serve? pid) (int? (gs/call pid :next))))
          (sup/which-children supervisor)))

(deftest a-tree-that-may-restart-often-bears-a-storm
  (is (:passed (mt/check {:runs 20 :properties [:no-leaked-fiber]}
                 (actor/with-process {:trap-exit true}
                   (let [[_ app] (sup/start-link (tree 1000))
                         kills (mt/restart-storm app {:kills 30})
                         serves? (all-serve? app)]
                     (actor/exit app :shutdown)
                     (and (= 30 kills) serves? (= :shutdown (receive [:EXIT _ why] why)))))))))

(deftest a-storm-ends-with-the-supervisor
  (is (= [2 :shutdown]
         (mt/simulate {}
           (actor/with-process {:trap-exit true}
             (let [[_ app] (sup/start-link {:children [(counter :a)]})]
               [(mt/restart-storm app) (receive [:EXIT _ why] why)])))))
  (is (= 0 (mt/restart-storm :nobody))))

(deftest a-storm-goes-over-real-processes-too
  (actor/flag :trap-exit true)
  (let [[_ app] (sup/start-link (tree 1000))]
    (is (= 50 (mt/restart-storm app {:kills 50})))
    (is (all-serve? app))
    (actor/exit app :shutdown)
    (is (= :shutdown (mt/await-down app)))))

(deftest a-storm-refuses-what-it-does-not-know
  (is (thrown-with-msg? IllegalArgumentException #":kill" (mt/restart-storm :app {:kill 3})))
  (is (thrown-with-msg? IllegalArgumentException #"whole number" (mt/restart-storm :app {:kills -1})))
  (is (thrown? IllegalArgumentException (mt/restart-storm :app {:pause :long})))
  (is (thrown? IllegalArgumentException (mt/restart-storm 42))))
