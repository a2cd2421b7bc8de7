(ns magnetar.async-probes-test
  "Behaviours of core.async as observed, run against magnetar.async. Where ours differs, docs/parity/core-async.md says so and why."
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.async])
  (:import
   (clojure.lang LineNumberingPushbackReader)
   (java.util.concurrent Callable ExecutorService Executors Future)))

(set! *warn-on-reflection* true)

(defn- file-of [path]
  (io/file (System/getProperty "magnetar.home") path))

(def ^:private conformance "core/test/resources/conformance/")

(def ^:private blocks-for-ever
  "Probes that wait, as they should, for what will not come: they end by this test's limit."
  '#{>!-outside alt!-outside})

(def ^:private limit-ms 2000)

;; ---- the probes, in this JVM: all forms of the script but the last, which writes files and ends the JVM

(defn- forms-of [file]
  (let [reader (LineNumberingPushbackReader. (io/reader file))]
    (doall (take-while #(not= ::end %) (repeatedly #(read {:eof ::end} reader))))))

(defn- load-script []
  (binding [*ns* (create-ns 'magnetar.async-probes)
            *command-line-args* ["magnetar.async"]]
    (refer-clojure)
    (run! eval (butlast (forms-of (file-of (str conformance "async-probes.clj")))))
    {:run @(resolve 'compat.probes/run1)
     :probes @(resolve 'compat.probes/probes)}))

(defn- printed [value]
  (edn/read-string (binding [*print-length* nil] (pr-str value))))

(defn- uses-default-handler?
  "Does the probe replace the default handler of the JVM? Then it must not run beside others."
  [[_ form]]
  (some #{'with-uncaught} (tree-seq coll? seq form)))

(defn- run-all
  "Results of the probes, run side by side: a map of name to result."
  [run probes]
  (with-open [^ExecutorService pool (Executors/newFixedThreadPool 8)]
    (->> (mapv (fn [[n form]] [n (.submit pool ^Callable #(printed (run form)))]) probes)
         (into {} (map (fn [[n ^Future result]] [n (.get result)]))))))

(defn- run-blocking
  "What a probe gives that is expected to block: its result if it ends within the limit after all."
  [run [n form]]
  [n (deref (future (printed (run form))) limit-ms :BLOCKS)])

(defn- run-twice-if
  "Results again of the probes that `surprising` picks: on a busy machine one may miss a time limit."
  [surprising run probes results]
  (reduce (fn [results [n form]]
            (cond-> results (surprising n (results n)) (assoc n (printed (run form)))))
          results
          probes))

;; ---- what the page says

(def ^:private page "docs/parity/core-async.md")

(def ^:private row #"(?m)^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \| ([^|]+) \|$")

(defn- listed
  "The differences that the page lists: probe -> {:golden :ours :why}."
  []
  (into {} (for [[_ n golden ours why] (re-seq row (slurp (file-of page)))]
             [(symbol n) {:golden (edn/read-string golden), :ours (edn/read-string ours), :why why}])))

(def ^:private reasons
  #"^(a known defect of core\.async|the kind of thread|`<!` anywhere)(: .+)?$")

(defn- golden []
  (edn/read-string (slurp (file-of (str conformance "async-golden.edn")))))

(def ^:private outcome
  "What the run found: {:results :golden :listed}."
  (delay
    (let [golden (golden)
          listed (listed)
          {:keys [run probes]} (load-script)
          {blocking true, others false} (group-by #(contains? blocks-for-ever (first %)) probes)
          blocked (mapv #(future (run-blocking run %)) blocking)
          {alone true, together false} (group-by (comp boolean uses-default-handler?) others)
          results (merge (run-all run together) (into {} (map (fn [[n form]] [n (printed (run form))])) alone))
          expected #(get-in listed [% :ours] (golden %))]
      {:golden golden
       :listed listed
       :results (into (run-twice-if #(not= %2 (expected %1)) run others results) (map deref) blocked)})))

(defn- found
  "The differences that the run found: probe -> {:golden :ours}."
  []
  (let [{:keys [golden results]} @outcome]
    (into {} (for [[n theirs] golden
                   :let [ours (get results n ::not-run)]
                   :when (not= theirs ours)]
               [n {:golden theirs, :ours ours}]))))

(deftest every-behaviour-that-was-observed-is-probed
  (is (= (set (keys (:golden @outcome))) (set (keys (:results @outcome))))))

(deftest the-parity-page-lists-exactly-the-differences-that-a-run-finds
  (let [said (update-vals (:listed @outcome) #(dissoc % :why))
        found (found)
        beside (fn [these those] (into {} (remove (fn [[n d]] (= d (those n)))) these))]
    (is (= {} (beside found said)) "differences that the page does not list, or not as they are")
    (is (= {} (beside said found)) "entries of the page that are no differences")))

(deftest each-difference-has-a-reason-that-counts
  (is (<= (count (:listed @outcome)) 25))
  (doseq [[n {:keys [why]}] (:listed @outcome)]
    (is (re-matches reasons why) (str n " is excused by: " why))))

(deftest no-difference-is-a-time-out-of-ours
  (doseq [[n {:keys [golden ours]}] (found)
          :when (not (contains? blocks-for-ever n))
          :let [timed-out? #(str/includes? (pr-str %) "TIMEOUT")]]
    (is (or (timed-out? golden) (not (timed-out? ours))) (str n " gives " (pr-str ours)))))

(deftest the-page-names-every-public-name
  (let [named (set (map second (re-seq #"`([^` ]+)`" (slurp (file-of page)))))]
    (is (= [] (remove named (map str (keys (ns-publics 'magnetar.async))))))))
