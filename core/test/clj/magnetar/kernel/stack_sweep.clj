(ns magnetar.kernel.stack-sweep
  "Operations at each depth near the end of the stack, each with a waiting partner of its own."
  (:require
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.async :as a])
  (:import
   (java.util.concurrent CountDownLatch TimeUnit)
   (magnetar.kernel.park Parked)))

(set! *warn-on-reflection* true)

(defn- dig
  "Recurs until the stack is full, then calls `op` with 0, a frame further up with 1, and so on, `depths` times."
  [op ^long depths]
  (let [k (long (try (dig op depths) (catch StackOverflowError _ 0)))]
    (if (< k depths) (do (op k) (inc k)) k)))

(defn on-virtual
  "What `f` returns on a virtual thread."
  [f]
  (let [result (promise)]
    (Thread/startVirtualThread #(deliver result (f)))
    @result))

(defn on-platform
  "What `f` returns on a platform thread."
  [f]
  (let [result (promise)]
    (.start (Thread. ^Runnable #(deliver result (f))))
    @result))

(defn- parked
  "A virtual thread that is parked in `f`, which counts down the latch at its end."
  [^CountDownLatch latch f]
  (let [thread (Thread/startVirtualThread #(do (f) (.countDown latch)))]
    (while (nil? (Parked/waitOf thread)) (Thread/yield))
    thread))

(defn- waiting-process [^CountDownLatch latch]
  (let [pid (actor/spawn (fn [] (receive _ (.countDown latch))))]
    (while (not= :waiting (:status (actor/process-info pid))) (Thread/yield))
    pid))

(defn- with-taker [latch]
  (doto (a/chan) (as-> c (parked latch #(a/<!! c)))))

(defn- with-putter [latch]
  (doto (a/chan) (as-> c (parked latch #(a/>!! c :x)))))

(def kinds
  "Maps the kind of an operation to three functions: one makes its object with a waiting partner, one is the operation, one meets the partner if the operation did not."
  {:offer! [with-taker #(a/offer! % :x) #(a/offer! % :x)]
   :put [with-taker #(a/>!! % :x) #(a/offer! % :x)]
   :take [with-putter #(a/<!! %) a/poll!]
   :close [with-taker a/close! a/close!]
   :alts-put [with-taker #(a/alts!! [[% :x] (a/chan)]) #(a/offer! % :x)]
   :alts-take [with-putter #(a/alts!! [% (a/chan)]) a/poll!]
   :send [waiting-process #(! % :x) #(! % :x)]})

(defn sweep
  "Runs the operation at each of so many depths on a thread as `on` starts it, then meets the partners that still wait.
  Returns how many operations overflowed the stack, and how many partners nothing has woken."
  [kind on depths]
  (let [[make op again] (kinds kind)
        latch (CountDownLatch. depths)
        things (vec (repeatedly depths #(make latch)))
        done (boolean-array depths)]
    (on #(dig (fn [k] (try (op (nth things k)) (aset done (int k) true) (catch StackOverflowError _))) depths))
    (dotimes [k depths]
      (when-not (aget done k) (again (nth things k))))
    (.await latch 5 TimeUnit/SECONDS)
    {:overflowed (count (remove true? done)) :lost (.getCount latch)}))

(defn all
  "Prints the losses of all kinds, on virtual and on platform threads."
  [depths]
  (doseq [kind (keys kinds), on [on-virtual on-platform]]
    (println kind (:lost (sweep kind on depths)) "lost")))
