(ns magnetar.instrument-test
  "Instruments of servers and calls: what they are told, in which order, and that they harm nothing."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! self]]
   [magnetar.agent :as agent]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.impl.otp.instrument :as instrument]
   [magnetar.scope.context :refer [defcontext with-context]]
   [magnetar.support :refer [collecting failures-of message-of]]
   [magnetar.sys :as sys])
  (:import
   (magnetar.impl.otp Instrument)
   (magnetar.kernel.fiber Exit Fiber)
   (magnetar.kernel.process Hosting)))

(set! *warn-on-reflection* true)

(defcontext user :nobody)

(defn- telling
  "An instrument that adds what it is told to the atom, with its name."
  ^Instrument [told name]
  (reify Instrument
    (handles [_ server kind message]
      (swap! told conj [name :handles kind (instrument/request kind message)])
      [kind (instrument/label server)])
    (handled [_ token _ error] (swap! told conj [name :handled (first token) error]))
    (calls [_ operation address request]
      (swap! told conj [name :calls (if (vector? operation) (first operation) operation) request])
      (or (instrument/label-at address) :none))
    (called [_ token error] (swap! told conj [name :called token error]))))

(defn- instrumented
  "Calls f while the instruments are installed; returns its value."
  [instruments f]
  (run! instrument/add instruments)
  (try
    (f)
    (finally (run! instrument/remove-instrument instruments))))

(def ^:private server
  {:init (fn [x] [:ok x])
   :handle-call (fn [request _ state]
                  (case request
                    :fail (throw (ex-info "no connection" {}))
                    :stop [:stop :normal :bye state]
                    :user [:reply @user state]
                    [:reply request state]))
   :handle-cast (fn [_ state] [:noreply state])
   :handle-info (fn [message state]
                  (when (vector? message)
                    (! (second message) :got))
                  [:noreply state])})

(defn- start
  ([] (start nil))
  ([options] (second (gs/start server nil options))))

(defn- await-end [pid]
  (actor/with-process {}
    (let [ref (actor/monitor pid)]
      (actor/receive [:DOWN ref _ _ reason] reason))))

