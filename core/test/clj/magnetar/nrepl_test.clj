(ns magnetar.nrepl-test
  "The middleware for nREPL as a function, with a stand-in for nREPL: its sessions, its evaluation, its transport.
  Debian's nREPL has a suite of its own, test/nrepl."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.inspect :as inspect]
   [magnetar.nrepl :as nrepl]
   [magnetar.support :refer [eventually with-failures]])
  (:import
   (java.io IOException)
   (java.util.concurrent LinkedBlockingQueue)))

(set! *warn-on-reflection* true)

(defn- with-transport [f]
  (binding [*ns* (create-ns 'nrepl.transport)]
    (eval '(clojure.core/defprotocol Transport (send [_ answer]) (recv [_] [_ timeout])))
    (eval '(clojure.core/extend-protocol Transport
             java.util.concurrent.LinkedBlockingQueue
             (send [queue answer] (.put queue answer)))))
  (try (f)
       (finally (remove-ns 'nrepl.transport))))

(use-fixtures :once with-transport)

(use-fixtures :each
  (fn [f]
    (with-failures [_] (f))))

(defn- send-to [transport answer]
  ((resolve 'nrepl.transport/send) transport answer))

(defn- evaluate-all
  "What nREPL does with the code of a message: a vector of forms. It prints errors, and goes on with the next form.
  Before 1.3 it writes the bindings to the session."
  [{:keys [transport id eval code session]}]
  (let [evaluate (find-var (symbol eval))]
    (doseq [form code]
      (try
        (send-to transport {:id id :value (evaluate form)})
        (catch ThreadDeath _ nil)
        (catch IOException e (throw e))
        (catch Throwable e (send-to transport {:id id :error (ex-message e)})))
      (swap! session assoc :last form))))

(defn- handler [{:keys [op session id transport] :as message}]
  (let [{:keys [exec interrupt close]} (meta session)]
    (case op
      "eval"      (apply exec id #(evaluate-all message) #(send-to transport {:id id :status :done}) (when (:newer message) [message]))
      "interrupt" (send-to transport {:interrupted (interrupt (:interrupt-id message))})
      "close"     (close))))

(defn- session
  "A session of nREPL; `ended` learns that the thread that nREPL has for it is ended."
  [ended]
  (atom {} :meta {:id "s1", :exec (fn [& _] (is false)), :interrupt (fn [_] :idle), :close #(deliver ended true)}))

(defn- client
  "A session: `ask` sends a message, `answer` takes the next answer, `answers` those to the message up to its end."
  []
  (let [ended (promise)
        transport (LinkedBlockingQueue.)
        handle (nrepl/wrap-session handler)
        s (session ended)
        ask #(handle (merge {:session s, :transport transport, :op "eval"} %))
        answer #(.take transport)
        answers (fn [code]
                  (ask {:id "a", :code code})
                  (vec (take-while (complement :status) (repeatedly answer))))]
    {:ask ask, :answer answer, :answers answers, :ended ended, :session s}))

(defn- values [answers]
  (mapv :value answers))

(defn- end-of [{:keys [ask]} pid]
  (actor/with-process {}
    (let [reference (actor/monitor pid)]
      (ask {:op "close"})
      (actor/receive [:DOWN reference _ _ why] why))))

(deftest a-session-is-one-process-until-it-is-closed
  (let [{:keys [answers ended] :as c} (client)
        [pid again message] (values (answers '[(magnetar.actor/self) (magnetar.actor/self)
                                               (do (magnetar.actor/! (magnetar.actor/self) :x) (magnetar.actor/receive x [:got x]))]))]
    (is (= pid again))
    (is (= [:got :x] message))
    (is @ended)
    (is (= [pid] (values (answers '[(magnetar.actor/self)]))))
    (is (= :shutdown (end-of c pid)))))

(deftest an-exit-is-told-and-the-session-goes-on-in-a-new-process
  (let [{:keys [answers] :as c} (client)
        [pid] (values (answers '[(magnetar.actor/self)]))]
    (is (= [{:out "** exited: :bye\n", :session "s1", :id "a"}]
           (answers '[(magnetar.actor/exit :bye) (throw (ex-info "never" {}))])))
    (is (= :bye (actor/exit-reason (get @(:session c) #'*e))))
    (let [[after] (values (answers '[(magnetar.actor/self)]))]
      (is (not= pid after))
      (is (= :shutdown (end-of c after))))))

(deftest a-crash-of-a-linked-child-ends-the-process-also-while-the-session-is-idle
  (let [{:keys [answers answer] :as c} (client)
        [_ child] (values (answers '[(magnetar.actor/self) (magnetar.actor/spawn-link (fn [] (magnetar.actor/receive :go (magnetar.actor/exit :boom))))]))]
    (actor/! child :go)
    (is (= "** exited: :boom\n" (:out (answer))))
    (is (= :shutdown (end-of c (first (values (answers '[(magnetar.actor/self)]))))))))

(deftest an-error-is-left-to-nrepl-and-the-process-lives
  (let [{:keys [answers] :as c} (client)
        [before error after] (answers '[(magnetar.actor/self) (/ 1 0) (magnetar.actor/self)])]
    (is (= "Divide by zero" (:error error)))
    (is (= before after))
    (is (re-find #"^`continue` drops the stack" (:error (first (answers '[(magnetar.actor/continue + 1)])))))
    (is (= :shutdown (end-of c (:value before))))))

(defn twice
  "An evaluation that a client names."
  [form]
  [(eval form) (eval form)])

(deftest a-message-may-name-its-evaluation-in-each-version-of-nrepl
  (doseq [newer [false true]]
    (let [{:keys [ask answer answers] :as c} (client)
          [pid] (values (answers '[(magnetar.actor/self)]))]
      (ask {:id "n", :code '[(inc 1)], :newer newer})
      (is (= [{:id "n", :value 2} {:id "n", :status :done}] [(answer) (answer)]))
      (ask {:id "n", :code '[(magnetar.actor/self)], :eval "magnetar.nrepl-test/twice", :newer newer})
      (is (= [{:id "n", :value [pid pid]} {:id "n", :status :done}] [(answer) (answer)]))
      (is (= :shutdown (end-of c pid))))))

(def ^:private go-on (atom nil))

(deftest an-interrupt-ends-a-wait-and-what-follows-it
  (let [{:keys [ask answer answers] :as c} (client)]
    (reset! go-on (promise))
    (ask {:id "w", :code '[(deliver @@#'magnetar.nrepl-test/go-on (magnetar.actor/self)) (magnetar.actor/receive :never 1) (inc 1)]})
    (let [pid @@go-on]
      (is (= "w" (:id (answer))))
      (ask {:op "interrupt", :interrupt-id "other"})
      (is (= {:interrupted nil} (answer)))
      (ask {:op "interrupt", :interrupt-id "w"})
      (is (= {:interrupted "w"} (answer)) "no second value, and no :done beside the one that nREPL sends")
      (ask {:op "interrupt"})
      (is (= {:interrupted :idle} (answer)))
      (is (= [pid] (values (answers '[(magnetar.actor/self)]))))
      (is (= :shutdown (end-of c pid))))))

(deftest an-interrupt-is-not-lost-while-code-is-loaded
  (let [{:keys [ask answer answers] :as c} (client)]
    (reset! go-on (promise))
    (ask {:id "w", :code '[(do (deliver @@#'magnetar.nrepl-test/go-on (magnetar.actor/self))
                               (while (not (Thread/interrupted))) ; so does loading
                               (magnetar.actor/receive :never 1))]})
    (let [pid @@go-on]
      (ask {:op "interrupt", :interrupt-id "w"})
      (is (= {:interrupted "w"} (answer)) "and no word about a computation")
      (is (= [pid] (values (answers '[(magnetar.actor/self)]))))
      (is (= :shutdown (end-of c pid))))))

(defn- begin-computing
  "Starts a loop in the session, with a name; it ends when go-on has changed, with the form. Returns its pid."
  [ask form]
  (reset! go-on (promise))
  (ask {:id "w", :code [(list 'do
                              '(magnetar.actor/register ::computing (magnetar.actor/self))
                              '(let [mine @@#'magnetar.nrepl-test/go-on]
                                 (deliver mine (magnetar.actor/self))
                                 (while (identical? mine @@#'magnetar.nrepl-test/go-on)))
                              form)
                        '(deliver magnetar.nrepl-test/never true)]})
  @@go-on)

(def never "Is not delivered." (promise))

(deftest what-computes-is-abandoned-and-the-session-goes-on-in-a-new-process
  (let [{:keys [ask answer answers session] :as c} (client)
        pid (begin-computing ask :value)]
    (actor/with-process {}
      (let [reference (actor/monitor pid)]
        (ask {:op "interrupt", :interrupt-id "w"})
        (is (re-find #"^The evaluation is marked as interrupted, and computes on: .* It is abandoned: the session goes on in a new process\."
                     (str (:err (answer)))))
        (is (= {:interrupted "w"} (answer)))
        (ask {:op "interrupt", :interrupt-id "w"})
        (is (= {:interrupted :idle} (answer)))
        (let [[after two] (values (answers '[(magnetar.actor/self) (inc 1)]))]
          (is (not= pid after))
          (is (= 2 two))
          (is (not (actor/alive? pid)) "it is told to exit")
          (reset! go-on nil)
          (is (= :killed (actor/receive [:DOWN reference _ _ why] why)))
          (is (= [after] (values (answers '[(magnetar.actor/self)]))) "what the loop returned is not sent")
          (is (= '(magnetar.actor/self) (:last @session)) "nor are the bindings of the session those of the loop")
          (is (nil? (get @session #'*e)))
          (is (not (realized? never)))
          (is (= :shutdown (end-of c after))))))))

(deftest an-abandoned-evaluation-ends-at-its-next-wait
  (let [{:keys [ask answer answers] :as c} (client)
        pid (begin-computing ask '(magnetar.actor/receive :never 1))]
    (actor/with-process {}
      (let [reference (actor/monitor pid)]
        (ask {:op "interrupt"})
        (is (:err (answer)))
        (is (= {:interrupted "w"} (answer)))
        (reset! go-on nil)
        (is (= :killed (actor/receive [:DOWN reference _ _ why] why)))
        (is (nil? (actor/whereis ::computing)))
        (is (= :shutdown (end-of c (first (values (answers '[(magnetar.actor/self)]))))))))))

(deftest what-waits-where-no-interrupt-reaches-is-said-to-wait
  (let [{:keys [ask answer answers] :as c} (client)
        lock (java.util.concurrent.locks.ReentrantLock.)]
    (reset! go-on [(promise) lock])
    (.lock lock)
    (ask {:id "w", :code '[(let [[begun lock] @@#'magnetar.nrepl-test/go-on]
                             (deliver begun true)
                             (java.util.concurrent.locks.ReentrantLock/.lock lock)
                             (java.util.concurrent.locks.ReentrantLock/.unlock lock))]})
    @(first @go-on)
    (ask {:op "interrupt"})
    (is (re-find #"^The evaluation is marked as interrupted, and waits on: .* It is abandoned" (str (:err (answer)))))
    (is (= {:interrupted "w"} (answer)))
    (.unlock lock)
    (is (= :shutdown (end-of c (first (values (answers '[(magnetar.actor/self)]))))))
    (is (eventually (empty? (filter #(str/starts-with? (Thread/.getName %) "nREPL-session-") (keys (Thread/getAllStackTraces))))))))

(deftest close-ends-a-wait
  (let [{:keys [ask answer] :as c} (client)]
    (reset! go-on (promise))
    (ask {:id "w", :code '[(deliver @@#'magnetar.nrepl-test/go-on (magnetar.actor/self)) (magnetar.actor/receive :never 1)]})
    (answer)
    (is (= :shutdown (end-of c @@go-on)))))

(deftest evaluations-of-a-session-are-done-in-order
  (let [{:keys [ask answer answers] :as c} (client)]
    (dotimes [n 100] (ask {:id n, :code [n]}))
    (is (= (mapcat (fn [n] [{:id n, :value n} {:id n, :status :done}]) (range 100)) (repeatedly 200 answer)))
    (is (= :shutdown (end-of c (first (values (answers '[(magnetar.actor/self)]))))))))

(deftest what-was-asked-beside-a-close-is-answered-as-interrupted
  (let [{:keys [ask answer]} (client)
        end {:id "w", :session "s1", :status #{:interrupted :done}}]
    (reset! go-on (promise))
    (ask {:id "w", :code '[(deliver @@#'magnetar.nrepl-test/go-on true) (magnetar.actor/receive :never 1)]})
    (ask {:id "x", :code '[1]})
    (answer)
    (ask {:op "close"})
    (is (= [end (assoc end :id "x")] [(answer) (answer)]))
    (ask {:id "y", :code '[1]})
    (is (= (assoc end :id "y") (answer)))))

;; ---- a client that is gone

(defn- gone [error]
  (proxy [LinkedBlockingQueue] [] (put [_] (throw error))))

(deftest a-session-and-its-process-outlive-their-client
  (let [{:keys [ask answers answer] :as c} (client)
        closed (gone (IOException. "Socket closed"))
        begins '(deliver @@#'magnetar.nrepl-test/go-on (magnetar.actor/self))
        waits (fn [code]
                (reset! go-on (promise))
                (ask {:id "w", :code [(list 'do begins code)], :transport closed})
                @@go-on)
        pid (waits nil)]
    (is (= pid (waits '(magnetar.actor/receive :go 1))))
    (actor/! pid :go)
    (is (= [pid] (values (answers '[(magnetar.actor/self)]))))
    (is (= pid (waits '(magnetar.actor/receive :never 1))))
    (ask {:op "interrupt", :interrupt-id "w"})
    (is (= {:interrupted "w"} (answer)))
    (is (= pid (waits '(magnetar.actor/receive :never 1))))
    (is (= :shutdown (end-of c pid)))))

(deftest an-error-of-nrepl-itself-is-reported-and-the-session-goes-on
  (with-failures [failures]
    (let [{:keys [ask answers] :as c} (client)]
      (ask {:id "g", :code [1], :transport (gone (IllegalStateException. "cannot be encoded"))})
      (let [[pid] (values (answers '[(magnetar.actor/self)]))]
        (is (= #{"cannot be encoded"} (into #{} (map (comp ex-message :error)) @failures)))
        (is (= :shutdown (end-of c pid)))))))

;; ---- nothing is left

(defn- left
  "The processes and the threads of sessions."
  []
  (concat (filter #(str/includes? (str %) "nrepl-session-") (map :pid (inspect/processes)))
    (filter #(str/starts-with? (Thread/.getName %) "nREPL-session-") (keys (Thread/getAllStackTraces)))))

(deftest sessions-that-are-closed-leave-no-process-and-no-thread
  (doseq [code '[1 (magnetar.actor/receive :never 1) (magnetar.actor/exit :bye) (magnetar.actor/spawn-link (fn [] (magnetar.actor/receive :never 1)))]
          meanwhile ['nothing 'first-answer]
          _ (range 30)]
    (let [{:keys [ask answer]} (client)]
      (ask {:id "w", :code [:begun code]})
      (when (= 'first-answer meanwhile) (answer))
      (ask {:op "close"})
      (is (= [] (left)) (pr-str code meanwhile)))))

(deftest what-computes-when-its-session-is-closed-is-told-and-leaves-nothing-once-it-ends
  (let [{:keys [ask answer]} (client)]
    (reset! go-on (promise))
    (ask {:id "w", :code '[(let [mine @@#'magnetar.nrepl-test/go-on]
                             (deliver mine 1)
                             (while (identical? mine @@#'magnetar.nrepl-test/go-on)))]})
    @@go-on
    (ask {:op "close"})
    (is (re-find #"computes on.* It is abandoned: the session is closed\." (str (:err (answer)))))
    (is (= #{:interrupted :done} (:status (answer))))
    (reset! go-on nil)
    (is (eventually (empty? (left))))))

(deftest messages-without-a-lasting-session-are-left-alone
  (let [handle (nrepl/wrap-session identity)]
    (doseq [message [{:op "eval"} {:op "eval" :session (atom {} :meta {:id "e"})} {:op "describe" :session (session nil)} {}]]
      (is (identical? message (handle message))))))
