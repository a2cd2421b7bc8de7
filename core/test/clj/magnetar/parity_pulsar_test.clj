(ns magnetar.parity-pulsar-test
  "The page of parity with Pulsar names what exists, and what it says of ours is so."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.gen-server :as gs]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [collecting message-of with-failures]])
  (:import
   (java.io File)
   (magnetar.kernel.process Pid)))

(set! *warn-on-reflection* true)

(def ^:private home (System/getProperty "magnetar.home"))

(def ^:private aliases
  '{a magnetar.async, actor magnetar.actor, bits magnetar.bits, channel magnetar.channel, context magnetar.scope.context
    fold magnetar.fold, gs magnetar.gen-server, inspect magnetar.inspect, scope magnetar.scope, sup magnetar.supervisor, test magnetar.test})

(defn- page []
  (slurp (io/file home "docs/parity/pulsar.md")))

(defn- named-vars []
  (for [[_ code] (re-seq #"`([^`\n]+)`" (page))
        [_ alias name] (re-seq #"(?<![\w./-])([a-z]+)/([^\s()\[\]{}`,]+)" code)
        :when (aliases (symbol alias))]
    (symbol (str (aliases (symbol alias))) name)))

(deftest each-name-of-ours-on-the-page-exists
  (is (< 60 (count (set (named-vars)))))
  (is (= [] (remove requiring-resolve (distinct (named-vars))))))

(defn- test-names []
  (set (for [file (file-seq (io/file home "core/test/clj"))
             :when (str/ends-with? (.getName ^File file) "_test.clj")
             [_ name] (re-seq #"(?m)^\((?:deftest (?:\^\{[^}]*\} )?|scenario |ns )([^\s)]+)" (slurp file))]
         name)))

(deftest each-test-that-the-page-cites-exists
  (let [rows (filter #(re-find #"^\|" %) (str/split-lines (first (str/split (page) #"## co\."))))
        cited (for [row rows
                    [_ name] (re-seq #"`([a-z][a-z.>!<-]{20,})`|" (last (str/split row #"\|")))
                    :when name]
                name)
        ids (re-seq #"\b(?:LNK|REG|SPN|MON)-\d+" (str/join (map #(last (str/split % #"\|")) rows)))]
    (is (< 9 (count cited)))
    (is (= [] (remove (test-names) (concat cited ids))))))

;; --- what differs behind a similar name: the right columns of that table

(deftest a-select-takes-one-value-of-a-group-and-leaves-the-others-to-their-own-takers
  (let [[a b c] (repeatedly 3 a/chan)
        taken (a/go [(first (channel/select [a b c])) (channel/take b) (first (channel/select [a b c]))])]
    (a/>! a "hello")
    (a/>! b "world")
    (a/>! c "again")
    (is (= ["hello" "world" "again"] (a/<! taken)))
    (is (= [:none nil] (channel/select [a b c] {:timeout 1 :else :none})))))

(deftest a-pipe-takes-ahead-of-its-taker-and-a-lazy-seq-does-not
  (let [pushed (a/chan)]
    (a/pipe pushed (a/chan))
    (is (true? (channel/put pushed 1))))
  (let [pulled (a/chan 3)
        seen (map inc (take-while some? (repeatedly #(channel/take pulled))))]
    (a/>! pulled 1)
    (is (= 1 (:count (channel/info pulled))))
    (is (= 2 (first seen)))
    (is (= 0 (:count (channel/info pulled))))))

(defn- drained? [ch]
  (let [{:keys [closed? count putters]} (channel/info ch)]
    (and closed? (zero? (long count)) (empty? putters))))

(deftest a-closed-channel-is-drained-when-nothing-is-left-to-take
  (let [ch (a/chan 1)]
    (a/>! ch 1)
    (is (false? (drained? ch)))
    (a/close! ch)
    (is (true? (channel/closed? ch)))
    (is (false? (drained? ch)))
    (a/<! ch)
    (is (true? (drained? ch)))))

(deftest a-put-on-a-mult-ends-before-its-taps-have-the-value-and-the-next-one-after
  (let [source (a/chan)
        tap (a/tap (a/mult source) (a/chan))]
    (is (true? (channel/put source 1)))
    (is (= :waits (channel/put source 2 {:timeout 1 :else :waits})))
    (is (= 1 (a/<! tap)))
    (is (true? (channel/put source 2)))))

(deftest the-join-of-a-process-throws-its-reason-as-data-and-that-of-a-fork-has-the-cause
  (with-failures [failures]
    (let [boom #(throw (ex-info "boom" {:order 7}))
          [what] (try (actor/join (spawn boom)) (catch Exception e (:reason (ex-data e))))]
      (is (= {:type 'clojure.lang.ExceptionInfo :message "boom" :data {:order 7}} what))
      (is (= ["boom"] (map message-of @failures)))))
  (is (= {:order 7}
         (try
           (scope/with-scope [s] (scope/join (scope/fork s #(throw (ex-info "boom" {:order 7})))))
           (catch Exception e (ex-data (or (ex-cause e) e)))))))

(deftest a-third-process-lets-another-one-link-itself
  (let [b (spawn (fn [] (receive :never nil)))
        a (spawn (fn [] (receive [:link pid from] (do (actor/link pid) (! from :linked) (receive :never nil)))))]
    (actor/with-process {}
      (! a [:link b (self)])
      (receive :linked nil))
    (actor/exit b :gone)
    (is (= :gone (try (actor/join a) (catch Exception e (:reason (ex-data e))))))))

(defn- forever []
  [:ok (actor/spawn-link (fn [] (receive :never nil)))])

(defn- child [sup id]
  (:pid (first (filter #(= id (:id %)) (sup/which-children sup)))))

(defn- kill-and-await [pid]
  (let [ref (actor/monitor pid)]
    (actor/exit pid :kill)
    (receive [:DOWN ref _ _ _] nil)))

(defn- successor
  "The child that has taken the place of one that ended."
  [sup id ended]
  (let [pid (child sup id)]
    (if (and (instance? Pid pid) (not= ended pid))
      pid
      (do (Thread/yield) (recur sup id ended)))))

(defn- kill-child
  "Kills the child and returns its successor."
  [sup id]
  (let [pid (child sup id)]
    (kill-and-await pid)
    (successor sup id pid)))

(def ^:private reports (atom []))

(defn- reports-of
  "The kinds of what is reported while f runs in a process that traps exits."
  [f]
  (collecting reports
              (fn []
                (scenarios/leaving-nobody
                  #(actor/with-process {:trap-exit true}
                     (f)
                     (frequencies (map :event @reports)))))))

(deftest restarts-are-counted-for-a-supervisor-and-for-a-child-by-a-supervisor-of-its-own
  (is (= {:child-terminated 4 :too-many-restarts 1}
         (reports-of
           (fn []
             (let [[_ both] (sup/start-link {:intensity 1 :children [{:id :a :start [forever]} {:id :b :start [forever]}]})]
               (kill-child both :a)
               (kill-and-await (child both :b))
               (is (= :shutdown (receive [:EXIT both why] why)))
               (let [own (fn [] (sup/start-link {:intensity 1 :children [{:id :it :start [forever]}]}))
                     [_ each] (sup/start-link {:intensity 0 :children [{:id :a :start [own] :type :supervisor} {:id :b :start [own] :type :supervisor}]})]
                 (is (every? actor/alive? [(kill-child (child each :a) :it) (kill-child (child each :b) :it) each])))))))))

(deftest an-error-in-handle-call-ends-the-server-and-fails-the-call
  (is (= {:crash 1}
         (reports-of
           (fn []
             (let [[_ server] (gs/start {:init (fn [_] [:ok 0])
                                         :handle-call (fn [_ _ _] (throw (ex-info "oops" {})))
                                         :handle-cast (fn [_ s] [:noreply s])}
                                        nil)]
               (is (= :magnetar/call-failed (try (gs/call server :x) (catch Exception e (:magnetar/reason (ex-data e))))))
               (is (not (actor/alive? server)))))))))

(deftest a-plain-thread-does-all-operations
  (let [ch (a/chan)]
    (doto (Thread. ^Runnable (fn [] (a/>! ch 1))) .start)
    (is (= 1 (a/<! ch)))))

(deftest what-the-other-rows-say-is-so
  (is (= [1 2] (a/<! (a/into [] (a/take 2 (a/to-chan! [1 2 3]))))))
  (is (= 3 (scope/await-callback (fn [resolve _] ((fn [n callback] (callback (inc n))) 2 resolve)))))
  (is (nil? (deliver (doto (promise) (deliver 1)) 2)))
  (is (= [true false] (scope/with-scope [s]
                        (let [ended (a/promise-chan)
                              fork (scope/fork s #(a/<! ended))]
                          [(= :late (deref fork 1 :late))
                           (try (.isDone ^java.util.concurrent.Future fork) (finally (a/>! ended 1)))]))))
  (let [in (a/to-chan! [1 2])
        out (a/chan)]
    (a/go (loop [] (when-let [n (a/<! in)] (a/>! out (inc n)) (recur))) (a/close! out))
    (is (= [2 3] (a/<! (a/into [] out)))))
  (let [pid (actor/spawn-opt (fn [] (receive :stop nil)) {:name :named})]
    (is (= pid (actor/whereis :named)))
    (actor/exit pid :kill)))
