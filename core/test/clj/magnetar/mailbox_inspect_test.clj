(ns magnetar.mailbox-inspect-test
  "What waits in a mailbox, and why it is not taken: read without changing it."
  (:require
   [clojure.test :refer [are deftest is testing]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.impl.inspect.shown :refer [shown shown-text]]
   [magnetar.impl.inspect.views :as views]
   [magnetar.inspect :as inspect]
   [magnetar.support :refer [eventually]])
  (:import
   (magnetar.kernel.inspect Locals)))

(set! *warn-on-reflection* true)

(defn- takes-puts []
  (receive
    [:put n] (when (< n 3) (recur))
    [:take _] nil))

(deftest a-receive-that-takes-none-of-its-messages-tells-its-clauses
  (let [pid (actor/spawn takes-puts)]
    (! pid [:put 1])
    (! pid [:pit 2])
    (! pid :stop)
    (is (eventually (= 2 (:messages (inspect/mailbox pid)))))
    (is (eventually (let [{:keys [skipped-by]} (inspect/mailbox pid)] ; without clauses while it is on its way to the wait
                      (if (Locals/isOn) (:clauses skipped-by) skipped-by))))
    (let [{:keys [oldest skipped-by]} (inspect/mailbox pid)]
      (is (= ["[:pit 2]" ":stop"] oldest))
      (is (re-matches #"mailbox_inspect_test\.clj:\d+" (:at skipped-by)))
      (when (Locals/isOn)
        (is (= 2 (count (:clauses skipped-by))))
        (is (re-find #"\[:put n\]" (first (:clauses skipped-by))))))
    (testing "and goes on as if nobody had looked"
      (! pid [:put 3])
      (is (= :normal (do (actor/join pid) :normal))))))

(deftest the-oldest-ten-are-shown-also-of-a-process-that-computes
  (doseq [options [{} {:mailbox {:capacity 1000}}]]
    (let [go-on (promise)
          pid (actor/spawn-opt (fn [] @go-on) options)]
      (dotimes [n 100] (! pid n))
      (let [{:keys [messages oldest skipped-by]} (inspect/mailbox pid)]
        (is (= [100 (map str (range 10)) nil] [messages oldest skipped-by])))
      (deliver go-on true)
      (actor/join pid))))

(defrecord Order [number lines])

(deftest ^{:spec ["C33"]} what-is-shown-is-short-and-runs-no-code-of-the-program
  (let [ran (atom 0)
        lazy (lazy-seq (swap! ran inc) [1])
        ends-lazily (cons 1 (lazy-seq (swap! ran inc) [2]))]
    (are [x text] (= text (shown x))
      lazy "(..)"
      ends-lazily "(1 ..)"
      (delay (swap! ran inc)) "#object[clojure.lang.Delay]"
      {:a [1 #{2}]} "{:a [1 #{2}]}"
      (vec (range 20)) "[0 1 2 3 4 5 6 7 ...]"
      (->Order 7 lazy) "#magnetar.mailbox_inspect_test.Order {:number 7, :lines (..)}")
    (is (re-matches #"#object\[magnetar\.mailbox_inspect_test\$.*\]" (shown (reify Object (toString [_] (swap! ran inc) "x")))))
    (is (= 0 @ran))
    (is (< (count (shown (vec (repeat 8 (apply str (repeat 1000 "x")))))) 130))
    (let [cyclic (atom nil)]
      (reset! cyclic [cyclic])
      (is (= "[#object[clojure.lang.Atom]]" (shown @cyclic))))
    (is (string? (shown (iterate inc 0))))))

(defn- mailboxes-of
  "The mailboxes in a dump of the processes with these names."
  [names]
  (filterv (comp names :name) (:mailboxes (inspect/dump))))

(deftest a-dump-has-the-longest-mailboxes
  (let [till (actor/spawn-opt takes-puts {:name :till-of-dump})
        idle (actor/spawn-opt takes-puts {:name :idle-of-dump})
        own #(mailboxes-of #{":till-of-dump" ":idle-of-dump"})]
    (dotimes [_ 1000] (! till [:pit 2]))
    (is (eventually (= [[":till-of-dump" 1000]] (map (juxt :name :messages) (own)))))
    (is (eventually (let [{:keys [skipped-by]} (first (own))]
                      (if (Locals/isOn) (:clauses skipped-by) skipped-by))))
    (let [[{:keys [id oldest] :as mailbox}] (own)
          [title line] (views/lines ["mailboxes"] {:mailboxes [mailbox]})]
      (is (= [[:process (str till)] (repeat 10 "[:pit 2]")] [id oldest]))
      (is (= "Mailboxes:" title))
      (is (re-find #"^  :till-of-dump: 1000 messages, the oldest \[:pit 2\], which no clause matches at mailbox_inspect_test\.clj:\d+" line) line))
    (is (<= (count (:mailboxes (inspect/dump))) 20))
    (testing "without what the program hides"
      (inspect/redact-with (constantly :hidden))
      (try
        (is (= (repeat 10 ":hidden") (:oldest (first (own)))))
        (finally (inspect/redact-with nil))))
    (run! #(actor/exit % :kill) [till idle])
    (is (= ["No process has messages."] (views/lines ["mailboxes"] {:mailboxes []})))))

(deftest a-dead-letter-is-shown-as-the-program-lets-it
  (is (= "{:card \"4111\"}" (shown-text "{:card \"4111\"}")))
  (inspect/redact-with (fn [x] (if (:card x) (assoc x :card "..") x)))
  (try
    (is (= "{:card \"..\"}" (shown-text "{:card \"4111\"}")))
    (is (= "(not shown: it was kept as text)" (shown-text "{:card \"4111\", :items [1 2...")))
    (finally (inspect/redact-with nil)))
  (let [pid (actor/spawn (fn []))
        hidden? #(some (comp #{"{:card \"..\"}"} :message) (:last (inspect/dead-letters)))]
    (actor/join pid)
    (inspect/redact-with (fn [x] (if (:card x) (assoc x :card "..") x)))
    (try
      (is (eventually (do (! pid {:card "4111"}) (hidden?))))
      (finally (inspect/redact-with nil)))))

(deftest what-the-program-hides-is-not-shown
  (let [pid (actor/spawn #(receive :never nil))]
    (! pid {:card "4111"})
    (try
      (inspect/redact-with (fn [x] (if (:card x) (assoc x :card "..") x)))
      (is (eventually (= ["{:card \"..\"}"] (:oldest (inspect/mailbox pid)))))
      (testing "nor where hiding it fails"
        (inspect/redact-with (fn [_] (throw (ex-info "4111" {}))))
        (is (= ["(not shown: clojure.lang.ExceptionInfo)"] (:oldest (inspect/mailbox pid))))
        (inspect/redact-with (fn without-end [x] [(without-end x)]))
        (is (= ["(not shown: java.lang.StackOverflowError)"] (:oldest (inspect/mailbox pid)))))
      (finally
        (inspect/redact-with nil)))
    (is (= ["{:card \"4111\"}"] (:oldest (inspect/mailbox pid))))
    (actor/exit pid :kill)))
