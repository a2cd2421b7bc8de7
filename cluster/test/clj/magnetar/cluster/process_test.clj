(ns magnetar.cluster.process-test
  "A node in a JVM of its own, which is killed, or stopped for a while."
  {:slow true
   :wakes false}
  (:require
   [clojure.java.io :as io]
   [clojure.test :refer [deftest is]]
   [magnetar.cluster.support :refer [await-next-view await-view node send-text view views waited with-nodes with-refusals]])
  (:import
   (java.lang ProcessBuilder$Redirect)
   (magnetar.kernel.network Member Network View)))

(set! *warn-on-reflection* true)

(def ^:private detect-ms
  "Longer than a node waits for an answer to its handshake, and for the name of another one."
  20000)

(defn- code
  "What the other JVM evaluates: it joins as c, says so, and waits."
  [address]
  (pr-str
   (list 'do
         '(require 'magnetar.cluster.support)
         (list '(resolve 'magnetar.cluster.support/node) "c" :peers [address] :detect detect-ms)
         '(println "joined")
         '(deref (promise)))))

(defn- other
  "Starts the other JVM, and returns its process when it has joined."
  ^Process [address]
  (let [command [(str (io/file (System/getProperty "java.home") "bin" "java")) "-XX:TieredStopAtLevel=1" "-XX:+UseSerialGC"
                 "-cp" (System/getProperty "java.class.path") "clojure.main" "-e" (code address)]
        process (.start (doto (ProcessBuilder. ^java.util.List command)
                          (.redirectError ProcessBuilder$Redirect/DISCARD)))]
    (is (= "joined" (.readLine ^java.io.BufferedReader (io/reader (.getInputStream process)))))
    process))

(defn- signal [^Process process name]
  (.waitFor (.start (ProcessBuilder. ^java.util.List (vector "kill" (str "-" name) (str (.pid process)))))))

(defmacro ^:private with-three
  "Evaluates `body` with the nodes a and b of this JVM, and c, the process of a third one."
  [& body]
  `(with-refusals
     (with-nodes [~'a (node "a" :detect detect-ms)
                  ~'b (node "b" :peers [(:address ~'a)] :detect detect-ms)]
       (let [~'c (other (:address ~'a))]
         (try
           (run! #(await-view % ["a" "b" "c"]) [~'a ~'b])
           ~@body
           (finally
             (.destroyForcibly ~'c)
             (.waitFor ~'c)))))))

(deftest a-node-that-is-killed-leaves-the-views
  (with-three
    (.destroyForcibly c)
    (run! #(await-view % ["a" "b"]) [a b])
    (is (= 1 (count (filter #(= ["a" "b"] %) (map :names (rest (drop-while #(not= ["a" "b" "c"] (:names %)) (views b))))))) "once")))

(defn- flood
  "A thread that sends to the member c until that has left."
  [{:keys [^Network network]}]
  (let [member (some #(when (= "c" (Member/.name %)) %) (View/.members (.view network)))]
    (Thread/startVirtualThread
     #(while (.contains (View/.members (.view network)) member)
        (.send network member (byte-array 60000))))))

(deftest a-node-that-is-stopped-does-not-hold-up-the-others
  (with-three
    (let [id (last (:ids (view a)))
          seen (count @(:log a))]
      (signal c "STOP")
      (flood a)
      (with-nodes [d (node "d" :peers [(:address a)] :detect detect-ms)]
        (is (= ["a" "b" "d"] (:names (view d))) "d dials c, and goes on without its answer")
        (doseq [from [a d], n (range 100)]
          (send-text from b (str n)))
        (waited (:log b) #(<= 200 (count (filter :from %))))
        (is (some #{"c"} (:names (view a))) "before c was missed"))
      (await-next-view a seen ["a" "b"])
      (is (every? #(= ["a" "b"] (filterv #{"a" "b"} (:names %))) (subvec (views a) 1)) "the two never lose each other")
      (signal c "CONT")
      (run! #(await-view % ["a" "b" "c"]) [a b])
      (is (:merged (view a)))
      (is (= id (last (:ids (view a)))) "with the same id"))))
