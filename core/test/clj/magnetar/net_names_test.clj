(ns magnetar.net-names-test
  "Names that are looked up slowly, in a JVM of its own, whose resolver is slow."
  {:slow true
   :limit 600000}
  (:require
   [clojure.edn :as edn]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.dev.child :as child]))

(set! *warn-on-reflection* true)

(def ^:private slow-names
  "import java.net.InetAddress;
   import java.net.UnknownHostException;
   import java.net.spi.InetAddressResolver;
   import java.net.spi.InetAddressResolverProvider;
   import java.util.stream.Stream;

   public final class SlowNames extends InetAddressResolverProvider {
       @Override public String name() { return \"slow\"; }
       @Override public InetAddressResolver get(Configuration configuration) {
           InetAddressResolver jdk = configuration.builtinResolver();
           return new InetAddressResolver() {
               @Override public Stream<InetAddress> lookupByName(String host, LookupPolicy policy) throws UnknownHostException {
                   if (!host.endsWith(\".slow\")) return jdk.lookupByName(host, policy);
                   try { Thread.sleep(200); } catch (InterruptedException e) { Thread.currentThread().interrupt(); }
                   throw new UnknownHostException(host);
               }
               @Override public String lookupByAddress(byte[] address) throws UnknownHostException {
                   return jdk.lookupByAddress(address);
               }
           };
       }
   }")

(defn- provider
  "A folder for a class path with a resolver whose names in .slow take long and have no address."
  []
  (let [sources (child/temp-folder "names")
        classes (child/temp-folder "names")
        services (io/file classes "META-INF/services/java.net.spi.InetAddressResolverProvider")]
    (spit (io/file sources "SlowNames.java") slow-names)
    (is (nil? (child/compile-java [sources] classes [])))
    (io/make-parents services)
    (spit services "SlowNames")
    (str classes)))

(def ^:private look-ups
  '(do
     (require '[magnetar.net :as net] '[magnetar.scope :as scope])
     (let [ended (atom 0)
           look-up (fn [n]
                     (try
                       (net/connect (str "queued-" n ".slow") 80 {:active false})
                       (catch clojure.lang.ExceptionInfo _ (swap! ended inc))))
           listener (net/listen 0 {:host "127.0.0.1" :active false})
           connect (fn [n]
                     (try
                       (net/connect (str "host-" n ".slow") 80 {:active false :timeout 500 :else :late})
                       (catch clojure.lang.ExceptionInfo e (:reason (ex-data e)))))
           names #(count (filter (fn [t] (.startsWith (.getName ^Thread t) "magnetar-names"))
                           (keys (Thread/getAllStackTraces))))]
       (scope/with-scope [s]
         (let [forks (mapv #(scope/fork s connect %) (range 10000))
               offloaded (scope/offload (fn [] :done))
               client (net/connect "127.0.0.1" (net/port listener) {:active false :as :string})
               server (net/accept listener)]
           (net/send server "hello")
           (let [heard (net/recv client)
                 outcomes (frequencies (map scope/join forks))]
             (prn {:offloaded offloaded
                   :heard heard
                   :only-late-or-unknown? (= #{:late :nxdomain} (into #{:nxdomain} (keys outcomes)))
                   :most-late? (< 5000 (:late outcomes))
                   :few-threads? (<= (names) 256)})
             (dotimes [n 5000] (scope/fork s look-up n))
             (net/connect "localhost" (net/port listener) {:active false})
             (prn {:localhost-before-the-queue? (< (long @ended) 5000)})
             (System/exit 0)))))))

(deftest slow-names-hold-no-other-fiber-and-a-connect-ends-in-time
  (let [{:keys [exit out]} (child/run [(System/getProperty "java.class.path") (provider)] 500 "clojure.main" "-e" (pr-str look-ups))]
    (is (= 0 exit) out)
    (is (= [{:offloaded :done :heard "hello" :only-late-or-unknown? true :most-late? true :few-threads? true}
            {:localhost-before-the-queue? true}]
           (map edn/read-string (take-last 2 (str/split-lines out)))))))
