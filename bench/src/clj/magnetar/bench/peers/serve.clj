(ns magnetar.bench.peers.serve
  "The side of a peer: answers lines `workload number ..` on standard input with a number each, or several, as `bench/peers` do in their languages."
  (:require
   [clojure.string :as str])
  (:import
   (java.io IOException InputStream OutputStream)
   (java.lang.ref Reference)
   (java.net InetAddress ServerSocket Socket URI)
   (java.net.http HttpClient HttpRequest HttpResponse$BodyHandlers)
   (java.nio.file Files Path)
   (java.util.concurrent CountDownLatch)))

(set! *warn-on-reflection* true)

(defmacro nanos
  "The nanoseconds that the body takes.

  Example: (nanos (+ 1 2))"
  [& body]
  `(let [start# (System/nanoTime)]
     ~@body
     (- (System/nanoTime) start#)))

(defn check
  "Fails unless that was found which is expected.

  Example: (check 45 (reduce + (range 10)))"
  [expected found]
  (when-not (= expected found)
    (throw (ex-info (str "The result is wrong: " found " instead of " expected ".") {:expected expected :found found}))))

(defn resident
  "The bytes of resident memory of this process.

  Example: (resident) => 104857600"
  ^long []
  (let [[_ pages] (str/split (Files/readString (Path/of "/proc/self/statm" (make-array String 0))) #" ")]
    (* 4096 (long (parse-long pages)))))

(defn bytes-each
  "The bytes of resident memory for each of the n things that `start` gives; they are kept alive meanwhile.

  Example: (bytes-each 1000 #(object-array 10))"
  [n start]
  (let [all (object-array n)]
    (System/gc)
    (let [before (resident)]
      (dotimes [i n] (aset all i (start)))
      (Thread/sleep 3000)
      (System/gc)
      (Thread/sleep 1000)
      (let [bytes (/ (- (resident) before) (double n))]
        (Reference/reachabilityFence all)
        bytes))))

(defn factors
  "How many prime factors a number has, by trial division.

  Example: (factors 12) => 3"
  ^long [^long number]
  (loop [n number p 2 found 0]
    (cond (= n 1) found
          (zero? (rem n p)) (recur (quot n p) p (inc found))
          (>= (* p p) n) (inc found)
          :else (recur n (if (> p 2) (+ p 2) (inc p)) found))))

(defn fetch
  "The length of a page of the slow server on this port, by the JDK's blocking client; it has to be that page.

  Example: (fetch (HttpClient/newHttpClient) 8080 1) => 7"
  [^HttpClient client port i]
  (let [request (.build (HttpRequest/newBuilder (URI. (str "http://127.0.0.1:" port "/" i))))
        body (.body (.send client request (HttpResponse$BodyHandlers/ofString)))]
    (when-not (= body (str "page /" i))
      (throw (ex-info (str "Not page " i ": " body) {:page i})))
    (count body)))

(defn all-increased
  "Nanoseconds for n values of `f`, given n ones, that have to be twos.

  Example: (all-increased 3 #(map inc %))"
  [n f]
  (let [in (vec (repeat n 1))
        start (System/nanoTime)
        out (f in)
        took (- (System/nanoTime) start)]
    (when-not (= (* 2 (long n)) (reduce + out))
      (throw (ex-info "A value was lost." {:n n})))
    took))

(defn- echo [^Socket socket]
  (with-open [socket socket]
    (let [^InputStream in (.getInputStream socket)
          ^OutputStream out (.getOutputStream socket)
          buffer (byte-array 1024)]
      (try
        (loop []
          (let [n (.read in buffer)]
            (when (pos? n)
              (.write out buffer 0 n)
              (recur))))
        (catch IOException _))))) ; the client went away

(defn- accept-all [^ServerSocket server start]
  (loop []
    (let [socket (doto (.accept server) (.setTcpNoDelay true))]
      (start #(echo socket))
      (recur))))

(defn echo-server
  "Starts a server on a free port of the loopback address that gives back what it gets, each connection and itself in what `start` starts;
  returns the port.

  Example: (echo-server #(Thread/startVirtualThread %)) => 40321"
  [start]
  (let [server (ServerSocket. 0 1024 (InetAddress/getLoopbackAddress))]
    (start #(accept-all server start))
    (.getLocalPort server)))

(defn latch
  "Something to count down from n.

  Example: (latch 3)"
  [n]
  (CountDownLatch. (int n)))

(defn count-down
  "One less.

  Example: (count-down (latch 3))"
  [^CountDownLatch latch]
  (.countDown latch))

(defn await-zero
  "Waits until it has been counted down.

  Example: (await-zero (latch 0))"
  [^CountDownLatch latch]
  (.await latch))

(defn settle
  "Lets n fibers get to where they wait.

  Example: (settle 1000)"
  [n]
  (Thread/sleep (quot (* 3 (long n)) 1000)))

(defn- answer [workloads [what & numbers]]
  (if (= "times" what)
    (reduce + (repeatedly (parse-long (first numbers)) #(double (answer workloads (rest numbers)))))
    (let [found (apply (workloads what) (map parse-long numbers))]
      (if (vector? found) found (double found)))))

(defn- in-words [answer]
  (if (vector? answer) (str/join " " answer) (str answer)))

(defn serve
  "Answers lines until there are no more, and ends the JVM. `workloads` is a map from a name to a function of its numbers.

  Example: (serve {\"spawn\" (fn [n] ..)})"
  [workloads]
  (Thread/setDefaultUncaughtExceptionHandler
    (reify Thread$UncaughtExceptionHandler ; the driver notices this; it would wait for a fiber that has failed
      (uncaughtException [_ _ failure]
        (.printStackTrace failure)
        (System/exit 1))))
  (doseq [line (line-seq (java.io.BufferedReader. *in*))]
    (System/gc)
    (println (in-words (answer workloads (str/split line #" "))))
    (flush))
  (System/exit 0))
