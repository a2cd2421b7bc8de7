(ns signals
  "What a cluster does with the signals of two JVMs on the loopback address, with and without TLS: messages of 100
  bytes one way, calls by 1 and by 100 callers, the time from an exit to :DOWN.

  `bin/magnetar test magnetar.cluster.session-test` compiles what it needs. The jars are those of .cache/cp/cluster-*:
  java @kernel/java.options -cp JARS:kernel/target/classes:core/target/classes:etf/target/classes:cluster/target/classes:\\
  core/src/clj:etf/src/clj:cluster/src/clj clojure.main bench/cluster/signals.clj"
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [magnetar.actor :as actor :refer [! receive self spawn]]
   [magnetar.cluster.impl.hub :as hub]
   [magnetar.gen-server :as gs])
  (:import
   (java.io File)
   (java.lang ProcessBuilder$Redirect)
   (java.lang.management ManagementFactory)
   (java.net InetAddress InetSocketAddress)
   (java.security KeyStore)
   (java.util.concurrent CountDownLatch)
   (javax.net.ssl KeyManagerFactory SSLContext TrustManagerFactory)
   (magnetar.cluster.impl Cookie JGroupsNetwork Settings)
   (magnetar.kernel.process Peers)))

(set! *warn-on-reflection* true)

(def ^:private rounds 5)
(def ^:private messages (Long/getLong "signals.messages" 1000000))
(def ^:private calls 20000)
(def ^:private cookie "the cookie of a measurement")

;; ---- TLS

(def ^:private password "password")

(defn- certificate
  "The file of a new certificate with its key."
  []
  (let [file (doto (File/createTempFile "signals" ".p12") .delete .deleteOnExit)]
    (.waitFor (.start (ProcessBuilder.
                       ^java.util.List (vector (str (io/file (System/getProperty "java.home") "bin" "keytool")) "-genkeypair" "-keystore" (str file)
                        "-storepass" password "-alias" "node" "-dname" "CN=node" "-keyalg" "EC" "-groupname" "secp256r1"))))
    (str file)))

(defn- context ^SSLContext [^String file]
  (let [letters (.toCharArray ^String password)
        keys (KeyStore/getInstance (io/file file) letters)
        own (doto (KeyManagerFactory/getInstance (KeyManagerFactory/getDefaultAlgorithm)) (.init keys letters))
        trusted (doto (TrustManagerFactory/getInstance (TrustManagerFactory/getDefaultAlgorithm)) (.init keys))]
    (doto (SSLContext/getInstance "TLS")
      (.init (.getKeyManagers own) (.getTrustManagers trusted) nil))))

;; ---- nodes

