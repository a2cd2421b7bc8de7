(ns magnetar.cluster.support
  "Nodes on the loopback address of this JVM, with short times, that record what they are told."
  (:import
   (java.net InetAddress InetSocketAddress Socket SocketException)
   (java.util List)
   (java.util.logging Handler LogRecord Logger)
   (magnetar.cluster.impl Cookie JGroupsNetwork Settings)
   (magnetar.kernel.network Member Network$Events View)))

(set! *warn-on-reflection* true)

(def limit-ms
  "How long a test waits for something that has to come."
  30000)

(def cookie
  "The cookie of the nodes."
  "a cookie of the tests, long enough")

(defn place
  "The address and port that a text such as 127.0.0.1:7800 has."
  ^InetSocketAddress [^String text]
  (let [colon (.lastIndexOf text ":")]
    (InetSocketAddress. (InetAddress/getByName (subs text 0 colon)) (int (parse-long (subs text (inc colon)))))))

(def alone-ms
  "How long a node without others looks for them."
  150)

(def patient-ms
  "After how long a member without an answer is left out, where no test waits for that: a busy machine is no cut."
  8000)

(def quick-ms
  "The same, for tests that wait for it."
  1000)

(defn settings
  "Settings of a node with this name. A node without peers waits for others for a short time, and a node with peers for a long one:
  its answer comes at once, unless the machine is busy or the test wants none."
  ^Settings [name {:keys [peers host port advertise tls handshake detect discover] secret :cookie
                   :or {peers [], host "127.0.0.1", secret cookie, port 0, handshake 5000, detect patient-ms}}]
  (-> (Settings. name (Cookie/of secret))
      (.bind (InetAddress/getByName host) port)
      (.advertise (some-> advertise place))
      (.peers ^List (mapv place peers))
      (.tls tls)
      (.detect detect (quot (long detect) 4))
      (.merge 300)
      (.discover (or discover (if (seq peers) 5000 alone-ms)))
      (.handshake handshake)))

(defn- shown [^View view]
  {:names (mapv #(Member/.name %) (.members view))
   :ids (mapv #(Member/.id %) (.members view))
   :merged (.merged view)})

(defn recorder
  "Events that are added to the vector in the atom: maps with :names, :ids and :merged for views, with :from and :bytes for frames.
  `on-frame` is called before a frame is added."
  ^Network$Events [log on-frame]
  (reify Network$Events
    (view [_ view] (swap! log conj (shown view)))
    (frame [_ from bytes]
      (on-frame)
      (swap! log conj {:from (.name from), :bytes bytes}))))

(defn waited
  "Waits until (f value) of the atom is logical true, and returns that. Fails after a limit."
  [reference f]
  (let [answer (promise)
        look (fn [value] (when-let [found (f value)] (deliver answer found)))
        key (Object.)]
    (add-watch reference key (fn [_ _ _ value] (look value)))
    (try
      (look @reference)
      (let [found (deref answer limit-ms nil)]
        (when-not found
          (throw (ex-info "what has to come did not come" {:last (let [value @reference] (cond->> value (coll? value) (take-last 5)))})))
        found)
      (finally (remove-watch reference key)))))

(defn node
  "Joins as a node with this name. The :on-frame of the options is called for each frame, :adjust with the settings, which it returns."
  [name & {:keys [on-frame adjust] :or {on-frame (fn []), adjust identity} :as options}]
  (let [log (atom [])
        network (JGroupsNetwork. (adjust (settings name options)))
        member (.join network (recorder log on-frame))]
    {:name name
     :log log
     :network network
     :member member
     :id (.id member)
     :address (.address network)}))

(defn views
  "The views that a node was told."
  [{:keys [log]}]
  (filterv :names @log))

(defn view
  "The view that a node was told last."
  [node]
  (peek (views node)))

(defn await-view
  "Waits until the last view of a node has exactly these names, and returns it."
  [{:keys [log]} names]
  (waited log (fn [events] (let [last-view (last (filter :names events))]
                             (when (= names (:names last-view)) last-view)))))

(defn await-next-view
  "Waits for a view after the first `seen` events of a node with exactly these names, and returns it."
  [{:keys [log]} seen names]
  (waited log (fn [events] (first (filter #(= names (:names %)) (subvec events seen))))))

(defn frames
  "The texts of the frames that a node was told, with their senders."
  [{:keys [log]}]
  (for [{:keys [from bytes]} @log :when from]
    [from (String. ^bytes bytes "UTF-8")]))

(defn send-text
  "Sends a frame with this text."
  [{:keys [network]} {:keys [member]} ^String text]
  (JGroupsNetwork/.send network member (.getBytes text "UTF-8")))

(defn leave
  "Leaves the network of each of the nodes."
  [& nodes]
  (run! #(JGroupsNetwork/.leave (:network %)) nodes))

(defmacro with-nodes
  "Evaluates `body` with nodes, each bound to a name and made by an expression. They leave at the end, the last one first."
  [bindings & body]
  (if-let [[local made & more] (seq bindings)]
    `(let [made# ~made
           ~local made#]
       (try
         (with-nodes ~more ~@body)
         (finally (leave made#))))
    `(do ~@body)))

;; --- what breaks

(defn- call
  "Calls a method of a network that only its package has."
  [network ^String method classes & arguments]
  (let [method (doto (.getDeclaredMethod JGroupsNetwork method (into-array Class classes)) (.setAccessible true))]
    (.invoke method network (object-array arguments))
    nil))

(defn sever
  "Breaks the cable from and to the member, or in one direction, until `mend`."
  [network member from? to?]
  (call network "sever" [Member Boolean/TYPE Boolean/TYPE] member from? to?))

(defn mend
  "Mends the cables of a network."
  [network]
  (call network "mend" []))

(defn crash
  "Ends the node of a network as if its program were killed."
  [network]
  (call network "crash" []))

;; --- connections

(defn dial
  "A connection to an address."
  ^Socket [address]
  (let [^InetSocketAddress at (place address)]
    (doto (Socket. (.getAddress at) (.getPort at))
      (.setSoTimeout limit-ms))))

(defn read-bytes
  "The next n bytes, fewer at the end of the stream."
  ^bytes [^Socket socket n]
  (try
    (.readNBytes (.getInputStream socket) n)
    (catch SocketException _ (byte-array 0))))

(defn refused-connection
  "Connects without the cookie, and returns when the connection is closed."
  [address]
  (with-open [socket (dial address)]
    (.write (.getOutputStream socket) (.getBytes "garbage"))
    (read-bytes socket 1)))

;; --- what is logged

(def refusals
  "The lines about refused connections, inside of `with-refusals`."
  (atom []))

(def ^:private ^Logger logger (Logger/getLogger "magnetar.cluster"))

(defn collecting-refusals
  "Calls f while lines about refused connections are collected, and not printed."
  [f]
  (let [handler (proxy [Handler] []
                  (publish [^LogRecord line]
                    (swap! refusals conj (first (.getParameters line))))
                  (flush [])
                  (close []))]
    (reset! refusals [])
    (.addHandler logger handler)
    (.setUseParentHandlers logger false)
    (try
      (f)
      (finally
        (.removeHandler logger handler)
        (.setUseParentHandlers logger true)))))

(defmacro with-refusals
  "Evaluates `body` while lines about refused connections are collected in `refusals`."
  [& body]
  `(collecting-refusals (fn [] ~@body)))
