(ns magnetar.dev.node
  "The node of a cluster that `bin/magnetar run --node` starts before the program and stops behind it.

  magnetar.cluster is on the class path only then, so its functions are found by their names."
  (:require
   [clojure.string :as str])
  (:import
   (clojure.lang ExceptionInfo)
   (java.io IOException)))

(set! *warn-on-reflection* true)

;; ---- options

(defn- refuse [& words]
  (throw (ex-info (apply str words) {::refused true})))

(defn refusal?
  "Is it an error whose message is a sentence for the user?"
  [e]
  (::refused (ex-data e)))

(def ^:private options-of-start
  "The options of the command line that have a value, and the options of `cluster/start` that they stand for."
  {"--node" :name
   "--cookie-file" :cookie-file
   "--bind" :bind
   "--advertise" :advertise
   "--join" :peers
   "--dns" :dns
   "--cluster" :cluster
   "--certfile" :certfile
   "--keyfile" :keyfile
   "--cacertfile" :cacertfile})

(defn- added [options [word value]]
  (let [option (options-of-start word)]
    (cond
      (= "--insecure" word) (assoc options :insecure true)
      (= :peers option) (update options :peers (fnil conj []) value)
      (contains? options option) (refuse "run " word " was given twice, with " (options option) " and " value ": leave one out.")
      :else (assoc options option value))))

(def ^:private how-to-make-a-cookie
  "make one that all nodes share, as by `(umask 077; openssl rand -hex 32 > cookie)`")

(defn- check [{:keys [name cookie-file peers dns certfile keyfile cacertfile]}]
  (cond
    (nil? name) (refuse "The options of a node need --node NAME, as in --node till@shop.")
    (not (re-matches #"[^\s@]{1,100}@[^\s@]{1,150}" name)) (refuse "run --node wants a name of the form name@host; this is " (pr-str name) ".")
    (nil? cookie-file) (refuse "run --node needs --cookie-file FILE; " how-to-make-a-cookie ".")
    (and peers dns) (refuse "run takes --join or --dns, and not both.")
    (not (apply = (map some? [certfile keyfile cacertfile])))
    (refuse "TLS of a node needs --certfile, --keyfile and --cacertfile together: its certificate, the key of it, and the authority of all nodes.")))

(defn options
  "The options of `cluster/start` from the text of the command line: an option and its value a line each."
  [text]
  (let [options (reduce added {} (partition 2 (str/split text #"\n" -1)))
        of-tls [:certfile :keyfile :cacertfile]]
    (check options)
    (cond-> (apply dissoc options of-tls)
      (:certfile options) (assoc :tls (select-keys options of-tls)))))

;; ---- start

(defn- of-cluster
  "The function of magnetar.cluster."
  [name]
  (requiring-resolve (symbol "magnetar.cluster" name)))

(defn- as-typed
  "A sentence about an option of `cluster/start`, about what was typed instead."
  [sentence]
  (let [words (into {} (map (fn [[word option]] [(str option) word])) options-of-start)]
    (-> sentence
        (str/replace "`cluster/start`:" "run")
        (str/replace ":insecure true" "--insecure")
        (str/replace #":[a-z-]+" #(words % %)))))

(defn- joined [options]
  (let [[how why] (try
                    ((of-cluster "start") options)
                    (catch IllegalArgumentException e (refuse (as-typed (ex-message e))))
                    (catch ExceptionInfo e (refuse (as-typed (ex-message e)))) ; a file of TLS
                    (catch IOException e (refuse (ex-message e))))]
    (when (= :error how)
      (let [[_ sentence] (when (vector? why) why)]
        (refuse (if (string? sentence) sentence (str "The node " (:name options) " did not start: " (pr-str why) ".")))))))

(defn- tell [{:keys [name]}]
  (let [others ((of-cluster "nodes"))]
    (binding [*out* *err*]
      (println (str "magnetar: the node " name " is at " ((of-cluster "address")) ", connected with "
                    (if (seq others) (str/join ", " others) "no other node")))
      (flush))))

;; ---- stop

(def ^:private leave-ms
  "How long the end of the JVM waits for the node to leave."
  10000)

(defn- await-applications
  "Waits until `magnetar.application/run`, which may be at it, has stopped the applications."
  []
  (when-some [program (some-> (find-ns 'magnetar.application.program) (ns-resolve 'program) deref)]
    (while @program
      (Thread/sleep 20))))

(defn- leave []
  (try
    ((of-cluster "stop"))
    (catch Exception _left-already)))

(defn- within-limit [f]
  (doto (Thread. ^Runnable f "magnetar-node-leaves")
    (.setDaemon true)
    (.start)
    (.join (long leave-ms))))

(defn start
  "Starts the node, and says where it is; returns a function that makes it leave the cluster. It leaves at the end of the JVM too.
  Throws a `refusal?` if an option is wrong or the node is not let in."
  [text]
  (let [options (options text)
        once (delay (within-limit leave))
        at-exit (Thread. ^Runnable (fn []
                                     (within-limit await-applications)
                                     (force once)))]
    (joined options)
    (.addShutdownHook (Runtime/getRuntime) at-exit)
    (tell options)
    #(force once)))
