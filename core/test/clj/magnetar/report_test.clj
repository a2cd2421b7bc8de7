(ns magnetar.report-test
  "Hooks: who hears of failures, reports and ends, in which order, and what happens while no hook is there."
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.application :as application]
   [magnetar.async :as a]
   [magnetar.gen-server :as gs]
   [magnetar.impl.runtime]
   [magnetar.inspect :as inspect]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.report :as report]
   [magnetar.support :refer [eventually message-of refusal taken value-of with-err with-hook]])
  (:import
   (java.io Writer)
   (java.util.logging Handler LogRecord Logger)
   (java.util.regex Pattern)))

(set! *warn-on-reflection* true)

;; ---- what is reported

(defn- fail
  "A go block that fails; what it does is done once this returns."
  []
  (taken (a/go (throw (ex-info "boom" {})))))

(defn- crash
  "A server that crashes; its report is written once this returns."
  []
  (let [[_ pid] (gs/start {:init (fn [_] [:ok nil])
                           :handle-call (fn [_ _ _] (throw (ex-info "boom" {})))
                           :handle-cast (fn [_ s] [:noreply s])}
                          nil)]
    (try (gs/call pid :x) (catch Exception _))))

(defn- end-an-application
  "An application that must not end ends."
  []
  (application/start {:name ::x :start (fn [] [:ok (doto (actor/spawn-link #(receive ::go (actor/exit :boom))) (! ::go))])} :permanent))

(defn- with-applications [f]
  (scenarios/leaving-nobody
    #(try
       (with-hook [:report (fn [_])] (f))
       (finally (application/unload ::x)))))

;; ---- several hooks

(deftest each-hook-of-a-kind-is-called-in-the-order-of-adding
  (doseq [[kind happens] {:failure fail, :report crash}
          :let [told (atom [])
                [one two] (map (fn [n] (fn [_] (swap! told conj n))) [1 2])]]
    (testing (str kind)
      (with-hook [kind one]
        (with-hook [kind two]
          (report/add-hook kind one) ; it is there
          (happens)
          (is (= [1 2] @told))
          (report/remove-hook kind one)
          (happens)
          (is (= [1 2 2] @told)))))))

(deftest hooks-of-an-end-take-the-place-of-the-end-of-all
  (with-applications
    (fn []
      (let [told (atom [])]
        (with-hook [:end (fn [event] (swap! told conj (select-keys event [:application :type :reason])))]
          (with-hook [:end (fn [_] (swap! told conj :two))]
            (application/start {:name ::y})
            (end-an-application)
            (is (eventually (= [{:application ::x :type :permanent :reason :boom} :two] @told)))
            (is (= [::y] (map :name (application/which-applications))))))
        (end-an-application)
        (is (eventually (= [] (application/which-applications))) "the default is back")
        (application/unload ::y)))))

(deftest a-kind-hears-of-nothing-else
  (let [told (atom [])]
    (with-hook [:failure (fn [failure] (swap! told conj (message-of failure)))]
      (with-hook [:report (fn [event] (swap! told conj (:event event)))]
        (with-hook [:end (fn [_] (swap! told conj :end))]
          (fail)
          (crash))))
    (is (= ["boom" :crash] @told))))

;; ---- hooks that throw

(defn- printed-by
  "What f has printed on standard error."
  [f]
  (with-err (fn [printed] (f) (printed))))

(defn- broken [_]
  (throw (ex-info "broken hook" {})))

(deftest a-hook-of-failures-that-throws-stops-no-other-and-is-told-once
  (let [told (atom [])]
    (with-err
      (fn [printed]
        (with-hook [:failure broken]
          (with-hook [:failure #(swap! told conj (message-of %))]
            (fail)))
        (is (= ["boom"] @told))
        (is (= 1 (count (re-seq #", in a hook of failures: \S+ broken hook" (printed)))))
        (is (= 1 (count (re-seq #"Uncaught in \S+ \S+: \S+ boom" (printed)))) "with what it was given")))))

(deftest a-hook-of-reports-that-throws-stops-no-other-and-is-told-once
  (let [told (atom [])
        said (printed-by (fn []
                           (with-hook [:report broken]
                             (with-hook [:report #(swap! told conj (:event %))]
                               (crash)))))]
    (is (= [:crash] @told))
    (is (= 1 (count (re-seq #"The hook magnetar\.report-test/broken of the kind :report failed: broken hook\. It was given:" said))))
    (is (str/includes? said "crashed: boom (ExceptionInfo) at "))))

(deftest a-hook-of-ends-that-throws-stops-no-other-and-is-told-once
  (let [told (atom [])
        said (printed-by (fn []
                           (with-applications
                             (fn []
                               (with-hook [:end broken]
                                 (with-hook [:end #(swap! told conj (:reason %))]
                                   (end-an-application)
                                   (is (eventually (= [:boom] @told)))))))))]
    (is (= 1 (count (re-seq #"The hook magnetar\.report-test/broken of the kind :end failed: broken hook\. It was given:\nApplication ended: :boom" said))))))

(defn- exiting [_]
  (actor/exit :of-the-hook))

(defn- endless [_]
  (inc (long (endless nil))))

(defn- end-of-server
  "The reason for which a server ends that (f pid) ends."
  [f]
  (actor/with-process {}
    (let [[_ pid] (gs/start {:init (fn [_] [:ok nil]) :handle-cast (fn [why _] [:stop why nil])} nil)
          ref (actor/monitor pid)]
      (f pid)
      (receive [:DOWN ref :process _ why] why))))

(deftest ^{:spec ["C87"]} a-hook-that-exits-or-recurses-for-ever-ends-neither-its-process-nor-the-other-hooks
  (doseq [[hook says] {exiting "magnetar.report-test/exiting of the kind :report failed: exit: :of-the-hook."
                       endless "magnetar.report-test/endless of the kind :report failed: java.lang.StackOverflowError."}]
    (let [told (atom [])
          said (printed-by (fn []
                             (with-hook [:report hook]
                               (with-hook [:report #(swap! told conj (:event %))]
                                 (is (= :boom (end-of-server #(do (! % :unexpected) (gs/cast % :boom)))))))))]
      (is (= [:unexpected-message :crash] @told) "it went on with its next message")
      (is (= 2 (count (re-seq (re-pattern (Pattern/quote says)) said)))))))

(deftest a-process-that-is-killed-in-a-hook-ends-there
  (let [told (atom [])
        in-hook (promise)
        said (printed-by (fn []
                           (with-hook [:report (fn [_] (deliver in-hook true) (receive ::never nil))]
                             (with-hook [:report #(swap! told conj (:event %))]
                               (is (= :killed (end-of-server (fn [pid]
                                                               (gs/cast pid :boom)
                                                               (value-of in-hook)
                                                               (actor/exit pid :kill)))))))))]
    (is (= ["" []] [said @told]))))

(deftest a-hook-that-cannot-be-told-of-is-a-failure
  (let [full (proxy [Writer] [] (write [& _] (throw (OutOfMemoryError. "planned"))) (flush []) (close []))
        told (atom [])]
    (with-redefs [*err* full]
      (with-hook [:failure #(swap! told conj (message-of %))]
        (with-hook [:report broken]
          (with-hook [:report #(swap! told conj (:event %))]
            (crash)))))
    (is (= ["broken hook" :crash] @told))))

;; ---- no hook

(deftest without-a-hook-a-failure-is-printed-on-standard-error
  (with-err
    (fn [printed]
      (fail)
      (is (eventually (str/includes? (printed) "boom"))))))

(defn- logged
  "What goes to the logger \"magnetar\" of the JDK while f runs."
  [f]
  (let [logger (Logger/getLogger "magnetar")
        records (atom [])
        handler (proxy [Handler] []
                  (publish [^LogRecord r] (swap! records conj (.getMessage r)))
                  (flush [])
                  (close []))
        before (.getUseParentHandlers logger)]
    (.setUseParentHandlers logger false)
    (.addHandler logger handler)
    (try
      (f)
      @records
      (finally
        (.removeHandler logger handler)
        (.setUseParentHandlers logger before)))))

(deftest without-a-hook-a-crash-goes-to-the-system-logger
  (let [[record & others] (logged crash)]
    (is (str/includes? record " crashed: boom (ExceptionInfo) at "))
    (is (nil? others)))
  (is (= [] (logged #(with-hook [:report (fn [_])] (crash)))) "and only then"))

;; ---- misuse, and the old setters

(deftest what-is-no-hook-is-refused
  (is (= identity (report/add-hook :end identity)))
  (is (nil? (report/remove-hook :end identity)))
  (is (nil? (report/remove-hook :end identity)) "it is gone already")
  (is (= "`add-hook` knows hooks of the kinds :failure, :report, :end; this is :failures. Is :failure meant?"
         (:message (refusal #(report/add-hook :failures identity)))))
  (is (= [:magnetar/bad-kind nil] ((juxt :magnetar/reason :kind) (refusal #(report/remove-hook nil identity)))))
  (is (= :magnetar/not-a-function (:magnetar/reason (refusal #(report/add-hook :failure nil))))))

(deftest the-old-setters-have-one-place-beside-the-hooks
  (doseq [[kind setter] {:failure inspect/set-failure-hook, :report proc-lib/set-report-hook, :end application/set-end-hook}
          :let [happens ({:failure fail, :report crash} kind)
                told (atom [])
                [one two] (map (fn [n] (fn [_] (swap! told conj n))) [1 2])]]
    (testing (str kind)
      (is (nil? (setter one)))
      (is (= (when (not= :failure kind) one) (setter two)))
      (with-hook [kind (fn [_] (swap! told conj :added))]
        (when happens
          (happens)
          (is (= [2 :added] @told) "the last writer alone")
          (setter nil)
          (happens)
          (is (= [2 :added :added] @told))))
      (setter nil))))
