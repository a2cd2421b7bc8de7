(ns magnetar.actor-continue-test
  "`continue`: a process drops its stack, and goes on as the same process with the code that is there now."
  (:require
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after continue receive self spawn with-process]]
   [magnetar.actor-support :refer [idle outcome reason]]
   [magnetar.scope :as scope]
   [magnetar.support :refer [eventually with-failures]]))

(set! *warn-on-reflection* true)

(declare step)

(defn- new-step [^long rounds ^long n ^long by-new]
  (if (= n rounds)
    {:by-new by-new :depth (count (.getStackTrace (Thread/currentThread)))}
    (continue #'step rounds (inc n) (inc by-new))))

(defn- step [^long rounds ^long n ^long by-new]
  (when (= n (quot rounds 2))
    (alter-var-root #'step (constantly new-step)))
  (continue #'step rounds (inc n) by-new))

(defn goes-on-with-the-new-half-way
  "Asserts that a process continues so many times in constant stack, and from half way on with the var's new value."
  [^long rounds]
  (let [old step
        [how {:keys [by-new depth]}] (try (outcome (spawn step rounds 0 0))
                                          (finally (alter-var-root #'step (constantly old))))]
    (is (= [:value (dec (quot rounds 2))] [how by-new]))
    (is (< (long depth) 40))))

(deftest ^{:spec ["C78"]} a-million-times-in-constant-stack-with-the-var-redefined-half-way
  (goes-on-with-the-new-half-way 1000000))

(defn- who []
  {:pid (self)
   :links (:links (actor/process-info (self)))
   :dictionary (actor/pdict)
   :messages (actor/flush)})

(deftest ^{:spec ["C78"]} pid-mailbox-links-and-dictionary-stay
  (with-process {}
    (let [me (self)
          peer (idle)
          pid (spawn #(do
                        (actor/link peer)
                        (actor/pput :k :v)
                        (receive :go nil)
                        (continue who)))]
      (! pid :stays)
      (! pid :go)
      (is (= [:value {:pid pid :links [peer] :dictionary {:k :v} :messages [:stays]}] (outcome pid)))
      (actor/exit peer :kill)
      (is (= [] (actor/flush)) me))))

(deftest what-stands-around-the-call-is-left-first
  (let [events (atom [])
        next-step #(swap! events conj :next)
        pid (spawn #(try
                      (scope/with-scope [s]
                        (scope/on-exit s (fn [] (swap! events conj :scope)))
                        (continue next-step))
                      (finally (swap! events conj :finally))))]
    (is (= [:value [:scope :finally :next]] (outcome pid)))))

(deftest an-exit-ends-a-process-that-only-continues
  (letfn [(spin [] (continue spin))]
    (let [pid (spawn spin)]
      (actor/exit pid :stop)
      (is (= :stop (reason pid))))))

(deftest what-it-goes-on-with-fails-as-any-other
  (with-failures [failures]
    (let [[{:keys [message]}] (reason (spawn #(continue (fn [] (/ 1 0)))))]
      (is (= "Divide by zero" message))
      (is (eventually (= 1 (count @failures)))))))

(deftest it-works-in-with-process-too
  (is (= [1 2] (with-process {} (continue vector 1 2)))))

(deftest a-plain-recursion-keeps-old-code-and-continue-takes-new
  (let [old (fn [_] :old)
        v (intern *ns* 'swapped old)
        by-value (let [f @v] (spawn #(receive :go (f 1))))
        by-var (spawn #(receive :go (continue v 1)))]
    (alter-var-root v (constantly (fn [_] :new)))
    (! by-value :go)
    (! by-var :go)
    (is (= [[:value :old] [:value :new]] [(outcome by-value) (outcome by-var)]))
    (ns-unmap *ns* 'swapped)))
