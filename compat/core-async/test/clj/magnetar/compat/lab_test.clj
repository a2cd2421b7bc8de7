(ns magnetar.compat.lab-test
  "core.async's lab: its names, and its ports alone, in a select and in a simulation."
  (:require
   [clojure.core.async :as a]
   [clojure.core.async.lab :as lab]
   [clojure.test :refer [deftest is testing]]
   [magnetar.async.lab]
   [magnetar.channel :as channel]
   [magnetar.test :as mt :refer [eventually]]))

(set! *warn-on-reflection* true)

(defn- holding [x]
  (doto (a/chan 1) (a/>!! x)))

(defn- value-of [f]
  (deref f 5000 :blocks))

(defn- waiting [k c]
  (count (k (channel/info c))))

(deftest the-names-and-argument-lists-are-those-of-core-async-1-9-865
  (is (= '{multiplex ([& ports])
           broadcast ([& ports])
           ->MultiplexingReadPort ([mutex read-ports])
           ->BroadcastingWritePort ([write-ports])}
         (update-vals (ns-publics 'clojure.core.async.lab) (comp :arglists meta)))))

(deftest the-deprecated-namespace-shows-the-same
  (is (= (update-vals (ns-publics 'clojure.core.async.lab) deref)
         (update-vals (ns-publics 'magnetar.async.lab) deref))))

(deftest multiplex-takes-from-any-and-ends-with-the-last
  (let [[x y] [(holding 1) (a/chan)]
        port (lab/multiplex x y)]
    (is (= 1 (a/<!! port)))
    (let [waits (future (a/<!! port))]
      (is (eventually (= 1 (waiting :takers y))))
      (a/close! x)
      (a/>!! y 2)
      (is (= 2 (value-of waits))))
    (a/close! y)
    (is (nil? (value-of (future (a/<!! port)))))))

(deftest broadcast-puts-on-all
  (let [[x y] [(a/chan 1) (a/chan)]
        put (future (a/>!! (lab/broadcast x y) :x))]
    (is (eventually (= 1 (waiting :putters y))))
    (is (= [:x :x] [(a/<!! y) (a/<!! x)]))
    (is (= true (value-of put)))))

(deftest ports-of-lab-work-in-alts
  (let [[x y] [(holding 1) (a/chan 1)]
        in (lab/multiplex x (a/chan))
        out (lab/broadcast y)]
    (is (= [1 in] (a/alts!! [in])))
    (is (= [:none :default] (a/alts!! [in] :default :none)))
    (is (= [true out] (a/alts!! [[out 2]])))
    (is (= 2 (a/<!! y)))))

(deftest a-select-with-a-multiplex-does-one-operation-and-not-two
  (dotimes [_ 300]
    (let [x (a/chan)
          y (a/chan 1)
          done (a/chan)
          sender (a/thread (a/alts!! [[x :v] done]))]
      (a/thread (a/>!! y :y))
      (let [[_ port] (a/alts!! [x (lab/multiplex y)])
            [sent to] (do (a/close! done) (a/<!! sender))]
        (is (not (and (not= port x) sent (= to x))))))))

;; ---- in a simulation

(defn- channels []
  (vec (repeatedly 12 #(a/chan 2))))

(defn- multiplex []
  (let [inputs (channels)
        all (apply lab/multiplex inputs)]
    (doseq [[i c] (map-indexed vector inputs)] (a/>! c i) (a/close! c))
    (vec (repeatedly 13 #(a/<! all)))))

(defn- broadcast []
  (let [all (apply lab/broadcast (channels))]
    (a/>! all 1)
    (a/>! all 2)))

(deftest ^{:spec ["C146"]} ports-are-gone-through-in-the-same-order-in-each-run
  (doseq [program [multiplex broadcast]]
    (testing program
      (is (= 1 (count (distinct (repeatedly 5 #(:log-text (mt/simulate* {:seed 5 :log true} program))))))))))

(deftest a-multiplex-gives-the-values-of-all-its-ports
  (is (= (conj (set (range 12)) nil) (set (mt/simulate {:seed 1} (multiplex))))))
