(ns magnetar.compat.probes-test
  "The observed behaviours of core.async, run under its own name: what differs is what docs/parity/core-async.md lists for
  magnetar.async, no more and no less. Every day they are run against magnetar.async."
  {:slow true}
  (:require
   [clojure.core.async]
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]])
  (:import
   (clojure.lang LineNumberingPushbackReader)
   (java.util.concurrent Callable ExecutorService Executors Future)))

(set! *warn-on-reflection* true)

(defn- file-of [path]
  (io/file (System/getProperty "magnetar.home") path))

(def ^:private conformance "core/test/resources/conformance/")

(def ^:private blocks-for-ever '#{>!-outside alt!-outside})

(defn- forms-of [file]
  (with-open [reader (LineNumberingPushbackReader. (io/reader file))]
    (doall (take-while #(not= ::end %) (repeatedly #(read {:eof ::end} reader))))))

(defn- load-script
  "Loads the script except its last form, which writes files and ends the JVM."
  []
  (binding [*ns* (create-ns 'magnetar.compat.probes)
            *command-line-args* ["clojure.core.async"]]
    (refer-clojure)
    (run! eval (butlast (forms-of (file-of (str conformance "async-probes.clj")))))
    {:run @(resolve 'compat.probes/run1)
     :probes @(resolve 'compat.probes/probes)}))

(defn- printed [value]
  (edn/read-string (binding [*print-length* nil] (pr-str value))))

(defn- result [run [n form]]
  (if (blocks-for-ever n)
    (deref (future (printed (run form))) 1000 :BLOCKS)
    (printed (run form))))

(defn- alone?
  "Does the probe replace the default handler of the JVM? Then it must not run beside others."
  [[_ form]]
  (some #{'with-uncaught} (tree-seq coll? seq form)))

(defn- side-by-side [run probes]
  (with-open [^ExecutorService pool (Executors/newFixedThreadPool 8)]
    (->> (mapv (fn [probe] [(first probe) (.submit pool ^Callable #(result run probe))]) probes)
         (into {} (map (fn [[n ^Future f]] [n (.get f)]))))))

(defn- results [{:keys [run probes]}]
  (into (side-by-side run (remove alone? probes))
        (map (juxt first #(result run %)))
        (filter alone? probes)))

(def ^:private row #"(?m)^\| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \| [^|]+ \|$")

(defn- listed
  "What the parity page says that ours gives: probe -> result."
  []
  (into {} (for [[_ n _ ours] (re-seq row (slurp (file-of "docs/parity/core-async.md")))]
             [(symbol n) (edn/read-string ours)])))

(defn- surprises [expected results]
  (into {} (remove (fn [[n r]] (= r (expected n)))) results))

(deftest ^{:limit 180000} under-its-own-name-core-async-behaves-as-magnetar-async
  (let [{:keys [run probes] :as script} (load-script)
        expected (merge (edn/read-string (slurp (file-of (str conformance "async-golden.edn")))) (listed))
        results (results script)
        ;; On a busy machine a probe may miss a time limit: those that surprise run once more, alone.
        again (map (juxt first #(result run %)) (filter #(contains? (surprises expected results) (first %)) probes))]
    (is (= (set (keys expected)) (set (keys results))))
    (is (= {} (surprises expected (into results again))))))
