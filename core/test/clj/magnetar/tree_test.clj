(ns magnetar.tree-test
  "What runs and waits as a tree, and the deaths under supervisors: told without asking anybody."
  (:require
   [clojure.edn :as edn]
   [clojure.set :as set]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.application :as application]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.scope :as scope]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [eventually with-hook]])
  (:import
   (java.io Closeable)
   (java.net InetAddress ServerSocket Socket)
   (java.util.concurrent Exchanger)
   (magnetar MisuseException)))

(set! *warn-on-reflection* true)

(def ^:private counter
  {:init (fn [_] [:ok 0])
   :handle-call (fn [_ _ n] [:reply n n])
   :handle-cast (fn [_ _] (throw (ex-info "the counter is broken" {})))})

(defn- start-shop []
  (sup/start-link {:strategy :one-for-one
                   :intensity 3
                   :children [{:id :tills :start [gs/start-link counter nil {:name :tills}]}
                              {:id :stock :start [gs/start-link counter nil {:name :stock}]}]}
                  {:name :shop-supervisor}))

(defn- with-shop [f]
  (with-hook [:report (fn [_] nil)]
    (application/load {:name :shop :start [start-shop]})
    (is (= :ok (application/start :shop)))
    (try
      (f)
      (finally
        (application/stop :shop)
        (application/unload :shop)))))