(deftest an-instrument-is-told-of-each-message-and-each-call-and-of-their-ends
  (doseq [hosting [:threaded :activated]]
    (testing hosting
      (let [told (atom [])
            pid (start {:hosting hosting})]
        (instrumented [(telling told :a)]
          #(actor/with-process {}
             (gs/cast pid :add)
             (! pid [:tell (self)])
             (actor/receive :got nil)
             (gs/call pid :get)))
        (gs/call pid :after)
        (gs/stop pid)
        (let [of-caller (filter (comp #{:calls :called} second) @told)
              of-server (remove (set of-caller) @told)]
          (is (= [[:a :calls 'magnetar.gen-server/call :get] [:a :called "(a map of magnetar.instrument-test)" nil]] of-caller))
          (is (= [[:a :handles :cast :add] [:a :handled :cast nil]
                  [:a :handles :info [:tell (nth (last (nth of-server 2)) 1)]] [:a :handled :info nil]
                  [:a :handles :call :get] [:a :handled :call nil]]
                 of-server)))))))

(deftest ends-come-in-the-reverse-order-of-the-beginnings
  (let [told (atom [])
        pid (start)]
    (instrumented [(telling told :a) (telling told :b)] #(gs/call pid :get))
    (gs/stop pid)
    (is (= [[:a :calls] [:b :calls] [:b :called] [:a :called]]
           (map (partial take 2) (filter (comp #{:calls :called} second) @told))))
    (is (= [[:a :handles] [:b :handles] [:b :handled] [:a :handled]]
           (map (partial take 2) (filter (comp #{:handles :handled} second) @told))))))

(deftest a-call-that-returns-its-else-tells-the-time-out
  (let [told (atom [])
        pid (second (gs/start {:init (fn [_] [:ok nil]) :handle-call (fn [_ _ s] [:noreply s])} nil))]
    (is (= :late (instrumented [(telling told :a)] #(gs/call pid :get {:timeout 0 :else :late}))))
    (gs/stop pid)
    (is (= :timeout (:reason (ex-data (last (some #(when (= :called (second %)) %) @told))))))))

(deftest a-call-that-fails-and-a-server-that-ends-tell-their-errors
  (collecting (atom [])
    (fn []
      (let [told (atom [])
            pid (start)
            error (instrumented [(telling told :a)]
                    #(let [error (try (gs/call pid :fail) (catch Exception e e))]
                       (await-end pid)
                       error))
            errors (into {} (map (juxt second last)) @told)]
        (is (identical? error (:called errors)))
        (is (instance? Exit (:handled errors)))
        (is (some? (instrument/failure (:handled errors))))))))

(deftest an-expected-end-is-no-failure
  (let [told (atom [])
        pid (start)]
    (instrumented [(telling told :a)] #(do (gs/call pid :stop) (await-end pid)))
    (let [error (last (last (filter (comp #{:handled} second) @told)))]
      (is (instance? Exit error))
      (is (nil? (instrument/failure error))))))

(deftest a-server-that-continues-as-something-else-ends-its-message
  (let [told (atom [])
        [_ pid] (gs/start {:init (fn [_] [:ok nil])
                           :handle-cast (fn [to _] (actor/continue #(! to :continued)))}
                          nil)]
    (instrumented [(telling told :a)]
      #(actor/with-process {}
         (gs/cast pid (self))
         (actor/receive :continued nil)
         (await-end pid)))
    (let [[_ _ _ error] (last @told)]
      (is (Hosting/isContinue error))
      (is (nil? (instrument/failure error))))))

(defn- failing
  "An instrument that throws at the end for a token, else at the beginning."
  [token]
  (let [fail #(throw (ex-info % {}))]
    (reify Instrument
      (handles [_ _ _ _] (or token (fail "handles")))
      (handled [_ _ _ _] (fail "handled"))
      (calls [_ _ _ _] (or token (fail "calls")))
      (called [_ _ _] (fail "called")))))

(deftest an-instrument-that-throws-is-reported-once-and-harms-nothing
  (doseq [[token expected] [[nil #{"calls"}] [:token #{"handled" "called"}]]] ; the server and the caller end at once
    (failures-of
      (fn [failures]
        (let [told (atom [])
              pid (start)]
          (instrumented [(failing token) (telling told :b)]
            #(dotimes [n 3] (is (= n (gs/call pid n)))))
          (gs/stop pid)
          (is (every? expected (map message-of @failures)))
          (is (<= 1 (count @failures) (count expected)))
          (is (= 12 (count @told))))))))

(deftest an-instrument-may-set-context-values-that-travel
  (let [setting (fn [value]
                  (reify Instrument
                    (handles [_ _ _ _] nil)
                    (handled [_ _ _ _])
                    (calls [_ _ _ _]
                      (let [fiber (Fiber/current)
                            before (.context fiber)]
                        (.setContext fiber (with-context [user value] (.context fiber)))
                        [before]))
                    (called [_ [before] _] (.setContext (Fiber/current) before))))
        pid (start)]
    (instrumented [(setting "ada")] #(is (= "ada" (gs/call pid :user))))
    (is (= :nobody @user (gs/call pid :user)))
    (gs/stop pid)))

(deftest the-library-names-what-the-program-called
  (let [told (atom [])
        [_ agent] (agent/start (constantly 1))
        [_ machine] (statem/start {:callback-mode :handle-event-function
                                   :init (fn [_] [:ok :on nil])
                                   :handle-event (fn [[_ from] _ _ _] [:keep-state-and-data [[:reply from :ok]]])}
                                  nil)]
    (instrumented [(telling told :a)]
      #(do (agent/get agent inc)
           (statem/call machine :flip)
           (sys/get-state machine)))
    (is (= '[magnetar.agent/get magnetar.gen-statem/call]
           (map #(nth % 2) (filter (comp #{:calls} second) @told))))
    (agent/stop agent)
    (statem/stop machine)))
