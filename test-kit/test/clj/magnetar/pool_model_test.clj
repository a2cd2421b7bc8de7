(ns magnetar.pool-model-test
  "A pool against a model of its checkouts, while clients and workers are killed at random, in simulations."
  {:limit 240000}
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [receive]]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.pool :as pool]
   [magnetar.pool.server :as server]
   [magnetar.seeded-bugs :refer [without-reports]]
   [magnetar.scope :as scope]
   [magnetar.sys :as sys]
   [magnetar.test :as test])
  (:import
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(defn- chance ^long [^long n]
  (.random (Fiber/current) n))

(def ^:private worker
  {:init (fn [_] [:ok nil])
   :handle-call (fn [request _ s] [:reply request s])
   :handle-cast (fn [_ s] [:noreply s])})

;; ---- the model: the client that has each worker, and what has gone wrong

(defn- note-wrong [model & what]
  (swap! model update :wrong conj (vec what)))

(defn- check-out-in-model
  "The client has checked the worker out: no other living process may have it."
  [model worker me]
  (let [holder (get-in @model [:holders worker])]
    (when (and holder (not= holder me) (actor/alive? holder))
      (note-wrong model :checked-out-twice worker))
    (swap! model assoc-in [:holders worker] me)))

(defn- check-in-in-model [model worker]
  (swap! model update :holders dissoc worker))

;; ---- the program

(defn- use-worker [model p worker]
  (check-out-in-model model worker (actor/self))
  (try
    (scope/sleep (chance 4))
    (gs/call worker :work {:timeout 50})
    (catch clojure.lang.ExceptionInfo _) ; the worker was killed
    (finally (check-in-in-model model worker)))
  (pool/checkin p worker))

(defn- try-checkout [p]
  (try
    (pool/checkout p {:timeout (inc (chance 8))})
    (catch clojure.lang.ExceptionInfo _)))

(defn- check-in-and-out [model p]
  (when-some [worker (try-checkout p)]
    (try
      (use-worker model p worker)
      (catch IllegalArgumentException e
        (note-wrong model :not-checked-in (ex-message e))))))

(defn- check-out-often [model p]
  (dotimes [_ 4]
    (scope/sleep (chance 3))
    (check-in-and-out model p)))

(defn- kill-some [model clients]
  (dotimes [_ 4]
    (scope/sleep (chance 5))
    (let [victims (into (vec clients) (keys (:holders @model)))]
      (actor/exit (nth victims (chance (count victims))) :kill))))

(defn- at-rest
  "What is wrong with a pool that is no longer used."
  [p]
  (scope/sleep 100)
  (let [{:keys [checked-out waiting workers]} (pool/status p)]
    (cond
      (pos? (+ (long checked-out) (long waiting))) [:left checked-out waiting]
      (< 2 (long workers)) [:too-many workers]
      (seq (:checkouts (sys/get-state p))) [:not-forgotten (:checkouts (sys/get-state p))]
      :else (let [a (pool/checkout p), b (pool/checkout p)]
              (when (or (= a b) (not= [1 2] [(gs/call a 1) (gs/call b 2)])) [:wrong-workers a b])))))

(defn- program
  "nil, or what was wrong, of one run."
  []
  (actor/with-process {:trap-exit true}
    (let [model (atom {:holders {} :wrong []})
          [_ p] (pool/start-link {:worker [gs/start-link worker nil] :size 2 :overflow 1 :max-waiting 2})
          clients (vec (repeatedly 5 (fn [] (actor/spawn #(check-out-often model p)))))
          killer (actor/spawn #(kill-some model clients))]
      (run! test/await-down (conj clients killer))
      (or (first (:wrong @model)) (at-rest p)))))

(defn- search [runs]
  (without-reports #(test/check {:runs runs :report (fn [_]) :properties []} (nil? (program)))))

(deftest under-random-kills-no-worker-is-checked-out-twice-and-none-is-lost
  (let [found (search (Long/getLong "magnetar.runs" 200))]
    (is (:passed found) (str (:failure found) (:error (:run found))))))

;; ---- controls

(defn- deaf-to [word]
  (update server/behaviour :handle-info (fn [handle] (fn [message s] (if (= word (first message)) [:noreply s] (handle message s))))))

(deftest a-pool-that-does-not-hear-of-the-death-of-clients-is-found-out
  (is (not (:passed (with-redefs [server/behaviour (deaf-to :DOWN)] (search 100))))))

(deftest a-pool-that-hands-out-a-worker-twice-is-found-out
  (is (not (:passed (with-redefs-fn {#'server/take-free (fn [state] [(peek (:free state)) state])} #(search 100))))))

(deftest a-pool-that-loses-a-message-while-it-stops-a-worker-is-found-out
  (is (not (:passed (with-redefs-fn {#'server/retire (fn [state worker]
                                                     (#'server/stop-workers state [worker])
                                                     (update state :workers disj worker))}
                      #(search 400))))))
