(ns magnetar.analyze-test
  "What dumps tell, in a file or as data, and the state that is printed on a signal."
  {:wakes false}
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.actor :as actor :refer [! receive]]
   [magnetar.application :as application]
   [magnetar.gen-server :as gs]
   [magnetar.inspect :as inspect]
   [magnetar.proc-lib :as proc-lib]
   [magnetar.supervisor :as sup]
   [magnetar.support :refer [eventually]])
  (:import
   (com.sun.management HotSpotDiagnosticMXBean HotSpotDiagnosticMXBean$ThreadDumpFormat)
   (java.io File StringWriter)
   (java.lang AutoCloseable)
   (java.lang.management ManagementFactory)
   (magnetar.kernel.process ProcessTable)
   (sun.misc Signal)))

(set! *warn-on-reflection* true)

(defn- with-file [^String text f]
  (let [file (File/createTempFile "magnetar" ".txt")]
    (try
      (spit file text)
      (f file)
      (finally (io/delete-file file)))))

(defn- analyzed [text]
  (with-file text inspect/analyze))

;; ---- dumps of the JDK, as JDK 25 writes them

(def ^:private of-file
  "4711
2026-11-27T00:29:30.669076310Z
25.0.3+9-LTS

#3 \"main\" WAITING 2026-11-27T00:29:30.670124472Z
    at java.base/jdk.internal.misc.Unsafe.park(Native Method)
    - parking to wait for <java.util.concurrent.CountDownLatch$Sync@13b38b05>
    at java.base/java.util.concurrent.locks.LockSupport.park(LockSupport.java:223)
    at shop$wait_all.invoke(shop.clj:3)

#13 \"Finalizer\" WAITING 2026-11-27T00:29:30.670821101Z
    at java.base/java.lang.Object.wait0(Native Method)
    - waiting on <java.lang.ref.ReferenceQueue$Lock@270ac8fb>
    at java.base/java.lang.ref.ReferenceQueue.remove(ReferenceQueue.java:215)
    - locked <java.lang.ref.ReferenceQueue$Lock@270ac8fb>

#38 \"pa\" BLOCKED 2026-11-27T00:29:30.671241344Z
    at shop$both.invokeStatic(shop.clj:7)
    - locked <shop.Till@41fd139f>
    - waiting to lock <shop.Till@ef54a74>
    at java.base/java.lang.Thread.run(Thread.java:1474)

#39 \"go shop.clj:8\" virtual BLOCKED 2026-11-27T00:29:30.671320104Z
    at shop$both.invokeStatic(shop.clj:9)
    - locked <shop.Till@ef54a74>
    - waiting to lock <shop.Till@41fd139f>
    at java.base/java.lang.VirtualThread.run(VirtualThread.java:460)

#40 \"third\" BLOCKED 2026-11-27T00:29:30.671320104Z
    at shop$one.invokeStatic(shop.clj:11)
    - waiting to lock <shop.Order@1>

#41 \"fourth\" BLOCKED 2026-11-27T00:29:30.671320104Z
    at shop$one.invokeStatic(shop.clj:11)
    - waiting to lock <shop.Order@1>

#42 \"twin\" RUNNABLE 2026-11-27T00:29:30.671320104Z
    at shop$long.invokeStatic(shop.clj:13)
    - locked <shop.Order@1>
")

(def ^:private of-jstack
  "2026-11-27 00:29:31
Full thread dump OpenJDK 64-Bit Server VM (25.0.3+9-LTS mixed mode, sharing):

\"pa\" #38 [7968] prio=5 os_prio=0 cpu=0.62ms elapsed=3.35s tid=0x00007fbe3c6e54a0 nid=7968 waiting on condition  [0x00007fbe40945000]
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@25.0.3/Native Method)
\t- parking to wait for  <0x0000000000000002> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)
\tat shop$both.invokeStatic(shop.clj:7)

   Locked ownable synchronizers:
\t- <0x0000000000000001> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)

\"pb\" #39 [7969] prio=5 os_prio=0 cpu=0.75ms elapsed=3.34s tid=0x00007fbe3c6e7550 nid=7969 waiting on condition  [0x00007fbe40845000]
   java.lang.Thread.State: WAITING (parking)
\tat jdk.internal.misc.Unsafe.park(java.base@25.0.3/Native Method)
\t- parking to wait for  <0x0000000000000001> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)
\tat shop$both.invokeStatic(shop.clj:9)

   Locked ownable synchronizers:
\t- <0x0000000000000002> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)

\"worker\" #25 [8243] daemon prio=5 os_prio=0 cpu=1.99ms elapsed=5.32s tid=0x00007f991036d540 nid=8243 waiting on condition  [0x00007f98e1cfd000]
   Carrying virtual thread #26
\tat jdk.internal.vm.Continuation.run(java.base@25.0.3/Continuation.java:251)
   Mounted virtual thread #26
\tat shop$long.invokeStatic(shop.clj:13)

\"GC Thread#0\" os_prio=0 cpu=52.59ms elapsed=11.66s tid=0x00007fbe3c058ce0 nid=7927 runnable

Found one Java-level deadlock:
=============================
\"pa\":
  waiting for ownable synchronizer 0x0000000000000002, (a java.util.concurrent.locks.ReentrantLock$NonfairSync),
  which is held by \"pb\"
")

(deftest a-thread-dump-of-the-jdk-tells-who-waits-for-monitors
  (let [{:keys [source threads deadlocks why-stuck waiting]} (analyzed of-file)]
    (is (= [:jdk 7] [source threads]))
    (is (= ["thread pa waits at shop.clj:7 for the monitor of a Till of go shop.clj:8, which waits at shop.clj:9 for the monitor of a Till of thread pa."]
           (map :text deadlocks)))
    (is (= [:likely] (map :grade deadlocks)) "the JDK has read one thread after the other")
    (is (= [[:thread 38] [:thread 39]] (map :id (:chain (first deadlocks)))))
    (is (= [{:to [:thread 39] :how :monitor :grade :exact :because "the dump names the owner"} {:to [:thread 38]}]
           (map #(into {} (take %2) (:edge %1)) (:chain (first deadlocks)) [4 1])))
    (is (= [["thread third waits at shop.clj:11 for the monitor of an Order of thread twin, which runs at shop.clj:13." 2]]
           (map (juxt :text :behind) why-stuck)))
    (is (= [{:text "thread main waits at shop.clj:3 for a CountDownLatch, and the dump does not show what can end that." :count 1}] waiting)
        "the finalizer is not of the program")))

(deftest what-jstack-prints-tells-the-owners-of-locks-too
  (let [{:keys [threads deadlocks why-stuck waiting]} (analyzed of-jstack)]
    (is (= 4 threads) "with the mounted one, without threads of the JVM")
    (is (= ["thread pa waits at shop.clj:7 for a ReentrantLock of thread pb, which waits at shop.clj:9 for a ReentrantLock of thread pa."]
           (map :text deadlocks)))
    (is (= [:exact] (map :grade deadlocks)))
    (is (= 4 (:threads (analyzed (str "{\"log\": 1}\nFound nothing\n" of-jstack "\n" of-jstack)))) "the last dump of a log counts")
    (is (= [[] []] [why-stuck waiting]))))

;; ---- paths

(defn- thread-dump-of-this-program
  ([] (thread-dump-of-this-program HotSpotDiagnosticMXBean$ThreadDumpFormat/TEXT_PLAIN))
  ([^HotSpotDiagnosticMXBean$ThreadDumpFormat format]
   (let [file (File/createTempFile "magnetar" ".txt")]
     (io/delete-file file) ; the JDK does not overwrite
     (.dumpThreads ^HotSpotDiagnosticMXBean (ManagementFactory/getPlatformMXBean HotSpotDiagnosticMXBean) (str file) format)
     (try
       (inspect/analyze file)
       (finally (io/delete-file file))))))

(def ^:private till {:init (fn [_] [:ok nil])})

(defn- start-tills []
  (sup/start-link {:strategy :one-for-one :children (for [id [:left :right]] {:id id :start #(gs/start-link till nil)})} {:name :paths/tills}))

(defn- start-shop []
  (sup/start-link {:strategy :one-for-one :children [{:id :tills :type :supervisor :start start-tills}
                                                     {:id :stock :start #(gs/start-link till nil {:name :stock})}]}
                  {:name :shop-supervisor}))

(defn- names [{:keys [name waits-for children]}]
  (into [name waits-for] (map names) children))

(deftest the-names-of-threads-tell-the-tree-of-an-application
  (application/start {:name :analyzed-shop :start start-shop})
  (try
    (let [shown (fn [] (names (first (filter #(= ":analyzed-shop" (:name %)) (:tree (thread-dump-of-this-program))))))]
      (is (eventually (= [":analyzed-shop" "a message" ; each, once it waits
                          [":shop-supervisor" "a message"
                           [":paths/tills" "a message"
                            ["(a map of magnetar.analyze-test)" "a message"]
                            ["(a map of magnetar.analyze-test)" "a message"]]
                           [":stock" "a message"]]]
                         (shown)))))
    (finally (application/stop :analyzed-shop))))

(defn- thread-name [pid]
  (.getName (.thread (.info (ProcessTable/live pid)))))

(defn- waiting-parent
  "A process of OTP below this one, with n generations below it. It tells its thread's name to the promise of each generation."
  [names]
  (proc-lib/spawn (fn []
                    (deliver (first names) (.getName (Thread/currentThread)))
                    (when-some [names (next names)] (waiting-parent names))
                    (receive :stop nil))))

(deftest siblings-with-one-label-share-their-path-and-no-path-grows-without-end
  (let [[left right] (actor/join (actor/spawn (fn [] (vec (repeatedly 2 #(second (gs/start till nil)))))))]
    (is (identical? (thread-name left) (thread-name right)))
    (run! #(actor/exit % :kill) [left right]))
  (let [names (vec (repeatedly 30 promise))
        oldest (waiting-parent names)]
    (is (= (str @(names 0) "/" @(names 0)) @(names 1)))
    (is (every? #(< (count @%) 400) names))
    (actor/exit oldest :kill)))

(deftest paths-of-thousands-of-servers-are-not-all-shown
  (let [server (fn [n] (format "#%d \":shop/:tills/till\" virtual WAITING 2026-11-27T00:29:30Z\n    at shop$wait.invoke(shop.clj:3)\n" n))
        {:keys [tree]} (analyzed (str "#1 \":shop/:tills\" virtual WAITING 2026-11-27T00:29:30Z\n" (apply str (map server (range 2 5002)))))]
    (is (= [":shop/:tills" 21 {:kind :fiber :name "till" :more 4980}]
           (let [[{:keys [name children]}] tree] [name (count children) (dissoc (peek children) :at)])))))

(def ^:private of-json
  "{
  \"threadDump\": {
    \"processId\": \"4711\",
    \"threadContainers\": [
      {
        \"container\": \"<root>\",
        \"parent\": null,
        \"threads\": [
          {\"tid\": \"25\", \"name\": \"two\", \"state\": \"BLOCKED\", \"blockedOn\": \"shop.Till@1\",
           \"stack\": [\"shop$two.invoke(shop.clj:7)\", \"java.base\\/java.lang.Thread.run(Thread.java:1474)\"],
           \"monitorsOwned\": [{\"depth\": 0, \"locks\": [null, \"shop.Till@2\"]}]},
          {\"tid\": 23, \"virtual\": true, \"name\": \"go \\\"one\\\": a\\/b\", \"state\": \"BLOCKED\", \"blockedOn\": \"shop.Till@2\",
           \"stack\": [\"shop$one.invoke(shop.clj:4)\"],
           \"monitorsOwned\": [{\"depth\": 0, \"locks\": [\"shop.Till@1\"]}]}
        ]
      },
      {
        \"container\": \"ForkJoinPool-1\",
        \"threads\": [
          {\"tid\": \"27\", \"virtual\": true, \"name\": \"\", \"state\": \"WAITING\",
           \"parkBlocker\": {\"object\": \"java.util.concurrent.locks.ReentrantLock$NonfairSync@4\"},
           \"stack\": [\"java.base\\/java.util.concurrent.locks.LockSupport.park(LockSupport.java:221)\", \"shop$three.invoke(shop.clj:9)\"]}
        ]
      }
    ]
  }
}")

(deftest a-thread-dump-as-json-names-the-owners-of-monitors
  (let [{:keys [threads deadlocks why-stuck waiting]} (analyzed of-json)]
    (is (= 3 threads))
    (is (= ["go \"one\": a/b waits at shop.clj:4 for the monitor of a Till of thread two, which waits at shop.clj:7 for the monitor of a Till of go \"one\": a/b."]
           (map :text deadlocks)))
    (is (= [:likely] (map :grade deadlocks)))
    (is (= [] why-stuck))
    (is (= ["thread  waits at shop.clj:9 for a ReentrantLock, and the dump does not show what can end that."] (map :text waiting)))))

(deftest a-thread-dump-as-json-says-the-same-as-the-one-as-text
  (let [monitor (Object.)
        [held gate] (repeatedly 2 promise)
        holder (Thread. ^Runnable #(locking monitor (deliver held true) @gate) "json-holder")
        waiter (Thread. ^Runnable #(locking monitor nil) "json-waiter")
        own (fn [format] (filter #(str/includes? (:text %) "json-waiter") (:why-stuck (thread-dump-of-this-program format))))]
    (.start holder)
    @held
    (.start waiter)
    (is (eventually (= Thread$State/BLOCKED (.getState waiter))))
    (let [[{:keys [text]} :as found] (own HotSpotDiagnosticMXBean$ThreadDumpFormat/JSON)]
      (is (= 1 (count found)))
      (is (re-find #"for the monitor of an Object of thread json-holder" text))
      (is (= found (own HotSpotDiagnosticMXBean$ThreadDumpFormat/TEXT_PLAIN))))
    (deliver gate true)
    (run! #(.join ^Thread %) [holder waiter])))

(deftest a-dump-of-this-program-is-told-as-it-is
  (let [dump (inspect/dump)]
    (is (= (assoc dump :source :magnetar) (inspect/analyze dump)))
    (is (= :magnetar (:source (analyzed (pr-str dump)))))
    (is (= :magnetar (:source (with-file (pr-str dump) #(inspect/analyze (.toPath (io/file %)))))) "a path")))

(deftest what-is-no-dump-is-refused-in-a-sentence
  (doseq [[text words] {"" "is empty" "  \n" "is empty" "shopping list" "is no dump" "{:a 1}" "is no dump" "{:magnetar/dump 1 :tree [" "is cut off"
                        "{\"threadDump\": {" "is cut off, or is not JSON" "{\"threadDump\": 1}" "is not JSON"}]
    (is (thrown-with-msg? IllegalArgumentException (re-pattern words) (analyzed text)) (pr-str text)))
  (is (thrown-with-msg? IllegalArgumentException #"There is no file \"no-such-file\"" (inspect/analyze "no-such-file")))
  (is (thrown-with-msg? IllegalArgumentException #"`analyze` got an empty name of a file\." (inspect/analyze "")))
  (is (thrown-with-msg? IllegalArgumentException #"`analyze` got nil\." (inspect/analyze nil))))

;; ---- signals

(deftest the-state-is-printed-on-a-signal-until-that-is-closed
  (let [out (StringWriter.)
        pid (actor/spawn-opt #(receive :stop nil) {:name :waits-here})
        ^AutoCloseable printing (inspect/on-signal {:signal "USR1" :out out})]
    (try
      (Signal/raise (Signal. "USR1"))
      (is (eventually (re-find #":waits-here +message" (str out))))
      (is (eventually (re-find #"(?m)^No deadlock\.$" (str out))))
      (testing "the former handler comes back"
        (let [inner (StringWriter.)]
          (.close ^AutoCloseable (inspect/on-signal {:signal "USR1" :out inner}))
          (Signal/raise (Signal. "USR1"))
          (is (eventually (= 2 (count (re-seq #":waits-here" (str out))))))
          (is (= "" (str inner)))))
      (finally
        (.close printing)
        (! pid :stop)))))

(deftest a-signal-that-cannot-be-had-is-named
  (is (thrown-with-msg? IllegalArgumentException #"does not know the signal \"NOPE\"" (inspect/on-signal {:signal "NOPE"})))
  (is (thrown-with-msg? IllegalStateException #"The JVM itself uses the signal QUIT" (inspect/on-signal {:signal "QUIT"})))
  (is (thrown-with-msg? IllegalStateException #"The JVM itself uses the signal USR2" (inspect/on-signal {:signal "USR2"})))
  (doseq [name ["TERM" "INT" "HUP"]]
    (is (thrown-with-msg? IllegalStateException (re-pattern (str "A program is ended by the signal " name ", .* take \"USR1\"")) (inspect/on-signal {:signal name}))))
  (doseq [name ["KILL" "STOP"]]
    (is (thrown-with-msg? IllegalStateException (re-pattern (str "No program can handle the signal " name ", .* take \"USR1\"")) (inspect/on-signal {:signal name}))))
  (doseq [options [{:signal :usr1} {:out 1} {:sig "USR1"}]]
    (is (thrown? IllegalArgumentException (inspect/on-signal options)) (str options))))
