(ns magnetar.test
  "Fixtures for clojure.test.

  in-a-process    each test is a process: self, receive and links work in it
  without-leaks   fails a test that leaves processes or fibers behind

    (use-fixtures :each magnetar.test/without-leaks magnetar.test/in-a-process)"
  (:require
   [clojure.test :as t]
   [magnetar.actor :as actor]
   [magnetar.impl.runtime])
  (:import
   (magnetar.kernel.inspect FiberInfo)
   (magnetar.kernel.park Fibers)
   (magnetar.kernel.process LocalProcess Pid Processes)))

(set! *warn-on-reflection* true)

(defn in-a-process
  "A fixture that makes each test a process, on the thread that runs it.

  Returns nothing of interest. If an exit signal ends the process, because of a linked child that crashes, that is an error of the test, with
  the reason. Links and monitors of a test end with it.

    (use-fixtures :each in-a-process)

  In Erlang: each test case of Common Test is a process."
  [test]
  (try
    (actor/with-process {} (test))
    (catch Exception e
      (if (= :magnetar/exited (:magnetar/reason (ex-data e)))
        (t/do-report {:type :error :message "The process of the test has exited." :expected nil :actual e})
        (throw e)))))

(def ^:private patience-ms 2000)

(def ^:private of-the-library
  "The name of what the library starts once, and keeps."
  #"magnetar/actor/mourner\.clj")

(defn- of-the-library? [^String name]
  (and name (re-find of-the-library name)))

(defn- processes []
  (into #{}
        (comp (map #(.pid ^LocalProcess %)) (remove #(of-the-library? (.label ^Pid %))))
        (Processes/all)))

(defn- threads []
  (into #{}
        (remove #(or (identical? (Thread/currentThread) %) (of-the-library? (.getName ^Thread %))))
        (Fibers/threads)))

(defn- left-behind [now before]
  (reduce disj now before))

(defn- await-none
  "What `now` gives and was not there before, once that is nothing or patience is over: a fiber may just be ending."
  [now before]
  (let [deadline (+ (System/nanoTime) (* 1000000 (long patience-ms)))]
    (loop []
      (let [left (left-behind (now) before)]
        (if (or (empty? left) (< deadline (System/nanoTime)))
          left
          (do (Thread/sleep 5) (recur)))))))

(defn- words [^Thread thread]
  (let [info (FiberInfo/of thread)]
    (str (.getName thread) (some->> (.reason info) .words (str ", which waits for ")))))

(defn- report [what left]
  (when (seq left)
    (t/do-report {:type :fail
                  :message (str "The test leaves " (count left) " " what " behind: end what it has started.")
                  :expected []
                  :actual (vec (take 10 left))})))

(defn without-leaks
  "A fixture that fails a test which leaves processes or fibers behind, and says which.

  Waits for two seconds at most for those that are just ending. A fiber that a go block is counts until it ends, though it would be
  collected. What is found is not ended.

    (use-fixtures :each without-leaks)"
  [test]
  (let [pids (processes)
        fibers (threads)]
    (try
      (test)
      (finally
        (report "processes" (await-none processes pids))
        (report "fibers" (map words (await-none threads fibers)))))))