(defn- all-in [trees]
  (mapcat #(tree-seq :children :children %) trees))

(defn- named [name]
  (first (filter #(= name (:name %)) (all-in (inspect/tree)))))

(deftest an-application-has-its-supervisor-below-it-and-that-its-children
  (with-shop
    (fn []
      (let [{:keys [kind children]} (named ":shop")
            [supervisor] children]
        (is (= [:application 1] [kind (count children)]))
        (is (= [:supervisor ":shop-supervisor"] ((juxt :kind :name) supervisor)))
        (is (= #{":tills" ":stock"} (set (map :name (:children supervisor)))))
        (is (eventually (every? #(= [:process "message" 0] ((juxt :kind :waits-for :messages) %))
                                (:children (named ":shop-supervisor")))))))))

(deftest the-tree-uses-the-words-of-why-stuck
  (let [monitor (Object.)
        notify (a/go (locking monitor (.wait monitor)))
        promised (promise)
        waits-for-promise (a/go @promised)
        exchanger (Exchanger.)
        exchanges (a/go (.exchange exchanger 1))
        told (fn [] (set (keep #(when (and (= :go (:kind %)) (str/includes? (:name %) "tree_test")) (:waits-for %)) (all-in (inspect/tree)))))
        expected #{"be notified" "a promise" "the other party of an Exchanger"}]
    (is (eventually (set/subset? expected (told))) (pr-str (told)))
    (locking monitor (.notifyAll monitor))
    (deliver promised 1)
    (.exchange exchanger 2)
    (run! a/<!! [notify waits-for-promise exchanges])))

(deftest a-fiber-has-its-scopes-below-it-and-a-scope-its-forks
  (let [c (a/chan)
        opened (promise)
        done (a/go (scope/with-scope [s]
                     (scope/fork s (fn [] (a/<! c)))
                     (deliver opened true)))]
    (is (deref opened 20000 false))
    (is (eventually (= 1 (count (filter #(and (= :fork (:kind %)) (str/includes? (:name %) "tree_test") (:waits-for %)) (all-in (inspect/tree)))))))
    (let [go (first (filter #(and (= :go (:kind %)) (some (comp #{:scope} :kind) (:children %))) (inspect/tree)))
          [{[fork] :children}] (:children go)]
      (is (str/includes? (:name go) "magnetar/tree_test.clj:"))
      (is (re-matches #"tree_test.clj:\d+" (:at fork)))
      (is (= "take from a channel" (:waits-for fork)))
      (is (nat-int? (:since-ms fork))))
    (a/close! c)
    (a/<!! done)))

(defn- nest
  "Opens so many scopes, each in a fork of the one around it. The innermost fork waits for the promise."
  [n gate]
  (scope/with-scope [s]
    (scope/fork s (if (= 1 n) (fn [] @gate) #(nest (dec (long n)) gate)))))

(deftest of-a-deep-tree-a-hundred-levels-are-shown
  (let [gate (promise)
        done (a/go (nest 1000 gate))
        of-here #(filterv (fn [{:keys [name children]}] (and children (str/includes? name "tree_test"))) (inspect/tree))
        deepest (fn [trees] (last (take-while some? (iterate (comp first :children) (first trees)))))]
    (is (eventually (= 1901 (:levels (deepest (of-here)))))) ; a go block, 1000 scopes and as many forks
    (let [trees (of-here)
          lines (str/split-lines (with-out-str (inspect/print-tree trees)))]
      (is (= 101 (count lines)))
      (is (= ".. 1901 levels more" (str/trim (last lines))))
      (is (= trees (edn/read-string (pr-str trees)))))
    (is (map? (edn/read-string {:default tagged-literal} (pr-str (inspect/dump)))))
    (deliver gate true)
    (a/<!! done)))

(deftest a-tree-of-any-depth-is-printed
  (let [deep (nth (iterate (fn [tree] {:kind :scope :name "scope" :children [tree]}) {:kind :go :name "go"}) 3000)]
    (is (= 3001 (count (str/split-lines (with-out-str (inspect/print-tree [deep]))))))))

(deftest what-is-alike-is-counted
  (let [c (a/chan)
        takers (mapv (fn [_] (a/go (a/<! c))) (range 50))
        of-here #(filter (fn [{:keys [name kind]}] (and (= :go kind) (str/includes? name "tree_test"))) (inspect/tree {:limit 7}))]
    (is (eventually (let [told (of-here)] (and (= [7 43] [(count (remove :more told)) (:more (last told))]) (every? :waits-for told)))))
    (let [text (with-out-str (inspect/print-tree (of-here)))]
      (is (= 8 (count (str/split-lines text))))
      (is (str/includes? text ", 43 more") text)
      (is (re-find #"take from a channel at tree_test.clj:\d+, for \d" text) text))
    (a/close! c)
    (run! a/<!! takers)))

(deftest a-limit-is-a-whole-number
  (is (thrown-with-msg? MisuseException #"`magnetar.inspect/tree` does not know :limt; its options are :limit. Is :limit meant\?" (inspect/tree {:limt 3})))
  (is (thrown-with-msg? MisuseException #":limit.* a whole number from 1 up; this is 0" (inspect/tree {:limit 0}))))

(deftest what-is-no-tree-is-not-printed
  (doseq [[trees culprit] {5 "5", "tree" "\"tree\"", {:name "x"} "\\{:name \"x\"\\}", [{}] "\\{\\}", [1] "1"
                           [{:kind :go :name "go" :children [{:name "below"}]}] "\\{:name \"below\"\\}"}]
    (is (thrown-with-msg? MisuseException (re-pattern (str "`print-tree` wants trees as `tree` returns them, .*; this is " culprit "\\."))
          (inspect/print-tree trees))
        (str trees)))
  (is (= "\n\n" (with-out-str (inspect/print-tree nil) (inspect/print-tree []))))
  (is (= "runs" (str/trim (with-out-str (inspect/print-tree [{:kind :go :name ""}]))))))

(deftest restarts-are-told-also-while-the-supervisor-is-busy
  (with-shop
    (fn []
      (let [shop #(first (filter (comp #{":shop-supervisor"} :name) (inspect/restarts)))]
        (is (= [:one-for-one 3 5000 0 []] ((juxt :strategy :intensity :period-ms :restarts :history) (shop))))
        (gs/cast :tills :break)
        (is (eventually (= 1 (:restarts (shop)))))
        (is (= [:tills] (map :id (:history (shop)))))
        (testing "without what the program hides"
          (inspect/redact-with (fn [x] (if (keyword? x) x "..")))
          (try
            (is (= [[:tills ".."]] (map (juxt :id :reason) (:history (shop)))))
            (finally (inspect/redact-with nil))))
        (testing "in a start that does not come back"
          (let [gate (a/chan)
                stuck (a/go (sup/start-child :shop-supervisor {:id :slow :start [(fn [] (a/<! gate) [:error :closed])]}))]
            (is (eventually (some-> (actor/whereis :shop-supervisor) (actor/process-info :status) #{:waiting})))
            (is (= 1 (:restarts (shop))))
            (a/close! gate)
            (is (= :error (first (a/<!! stuck))))))))))

(defn- reader-of [^Socket socket]
  (fn [] (try (.read (.getInputStream socket)) (catch java.io.IOException _ :closed))))

(deftest what-has-waited-before-is-told-by-its-present-wait
  (let [asleep (actor/spawn (fn []
                              (actor/receive :sleep (try (Thread/sleep 3600000) (catch InterruptedException _ nil)))))
        told #(:waits-for (first (filter (comp #{[:process asleep]} :id) (all-in (inspect/tree)))))]
    (is (eventually (= "message" (told))))
    (actor/! asleep :sleep)
    (is (eventually (= "time to pass" (told))))
    (actor/exit asleep :kill)))

(deftest a-wait-at-a-socket-is-told
  (with-open [server (ServerSocket. 0 5 (InetAddress/getLoopbackAddress))
              outer (Socket. (InetAddress/getLoopbackAddress) (.getLocalPort server))
              inner (.accept server)]
    (let [accepting (a/go (try (.accept server) (catch java.io.IOException _ :closed)))
          reading (a/go ((reader-of outer)))
          on-platform (doto (Thread. ^Runnable (reader-of inner) "reads-here") .start)
          told #(set (keep (fn [{:keys [kind waits-for]}] (when (#{:go :thread} kind) [kind waits-for])) (all-in (inspect/tree))))]
      (is (eventually (every? (told) [[:go "a connection to a server socket"] [:go "data from a socket"] [:thread "data from a socket"]])))
      (is (re-find #"waits at tree_test\.clj:\d+ for data from a socket\." (:text (inspect/why-stuck on-platform))))
      (run! Closeable/.close [server outer inner])
      (.join on-platform)
      (a/<!! accepting)
      (a/<!! reading))))

(deftest an-id-of-the-tree-names-what-it-is-the-id-of
  (let [gate (a/chan)
        go (a/go (a/>! gate 1))
        pid (actor/spawn-opt #(receive :stop nil) {:name :of-the-tree})
        in-tree (fn [accepts?] (first (filter accepts? (all-in (inspect/tree)))))
        putting #(in-tree (fn [{:keys [kind name waits-for]}] (and (= :go kind) (re-find #"tree_test" name) (re-find #"put" (str waits-for)))))]
    (is (eventually (:waits-for (in-tree #(= ":of-the-tree" (:name %))))))
    (! pid :hello)
    (is (eventually (= 1 (:messages (inspect/mailbox (:id (in-tree #(= ":of-the-tree" (:name %)))))))))
    (is (eventually (re-find #"waits" (str (:text (inspect/why-stuck (:id (in-tree #(= ":of-the-tree" (:name %))))))))))
    (is (eventually (putting)))
    (let [{[_ number :as id] :id} (putting)]
      (is (= (:text (inspect/why-stuck number)) (:text (inspect/why-stuck id))))
      (is (some? (inspect/why-stuck id))))
    (! pid :stop)
    (a/<!! gate)
    (a/<!! go)))
