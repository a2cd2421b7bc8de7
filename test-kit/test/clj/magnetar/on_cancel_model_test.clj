(ns magnetar.on-cancel-model-test
  "Queries that are cancelled at random against a model of their connection, in simulations: a cancel never meets another query."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor]
   [magnetar.channel :as channel]
   [magnetar.impl.runtime]
   [magnetar.scope :as scope :refer [fork with-scope]]
   [magnetar.test :as test])
  (:import
   (magnetar.kernel.fiber Fiber)))

(set! *warn-on-reflection* true)

(defn- chance ^long [^long n]
  (.random (Fiber/current) n))

;; ---- the connection: what it serves, and what each cancel has met

(defn- cancel-request
  "Ends what the connection serves, a while after it was called, as a request to the database does."
  [connection wanted]
  (scope/sleep (chance 3))
  (let [{:keys [serving answer]} @connection]
    (swap! connection update :met conj [wanted serving])
    (when answer
      (channel/try-put answer :cancelled))))

(defn- await-answer
  "Waits as a driver does, which no cancellation of Magnetar ends. `scope/shield` would put off the call of the function, too."
  [connection query]
  (let [answer (channel/chan {:size 1})]
    (swap! connection assoc :answer answer)
    (.shield (Fiber/current) #(channel/take answer {:timeout (inc (chance 5)) :else :late}))
    (swap! connection update :answered conj query)))

(defn- run-query [with-cancel connection query]
  (swap! connection assoc :serving query)
  (with-cancel #(cancel-request connection query) #(await-answer connection query))
  (swap! connection assoc :serving nil :answer nil))

;; ---- the program

(defn- wrong
  "What is wrong after a run, or nil."
  [{:keys [met answered]}]
  (cond
    (not-every? (fn [[wanted serving]] (= wanted serving)) met) [:met-another met]
    (< 1 (count met)) [:called-twice met]
    (some (fn [query] (some #(< (long (first %)) (long query)) met)) answered) [:went-on met answered]))

(defn- program [with-cancel]
  (let [connection (atom {:met [] :answered []})]
    (with-scope [s]
      (let [queries (fork s #(run! (partial run-query with-cancel connection) (range 4)))]
        (scope/sleep (chance 12))
        (scope/cancel queries)
        (try (scope/join queries) (catch Exception _))
        (wrong @connection)))))

(defn- search [with-cancel]
  (test/check {:runs 150 :report (fn [_]) :properties []} (nil? (program with-cancel))))

(deftest a-cancel-meets-the-query-that-it-was-opened-for-and-is-not-forgotten
  (let [found (search scope/with-cancel*)]
    (is (:passed found) (str (:failure found) (:error (:run found))))))

;; ---- control

(deftest an-end-that-does-not-wait-for-the-cancel-is-found-out
  (is (not (:passed (search (fn [f body] (scope/with-cancel* #(actor/spawn f) body)))))))

;; ---- the interrupt

(defn- quietly [f]
  (try
    (f)
    (catch Throwable _ nil)))

(defn- step
  "Does a piece of work at random. An interrupt that its own scopes cause ends with it."
  [^long depth]
  (let [inside #(dotimes [_ (chance 3)] (quietly (fn [] (step (dec depth)))))
        pause #(scope/sleep (chance 3))]
    (case (if (zero? depth) 0 (chance 7))
      0 (pause)
      1 (with-scope [s] (fork s pause) (inside))
      2 (with-scope [_ {:deadline (chance 3)}] (inside) (pause))
      3 (scope/shield (inside) (pause))
      4 (scope/shield (with-scope [_ {:deadline (chance 2)}] (inside) (pause)))
      5 (scope/with-cancel* pause inside {:timeout :infinity})
      6 (scope/with-cancel* #(scope/sleep 10) inside {:timeout (chance 3)})))) ; its time is over before it returns

(defn- interrupted? []
  (.isInterrupted (Thread/currentThread)))

(defn- wrong-interrupt
  "Work inside that is interrupted after a scope inside has ended, or no interrupt after the end; nil if all is well."
  [hold]
  (let [wrong (atom nil)]
    (with-scope [s]
      (let [work (fork s (fn []
                           (quietly #(hold (fn []
                                             (dotimes [_ 6]
                                               (quietly (fn [] (step 3)))
                                               (when (interrupted?)
                                                 (reset! wrong :inside))))))
                           (.shield (Fiber/current) #(scope/sleep 20)) ; until after the cancellation
                           (when-not (interrupted?)
                             (reset! wrong :lost))))]
        (scope/sleep (chance 12))
        (scope/cancel work)
        (try (scope/join work) (catch Exception _))
        @wrong))))

(defn- search-interrupt [hold]
  (test/check {:runs 300 :report (fn [_]) :properties []} (nil? (wrong-interrupt hold))))

(deftest no-interrupt-is-left-while-it-is-held-back-and-none-is-lost
  (doseq [hold [#(scope/with-cancel* (fn []) % {:timeout :infinity}) scope/shield*]]
    (let [found (search-interrupt hold)]
      (is (:passed found) (str (:failure found) (:error (:run found)))))))

(deftest an-interrupt-that-is-not-held-back-is-found-out
  (is (not (:passed (search-interrupt #(%))))))
