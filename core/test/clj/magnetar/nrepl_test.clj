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

(use-fixtures :each
  (fn [f]
    (intern (create-ns 'nrepl.transport) 'send (fn [^LinkedBlockingQueue transport answer] (.put transport answer)))
    (try (with-failures [_] (f))
         (finally (remove-ns 'nrepl.transport)))))

(defn- evaluate-all
  "What nREPL does with the code of a message: a vector of forms. It prints errors, and goes on with the next form."
  [{:keys [^LinkedBlockingQueue transport id eval code]}]
  (let [evaluate (find-var (symbol eval))]
    (doseq [form code]
      (try
        (.put transport {:id id :value (evaluate form)})
        (catch ThreadDeath _ nil)
        (catch IOException e (throw e))
        (catch Throwable e (.put transport {:id id :error (ex-message e)}))))))

(defn- handler [{:keys [op session id ^LinkedBlockingQueue transport] :as message}]
  (let [{:keys [exec interrupt close]} (meta session)]
    (case op
      "eval"      (apply exec id #(evaluate-all message) #(.put transport {:id id :status :done}) (when (:newer message) [message]))
      "interrupt" (.put transport {:interrupted (interrupt (:interrupt-id message))})
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

(deftest what-computes-is-marked-and-the-answer-says-so
  (let [{:keys [ask answer answers] :as c} (client)]
    (reset! go-on (promise))
    (ask {:id "w", :code '[(do (deliver @@#'magnetar.nrepl-test/go-on (magnetar.actor/self)) (while @@#'magnetar.nrepl-test/go-on))]})
    (let [pid @@go-on]
      (ask {:op "interrupt", :interrupt-id "w"})
      (let [told (answer)]
        (is (re-find #"^The evaluation is marked as interrupted, and computes on" (str (:err told))) (pr-str told)))
      (is (= {:interrupted "w"} (answer)))
      (reset! go-on nil)
      (is (= [nil pid] (values (answers '[(magnetar.actor/self)]))) "the value of the loop comes first")
      (is (= :shutdown (end-of c pid))))))

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
    (ask {:id "w", :code '[(do (deliver @@#'magnetar.nrepl-test/go-on 1) (while @@#'magnetar.nrepl-test/go-on))]})
    @@go-on
    (ask {:op "close"})
    (is (re-find #"computes on.* The session is closed\. Its process and its thread stay until it ends" (str (:err (answer)))))
    (is (= #{:interrupted :done} (:status (answer))))
    (reset! go-on nil)
    (is (eventually (empty? (left))))))

(deftest messages-without-a-lasting-session-are-left-alone
  (let [handle (nrepl/wrap-session identity)]
    (doseq [message [{:op "eval"} {:op "eval" :session (atom {} :meta {:id "e"})} {:op "describe" :session (session nil)} {}]]
      (is (identical? message (handle message))))))
