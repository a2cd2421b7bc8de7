(ns magnetar.message-context-test
  "Context values travel with messages: who sees whose, and who sees only its own."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive self spawn with-message-context]]
   [magnetar.agent :as agent]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.gen-statem :as statem]
   [magnetar.scope.context :as context :refer [defcontext with-context]]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting]]
   [magnetar.sys :as sys]
   [magnetar.task :as task]
   [magnetar.task.supervisor :as tasks]))

(set! *warn-on-reflection* true)

(defcontext user :nobody)
(defcontext place :nowhere)

(defn- seen []
  [@user @place])

(def ^:private server
  "Answers what its callbacks see. Its own place is :server."
  {:init (fn [out] [:ok {:out out :init (seen)}])
   :handle-call (fn [request from {:keys [out] :as state}]
                  (case (if (vector? request) (first request) request)
                    :seen [:reply (seen) state]
                    :init [:reply (:init state) state]
                    :continue [:reply :ok state [:continue :seen]]
                    :later (do (a/go (gs/reply from (seen))) [:noreply state])
                    :own-timer (do (actor/send-after 0 (self) :tick) [:reply :ok state])
                    :timeout [:reply :ok state 0]
                    :timeout-later [:reply :ok state 200]
                    :forward (do (gs/cast (second request) [:answer from]) [:noreply state])
                    :ask [:reply (gs/call (second request) :seen) state]))
   :handle-cast (fn [request {:keys [out] :as state}]
                  (if (vector? request)
                    (gs/reply (second request) (seen))
                    (a/>!! out [request (seen)]))
                  [:noreply state])
   :handle-continue (fn [x {:keys [out] :as state}]
                      (a/>!! out [x (seen)])
                      [:noreply state])
   :handle-info (fn [message {:keys [out] :as state}]
                  (a/>!! out [(if (vector? message) (first message) message) (seen)])
                  [:noreply state])})

(defn- start
  ([] (start nil nil))
  ([out options]
   (second (with-context [place :server] (gs/start server out options)))))

(deftest ^{:spec ["C44"]} a-callback-sees-its-callers-values-over-those-of-its-server
  (doseq [hosting [:threaded :activated]]
    (testing hosting
      (let [out (a/chan 10)
            pid (start out {:hosting hosting})]
        (is (= [:nobody :server] (gs/call pid :seen)))
        (with-context [user "ada"]
          (is (= ["ada" :server] (gs/call pid :seen)))
          (with-context [place :here]
            (is (= ["ada" :here] (gs/call pid :seen))))
          (is (= ["ada" :server] (gs/call (start) [:ask pid])))
          (is (= ["ada" :server] (gs/call pid :later)))
          (is (= [:reply ["ada" :server]] (actor/with-process {} (gs/receive-response (gs/send-request pid :seen)))))
          (gs/cast pid :cast)
          (is (= [:cast ["ada" :server]] (a/<!! out)))
          (! pid :info)
          (is (= [:info ["ada" :server]] (a/<!! out)))
          (gs/call pid :continue)
          (is (= [:seen ["ada" :server]] (a/<!! out))))
        (is (= [:nobody :server] (gs/call pid :seen)))))))

(deftest ^{:spec ["C44"]} init-own-timers-and-time-outs-see-only-the-values-of-the-server
  (let [out (a/chan 10)
        pid (start out nil)]
    (with-context [user "ada"]
      (is (= [:nobody :server] (gs/call pid :init)))
      (gs/call pid :own-timer)
      (is (= [:tick [:nobody :server]] (a/<!! out)))
      (gs/call pid :timeout)
      (is (= [:timeout [:nobody :server]] (a/<!! out)))
      (testing "after a message of sys"
        (gs/call pid :timeout-later)
        (sys/get-state pid)
        (is (= [:timeout [:nobody :server]] (a/<!! out))))
      (testing "a timer for another process"
        (actor/send-after 0 pid :tock)
        (is (= [:tock ["ada" :server]] (a/<!! out)))))))

(deftest ^{:spec ["C44"]} a-request-that-is-forwarded-keeps-the-first-callers-values
  (let [back (start)
        front (start)]
    (with-context [user "ada"]
      (is (= ["ada" :server] (gs/call front [:forward back]))))))

