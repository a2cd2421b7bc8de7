(ns magnetar.erlang.node-test
  "How a node begins and ends: options, EPMD, and what a stop or a kill leaves behind."
  {:wakes false}
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is]]
   [magnetar.actor :as actor :refer [! after receive]]
   [magnetar.dev.child :as child]
   [magnetar.erlang :as erlang]
   [magnetar.erlang.scripted :as scripted :refer [accept cookie ended? eventually hang-up join let-in listen next-control quietly running send-bytes]]
   [magnetar.gen-server :as gs])
  (:import
   (clojure.lang ExceptionInfo)
   (com.sun.management HotSpotDiagnosticMXBean HotSpotDiagnosticMXBean$ThreadDumpFormat)
   (java.io DataInputStream File IOException)
   (java.lang.management ManagementFactory)
   (java.nio.file Files)
   (java.nio.file.attribute PosixFilePermissions)))

(set! *warn-on-reflection* true)

(def ^:private other "b@127.0.0.1")

(def ^:private options {:name "m@127.0.0.1" :cookie cookie :epmd false})

;; ---- options

(defn- said [options]
  (try
    (erlang/start options)
    (catch IllegalArgumentException e (ex-message e))
    (catch IOException e (ex-message e))))

(deftest wrong-options-are-refused-with-a-sentence
  (doseq [[more sentence]
          {{:name "till"} "`erlang/start`: :name is a string name@host; this is \"till\"."
           {:port 65536} "`erlang/start`: :port is a port, or 0 for any; this is 65536."
           {:epmd true} "`erlang/start`: :epmd is the port of EPMD, or false; this is true."
           {:scopes #{:user}} "`erlang/start`: :scopes is a set of keywords, without the names of servers that each node has, such as :user; this is #{:user}."
           {:tick 5} "`erlang/start`: :tick is a number of ms, 100 or more; this is 5."
           {:nil :null} "`erlang/start`: :nil is :nil or :undefined; this is :null."
           {:bind "0.0.0.0"} "`erlang/start`: :bind is a loopback address, unless there is :tls, or :insecure is true; this is \"0.0.0.0\"."
           {:tls {:certfile "x"}} (str "`erlang/start`: :tls is a map of :certfile, :keyfile and :cacertfile, paths of PEM files, or a "
                                       "javax.net.ssl.SSLContext; this is {:certfile \"x\"}.")
           {:bind 17} "`erlang/start`: :bind is an address, a string; this is 17."
           {:cookie :secret} "`erlang/start` cannot use the :cookie: it is not a string."
           {:cookie " "} "A cookie has 1 to 255 characters; this one has 0."
           {:cookie-file "x"} "`erlang/start` cannot use the :cookie: there is a :cookie-file too; give one of the two."
           {:cookie nil} "`erlang/start`: :cookie-file is the path of a file with the cookie, unless there is a :cookie; this is nil."}]
    (is (= sentence (said (merge options more)))))
  (is (str/includes? (said (assoc options :portt 1)) ":portt"))
  (is (not (str/includes? (said (assoc options :portt 1)) cookie))))

(deftest a-cookie-file-that-others-can-read-is-refused
  (let [file (File. ^File (child/temp-folder "magnetar-cookie") "cookie")
        with-file (assoc (dissoc options :cookie) :cookie-file (str file))
        mode #(Files/setPosixFilePermissions (.toPath file) (PosixFilePermissions/fromString %))]
    (is (str/starts-with? (said with-file) (str "There is no cookie file " file ": copy the .erlang.cookie of the other nodes")))
    (spit file (str cookie "\n"))
    (mode "rw-r-----")
    (is (= (str "The cookie file " file " is open to others than its owner (rw-r-----): run `chmod 600 " file "`.") (said with-file)))
    (mode "rw-------")
    (is (= :ok (first (erlang/start with-file))))
    (is (= :ok (erlang/stop)))
    (spit file "")
    (is (= (str "The cookie file " file " holds no cookie: copy the .erlang.cookie of the other nodes.") (said with-file)))))

(deftest without-a-node-there-are-no-nodes
  (is (= [] (erlang/nodes)))
  (is (= :ignored (erlang/connect other)))
  (is (= :ignored (erlang/disconnect other)))
  (is (= :pang (erlang/ping other)))
  (is (= "A node is a string name@host; this is :b." (try (erlang/connect :b) (catch IllegalArgumentException e (ex-message e))))))

(deftest a-node-is-started-once
  (running
    (fn []
      (is (= "m@127.0.0.1" (actor/node)))
      (is (= :already-started (first (second (erlang/start options)))))))
  (is (= "nonode@nohost" (actor/node))))

(deftest a-port-that-is-taken-is-told
  (with-open [server (listen)]
    (let [[how [why sentence]] (erlang/start (assoc options :port (.getLocalPort server)))]
      (is (= [:error :not-started] [how why]))
      (is (str/starts-with? sentence (str "The port " (.getLocalPort server) " of 127.0.0.1 cannot be listened at: "))))))

;; ---- EPMD

(defn- registration
  "The request that came over a connection with a scripted EPMD."
  [{:keys [^DataInputStream in]}]
  (let [bytes (byte-array (.readUnsignedShort in))]
    (.readFully in bytes)
    (let [in (DataInputStream. (java.io.ByteArrayInputStream. bytes))
          [kind port type] [(.read in) (.readUnsignedShort in) (.read in)]
          _ (.skipNBytes in 5)
          name (byte-array (.readUnsignedShort in))]
      (.readFully in name)
      {:kind kind :port port :type type :name (String. name "UTF-8")})))

(defn- answer [peer & numbers]
  (send-bytes peer (byte-array (map unchecked-byte numbers))))

(deftest a-node-registers-and-does-so-again-when-epmd-has-ended
  (with-open [epmd (listen)]
    (doseq [[visible type] [[false 72] [true 77]]]
      (let [started (future (erlang/start (assoc options :epmd (.getLocalPort epmd) :visible visible)))
            first-one (accept epmd)
            request (registration first-one)]
        (answer first-one 118 0 0 0 0 1)
        (is (= :ok (first @started)))
        (is (= {:kind 120 :port (scripted/port-of-node) :type type :name "m"} request))
        (hang-up first-one)
        (let [again (accept epmd)]
          (is (= request (registration again)))
          (answer again 121 0 0 1)
          (is (= :ok (erlang/stop)))
          (is (ended? again)))))))

(deftest a-node-that-epmd-does-not-take-is-not-started
  (with-open [epmd (listen)]
    (let [at (str "EPMD at 127.0.0.1:" (.getLocalPort epmd))
          answered (fn [& numbers]
                     (let [started (future (erlang/start (assoc options :epmd (.getLocalPort epmd))))
                           peer (accept epmd)]
                       (registration peer)
                       (apply answer peer numbers)
                       (hang-up peer)
                       @started))]
      (is (= [:error [:not-started (str at " has a node m already: take another name.")]] (answered 121 1 0 0)))
      (is (= [:error [:not-started (str at " has not answered as EPMD does.")]] (answered 1 2)))
      (is (= [:error [:not-started (str at " has not answered as EPMD does.")]] (answered 121)))))
  (let [port (with-open [s (listen)] (.getLocalPort s))
        [_ [_ sentence]] (erlang/start (assoc options :epmd port))]
    (is (re-find #"EPMD does not listen at .*: start it with `epmd -daemon`, or give :epmd false." sentence))
    (is (= "nonode@nohost" (actor/node)))))

(deftest epmd-is-asked-for-the-port-of-a-node
  (with-open [epmd (listen), server (listen)]
    (let [started (future (erlang/start (assoc options :epmd (.getLocalPort epmd))))
          registered (accept epmd)]
      (registration registered)
      (answer registered 121 0 0 1)
      @started
      (try
        (let [connected (future (erlang/connect other))
              {:keys [^DataInputStream in] :as asking} (accept epmd)]
          (is (= [2 122 (int \b)] [(.readUnsignedShort in) (.read in) (.read in)]))
          (answer asking 119 0 (bit-shift-right (.getLocalPort server) 8) (.getLocalPort server))
          (let-in (accept server) other)
          (is (true? @connected)))
        (let [connected (future (erlang/connect "c@127.0.0.1"))]
          (answer (accept epmd) 119 1)
          (is (false? @connected)))
        (finally (erlang/stop))))))

;; ---- the end

(defn- threads
  "The lines of a dump of all threads that name one of a node of Erlang."
  []
  (let [file (File. ^File (child/temp-folder "magnetar-threads") "dump.txt")]
    (.dumpThreads ^HotSpotDiagnosticMXBean (ManagementFactory/getPlatformMXBean HotSpotDiagnosticMXBean)
                  (str file) HotSpotDiagnosticMXBean$ThreadDumpFormat/TEXT_PLAIN)
    (filterv #(re-find #"magnetar\.erlang\.wire|\"magnetar-erlang" %) (str/split-lines (slurp file)))))

(deftest a-stop-sends-what-waits-and-leaves-nothing
  (let [{:keys [socket] :as peer} (running
                                    (fn []
                                      (let [peer (join other)]
                                        (is (seq (threads)))
                                        (dotimes [n 100] (! [:shelf other] n))
                                        peer)))]
    (is (some? socket))
    (is (= (range 100) (repeatedly 100 #(second (next-control peer)))))
    (is (ended? peer))
    (is (eventually #(empty? (threads))))))

(deftest monitors-fire-before-disconnect-returns
  (running
    (fn []
      (let [peer (join other)]
        (actor/with-process {:name :inbox}
          (let [ref (actor/monitor [:shelf other])]
            (is (true? (erlang/disconnect other)))
            (is (= [:DOWN ref :process [:shelf other] :noconnection] (receive x x (after 0 :none))))
            (is (false? (erlang/disconnect other)))))
        (is (ended? peer))))))

(deftest a-killed-server-leaves-nothing-and-another-may-start-at-once
  (quietly
    (fn []
      (scripted/logged
        (fn [_]
          (doseq [victim [:magnetar.erlang/node :holder]]
            (let [[_ pid] (erlang/start options)
                  peer (join other)
                  greeting (scripted/dial (scripted/port-of-node))
                  ref (promise)
                  down (promise)
                  watcher (actor/spawn #(do (deliver ref (actor/monitor [:shelf other])) (receive x (deliver down x))))]
              @ref
              (if (= :holder victim)
                (actor/exit (first (remove (set (map actor/whereis [:net_kernel :pg])) (:links (actor/process-info pid)))) :kill)
                (actor/exit pid :kill))
              (is (= [:DOWN :noconnection] ((juxt first peek) (deref down scripted/limit-ms [:late]))))
              (is (ended? peer))
              (is (ended? greeting))
              (is (eventually #(nil? (actor/whereis :magnetar.erlang/node))))
              (is (eventually #(nil? (actor/whereis :net_kernel))))
              (is (some? watcher))
              (is (= :ok (first (erlang/start options))))
              (is (= :ok (erlang/stop)))
              (is (eventually #(empty? (threads))))
              (is (= "nonode@nohost" (actor/node))))))))))

(deftest net-kernel-says-yes
  (running
    (fn []
      (is (= :yes (gs/call :net_kernel [:is_auth :b])))
      (is (= [:error :notsup] (gs/call :net_kernel [:spawn :m :f ()]))))))

;; ---- nodes that come and go

(deftest a-process-is-told-of-nodes-that-come-and-go
  (actor/with-process {:name :inbox}
    (let [before (try (erlang/monitor-nodes true) (catch ExceptionInfo e (:reason (ex-data e))))
          hidden "c@127.0.0.1"
          visible (bit-or scripted/flags 1)
          next-one #(receive x x (after scripted/limit-ms :late))]
      (is (= :noproc before))
      (is (= "`erlang/monitor-nodes`: :type is :all, :visible or :hidden; this is :x."
             (try (erlang/monitor-nodes true {:type :x}) (catch IllegalArgumentException e (ex-message e)))))
      (running
        (fn []
          (is (true? (erlang/monitor-nodes true)))
          (is (true? (erlang/monitor-nodes true {:type :all})) "once more adds no messages")
          (let [peer (join other)
                _ (is (= [:nodeup other] (next-one)))
                ref (actor/monitor [:shelf other])]
            (hang-up peer)
            (is (= [[:DOWN ref :process [:shelf other] :noconnection] [:nodedown other]] [(next-one) (next-one)])))
          (erlang/monitor-nodes true {:type :hidden})
          (join other visible)
          (join hidden)
          (is (= [:nodeup hidden] (next-one)))
          (erlang/monitor-nodes true {:type :visible})
          (join "d@127.0.0.1" visible)
          (is (= [:nodeup "d@127.0.0.1"] (next-one)))
          (erlang/monitor-nodes false)
          (is (true? (erlang/disconnect "d@127.0.0.1")))
          (is (= :none (receive x x (after 0 :none))))
          (erlang/monitor-nodes true)))
      (is (= #{[:nodedown other] [:nodedown hidden]} (set [(next-one) (next-one)])) "this node has stopped")
      (is (= :none (receive x x (after 0 :none)))))))

(deftest a-node-is-up-before-its-first-message-for-a-watcher
  (running
    (fn []
      (actor/with-process {:name :inbox}
        (erlang/monitor-nodes true)
        (let [peer (scripted/dial (scripted/port-of-node))]
          (send-bytes peer (scripted/hello other))
          (scripted/read-text peer)
          (scripted/go-on peer)
          (scripted/control peer [6 (scripted/pid other 4) (keyword "") :inbox] :hello)
          (is (= [[:nodeup other] :hello] (vec (repeatedly 2 #(receive x x (after scripted/limit-ms :late))))))
          (hang-up peer)
          (is (= [:nodedown other] (receive x x (after scripted/limit-ms :late)))))))))
