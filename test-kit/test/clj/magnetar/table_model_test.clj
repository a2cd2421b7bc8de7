(ns magnetar.table-model-test
  "Tables under the simulator: operations against a sequential model, and what becomes of tables when owners die at any moment; a planted defect
  beside each. JAVA_OPTS=-Dmagnetar.runs=N for more runs."
  {:limit 300000}
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! after receive self spawn]]
   [magnetar.async :as a]
   [magnetar.histories :as histories :refer [history record]]
   [magnetar.impl.runtime]
   [magnetar.impl.table.life :as life]
   [magnetar.impl.table.store :as store]
   [magnetar.table :as table]
   [magnetar.test :as mt])
  (:import
   (java.util.concurrent ConcurrentMap)
   (java.util.concurrent.atomic AtomicReference)
   (magnetar.impl.table.life Table)
   (magnetar.impl.table.store Store)
   (magnetar.kernel.fiber Simulated)
   (magnetar.kernel.process LocalProcess Pid ProcessTable Send)))

(set! *warn-on-reflection* true)

(def ^:private runs (Long/getLong "magnetar.runs" 75))

(defn- checked [options f]
  (mt/check* (merge {:runs runs, :report (fn [text] (when-not (:control options) (println text)))} (dissoc options :control)) f))

;; ---- operations: the model is a map from key to value

(defn- model-step [state {[kind k x y] :op}]
  (let [v (state k)]
    (case kind
      :lookup [[state v]]
      :insert [[(assoc state k x) true]]
      :insert-new [[(if v state (assoc state k x)) (nil? v)]]
      :counter [[(assoc state k (+ (or v 0) x)) (+ (or v 0) x)]]
      :swap [[(if (= x v) (assoc state k y) state) (= x v)]]
      :take [[(dissoc state k) v]]
      :batch [[(merge state k) true]]
      :batch-new [(if (some state (keys k)) [state false] [(merge state k) true])]
      :clear [[{} true]])))

(defn- content [rows]
  (second (first rows)))

(defn- do-op [t [kind k x y]]
  (case kind
    :lookup (content (table/lookup t k))
    :insert (table/insert t [k x])
    :insert-new (table/insert-new t [k x])
    :counter (table/update-counter t k x [k 0])
    :swap (table/compare-and-swap t [k x] [k y])
    :take (content (table/take t k))
    :batch (table/insert-all t (vec k))
    :batch-new (table/insert-all-new t (vec k))
    :clear (table/delete-all t)))

