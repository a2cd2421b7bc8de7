(ns magnetar.hot-watch-test
  "Files, folders and jars that are watched."
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.gen-server :as gs]
   [magnetar.hot :as hot]
   [magnetar.hot-support :as code]
   [magnetar.otp.scenarios :as scenarios]
   [magnetar.support :refer [with-hook]])
  (:import
   (java.util.concurrent LinkedBlockingQueue TimeUnit)
   (java.util.jar JarEntry JarOutputStream)))

(set! *warn-on-reflection* true)

(use-fixtures :each scenarios/leaving-nobody)

(defn- queue ^LinkedBlockingQueue []
  (LinkedBlockingQueue.))

(defn- next-of [^LinkedBlockingQueue reports]
  (or (.poll reports 20 TimeUnit/SECONDS) :late))

(defn- watch
  "[the watch, the queue of its reports]."
  [path options]
  (let [reports (queue)]
    [(hot/watch path (assoc options :report #(.put reports %))) reports]))

(defn- value-form [ns n]
  [(list 'ns ns {:version n}) (list 'def 'x n)])

(defn- loaded [report]
  (map (juxt :namespace :to) (:loaded report)))

(deftest ^{:spec ["C138"]} what-is-saved-is-loaded-and-reported-also-after-what-did-not-load
  (let [ns (code/new-name "watched")
        folder (code/folder)
        _ (apply code/write folder ns (value-form ns 1))
        [watch reports] (watch folder nil)]
    (apply code/write folder ns (value-form ns 2))
    (let [report (next-of reports)]
      (is (= [:code-loaded [[ns 2]]] [(:event report) (loaded report)])))
    (code/write folder ns (list 'ns ns) "(def x")
    (let [report (next-of reports)]
      (is (= [:code-not-loaded [ns]] ((juxt :event :namespaces) report)))
      (is (re-find #"does not load at .*EOF while reading" (:message report))))
    (is (= 2 (code/value ns 'x)))
    (apply code/write folder ns (value-form ns 3))
    (is (= [[ns 3]] (loaded (next-of reports))))
    (is (= :ok (hot/unwatch watch)))
    (is (= :ok (hot/unwatch watch)) "twice is once")
    (is (not (actor/alive? watch)))))

(deftest ^{:spec ["C138"]} what-was-taken-back-since-another-file-was-wrong-is-loaded-once-that-is-mended
  (let [[a b] (map code/new-name ["a" "b"])
        folder (code/folder)
        write #(apply code/write folder %1 (value-form %1 %2))
        _ (run! #(write % 1) [a b])
        _ (hot/load folder)
        [watch reports] (watch folder nil)]
    (write a 2)
    (code/write folder b (list 'ns b) '(oops))
    (loop [report (next-of reports)] ; the two may have been seen one after the other
      (when (= :code-loaded (:event report))
        (recur (next-of reports))))
    (write b 2)
    (next-of reports)
    (is (= [2 2] (map #(code/value % 'x) [a b])))
    (hot/unwatch watch)))

(deftest ^{:spec ["C138"]} an-ns-form-that-cannot-be-read-is-reported
  (let [ns (code/new-name "unreadable")
        folder (code/folder)
        _ (apply code/write folder ns (value-form ns 1))
        [watch reports] (watch folder nil)]
    (code/write folder ns (str "(ns " ns " (:require [clojure.string :as s)"))
    (is (= [:code-not-loaded [ns]] ((juxt :event :namespaces) (next-of reports))))
    (apply code/write folder ns (value-form ns 2))
    (is (= [[ns 2]] (loaded (next-of reports))))
    (hot/unwatch watch)))

(deftest ^{:spec ["C138"]} a-log-that-is-written-beside-the-files-does-not-keep-them-from-being-loaded
  (let [ns (code/new-name "noise")
        folder (code/folder)
        [watch reports] (watch folder nil)
        done (promise)
        noise (future (while (not (realized? done)) (spit (str folder "/log.txt") "x")))]
    (apply code/write folder ns (value-form ns 1))
    (is (= [[ns 1]] (loaded (next-of reports))))
    (deliver done true)
    @noise
    (hot/unwatch watch)))

(deftest ^{:spec ["C138"]} a-folder-that-is-new-is-watched-too
  (let [folder (code/folder)
        [watch reports] (watch folder nil)
        a (code/new-name "a")
        b (symbol (str a ".deeper.b"))]
    (apply code/write folder a (value-form a 1))
    (is (= [[a 1]] (loaded (next-of reports))))
    (apply code/write folder b (value-form b 1))
    (is (= [[b 1]] (loaded (next-of reports))))
    (hot/unwatch watch)))

(defn- write-jar [path ns n]
  (let [new (io/file (str path ".new"))]
    (with-open [jar (JarOutputStream. (io/output-stream new))]
      (.putNextEntry jar (JarEntry. "watched.clj"))
      (.write jar ^bytes (.getBytes ^String (apply str (map pr-str (value-form ns n))) "UTF-8")))
    (java.nio.file.Files/move (.toPath new) (.toPath (io/file path))
                              (into-array java.nio.file.CopyOption [java.nio.file.StandardCopyOption/ATOMIC_MOVE
                                                                    java.nio.file.StandardCopyOption/REPLACE_EXISTING]))))

(deftest ^{:spec ["C138"]} a-jar-that-is-replaced-is-loaded
  (let [ns (code/new-name "jar")
        path (str (code/folder) "/code.jar")
        _ (write-jar path ns 1)
        [watch reports] (watch path nil)]
    (.setLastModified (io/file path) 1000)
    (write-jar path ns 2)
    (is (= [[ns 2]] (loaded (next-of reports))))
    (is (= 2 (code/value ns 'x)))
    (hot/unwatch watch)))

(deftest ^{:spec ["C138"]} a-tree-is-upgraded
  (let [ns (code/new-name "counter")
        folder (code/folder)
        write #(apply code/write folder ns (code/counter ns %))]
    (hot/load (write 1))
    (let [[_ pid] (gs/start ns 5)
          [watch reports] (watch folder {:tree pid})]
      (write 2)
      (let [report (next-of reports)]
        (is (= [[1 2]] (map (juxt :from :to) (:processes report)))))
      (is (= [2 5] (gs/call pid :get)))
      (gs/stop pid)
      (write 1)
      (is (re-find #"there is none at" (:message (next-of reports))))
      (hot/unwatch watch))))

(deftest without-a-function-the-reports-go-where-those-of-servers-go
  (let [ns (code/new-name "hook")
        folder (code/folder)
        reports (queue)]
    (with-hook [:report #(.put reports %)]
      (let [watch (hot/watch folder)]
        (apply code/write folder ns (value-form ns 1))
        (is (= [:code-loaded :info] ((juxt :event :level) (next-of reports))))
        (hot/unwatch watch)))))

(deftest a-report-that-throws-does-not-end-the-watch
  (let [ns (code/new-name "throws")
        folder (code/folder)
        reports (queue)
        watch (hot/watch folder {:report (fn [report] (.put reports report) (throw (ex-info "no" {})))})]
    (with-hook [:report (fn [_])]
      (doseq [n [1 2]]
        (apply code/write folder ns (value-form ns n))
        (is (= [[ns n]] (loaded (next-of reports)))))
      (hot/unwatch watch))))