(defn- network ^JGroupsNetwork [name address store]
  (let [settings (Settings. name (Cookie/of cookie))]
    (when address
      (let [[host port] (str/split address #":")]
        (.peers settings [(InetSocketAddress. (InetAddress/getByName host) (int (parse-long port)))])))
    (when store
      (.tls settings (context store)))
    (JGroupsNetwork. settings)))

(defn- start
  "Starts the node in the current process; it returns when another one is up."
  [^String name network]
  (let [up (CountDownLatch. 1)]
    (Peers/setName name)
    (hub/start-link {:network network :name name :cookie (.getBytes ^String cookie)
                :notify (fn [[event]] (when (= :up event) (.countDown up)))})
    up))

(defn- sink [^long n]
  (receive
    [:end from] (do (! from [:counted n]) (recur 0))
    :die (actor/exit :died)
    [:start from] (do (! from [:started (spawn #(receive :die (actor/exit :died)))]) (recur n))
    _ (recur (inc n))))

(defn- other
  "The other JVM: a sink and a server, until the input ends."
  [address store]
  (actor/with-process {}
    (actor/register :sink (spawn #(sink 0)))
    (actor/register :server (second (gs/start {:init (fn [n] [:ok n])
                                               :handle-call (fn [request _ n] [:reply request n])} 0)))
    (let [^CountDownLatch up (start "other" (network "other" address store))]
      (.await up)
      (println "ready")
      (read-line)
      (System/exit 0))))

(defn- start-other ^Process [address store]
  (let [command (concat [(str (io/file (System/getProperty "java.home") "bin" "java"))]
                        (filter #(or (str/starts-with? % "-X") (str/starts-with? % "--"))
                                (.getInputArguments (ManagementFactory/getRuntimeMXBean)))
                        ["--add-opens" "java.base/java.lang=ALL-UNNAMED" "-cp" (System/getProperty "java.class.path")
                         "clojure.main" "bench/cluster/signals.clj" address (or store "")])
        process (.start (doto (ProcessBuilder. ^java.util.List (vec command))
                          (.redirectError ProcessBuilder$Redirect/INHERIT)))]
    (.readLine ^java.io.BufferedReader (io/reader (.getInputStream process)))
    process))

;; ---- what is measured

(defn- message
  "The message of the prototype: about 100 bytes."
  [i]
  {:op :transfer :from i :to 99 :amount 12.5M :tags #{:a :b} :note "transfer for invoice 4711, thanks"})

(defn- median [times]
  (nth (sort times) (quot (count times) 2)))

(defn- rate
  "Messages in a second, until the other side has all."
  [to make]
  (let [begin (System/nanoTime)]
    (dotimes [i messages]
      (! to (make i)))
    (! to [:end (self)])
    (receive [:counted n] (assert (= n messages)))
    (quot (* messages 1000000000) (- (System/nanoTime) begin))))

(defn- rates [how what make]
  (let [to [:sink "other"]
        found (doall (drop 2 (repeatedly (+ rounds 2) #(rate to make))))]
    (println (format "%s: %,d %s one way in a second (median of %d; %,d to %,d)" how (median found) what rounds (apply min found) (apply max found)))))

(defn- call-times [n]
  (let [ended (mapv (fn [_] (promise)) (range n))]
    (doseq [end ended]
      (spawn (fn []
               (deliver end (doall (repeatedly (quot (long calls) (long n))
                                               #(let [begin (System/nanoTime)]
                                                  (gs/call [:server "other"] :ask {:timeout 60000})
                                                  (- (System/nanoTime) begin))))))))
    (mapcat deref ended)))

(defn- calls-by [how n]
  (call-times n)
  (let [begin (System/nanoTime)
        times (doall (call-times n))]
    (println (format "%s: a call by %d callers %d us (median), %d us (99 of 100), %,d calls in a second" how n
                     (quot (median times) 1000) (quot (nth (sort times) (quot (* 99 (count times)) 100)) 1000)
                     (quot (* (count times) 1000000000) (- (System/nanoTime) begin))))))

(defn- down-time
  "From the sending of what makes a process exit to its :DOWN."
  []
  (! [:sink "other"] [:start (self)])
  (let [pid (receive [:started pid] pid)
        ref (actor/monitor pid)
        begin (System/nanoTime)]
    (! pid :die)
    (receive [:DOWN ref _ _ _] (- (System/nanoTime) begin))))

(defn- downs [how]
  (let [times (doall (drop 1000 (repeatedly 3000 down-time)))]
    (println (format "%s: a message that ends a process to its :DOWN %d us (median)" how (quot (median times) 1000)))))

(defn- killed [how ^Process process]
  (! [:sink "other"] [:start (self)])
  (let [pid (receive [:started pid] pid)
        ref (actor/monitor pid)
        begin (System/nanoTime)]
    (.destroyForcibly process)
    (receive [:DOWN ref _ _ _]
      (println (format "%s: the kill of a JVM to :DOWN %d ms" how (quot (- (System/nanoTime) begin) 1000000))))))

(defn- load-of-machine []
  (.getSystemLoadAverage (ManagementFactory/getOperatingSystemMXBean)))

(defn- measure [how store]
  (println how "- load of the machine at the begin" (load-of-machine))
  (actor/with-process {}
    (let [network (network "here" nil store)
          ^CountDownLatch up (start "here" network)]
      (let [other (start-other (.address network) store)]
        (.await up)
        (rates how "maps of about 100 bytes" message)
        (when-not (Boolean/getBoolean "signals.oneway")
          (let [bytes (byte-array 100)]
            (rates how "arrays of 100 bytes" (fn [_] bytes)))
          (calls-by how 1)
          (calls-by how 100)
          (downs how))
        (killed how other)
        (hub/stop (first (:links (actor/process-info (self)))))
        (Peers/setName nil)))))

(defn- main [[address store]]
  (if address
    (other address (not-empty store))
    (do
      (measure "plain" nil)
      (when-not (Boolean/getBoolean "signals.oneway")
        (measure "TLS" (certificate)))
      (println "load of the machine at the end" (load-of-machine))
      (System/exit 0))))

(main *command-line-args*)