(deftest ^{:spec ["C44"]} a-child-sees-its-supervisors-values-whoever-asked-for-it
  (let [out (a/chan 10)
        reports (atom [])
        start-child (fn [] [:ok (actor/spawn-link (fn [] (a/>!! out (seen)) (receive :end :ended)))])]
    (actor/with-process {}
      (let [[_ supervisor] (with-context [place :supervisor] (sup/start-link {:strategy :one-for-one}))]
        (with-context [user "ada"]
          (let [[_ child] (sup/start-child supervisor {:id :child :start [start-child]})]
            (is (= [:nobody :supervisor] (a/<!! out)))
            (testing "after a restart too"
              (collecting reports #(do (! child :end)
                                       (is (= [:nobody :supervisor] (a/<!! out))))))))))))

(deftest ^{:spec ["C44"]} tasks-and-functions-of-agents-see-their-callers-values
  (actor/with-process {}
    (let [[_ supervisor] (with-context [place :supervisor] (tasks/start-link))
          [_ agent] (with-context [place :agent] (agent/start-link (fn [] 0)))]
      (with-context [user "ada"]
        (is (= ["ada" :nowhere] (task/await (task/async seen))))
        (is (= ["ada" :supervisor] (task/await (tasks/async supervisor seen))))
        (is (= ["ada" :agent] (agent/get agent (fn [_] (seen)))))))))

(def ^:private door
  "Postpones :seen while it is closed."
  {:callback-mode :handle-event-function
   :init (fn [out] [:ok :closed out])
   :handle-event (fn [_ event state out]
                   (case [state event]
                     [:closed :seen] [:keep-state-and-data :postpone]
                     [:closed :open] (do (a/>!! out [:open (seen)]) [:next-state :open out])
                     (do (a/>!! out [event (seen)]) :keep-state-and-data)))})

(deftest ^{:spec ["C44"]} an-event-that-is-postponed-keeps-the-values-of-its-sender
  (let [out (a/chan 10)
        [_ pid] (with-context [place :door] (statem/start door out nil))]
    (with-context [user "ada"] (statem/cast pid :seen))
    (statem/cast pid :seen)
    (with-context [user "bob"] (statem/cast pid :open))
    (is (= [[:open ["bob" :door]] [:seen ["ada" :door]] [:seen [:nobody :door]]] (repeatedly 3 #(a/<!! out))))))

(deftest ^{:spec ["C44"]} a-receive-keeps-its-own-values-and-can-ask-for-those-of-the-message
  (let [answers (a/chan 10)
        pid (with-context [place :process]
              (spawn (fn []
                       (dotimes [_ 3]
                         (receive
                           [:ask other] (do (when other (gs/call other :seen))
                                            (a/>!! answers [(seen) (with-message-context (seen)) (seen)])))))))
        own [:nobody :process]]
    (with-context [user "ada"] (! pid [:ask nil]))
    (is (= [own ["ada" :process] own] (a/<!! answers)))
    (testing "an answer is not the last message"
      (with-context [user "bob"] (! pid [:ask (start)]))
      (is (= [own ["bob" :process] own] (a/<!! answers))))
    (! pid [:ask nil])
    (is (= [own own own] (a/<!! answers)))))

(deftest ^{:spec ["C44"]} exit-signals-and-bounded-mailboxes-carry-them-too
  (let [answers (a/chan 10)
        pid (actor/spawn-opt (fn []
                               (dotimes [_ 3]
                                 (receive m (a/>!! answers [(if (vector? m) (first m) m) (with-message-context @user)]))))
                             {:trap-exit true :mailbox {:capacity 5}})]
    (with-context [user "ada"]
      (actor/exit pid :reason)
      (! pid :message)
      (actor/send-after 0 pid :timer))
    (is (= #{[:EXIT "ada"] [:message "ada"] [:timer "ada"]} (set (repeatedly 3 #(a/<!! answers)))))))

;; ---- how many

(deftest ^{:spec ["C44"]} there-are-at-most-64-values-at-once
  (let [contexts (for [n (range 65)] (context/context (symbol (str "n" n)) :unset))
        pairs (zipmap contexts (range))
        shown (fn [contexts] (mapv deref contexts))
        reader (fn [] (second (gs/start {:init (fn [_] [:ok nil]) :handle-call (fn [n _ state] [:reply (shown (take n contexts)) state])} nil)))]
    (is (= (range 64) (context/context* (dissoc pairs (last contexts)) #(shown (take 64 contexts)))))
    (is (= [:magnetar/too-many-contexts "There may be 64 context values at once; these would be 65: bind one context to a map."]
           (try (context/context* pairs (fn [])) (catch IllegalArgumentException e [(:magnetar/reason (ex-data e)) (ex-message e)]))))
    (testing "of a server's and its caller's too many, the caller's are seen"
      (let [pid (with-context [user "server"] (reader))]
        (is (= (range 64) (context/context* (dissoc pairs (last contexts)) #(gs/call pid 64))))))))
