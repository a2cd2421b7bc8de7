(ns magnetar.async-defects-test
  "The known bugs of core.async, none of which magnetar.async has. One test for each."
  (:require
   [clojure.test :refer [deftest is testing]]
   [magnetar.async :as a]
   [magnetar.channel :as channel]
   [magnetar.support :refer [collected? counter drained eventually message-of start-thread taken value-of waiting-putters waiting-takers with-failures with-hook]])
  (:import
   (java.lang.ref WeakReference)
   (java.util.concurrent.atomic AtomicInteger)))

(set! *warn-on-reflection* true)

(defn- throwing-on
  "A function that throws for the value `bad`, and gives every other back."
  [bad]
  (fn [x] (if (= x bad) (throw (ex-info "boom" {:value x})) x)))

(deftest ^{:spec ["C14"]} a-channel-whose-ex-handler-throws-stays-usable
  (let [c (a/chan 2 (map (throwing-on 1)) (fn [_] (throw (ex-info "in handler" {}))))]
    (is (thrown-with-msg? clojure.lang.ExceptionInfo #"in handler" (a/>!! c 1)))
    (is (= true (value-of (future (a/>!! c 2)))))
    (is (= 2 (taken c)))))

;; ---- ghosts

(defn- interrupted
  "Runs the operation on a thread, interrupts it once `waiting?`, and returns what that gave."
  [kind operation waiting?]
  (let [[^Thread thread outcome] (start-thread kind operation)]
    (is (eventually (waiting?)))
    (.interrupt thread)
    (value-of outcome)))

(deftest ^{:spec ["C18"]} an-interrupted-taker-swallows-no-value
  (doseq [kind [:virtual :platform]]
    (let [c (a/chan)]
      (is (instance? InterruptedException (interrupted kind #(a/<!! c) #(pos? (waiting-takers c)))))
      (is (nil? (a/offer! c 1)) "nobody is left to take it")
      (is (zero? (waiting-takers c))))))

(deftest ^{:spec ["C18"]} the-value-of-an-interrupted-putter-does-not-arrive-later
  (doseq [kind [:virtual :platform]]
    (let [c (a/chan)]
      (is (instance? InterruptedException (interrupted kind #(a/>!! c :ghost) #(pos? (waiting-putters c)))))
      (is (nil? (a/poll! c)))
      (is (zero? (waiting-putters c))))))

(deftest ^{:spec ["C15" "C18"]} an-interrupted-alts-leaves-no-taker-and-no-putter
  (doseq [kind [:virtual :platform]]
    (let [in (a/chan)
          out (a/chan)]
      (is (instance? InterruptedException
                     (interrupted kind #(a/alts!! [in [out :ghost]]) #(and (pos? (waiting-takers in)) (pos? (waiting-putters out))))))
      (is (nil? (a/offer! in 1)))
      (is (nil? (a/poll! out)))
      (is (= [0 0] [(waiting-takers in) (waiting-putters out)])))))

;; ---- operations that hang when the program's code throws

(deftest pipeline-stops-taking-once-its-output-is-closed
  (let [from (a/chan 100)
        to (a/chan)]
    (dotimes [i 100] (a/>!! from i))
    (a/close! to)
    (is (nil? (taken (a/pipeline 2 to (map inc) from))))
    (is (< 80 (:count (channel/info from))))))

(deftest pipeline-async-goes-on-after-its-function-threw
  (with-failures [failures]
    (let [to (a/chan 10)
          echo (fn [x results]
                 ((throwing-on 2) x)
                 (a/put! results x)
                 (a/close! results))]
      (a/pipeline-async 2 to echo (a/to-chan! [1 2 3]))
      (is (= [1 3] (drained to)))
      (is (= ["boom"] (map message-of @failures))))))

(deftest a-failure-of-a-pipeline-is-reported-before-its-output-closes
  (doseq [pipe [#(a/pipeline 2 %1 (map (throwing-on 2)) %2)
                #(a/pipeline-async 2 %1 (fn [x results] ((throwing-on 2) x) (a/put! results x) (a/close! results)) %2)]]
    (let [reported (promise)
          to (a/chan 10)]
      (with-hook [:failure (fn [_] (Thread/sleep 100) (deliver reported true))]
        (pipe to (a/to-chan! [1 2 3]))
        (is (= [1 3] (drained to)))
        (is (realized? reported))))))

(deftest map-closes-its-output-when-its-function-throws
  (with-failures [failures]
    (is (= [1] (drained (a/map (throwing-on 2) [(a/to-chan! [1 2 3])]))))
    (is (eventually (= ["boom"] (map message-of @failures))))))

(deftest map-closes-its-output-when-its-function-gives-nil
  (with-failures [failures]
    (is (= [1] (drained (a/map #(when (odd? %) %) [(a/to-chan! [1 2 3])]))))
    (is (eventually (= ["Can't put nil on channel"] (map message-of @failures))))))

(deftest onto-chan-closes-its-target-when-an-element-is-nil
  (with-failures [failures]
    (doseq [onto [a/onto-chan! a/onto-chan!!]]
      (let [c (a/chan 5)]
        (onto c [1 nil 2])
        (is (= [1] (drained c)))))
    (is (eventually (= 2 (count @failures))))))

(deftest a-publication-goes-on-after-its-topic-function-threw
  (with-failures [failures]
    (let [c (a/chan)
          p (a/pub c (comp even? (throwing-on 1)))
          s (a/sub p true (a/chan 5))]
      (doseq [x [1 2 4]] (is (= true (value-of (future (a/>!! c x))))))
      (a/close! c)
      (is (= [2 4] (drained s)))
      (is (= ["boom"] (map message-of @failures))))))

(deftest a-mix-goes-on-after-code-of-its-output-threw
  (with-failures [failures]
    (let [out (a/chan 5 (map (throwing-on 2)) (fn [e] (throw e)))
          in (a/chan)]
      (a/admix (a/mix out) in)
      (doseq [x [1 2 3]] (is (= true (value-of (future (a/>!! in x))))))
      (is (= [1 3] [(taken out) (taken out)]))
      (is (= ["boom"] (map message-of @failures))))))

(deftest split-closes-both-channels-when-its-predicate-throws
  (with-failures [failures]
    (let [[yes no] (a/split (comp odd? (throwing-on 3)) (a/to-chan! [1 3]) 5 5)]
      (is (= [[1] []] [(drained yes) (drained no)]))
      (is (eventually (= ["boom"] (map message-of @failures)))))))

(deftest the-deprecated-operations-close-their-output-when-the-function-throws
  (with-failures [failures]
    (doseq [op [#(a/mapcat< (comp vector (throwing-on 2)) %) #(a/filter< (comp some? (throwing-on 2)) %)
                #(a/partition-by (comp some? (throwing-on :none)) %)]]
      (is (not (some #{:late} (drained (op (a/to-chan! [1 2 3])))))))
    (is (eventually (= ["boom" "boom"] (map message-of @failures))))))

(deftest a-value-that-pipeline-cannot-transform-is-left-out-and-reported
  (with-failures [failures]
    (let [to (a/chan 5)]
      (a/pipeline 2 to (map (throwing-on 2)) (a/to-chan! [1 2 3]))
      (is (= [1 3] (drained to)))
      (is (= ["boom"] (map message-of @failures))))))

;; ---- mult, timeouts, callbacks, memory

(deftest untapping-the-tap-that-blocks-frees-the-mult
  (let [c (a/chan)
        m (a/mult c)
        stuck (a/tap m (a/chan))
        free (a/tap m (a/chan 5))]
    (a/>!! c 1)
    (is (eventually (pos? (waiting-putters stuck))))
    (a/untap m stuck)
    (is (= true (value-of (future (a/>!! c 2) (a/>!! c 3)))))
    (a/close! c)
    (is (= [1 2 3] (drained free)))))

(deftest untap-all-frees-the-mult
  (let [c (a/chan)
        m (a/mult c)
        stuck (a/tap m (a/chan))]
    (a/>!! c 1)
    (is (eventually (pos? (waiting-putters stuck))))
    (a/untap-all m)
    (is (= true (value-of (future (a/>!! c 2) (a/>!! c 3)))))))

(deftest ^{:spec ["C25"]} timeouts-are-never-shared
  (let [timeouts (repeatedly 100 #(a/timeout 60000))]
    (is (= 100 (count (set timeouts))))
    (a/close! (first timeouts))
    (is (= [] (filter channel/closed? (rest timeouts))))))

(deftest ^{:spec ["C22"]} a-recursion-of-20000-take-callbacks-needs-no-deep-stack
  (let [c (a/chan 20000)
        done (promise)
        step (fn step [n] (if (zero? n) (deliver done :done) (a/take! c (fn [_] (step (dec n))))))]
    (dotimes [i 20000] (a/>!! c i))
    (step 20000)
    (is (= :done (value-of done)))))

(deftest ^{:spec ["C22"]} a-recursion-of-20000-put-callbacks-needs-no-deep-stack
  (let [c (a/chan 20000)
        done (promise)
        step (fn step [n] (if (zero? n) (deliver done :done) (a/put! c n (fn [_] (step (dec n))))))]
    (step 20000)
    (is (= :done (value-of done)))))

(deftest ^{:spec ["C22"]} callbacks-that-wait-for-each-other-need-no-deep-stack
  (let [c (a/chan)
        n (counter)
        done (promise)]
    (letfn [(take-next [_] (if (= 20000 (.incrementAndGet ^AtomicInteger n)) (deliver done :done) (a/take! c take-next)))
            (put-next [_] (when-not (realized? done) (a/put! c :x put-next)))]
      (a/take! c take-next)
      (put-next nil)
      (is (= :done (value-of done))))))

(defn- lost-alts
  "A weak reference to what an alts! held that could wait for `others`, but found a value elsewhere at once."
  [others]
  (let [held (byte-array 1000)
        ready (doto (a/chan 1) (a/>!! :ready))]
    (is (= 1000 (taken (a/go (a/alts! (conj others ready) :priority true) (alength held)))))
    (WeakReference. held)))

(defn- lost-alts-that-waited
  "The same of an alts! that waited first."
  [others]
  (let [held (byte-array 1000)
        later (a/chan)
        result (a/go (a/alts! (conj others later)) (alength held))]
    (is (eventually (pos? (waiting-takers later))))
    (a/>!! later :now)
    (is (= 1000 (taken result)))
    (WeakReference. held)))

(deftest ^{:spec ["C15" "C30"]} an-alts-that-has-ended-keeps-nothing-in-the-channels-it-lost
  (let [never (a/chan)
        late (a/timeout 600000)
        others [never [(a/chan) :x] late]]
    (testing "found a value at once"
      (is (collected? (lost-alts others))))
    (testing "waited for it"
      (is (collected? (lost-alts-that-waited others))))
    (is (= [0 0] [(waiting-takers never) (waiting-takers late)]))))
