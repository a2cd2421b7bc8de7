(ns magnetar.compat.machines-test
  "Go blocks that were compiled with core.async's own `go` run here; and what one `require` of clojure.core.async loads."
  (:require
   [clojure.core.async :as a]
   [clojure.core.async.impl.dispatch :as dispatch]
   [clojure.core.async.impl.ioc-macros :as ioc]
   [clojure.edn :as edn]
   [clojure.test :refer [deftest is]]
   [magnetar.report :as report])
  (:import
   (java.io File)
   (java.util.concurrent.atomic AtomicReferenceArray)))

(set! *warn-on-reflection* true)

(defn- machine
  "A machine as core.async compiles one: `blocks` are functions of the state, by number, which return :recur to go on; the first is number 1.
  What a block throws goes to the first of the blocks that catch."
  [blocks]
  (fn step [state]
    (let [result (try
                   ((blocks (ioc/aget-object state ioc/STATE-IDX)) state)
                   (catch Throwable e
                     (ioc/aset-all! state ioc/VALUE-IDX e)
                     (if-some [[catching] (seq (ioc/aget-object state ioc/EXCEPTION-FRAMES))]
                       (ioc/aset-all! state ioc/STATE-IDX catching ioc/EXCEPTION-FRAMES nil)
                       (throw e))
                     :recur))]
      (if (identical? result :recur) (recur state) result))))

(defn- start
  "What a compiled go block does."
  [blocks]
  (let [c (a/chan 1)
        state (ioc/aset-all! (AtomicReferenceArray. 8) ioc/FN-IDX (machine blocks) ioc/STATE-IDX 1 ioc/USER-START-IDX c)]
    (dispatch/run (fn [] (ioc/run-state-machine-wrapped state)))
    c))

(defn- value [state]
  (ioc/aget-object state ioc/VALUE-IDX))

(defn- taken [ch]
  (a/alt!! ch ([v] v) (a/timeout 20000) :late))

(deftest a-compiled-go-block-takes-puts-and-returns
  (let [in (a/chan)
        out (a/chan)
        result (start {1 #(ioc/take! % 2 in)
                       2 #(ioc/put! % 3 out (inc (long (value %))))
                       3 #(ioc/return-chan % [:put (value %)])})]
    (a/put! in 1)
    (is (= 2 (taken out)))
    (is (= [:put true] (taken result)))
    (is (nil? (taken result)) "closed")))

(deftest a-compiled-go-block-that-returns-nil-closes-its-channel
  (is (nil? (taken (start {1 #(ioc/return-chan % nil)})))))

(deftest a-compiled-go-block-chooses
  (let [[ready never] [(a/to-chan! [:x]) (a/chan)]]
    (is (= [:x ready] (taken (start {1 #(a/ioc-alts! % 2 [never ready]), 2 #(ioc/return-chan % (value %))}))))
    (is (= [:d :default] (taken (start {1 #(a/ioc-alts! % 2 [never] :default :d), 2 #(ioc/return-chan % (value %))}))))))

(deftest a-compiled-go-block-catches-what-an-operation-throws
  (is (= "caught" (taken (start {1 #(do (ioc/aset-all! % ioc/EXCEPTION-FRAMES [9]) (ioc/take! % 2 :no-channel))
                                 9 #(ioc/return-chan % (when (instance? IllegalArgumentException (value %)) "caught"))})))))

(deftest what-a-compiled-go-block-throws-is-reported-after-its-channel-is-closed
  (let [reported (promise)
        hook (report/add-hook :failure #(deliver reported (ex-message (:error %))))]
    (try
      (is (nil? (taken (start {1 (fn [_] (throw (ex-info "boom" {})))}))))
      (is (= "boom" (deref reported 20000 :late)))
      (finally (report/remove-hook :failure hook)))))

(deftest a-function-of-a-long-is-called-as-compiled-code-calls-it
  (is (instance? clojure.lang.IFn$LO a/timeout))
  (is (nil? (taken (.invokePrim ^clojure.lang.IFn$LO a/timeout 1)))))

;; ---- a JVM of its own, since the tests load what they test

(defn- printed-by-a-new-jvm [& forms]
  (let [java (str (System/getProperty "java.home") File/separator "bin" File/separator "java")
        process (.start (ProcessBuilder. ^"[Ljava.lang.String;" (into-array String [java "-cp" (System/getProperty "java.class.path") "clojure.main"
                                                                                    "-e" (pr-str `(do ~@forms))])))]
    (.close (.getOutputStream process))
    (edn/read-string (slurp (.getInputStream process)))))

(deftest ^{:limit 120000} one-require-loads-what-that-of-core-async-loads-and-the-protocols-alone-are-enough-to-recognise-a-channel
  (is (= {:recognised true, :missing #{}}
         (printed-by-a-new-jvm
           '(require (quote magnetar.async))
           '(def recognised (instance? (Class/forName "clojure.core.async.impl.protocols.ReadPort" true (clojure.lang.RT/baseLoader)) (magnetar.async/chan)))
           '(require (quote clojure.core.async))
           '(prn {:recognised recognised
                  :missing (set (remove find-ns (quote [clojure.core.async.impl.protocols clojure.core.async.impl.channels clojure.core.async.impl.buffers
                                                        clojure.core.async.impl.timers clojure.core.async.impl.dispatch clojure.core.async.impl.mutex
                                                        clojure.core.async.impl.ioc-macros])))})
           '(System/exit 0)))))