(defn- run-ops
  "Several processes do their operations on one table: does the model explain what they got?"
  [kind start programs]
  (actor/with-process {}
    (let [t (table/create kind {:access :public})
          h (history)]
      (table/insert-all t start)
      (let [workers (mapv (fn [ops] (a/go (doseq [op ops] (record h op #(do-op t op))))) programs)]
        (run! a/<! workers)
        (histories/linearizable? h (into {} start) model-step (constantly true))))))

(def ^:private programs
  {"insert-new" [[] [[[:insert-new :k 1] [:lookup :k]] [[:insert-new :k 2] [:take :k]] [[:insert-new :k 3]]]]
   "counters" [[[:k 5]] [[[:counter :k 1] [:counter :k 1]] [[:counter :k 10] [:lookup :k]] [[:take :k] [:insert :k 100]]]]
   "swaps" [[[:k 0]] [[[:swap :k 0 1] [:swap :k 1 2]] [[:swap :k 0 5] [:swap :k 1 6]] [[:lookup :k] [:lookup :k]]]]
   "takes" [[[:k 0]] [[[:take :k] [:insert :k 7]] [[:take :k]] [[:take :k] [:lookup :k]]]]
   "batches and reads" [[[:a 0] [:b 0]] [[[:batch {:a 1 :b 1}] [:batch {:b 3 :a 3}]] [[:lookup :a] [:lookup :b] [:lookup :a]] [[:lookup :b] [:lookup :a]]]]
   "batches and writes" [[[:a 0]] [[[:batch {:a 1 :b 1}]] [[:counter :b 5] [:take :a]] [[:batch {:b 2 :a 2}] [:lookup :a]]]]
   "new batches" [[] [[[:batch-new {:a 1 :b 1}]] [[:batch-new {:b 2 :c 2}] [:lookup :a]] [[:insert-new :c 3] [:take :b] [:lookup :c]]]]
   "clearing" [[[:a 0]] [[[:clear] [:lookup :a]] [[:counter :a 1] [:lookup :a]] [[:batch {:a 4 :b 4}] [:lookup :b]]]]})

(deftest operations-on-a-table-are-what-the-sequential-table-does
  (doseq [kind [:set :ordered-set]
          [named [start ops]] programs]
    (testing (str named " on " kind)
      (is (:passed (checked {} #(run-ops kind start ops)))))))

;; A thread that waits for a firm batch checks again and again: with fixed priorities for ever.
(deftest batches-that-wait-for-each-other-are-what-the-sequential-table-does
  (with-redefs-fn {#'store/patience 0}
    #(doseq [named ["batches and reads" "batches and writes" "new batches" "clearing"]
             :let [[start ops] (programs named)]]
       (testing named
         (is (:passed (checked {:strategy :uniform} (fn [] (run-ops :set start ops)))))))))

(defn- look-first-put-later [^Store s k f]
  (let [^ConcurrentMap values (.-values s)
        old (.get values k)
        new (f old)]
    (Simulated/switchPoint)
    (if (nil? new) (.remove values k) (.put values k new))
    old))

(deftest the-model-finds-a-write-that-looks-first-and-puts-later
  (with-redefs [store/swap look-first-put-later]
    (doseq [named ["insert-new" "counters" "swaps" "takes"]
            :let [[start ops] (programs named)]]
      (testing named
        (is (not (:passed (checked {:control true :runs 1000} #(run-ops :set start ops)))))))))

(defn- row-by-row [s changes]
  (doseq [[k f] changes] (store/swap s k f))
  true)

(deftest the-model-finds-a-batch-that-is-written-row-by-row
  (with-redefs [store/swap-all row-by-row]
    (let [[start ops] (programs "batches and reads")]
      (is (not (:passed (checked {:control true :runs 1000} #(run-ops :set start ops))))))))

(deftest the-model-finds-cells-that-count-before-their-batch-is-done
  (with-redefs-fn {#'store/committed (fn [v] (if (instance? magnetar.impl.table.store.Cell v) (.-after ^magnetar.impl.table.store.Cell v) v))}
    #(let [[start ops] (programs "new batches")]
       (is (not (:passed (checked {:control true :runs 1000} (fn [] (run-ops :set start ops)))))))))

;; ---- owners that die

(defn- note-transfer [log t]
  (vswap! log conj [(self) t]))

(defn- receiver
  "A process that takes tables, notes that it was told so, and gives away what it is told to."
  [named log]
  (actor/spawn-opt (fn []
                     (loop []
                       (receive
                         [:ETS-TRANSFER t _ _] (do (note-transfer log t) (recur))
                         [:give t to] (do (try (table/give-away t to :back) (catch RuntimeException _)) (recur))
                         :stop nil)))
                   {:name named}))

(defn- maker
  "A process that makes a table, gives it away, and may get it back."
  [heir other log made]
  (actor/spawn-opt (fn []
                     (let [t (table/create :set {:name :wandering :heir [heir :will]})]
                       (vreset! made t)
                       (try (table/give-away t other :gift) (catch IllegalArgumentException _))
                       (! other [:give t (self)])
                       (receive [:ETS-TRANSFER _ _ _] (note-transfer log t) (after 5 nil))
                       (receive :stop nil)))
                   {:name :mortal-maker}))

(defn- ended-well?
  "A table that is there has its name and a living owner, who lists it, and has made it or was told; else its name is free. With an heir that
  lives it is there."
  [^Table t maker log heir-lives?]
  (let [{:keys [^Pid owner] :as held} (when t (life/holding t))]
    (if (nil? held)
      (and (nil? (life/named :wandering)) (not (and t heir-lives?)))
      (and (identical? t (life/named :wandering))
           (actor/alive? owner)
           (boolean (some #{t} (.owned (ProcessTable/live owner))))
           (or (= owner maker) (contains? (set log) [owner t]))))))

(defn- wander
  "The table wanders while processes are killed, at the end of which it must be as it has to."
  [heir-name heir-lives?]
  (let [log (volatile! [])
        made (volatile! nil)
        heir (receiver heir-name log)
        other (receiver :mortal-other log)
        maker (maker heir other log made)]
    (a/<! (a/timeout 20))
    ;; A kill may come at any time, also now: what it leads to takes a while.
    (let [well? (mt/eventually (ended-well? (or @made (life/named :wandering)) maker @log heir-lives?) {:timeout 30 :else false})]
      (run! #(when (actor/alive? %) (! % :stop)) [heir other maker])
      (boolean well?))))

(def ^:private deadly {:faults #{:kill} :fault-rate 0.04 :victims #(re-find #"mortal" %)})

(deftest a-table-whose-owners-die-while-they-give-it-away-is-never-lost-nor-left-to-the-dead
  (is (:passed (checked (assoc deadly :runs (* 4 (long runs))) #(wander :heir true)))))

(deftest a-table-whose-heir-may-die-too-goes-with-the-last-of-them
  (is (:passed (checked (assoc deadly :runs (* 4 (long runs))) #(wander :mortal-heir false)))))

;; ---- what a process lists

(defn- lists-its-own-only? [pid]
  (every? #(= pid (some-> (life/holding %) :owner)) (.owned (ProcessTable/live pid))))

(defn- drop-while-given
  "A table is made and given away while another process drops it. Afterwards each process that lives lists its own tables only."
  []
  (let [taker (actor/spawn-opt #(receive :stop nil) {:name :taker})
        giver (actor/spawn-opt #(do (try (table/give-away (table/create :set {:name :wandering :access :public}) taker :gift)
                                         (catch RuntimeException _)) ; it was dropped
                                    (receive :stop nil))
                               {:name :giver})]
    (actor/join (spawn #(loop []
                          (if-some [t (life/named :wandering)]
                            (table/drop t)
                            (do (a/<! (a/timeout 0)) (recur))))))
    (a/<! (a/timeout 20))
    (let [well? (every? lists-its-own-only? [taker giver])]
      (run! #(! % :stop) [taker giver])
      well?)))

(deftest a-table-that-is-dropped-while-it-is-made-or-given-away-is-listed-by-nobody
  (is (:passed (checked {:runs (* 20 (long runs))} drop-while-given))))

(defn- update-once [^Table t ^LocalProcess p]
  (if (#'life/owner? t p)
    (do (Simulated/switchPoint) (.own p t))
    (.disown p t)))

(deftest the-model-finds-a-listing-that-is-not-checked-again
  (with-redefs-fn {#'life/update-listing update-once}
    #(is (not (:passed (checked {:control true :runs 1000} drop-while-given))))))

(defn- careless-hand-over
  "Looks first whether the other is alive, and lists the table there when it is its own."
  [^Table t seen ^Pid to data]
  (let [^LocalProcess p (when (.isAlive to) (ProcessTable/live to))]
    (Simulated/switchPoint)
    (if (and p (.compareAndSet ^AtomicReference (.-holding t) seen (assoc seen :owner to)))
      (do
        (Simulated/switchPoint)
        (.own p t)
        (Send/signal to [:ETS-TRANSFER t (:owner seen) data])
        true)
      false)))

(deftest the-model-finds-a-table-that-was-given-to-one-who-had-just-died
  ;; rare, one run in some 2,500: below 16000 it is found by the seeds 5265, 9176, 9583, 12671, 13852 and 15482, which change with the switch points of the kernel
  (with-redefs-fn {#'life/hand-over careless-hand-over}
    #(is (not (:passed (checked (assoc deadly :control true :runs 4000 :seed 9000) (fn [] (wander :mortal-heir false))))))))

(deftest the-model-finds-an-heir-that-is-not-told
  (with-redefs-fn {#'life/tell (fn [& _])}
    #(is (not (:passed (checked (assoc deadly :control true :runs 1000) (fn [] (wander :heir true))))))))
