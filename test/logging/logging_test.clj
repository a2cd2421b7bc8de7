(ns logging-test
  "Crash reports and the reports of supervisors where clojure.tools.logging is on the class path."
  (:require
   [clojure.edn :as edn]
   [clojure.test :refer [deftest is testing]]
   [clojure.tools.logging :as log]
   [clojure.tools.logging.impl :as impl]
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.proc-lib.report :as report])
  (:import
   (java.util.logging Handler Level LogRecord Logger)))

(def ^:private server
  {:init (fn [s] [:ok s])
   :handle-call (fn [_ _ s] [:reply s s])
   :handle-cast (fn [request s] (if (= :crash request) (throw (ex-info "the ledger is gone" {})) [:noreply s]))
   :format-status (fn [status] (assoc status :state :hidden))})

(defn- back-end
  "A logger factory that keeps [name level message] of what is enabled."
  [records enabled?]
  (reify impl/LoggerFactory
    (name [_] "a list")
    (get-logger [_ named]
      (reify impl/Logger
        (enabled? [_ level] (enabled? level))
        (write! [_ level _ message] (swap! records conj [(str named) level message]))))))

(defn- crash
  "Lets a server of this name die of a cast; returns its pid."
  [named]
  (let [[_ pid] (gs/start server :secret {:name named})
        ref (promise)]
    (actor/with-process {}
      (let [monitor (actor/monitor pid)]
        (gs/cast pid :crash)
        (actor/receive [:DOWN monitor :process _ why] (deliver ref why))))
    pid))

(defn- records-of [enabled? f]
  (let [records (atom [])
        before log/*logger-factory*]
    (alter-var-root #'log/*logger-factory* (constantly (back-end records enabled?)))
    (try
      (f)
      @records
      (finally (alter-var-root #'log/*logger-factory* (constantly before))))))

(deftest a-crash-is-one-event-for-tools-logging-with-all-that-is-known
  (let [pid (promise)
        [[named level event] & more] (records-of (constantly true) #(deliver pid (crash ::books)))]
    (is (nil? more))
    (is (= ["magnetar" :error] [named level]))
    (is (= {:event :crash, :pid @pid, :name ::books, :callback-module "(a map of logging-test)", :state :hidden, :last-message [:magnetar/cast :crash]}
           (select-keys event [:event :pid :name :callback-module :state :last-message])))
    (is (re-find #"the ledger is gone" (str (:reason event))))
    (is (= 1 (count (:ancestors event))))
    (testing "the frames are those of the program"
      (is (seq (:frames event)))
      (is (every? #(re-find #"logging_test.clj" %) (take 1 (:frames event))))
      (is (not-any? #(re-find #"magnetar\\.(kernel|gen)" %) (:frames event))))
    (testing "and it is plain data, which can be printed and read back"
      (is (= event (edn/read-string {:readers *data-readers*} (pr-str event)))))))

(deftest a-level-that-is-off-gets-nothing
  (is (= [] (records-of #{:warn} #(crash ::quiet)))))

(deftest a-back-end-of-text-gets-the-event-as-text
  (let [[[_ _ event]] (records-of (constantly true) #(crash ::text))]
    (is (re-find #"^Server :logging-test/text crashed: the ledger is gone" (str event)))))

(deftest a-warning-has-the-name-that-back-ends-know
  (is (= [["magnetar" :warn :child-terminated]]
         (map #(update % 2 :event)
              (records-of (constantly true) #(report/tell {:event :child-terminated :level :warning :reason :boom}))))))

(deftest without-a-back-end-of-ones-own-it-comes-to-that-of-the-jdk
  (let [records (atom [])
        logger (Logger/getLogger "magnetar")
        handler (proxy [Handler] [] (publish [r] (swap! records conj r)) (flush []) (close []))]
    (.setUseParentHandlers logger false)
    (.addHandler logger handler)
    (crash ::jdk)
    (.removeHandler logger handler)
    (.setUseParentHandlers logger true)
    (let [[^LogRecord record & more] @records]
      (is (nil? more))
      (is (= Level/SEVERE (.getLevel record)))
      (is (re-find #"^Server :logging-test/jdk crashed: the ledger is gone \(ExceptionInfo\) at logging-test/fn \(logging_test.clj:\d+\)\n" (.getMessage record))))))
