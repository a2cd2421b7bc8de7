(ns magnetar.cluster.network-test
  "Three nodes of JGroups in one JVM: views, frames, cuts, ends."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [are deftest is testing]]
   [magnetar.cluster.support :refer [alone-ms await-next-view await-view frames leave limit-ms mend node patient-ms quick-ms recorder send-text settings sever view views
                                     waited with-nodes]])
  (:import
   (java.io IOException)
   (java.net InetAddress InetSocketAddress)
   (java.util.concurrent CountDownLatch)
   (javax.net.ssl SSLContext)
   (magnetar.cluster.impl JGroupsNetwork Settings)
   (magnetar.kernel.network Network)))

(set! *warn-on-reflection* true)

(defmacro ^:private with-three
  "Evaluates `body` with the nodes a, b and c, which have joined in this order and see each other. `detect` is how long each waits
  for an answer of another one."
  [detect & body]
  `(with-nodes [~'a (node "a" :detect ~detect)
                ~'b (node "b" :peers [(:address ~'a)] :detect ~detect)
                ~'c (node "c" :peers [(:address ~'a)] :detect ~detect)]
     (run! #(await-view % ["a" "b" "c"]) [~'a ~'b ~'c])
     ~@body))

(deftest nodes-see-each-other-oldest-first
  (with-three patient-ms
    (is (= 1 (count (distinct (map (comp :ids view) [a b c])))))
    (is (= (mapv :id [a b c]) (:ids (view a))))
    (is (= [["a"] ["a" "b"] ["a" "b" "c"]] (map :names (views a))))
    (is (= [["a" "b" "c"]] (map :names (views c))) "the first view has all that are there")
    (is (not-any? :merged (mapcat views [a b c])))))

(deftest two-nodes-with-one-name-are-both-there
  (with-nodes [a (node "a")
               b (node "a" :peers [(:address a)])]
    (run! #(await-view % ["a" "a"]) [a b])
    (is (= 2 (count (set (:ids (view a))))))))

(deftest nodes-that-start-at-once-merge
  (let [port (with-open [socket (java.net.ServerSocket. 0)] (.getLocalPort socket))
        peers [(str "127.0.0.1:" port)]
        started (mapv #(future (node % :port (if (= "a" %) port 0) :peers peers :discover alone-ms)) ["a" "b" "c"])
        nodes (mapv deref started)]
    (try
      (let [found (mapv (fn [{:keys [log]}] (waited log (fn [events] (let [ids (:ids (last (filter :names events)))]
                                                                       (when (= 3 (count ids)) ids)))))
                        nodes)]
        (is (apply = found) "all have one order"))
      (finally (apply leave nodes)))))

(deftest frames-arrive-unchanged-and-in-order
  (with-three patient-ms
    (let [numbers (range 2000)]
      (run! deref [(future (run! #(send-text a b (str "a" %)) numbers))
                   (future (run! #(send-text c b (str "c" %)) numbers))
                   (future (run! #(send-text b b (str "b" %)) numbers))])
      (waited (:log b) #(<= 6000 (count (filter :from %))))
      (doseq [[sender arrived] (group-by first (frames b))]
        (is (= (map #(vector sender (str sender %)) numbers) arrived))))))

(deftest frames-of-any-length-arrive
  (with-three patient-ms
    (let [lengths [0 1 60000 65000 Network/MAX_FRAME]]
      (doseq [length lengths]
        (.send ^Network (:network a) (:member c) (byte-array length (byte 7))))
      (waited (:log c) #(= (count lengths) (count (filter :from %))))
      (is (= lengths (map (comp count :bytes) (filter :from @(:log c)))))
      (is (every? #(= 7 %) (:bytes (last @(:log c)))))
      (is (thrown-with-msg? IllegalArgumentException #"at most 65536 bytes, and this one has 65537"
                            (.send ^Network (:network a) (:member c) (byte-array (inc Network/MAX_FRAME))))))))

(deftest a-frame-to-an-absent-member-is-dropped
  (with-three patient-ms
    (leave c)
    (await-view a ["a" "b"])
    (send-text a c "too late")
    (send-text a b "after")
    (waited (:log b) #(some :from %))
    (is (= [["a" "after"]] (frames b)))))

(defn- sending
  "A thread that sends to a member without end, and the promise of how it ended."
  [from to]
  (let [ended (promise)
        thread (Thread/startVirtualThread
                #(deliver ended (try
                                  (loop []
                                    (.send ^Network (:network from) (:member to) (byte-array 60000))
                                    (when (some #{(:id to)} (:ids (view from)))
                                      (recur)))
                                  :left
                                  (catch InterruptedException _ :interrupted))))]
    [thread ended]))

(defn- parked? [^Thread thread]
  (contains? #{Thread$State/WAITING Thread$State/TIMED_WAITING} (.getState thread)))

(defn- await-parked
  "Waits until a thread has been parked in `Window` for some looks in a row."
  [^Thread thread]
  (loop [looks 0, deadline (+ (System/nanoTime) (* 1000000 limit-ms))]
    (cond
      (= looks 200) true
      (pos? (- (System/nanoTime) deadline)) false
      :else (do
              (Thread/onSpinWait)
              (Thread/yield)
              (recur (if (and (parked? thread) (some #(str/ends-with? (.getClassName ^StackTraceElement %) ".Window") (.getStackTrace thread)))
                       (inc looks)
                       0)
                     deadline)))))

(deftest a-sender-waits-for-a-slow-receiver-and-can-be-interrupted
  (let [gate (CountDownLatch. 1)]
    (with-nodes [a (node "a")
                 b (node "b" :peers [(:address a)] :on-frame #(.await gate))]
      (run! #(await-view % ["a" "b"]) [a b])
      (let [[^Thread thread ended] (sending a b)]
        (is (await-parked thread))
        (.interrupt thread)
        (is (= :interrupted (deref ended limit-ms :waits)))
        (.countDown gate)
        (send-text a b "goes on")
        (waited (:log b) (fn [events] (some #(= "goes on" (some-> ^bytes (:bytes %) (String. "UTF-8"))) events)))))))

(deftest a-sender-waits-at-most-until-the-receiver-has-left
  (let [gate (CountDownLatch. 1)]
    (with-nodes [a (node "a")
                 b (node "b" :peers [(:address a)] :on-frame #(.await gate))]
      (run! #(await-view % ["a" "b"]) [a b])
      (let [[thread ended] (sending a b)]
        (is (await-parked thread))
        (.cut ^Network (:network a) (:member b))
        (is (= :left (deref ended limit-ms :waits)))
        (.countDown gate)))))

(deftest a-member-that-is-cut-off-leaves-on-both-sides-and-comes-back
  (with-three quick-ms
    (doseq [[by of] [[a b] [c b]]]
      (testing (str (:name by) " cuts " (:name of))
        (let [seen (count @(:log by))
              seen-there (count @(:log of))]
          (.cut ^Network (:network by) (:member of))
          (waited (:log by) (fn [events] (some #(and (:names %) (not-any? #{(:name of)} (:names %))) (subvec events seen))))
          (waited (:log of) (fn [events] (some #(and (:names %) (not-any? #{(:name by)} (:names %))) (subvec events seen-there))))
          (doseq [node [by of]]
            (is (:merged (await-view node ["a" "b" "c"]))))
          (run! #(await-view % ["a" "b" "c"]) [a b c])
          (is (apply = (mapv :id [a b c]) (map (comp :ids view) [a b c])) "with the same ids")
          (send-text of by (str "back " (:name of)))
          (waited (:log by) (fn [_] (some #{[(:name of) (str "back " (:name of))]} (frames by)))))))))

(deftest a-member-that-cannot-be-heard-leaves-and-comes-back
  (with-three quick-ms
    (let [seen (count @(:log b))]
      (sever (:network b) (:member c) true false)
      (await-next-view b seen ["a" "b"])
      (is (= "c" (last (:names (view c)))) "each view contains the member itself")
      (mend (:network b))
      (run! #(await-view % ["a" "b" "c"]) [a b c])
      (is (:merged (view b)))
      (is (= (mapv :id [a b c]) (:ids (view b)))))))

(deftest leaving-comes-after-what-was-sent
  (with-three patient-ms
    (dotimes [n 500]
      (send-text c a (str n)))
    (leave c)
    (run! #(await-view % ["a" "b"]) [a b])
    (is (= (map #(vector "c" (str %)) (range 500)) (frames a)))
    (let [told (count @(:log c))]
      (send-text a b "more")
      (waited (:log b) #(some :from %))
      (is (= told (count @(:log c))) "no event comes after it"))))

(deftest a-network-is-joined-once
  (with-nodes [a (node "a")]
    (is (thrown-with-msg? IllegalStateException #"joined before: make another one"
                          (.join ^Network (:network a) (recorder (atom []) (fn [])))))))

(deftest a-port-in-use-is-told
  (with-nodes [a (node "a")]
    (let [port (parse-long (last (str/split (:address a) #":")))]
      (is (thrown-with-msg? IOException #"Cannot listen at 127.0.0.1:\d+ \(.*\): take an address of this machine and a port that is free"
                            (node "b" :port port))))))

(defn- made [f]
  (JGroupsNetwork. (doto (settings "a" {}) f)))

(def ^:private elsewhere (InetAddress/getByName "192.0.2.1"))

(defn- at-port ^InetSocketAddress [^InetAddress address]
  (InetSocketAddress. address 7500))

(deftest settings-that-do-not-fit-together-are-refused
  (are [pattern f] (thrown-with-msg? IllegalArgumentException pattern (made f))
    #"wildcard address 0.0.0.0.*name one address of this machine" #(Settings/.bind % (InetAddress/getByName "0.0.0.0") 0)
    #"silent for 1000 ms.*every 600 ms" #(Settings/.detect % 1000 600)
    #"by peers, by multicast or by DNS: choose one" #(doto ^Settings % (.dns "nodes.test" nil) (.multicast (at-port (InetAddress/getByName "239.1.1.1"))))
    #"The peer 192.0.2.1:7500 cannot dial a node that listens at 127.0.0.1: give :bind .* or .* :advertise\."
    #(doto ^Settings % (.peers [(at-port elsewhere)]) (.insecure true))))

(deftest plain-text-leaves-the-machine-only-if-that-is-allowed
  (doseq [[how f] {"listens at 192.0.2.1, outside" #(doto ^Settings % (.bind elsewhere 0))
                   "others dial at 192.0.2.1:7500, outside" #(doto ^Settings % (.advertise (at-port elsewhere)))
                   "dials the peer 192.0.2.1:7500, outside" #(doto ^Settings % (.peers [(at-port elsewhere)]) (.advertise (at-port (InetAddress/getLoopbackAddress))))
                   "finds the others by DNS, which may be outside" #(doto ^Settings % (.dns "nodes.test" nil))
                   "finds the others by multicast, which may be outside" #(doto ^Settings % (.multicast (at-port (InetAddress/getByName "239.1.1.1"))))}]
    (testing how
      (is (= (str "A node that " how " of the loopback address, needs TLS. If the network is trusted, allow it with :insecure true.")
             (try (made f) (catch IllegalArgumentException e (ex-message e)))))
      (is (some? (made #(doto ^Settings % f (.insecure true)))))
      (is (some? (made #(doto ^Settings % f (.tls (SSLContext/getDefault)))))))))
